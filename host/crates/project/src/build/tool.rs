//! A tool of a language, run to its end.
//!
//! In: a command. Out: what it printed, or the cause of its failure. On stderr: what is being done, and on a
//! terminal for how long.
//! Invariant: a tool that is interrupted ends with all that it has started.

use std::io::{self, IsTerminal as _, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use rustix::process::{Pid, Signal, kill_process_group};

/// How often is looked whether a tool has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// How often is asked whether it is to end.
const ASK: Duration = Duration::from_millis(50);
/// How often the time is shown.
const SHOW: Duration = Duration::from_secs(1);

/// Words of tools in front of a cause, which is said to be an error in any case.
const PREFIXES: [&str; 3] = ["error: ", "ERROR: ", "npm error "];

/// Says whether a build is no longer wanted.
pub(super) type Interrupt = Box<dyn Fn() -> bool + Send>;

/// A build that was no longer wanted.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// Says on stderr what takes a while.
pub(super) fn announce(step: &str) {
    // A build does not fail because stderr is closed.
    let _ = writeln!(io::stderr(), "{step} …");
}

/// Runs a tool to its end.
///
/// # Errors
/// It is not installed: `hint` says how. Or it fails: the text is what `cause` finds in its output. Or it was
/// [`Interrupted`].
pub(super) fn finish(
    command: &mut Command,
    hint: &str,
    cause: fn(&str) -> String,
    interrupt: Option<&Interrupt>,
) -> anyhow::Result<Output> {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().display().to_string();
    if interrupt.is_some() {
        // Its own group can be ended as a whole; Ctrl-C in a terminal would not reach it.
        command.process_group(0);
    }
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let output = match spawned {
        Ok(child) => wait(child, &program, interrupt)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(anyhow!("`{program}` is not installed\n  hint: {hint}"));
        }
        Err(error) => return Err(anyhow!("cannot run `{program}`: {error}")),
    };
    if output.status.success() {
        return Ok(output);
    }
    let printed = [&output.stderr, &output.stdout].map(|text| String::from_utf8_lossy(text).into_owned());
    let cause = cause(printed.concat().trim());
    let prefix = PREFIXES.iter().find(|prefix| cause.starts_with(**prefix));
    match prefix.and_then(|prefix| cause.strip_prefix(prefix)).unwrap_or(&cause) {
        "" => Err(anyhow!("`{program}` ended with {}", output.status)),
        cause => Err(anyhow!("{cause}")),
    }
}

fn wait(mut child: Child, program: &str, interrupt: Option<&Interrupt>) -> anyhow::Result<Output> {
    let (stdout, stderr) = (child.stdout.take().map(read), child.stderr.take().map(read));
    let status = match ended(&mut child, program, interrupt) {
        Ok(status) => status,
        Err(error) => {
            end(&mut child, interrupt.is_some());
            return Err(error);
        }
    };
    let printed = |reader: Option<thread::JoinHandle<Vec<u8>>>| {
        reader.and_then(|reader| reader.join().ok()).unwrap_or_default()
    };
    Ok(Output { status, stdout: printed(stdout), stderr: printed(stderr) })
}

/// Waits for the end of a tool. On a terminal its time is shown.
fn ended(child: &mut Child, program: &str, interrupt: Option<&Interrupt>) -> anyhow::Result<ExitStatus> {
    let begun = Instant::now();
    let is_terminal = io::stderr().is_terminal();
    let (mut asked, mut shown) = (begun, begun);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        thread::sleep(POLL_INTERVAL);
        if asked.elapsed() >= ASK {
            asked = Instant::now();
            if interrupt.is_some_and(|interrupt| interrupt()) {
                return Err(Interrupted.into());
            }
        }
        if is_terminal && shown.elapsed() >= SHOW {
            shown = Instant::now();
            let _ = write!(io::stderr(), "\r  {program}: {} s ", begun.elapsed().as_secs());
        }
    };
    if shown > begun {
        // The line is the next one's.
        let _ = write!(io::stderr(), "\r\x1b[K");
    }
    Ok(status)
}

/// Ends a tool; in a group of its own, with all that it has started.
fn end(child: &mut Child, has_group: bool) {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw).filter(|_| has_group);
    // What has ended by itself cannot be ended.
    match group {
        Some(group) => drop(kill_process_group(group, Signal::KILL)),
        None => drop(child.kill()),
    }
    let _ = child.wait();
}

/// Reads what a tool prints while it runs: it would wait for a reader otherwise.
fn read(mut from: impl Read + Send + 'static) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut printed = Vec::new();
        let _ = io::copy(&mut from, &mut printed);
        printed
    })
}

/// A cause in front of the text that it comes from.
pub(super) fn cause_first(cause: Option<&str>, text: &str) -> String {
    match cause {
        Some(cause) if cause != text => format!("{cause}\n\n{text}"),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn what_a_tool_prints_is_read_while_it_runs() {
        let output = finish(&mut shell("head -c 300000 /dev/zero"), "", str::to_owned, None).unwrap();
        assert_eq!(output.stdout.len(), 300_000);
        for prefix in ["", "error: ", "ERROR: ", "npm error "] {
            let script = format!("echo '{prefix}why' >&2; exit 3");
            let error = finish(&mut shell(&script), "", str::to_owned, None).unwrap_err();
            assert_eq!(error.to_string(), "why");
        }
        let error = finish(&mut shell("exit 3"), "", str::to_owned, None).unwrap_err();
        assert_eq!(error.to_string(), "`sh` ended with exit status: 3");
    }

    #[test]
    fn an_interrupted_tool_ends_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("child");
        let script = format!("sleep 600 & echo $! > '{0}.new'; mv '{0}.new' '{0}'; wait", file.display());
        let started = file.clone();
        let interrupt: Interrupt = Box::new(move || started.is_file());
        let error = finish(&mut shell(&script), "", str::to_owned, Some(&interrupt)).unwrap_err();
        assert!(error.is::<Interrupted>(), "{error}");
        let child = std::fs::read_to_string(file).unwrap();
        let state = || std::fs::read_to_string(format!("/proc/{}/stat", child.trim())).unwrap_or_default();
        // Its new parent may not have noticed yet.
        let is_gone = |state: String| state.is_empty() || state.contains(") Z ");
        let begun = Instant::now();
        while !is_gone(state()) {
            assert!(begun.elapsed() < Duration::from_secs(10), "{}", state());
            thread::sleep(POLL_INTERVAL);
        }
    }
}
