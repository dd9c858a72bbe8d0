//! That documents and comments refer to files that are there.

use std::collections::{BTreeSet, HashSet};
use std::path::{Component, Path, PathBuf};

use e2e::root;

use super::{assert_none, files, short};

/// Extensions of files that a text may name without their folder.
const BARE: [&str; 3] = ["md", "rs", "sh"];
/// Files of a project that is made from them, which refer to each other there.
const TEMPLATES: &str = "host/crates/project/templates/";
/// Names of files that the repository does not hold, and why a text has them.
const MADE: [(&str, &str); 3] = [
    ("inference.rs", "the build makes it"),
    ("wit/world.wit", "an author may write it"),
    ("MIGRATION.md", "a project that was brought over has it"),
];

#[test]
fn nothing_refers_to_a_file_that_is_not_there() {
    let all = files("");
    let known: HashSet<String> = all.iter().flat_map(|path| ends(&short(path))).collect();
    let tops: HashSet<String> =
        all.iter().filter_map(|path| Some(short(path).split_once('/')?.0.to_owned())).collect();
    let mut wrong = Vec::new();
    let mut count = 0;
    for path in &all {
        let Some(begin) = prose(path).filter(|_| !short(path).starts_with(TEMPLATES)) else { continue };
        let text = std::fs::read_to_string(path).unwrap();
        for (number, line) in text.lines().enumerate() {
            let Some(at) = begin(line) else { continue };
            for name in words(&line[at..]).flat_map(expanded) {
                if !is_reference(&name, &tops) || MADE.iter().any(|(made, _)| *made == name) {
                    continue;
                }
                count += 1;
                if !known.contains(&name) && !known.contains(&from(&short(path), &name)) {
                    wrong.push(format!("{}:{}: `{name}`", short(path), number + 1));
                }
            }
        }
    }
    assert!(count > 300, "{count} references");
    assert_none("a file that is named is in the repository", wrong);
}

/// Where on a line of this file its prose begins; `None` for a file that has none.
fn prose(path: &Path) -> Option<fn(&str) -> Option<usize>> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("md") => Some(|_| Some(0)),
        Some("rs" | "js") => Some(|line| line.find("//")),
        Some("sh" | "py" | "toml") => Some(|line| line.trim_start().starts_with('#').then_some(0)),
        None if path.ends_with("Makefile") => Some(|line| line.find('#')),
        _ => None,
    }
}

/// `path`, and it without its first folders: texts leave out what is clear.
fn ends(path: &str) -> Vec<String> {
    let folders = path.match_indices('/').map(|(at, _)| path[at + 1..].to_owned());
    std::iter::once(path.to_owned()).chain(folders).collect()
}

/// Everything in `text` that may be the name of a file.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && !"_-./{,}".contains(c))
        .map(|word| word.trim_end_matches(['.', ',']))
}

/// `NAME/{b,c}.rs` as `NAME/b.rs` and `NAME/c.rs`.
fn expanded(word: &str) -> Vec<String> {
    let group = word.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
    match group {
        Some((before, (names, after))) => {
            names.split(',').flat_map(|name| expanded(&format!("{before}{name}{after}"))).collect()
        }
        None => word.split(',').map(str::to_owned).collect(),
    }
}

/// Whether `name` is the name of a file of a repository with these folders. `NAME` stands for any name.
fn is_reference(name: &str, tops: &HashSet<String>) -> bool {
    let path = Path::new(name);
    let Some(extension) = path.extension().and_then(|extension| extension.to_str()) else { return false };
    let in_folder = name.split_once('/').is_some_and(|(top, _)| tops.contains(top) || top == "..");
    !path.is_absolute()
        && extension.chars().all(|c| c.is_ascii_lowercase())
        && (in_folder || BARE.contains(&extension))
        && !name.contains("NAME")
}

/// The path that `name` is from the folder of `file`.
fn from(file: &str, name: &str) -> String {
    let mut path = PathBuf::new();
    for component in Path::new(file).with_file_name(name).components() {
        match component {
            Component::ParentDir => drop(path.pop()),
            component => path.push(component),
        }
    }
    path.display().to_string()
}

#[test]
fn names_are_found_in_prose() {
    let names = |text| words(text).flat_map(expanded).filter(|word| !word.is_empty()).collect::<Vec<_>>();
    assert_eq!(
        names("see `a/{b,c/d}.rs`, [e](../f.md#g)."),
        ["see", "a/b.rs", "a/c/d.rs", "e", "../f.md", "g"]
    );
}

/// The names of a manifest's dependencies, each with the table that has it.
fn dependencies(manifest: &str) -> BTreeSet<(String, String)> {
    let text = std::fs::read_to_string(root().join(manifest)).unwrap();
    let mut table = String::new();
    let mut found = BTreeSet::new();
    for line in text.lines() {
        if line.starts_with('[') {
            table = line.to_owned();
        } else if table.contains("dependencies")
            && let Some((name, _)) = line.split_once(['.', ' ']).filter(|_| !line.starts_with('#'))
        {
            found.insert((table.clone(), name.to_owned()));
        }
    }
    assert!(!found.is_empty(), "{manifest}");
    found
}

#[test]
fn the_sdk_of_a_new_project_has_the_dependencies_of_the_sdk() {
    let (ours, theirs) =
        ("guest-sdk/Cargo.toml", "host/crates/project/templates/languages/rust/modelhost-guest/Cargo.toml");
    assert_eq!(dependencies(theirs), dependencies(ours));
}
