//! The SDKs of Python and JavaScript as packages: made by `make sdks`, installed where there is nothing else, their unit tests
//! run against what was installed.
//!
//! What they do in a component is in `templates.rs`.

use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::clients::finished;
use e2e::root;

/// The packages, in `folder`.
fn packed(folder: &Path) -> Vec<PathBuf> {
    let mut command = Command::new(root().join("scripts/sdks.sh"));
    let printed = finished(command.arg(folder), "scripts/sdks.sh");
    printed.lines().map(PathBuf::from).collect()
}

fn bash(folder: &Path, commands: &str) -> String {
    finished(Command::new("bash").args(["-ec", commands]).current_dir(folder), commands)
}

#[test]
fn packages_are_made_installed_and_tested() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let packages = packed(&folder.join("packages"));
    let names: Vec<_> = packages.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["modelhost_guest-0.1.0-py3-none-any.whl", "modelhost-guest-0.1.0.tgz"]);
    let again = packed(&folder.join("again"));
    let read = |path: &PathBuf| std::fs::read(path).unwrap();
    assert!(read(&packages[0]) == read(&again[0]), "the same sources make the same wheel");

    let sdk = root().canonicalize().unwrap().join("guest-sdk");
    let (wheel, tarball) = (packages[0].display(), packages[1].display());
    // The tests are copied, so that they find the package that is installed and not the sources beside them.
    bash(
        &folder,
        &format!(
            "python3 -m venv venv
            venv/bin/pip install --quiet --disable-pip-version-check --no-index {wheel}
            cp -r {}/python/tests python
            venv/bin/python -m unittest discover python",
            sdk.display()
        ),
    );
    bash(
        &folder,
        &format!(
            "echo '{{\"type\": \"module\"}}' > package.json
            npm install --no-audit --no-fund --loglevel=error --offline {tarball}
            cp -r {}/js/test js
            node --test js/",
            sdk.display()
        ),
    );
}
