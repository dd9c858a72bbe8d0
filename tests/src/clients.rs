//! The field's own clients: scripts of `tests/clients`, run by the Python that `scripts/clients.sh` made.

use std::process::{Command, Stdio};

use crate::{existing, root};

/// Runs `tests/clients/NAME.py` with these arguments to its end and gives what it printed. A script that fails fails the test
/// with all it said.
pub fn run(name: &str, arguments: &[&str]) -> String {
    let python = existing(root().join("target/clients/bin/python"), "scripts/clients.sh");
    let script = root().join(format!("tests/clients/{name}.py"));
    let output = Command::new(python).arg(script).args(arguments).stdin(Stdio::null()).output();
    let output = output.expect("python starts");
    let [out, err] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(output.status.success(), "{name}.py: {}\n{out}\n{err}", output.status);
    out
}
