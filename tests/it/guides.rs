//! The guides in `docs/`: their commands are run in their order, and print what the guides show. See `tests/guides.py`.

use std::process::Command;

use e2e::clients::finished;
use e2e::project::lend_crates;
use e2e::{host_binary, root};

/// Follows `docs/NAME.md`.
fn follow(name: &str) {
    let mut command = Command::new("python3");
    command.arg(root().join("tests/guides.py")).arg(host_binary());
    lend_crates(&mut command).arg(root().join(format!("docs/{name}.md")));
    let printed = finished(&mut command, name);
    let commands: usize = printed.split(' ').next().unwrap().parse().unwrap();
    assert!(commands >= 4, "docs/{name}.md has {commands} commands");
}

#[test]
fn deploy() {
    follow("deploy");
}

#[test]
fn develop() {
    follow("develop");
}

#[test]
fn images() {
    follow("images");
}

#[test]
fn jobs() {
    follow("jobs");
}

#[test]
fn languages() {
    follow("languages");
}

#[test]
fn libraries() {
    follow("libraries");
}

#[test]
fn migrate() {
    follow("migrate");
}

#[test]
fn model() {
    follow("model");
}

#[test]
fn openai() {
    follow("openai");
}

#[test]
fn operate() {
    follow("operate");
}

#[test]
fn security() {
    follow("security");
}

#[test]
fn sockets() {
    follow("sockets");
}

#[test]
fn swaps() {
    follow("swaps");
}

#[test]
fn tensors() {
    follow("tensors");
}

#[test]
fn testing() {
    follow("testing");
}

#[test]
fn text() {
    follow("text");
}

#[test]
fn truss() {
    follow("truss");
}

#[test]
fn values() {
    follow("values");
}

#[test]
fn every_guide_is_in_the_index() {
    let index = std::fs::read_to_string(root().join("docs/README.md")).unwrap();
    for entry in std::fs::read_dir(root().join("docs")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let linked = match (name.strip_suffix(".md"), entry.file_type().unwrap().is_dir()) {
            (Some("README"), _) => continue,
            (Some(_), _) => format!("]({name})"),
            (None, true) => format!("]({name}/README.md)"),
            // A picture of a guide, or of the README.
            (None, false) => continue,
        };
        assert!(index.contains(&linked), "docs/README.md does not link {name}");
    }
}
