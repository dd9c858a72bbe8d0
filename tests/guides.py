"""Follows a guide: runs the commands of a document in their order and compares what they print with what it shows.

    guides.py HOST DOCUMENT [--update]

- Commands are the lines after `$ ` in blocks of `console`; what they print is below them, up to the next one. A command without
  lines below it has only to succeed; one whose lines begin with `error:` has to fail.
- `cd` changes the folder for the commands that follow, `export NAME=VALUE` their environment. `modelhost serve`, or `dev`, runs on
  free ports until the guide's end or the next one, and every `127.0.0.1:8000` (and 8001) in later commands is its address, as is
  the admin address of a command that names none.
- A block of another language after a line that ends with "`NAME`:" is written to that file.
- Numbers are compared to three places, those of times and sizes not at all; `…` stands for any text on a line.

`--update` writes what was printed into the document, but for lines with `…`.
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

import packages

# What differs from one run to the next.
VARYING = re.compile(r"\d+(\.\d+)? *(ms|µs|s|MB|kB)\b")
NUMBER = re.compile(r"-?\d+\.\d+(e-?\d+)?|\d+e-?\d+")
# For a person who waits: a step that takes a while, or a line of the log.
PROGRESS = re.compile(r" …$|^\d{4}-\d\d-\d\dT")
# A new project gets its packages without a wait.
NEW = re.compile(r"modelhost new ([\w-]+)")
# Commands that ask the admin address.
ADMIN = re.compile(r"^modelhost (status|history|logs|trial|swap) (?!.*--admin)")
PATIENCE = 900


def main():
    host, document = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    text = document.read_text()
    with tempfile.TemporaryDirectory() as folder:
        guide = Guide(host, pathlib.Path(folder))
        try:
            followed = guide.follow(text.split("\n"))
        finally:
            guide.stop()
    if "--update" in sys.argv:
        document.write_text("\n".join(followed))
    elif guide.wrong:
        sys.exit("\n\n".join(guide.wrong))
    print(f"{guide.count} commands")


class Guide:
    def __init__(self, host, folder):
        self.folder, self.server, self.addresses = folder, None, {}
        self.wrong, self.count = [], 0
        (folder / ".bin").mkdir()
        (folder / ".bin/modelhost").symlink_to(host)
        self.environment = {**os.environ, "PATH": f"{folder}/.bin:{os.environ['PATH']}"}

    def follow(self, lines):
        """Runs the commands; gives the lines with what was printed."""
        followed, at = [], 0
        while at < len(lines):
            line = lines[at]
            followed.append(line)
            at += 1
            if not line.startswith("```") or line == "```":
                continue
            end = at + lines[at:].index("```")
            block, is_console = lines[at:end], line == "```console"
            before = next((it for it in reversed(followed[:-1]) if it.strip()), "")
            named = re.search(r"`([\w./-]+)`:$", before)
            if is_console:
                followed += self.run_block(block)
            else:
                if named:
                    (self.folder / named[1]).write_text("\n".join(block) + "\n")
                followed += block
            followed.append("```")
            at = end + 1
        return followed

    def run_block(self, block):
        followed, at = [], 0
        while at < len(block):
            command = block[at].removeprefix("$ ")
            at += 1
            while command.endswith("\\"):
                command += "\n" + block[at]
                at += 1
            end = next((end for end in range(at, len(block)) if block[end].startswith("$ ")), len(block))
            expected = block[at:end]
            followed += [*f"$ {command}".split("\n"), *self.run(command, expected)]
            at = end
        return followed

    def run(self, command, expected):
        """Runs one command; what it printed in the words of the document."""
        self.count += 1
        started = time.monotonic()
        if command.startswith("cd "):
            self.folder = self.folder / command[3:]
            return expected
        if command.startswith("export "):
            name, value = command.removeprefix("export ").split("=", 1)
            self.environment[name] = value
            return expected
        serves = command.startswith(("modelhost serve", "modelhost dev"))
        printed, is_good = self.serve(command) if serves else self.call(command)
        print(f"{time.monotonic() - started:6.1f} s  {command}", file=sys.stderr)
        fails = any(line.startswith("error:") for line in expected)
        shown = printed.rstrip("\n").split("\n") if printed.strip() else []
        if is_good == fails and not (fails and "--update" in sys.argv):
            self.wrong.append(f"$ {command}\n{'succeeded' if is_good else 'failed'}:\n{printed}")
        elif expected and not same(shown, expected):
            self.wrong.append(f"$ {command}\nprinted\n{printed}\nand the guide shows\n" + "\n".join(expected))
            # Nothing to compare is a choice of the author's.
            return shown
        return expected

    def call(self, command):
        command = ADMIN.sub(r"modelhost \1 --admin http://127.0.0.1:8001 ", f"{command} ").rstrip()
        for shown, real in self.addresses.items():
            command = command.replace(shown, real)
        if command.startswith("curl "):
            command = command.replace("curl ", "curl -sS ", 1)
        done = subprocess.run(["bash", "-c", command], cwd=self.folder, env=self.environment, capture_output=True,
                              text=True, timeout=PATIENCE)  # fmt: skip
        progress = [line for line in done.stderr.split("\n") if line.strip() and not PROGRESS.search(line)]
        printed = done.stdout + ("\n" if done.stdout and not done.stdout.endswith("\n") else "") + "\n".join(progress)
        for shown, real in self.addresses.items():
            printed = printed.replace(real, shown)
        if new := NEW.match(command):
            packages.lend(self.folder / new[1])
        return printed, done.returncode == 0

    def serve(self, command):
        self.stop()
        command = f"exec {command} --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0"
        self.log = open(self.folder / ".log", "w+")
        self.server = subprocess.Popen(["bash", "-c", command], cwd=self.folder, env=self.environment,
                                       stdout=subprocess.PIPE, stderr=self.log, text=True)  # fmt: skip
        lines = [self.server.stdout.readline(), self.server.stdout.readline()]
        if not lines[1]:
            self.log.seek(0)
            return self.log.read(), False
        shown = ["127.0.0.1:8000", "127.0.0.1:8001"]
        self.addresses = {place: line.split("://")[1].strip() for place, line in zip(shown, lines)}
        return "".join(lines).replace(self.addresses[shown[0]], shown[0]).replace(self.addresses[shown[1]], shown[1]), True

    def stop(self):
        if self.server is not None:
            self.server.send_signal(signal.SIGTERM)
            self.server.wait(PATIENCE)


def same(printed, expected):
    """Whether lines are what a document shows."""
    if any(line == "…" for line in expected):
        # Lines are left out.
        first = expected.index("…")
        return same(printed[:first], expected[:first]) and len(printed) >= len(expected) - 1
    return len(printed) == len(expected) and all(map(fits, printed, expected))


def fits(printed, expected):
    pattern = ".*".join(re.escape(part) for part in plain(expected).split("…"))
    return re.fullmatch(pattern, plain(printed)) is not None


def plain(line):
    line = VARYING.sub(lambda found: f"N {found[2]}", line)
    line = NUMBER.sub(lambda found: f"{float(found[0]):.3f}", line)
    return " ".join(line.split())


if __name__ == "__main__":
    main()
