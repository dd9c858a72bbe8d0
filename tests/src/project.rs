//! Projects of `host new`, built as their users do.
//!
//! In: a folder and the files that a test has of its own. Out: a component.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::clients::finished;
use crate::{host_binary, root};

/// Runs the host in `folder` to success; what it said on stdout.
fn done(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(host_binary());
    command.args(arguments).current_dir(folder);
    finished(&mut command, &format!("host {arguments:?}"))
}

/// Gives a new project the packages that its first build would install, which takes longer than the build;
/// see `tests/packages.py`.
pub fn lend_packages(project: &Path) {
    let mut command = Command::new("python3");
    command.arg(root().join("tests/packages.py")).arg(project);
    finished(&mut command, "packages.py");
}

/// Lets a command compile what projects in Rust depend on once for all of them.
pub fn lend_crates(command: &mut Command) -> &mut Command {
    command.env("CARGO_TARGET_DIR", root().canonicalize().unwrap().join("target/tmp/templates"))
}

/// The component of an application in a language, with these files in place of the template's.
pub fn application(folder: &Path, language: &str, files: &[(&str, &str)]) -> PathBuf {
    done(folder, &["new", "it", "--lang", language, "--template", "app"]);
    let project = folder.join("it");
    for (name, text) in files {
        let file = project.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    lend_packages(&project);
    done(&project, &["build"]);
    project.join("handler.wasm")
}
