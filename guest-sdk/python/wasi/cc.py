"""A compiler and linker for native modules of the Python in a component: `cc.py FOLDER c|c++ ARGUMENT…`, as Meson, Cython's users
and Cargo call one. Compiles by the clang that Zig carries; links by its `wasm-ld` against the libraries in FOLDER.

Invariant: a symbol that no library of a component has is an error here, so a build's checks for functions answer the truth.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

import wasm
from runtime import Runtime

HERE = pathlib.Path(__file__).resolve().parent
# Arguments with which clang links nothing.
COMPILES = {"-c", "-E", "-S", "-M", "-MM", "-dM", "-v", "-###", "--version", "-dumpmachine", "-fsyntax-only"}
# Arguments for the linker that say what is kept and exported.
PASSED = {"-Wl,--whole-archive", "-Wl,--no-whole-archive", "-Wl,--no-export-dynamic"}
SOURCES = (".c", ".cc", ".cpp", ".cxx")


def compile_flags(runtime: Runtime, cxx: bool) -> list[str]:
    lib = runtime.zig.parent / "lib"
    flags = [
        "--target=wasm32-wasip1", "-mcpu=lime1", "-msimd128", "-fPIC", "-fvisibility=default", "-nostdinc",
        "-D_GNU_SOURCE", "-D_WASI_EMULATED_SIGNAL", "-D_WASI_EMULATED_PROCESS_CLOCKS", "-D_WASI_EMULATED_GETPID",
    ]
    if cxx:
        flags += ["--driver-mode=g++", "-nostdinc++", "-include", f"{HERE}/target/libcxx.h"]
        flags += ["-isystem", f"{lib}/libcxx/include", "-isystem", f"{lib}/libcxxabi/include"]
    # The compiler's own come before libc's, which rely on them.
    for folder in ("include", "libc/include/wasm-wasi-musl", "libc/include/generic-musl"):
        flags += ["-isystem", f"{lib}/{folder}"]
    return flags


def main() -> int:
    folder, language, *arguments = sys.argv[1:]
    runtime = Runtime(pathlib.Path(folder), pathlib.Path(os.environ["WASI_ZIG"]))
    cxx = language == "c++"
    if "-?" in arguments:
        # Only clang-cl knows it.
        return 1
    if "-Wl,--version" in arguments:
        return subprocess.run([runtime.zig, "wasm-ld", "--version"]).returncode
    clang = [str(runtime.zig), "clang", *compile_flags(runtime, cxx)]
    if any(argument in COMPILES or argument.startswith("-print-") for argument in arguments):
        os.execv(runtime.zig, [*clang, *arguments])
    return link(runtime, cxx, clang, arguments)


def link(runtime: Runtime, cxx: bool, clang: list[str], arguments: list[str]) -> int:
    """A shared library of the objects, archives and sources among the arguments."""
    output, parts, sources, flags, names, folders = "a.out", [], [], [], [], []
    words = iter(arguments)
    for word in words:
        if word == "-o":
            output = next(words)
        elif word in PASSED or word.startswith("-Wl,--export="):
            parts.append(word.removeprefix("-Wl,"))
        elif word.startswith("-l"):
            names.append(word[2:] or next(words))
        elif word.startswith("-L"):
            folders.append(pathlib.Path(word[2:] or next(words)))
        elif word.endswith((".o", ".a", ".rlib")):
            parts.append(word)
        elif word.endswith(SOURCES):
            sources.append(word)
        elif not word.startswith(("-Wl,", "-fuse-ld", "-shared", "-pthread", "-pipe")) and not word.endswith(".so"):
            flags.append(word)
    # Other libraries are the component's, which are there in any case.
    archives = [folder / f"lib{name}.a" for name in names for folder in folders]
    parts += [str(archive) for archive in archives if archive.exists()]
    with tempfile.TemporaryDirectory() as scratch:
        of_target = ["throw.c"] if cxx else ["clocks.c"] if any(part.endswith(".rlib") for part in parts) else []
        for source in [*sources, *(f"{HERE}/target/{name}" for name in of_target)]:
            made = f"{scratch}/{len(parts)}.o"
            if code := subprocess.run([*clang, *(flags if source in sources else ["-O2", "-xc"]), "-c", source, "-o", made]).returncode:
                return code
            parts.append(made)
        libraries = runtime.libraries(cxx)
        command = [
            runtime.zig, "wasm-ld", "-shared", "--experimental-pic", "--no-entry", "--gc-sections", "-O2",
            # Without it static constructors of C++ are never run.
            "--export-if-defined=__wasm_call_ctors", "-o", output,
        ]
        after = [runtime.lib / "libcompiler_rt.a", *libraries]
        code = subprocess.run([*command, "--no-demangle", *parts, *after]).returncode
        # Rust's standard library asks the component's own interfaces, which a library in it does not have.
        symbols = wasm.import_symbols(pathlib.Path(output).read_bytes(), "wasi:") if code == 0 else {}
        for field, symbol in symbols.items():
            if (source := HERE / "target" / f"{field}.c").exists():
                made = f"{scratch}/{len(parts)}.o"
                code = code or subprocess.run([*clang, "-O2", f"-DSYMBOL=\"{symbol}\"", "-c", source, "-o", made]).returncode
                parts.append(made)
        code = code or subprocess.run([*command, "--strip-debug", *parts, *after]).returncode
    if code == 0 and (missing := wasm.undefined(pathlib.Path(output), libraries)):
        print(f"{output}: in no library of a component: {', '.join(missing)}", file=sys.stderr)
        code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
