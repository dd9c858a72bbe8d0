//! A server that a test starts beside the host.
//!
//! In: its command. Out: its signals and its end. Invariant: it ends with the test.

use std::process::{Child, ChildStdout, Command, Stdio};

/// A running server; killed when dropped.
pub struct Process(Child);

impl Process {
    /// Starts `command` without input.
    pub fn start(command: &mut Command) -> Process {
        let program = command.get_program().display().to_string();
        let started = command.stdin(Stdio::null()).spawn();
        Process(started.unwrap_or_else(|error| {
            panic!("`{program}` does not start ({error}); hint: run `make setup` first")
        }))
    }

    /// What it writes to stdout, if its command asks for a pipe.
    pub fn stdout(&mut self) -> ChildStdout {
        self.0.stdout.take().expect("a pipe was asked for, once")
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    /// Sends a signal by its name: `STOP`, `CONT`.
    pub fn signal(&self, name: &str) {
        signal(&self.0, name);
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends a signal by its name to a child.
pub(crate) fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").arg(format!("-{name}")).arg(child.id().to_string()).status();
    assert!(sent.unwrap().success());
}
