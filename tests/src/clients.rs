//! The field's own clients, each driven by a script of `tests/clients` that asserts what it sees.
//!
//! In: a script's name and its arguments. Out: what it printed; a script that fails fails the test, with its words.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::{existing, root};

/// A program that `scripts/clients.sh` installs.
pub fn program(path: &str) -> PathBuf {
    existing(root().join("target/clients").join(path), "scripts/clients.sh")
}

/// Runs `tests/clients/NAME.py` and gives its standard output.
pub fn run(name: &str, arguments: &[&str]) -> String {
    let script = root().join(format!("tests/clients/{name}.py"));
    let mut command = Command::new(program("bin/python"));
    finished(command.arg(script).args(arguments), name)
}

/// Runs a command to its end, which has to be a good one, and gives its standard output.
pub fn finished(command: &mut Command, name: &str) -> String {
    let output = command.stdin(Stdio::null()).output().expect("the client starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{name} ended with {}:\n{stdout}{stderr}", output.status);
    stdout
}
