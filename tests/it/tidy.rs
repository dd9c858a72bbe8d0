//! The rules of the source tree that no compiler checks: headers, sizes, the import direction, quarantines.

mod quarantines;
mod references;
mod vendors;
mod text;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use e2e::root;

use self::quarantines::QUARANTINES;

/// No file is longer.
const MOST_LINES: usize = 500;

/// The sources of the host's crates, each above those that its own names.
const CRATES: [&str; 7] = [
    "host/src",
    "host/crates/project/src",
    "host/crates/sandbox/src",
    "host/crates/models/src",
    "host/crates/telemetry/src",
    "host/crates/stores/src",
    "host/crates/base/src",
];

/// The only files of the host with unsafe code: prefixes of paths under one of [`CRATES`].
const UNSAFE: [&str; 9] = [
    "server/listen/closing.rs",
    "plugin/cache/executable.rs",
    "plugin/compiler.rs",
    "model/onnx/api.rs",
    "model/onnx/pinned.rs",
    "model/tensorflow/api",
    "priority.rs",
    "memory/huge_pages.rs",
    "main.rs",
];

/// Items of the roots of crates, which every module names.
const ROOTS: [&str; 3] = ["CONFIG", "Failure", "beside"];

/// What reads a file whole, of whatever kind and length it is.
const READERS: [&str; 4] = ["fs::read(", "read_to_string(", "read_to_end(", "fs::copy("];
/// The only files of the host that do: prefixes of paths under one of [`CRATES`]. All but the first read no file, or one of `/proc`.
const READ: [&str; 7] = [
    "file.rs",
    "compression.rs",
    "commands/run.rs",
    "commands/admin.rs",
    "memory/machine.rs",
    "model/onnx/cuda.rs",
    "rollout/trial/shadow.rs",
];

/// Every file under `folder` of the repository that a person wrote, in order.
fn files(folder: &str) -> Vec<PathBuf> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = entry.file_name().unwrap().to_str().unwrap().to_owned();
            if name.starts_with('.') || ["target", "node_modules", "__pycache__"].contains(&name.as_str()) {
                continue;
            }
            if entry.is_dir() { walk(&entry, found) } else { found.push(entry) }
        }
    }
    let mut found = Vec::new();
    walk(&root().join(folder), &mut found);
    found.sort();
    assert!(!found.is_empty(), "`{folder}` is empty");
    found
}

fn rust_files(folder: &str) -> Vec<PathBuf> {
    files(folder)
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

/// The files of the host's crates, each with its path under the crate's sources.
fn host_files() -> Vec<(PathBuf, String)> {
    let of = |folder| {
        let source = root().join(folder);
        let inner = move |path: &Path| path.strip_prefix(&source).unwrap().to_str().unwrap().to_owned();
        rust_files(folder).into_iter().map(move |path| (path.clone(), inner(&path)))
    };
    CRATES.into_iter().flat_map(of).collect()
}

/// `path` as the repository knows it.
fn short(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().display().to_string()
}

/// The code of a file, comments and what stands between quotes left out, one line each.
fn code(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let line = |line: &str| {
        let line = line.split("//").next().unwrap_or_default();
        line.split('"').step_by(2).collect::<Vec<_>>().join("\"\"")
    };
    text.lines().map(line).collect()
}

/// What is wrong, file by file; empty if nothing is.
fn assert_none(rule: &str, wrong: Vec<String>) {
    assert!(wrong.is_empty(), "{rule}:\n  {}", wrong.join("\n  "));
}

#[test]
fn every_source_file_says_what_it_is() {
    let mut wrong = Vec::new();
    for folder in ["host", "guest-sdk", "examples", "tests"] {
        for path in rust_files(folder) {
            let text = std::fs::read_to_string(&path).unwrap();
            if !text.starts_with("//! ") && !text.starts_with("#![doc = include_str!(") {
                wrong.push(short(&path));
            }
        }
    }
    assert_none("a Rust file begins with `//!`: its place in the flow, what comes in, what goes out", wrong);

    let mut wrong = Vec::new();
    for folder in ["scripts", "examples", "tests", "wit"] {
        for path in files(folder) {
            let start = match path.extension().and_then(|extension| extension.to_str()) {
                Some("py") => vec!["\"\"\"", "#!/usr/bin/env python3\n\"\"\""],
                Some("sh") => vec!["#", "# "],
                Some("js") => vec!["// "],
                Some("lua") => vec!["-- "],
                Some("wat") => vec![";; "],
                Some("wit") => vec!["/// ", "// ", "package "],
                _ => continue,
            };
            let text = std::fs::read_to_string(&path).unwrap();
            if !start.iter().any(|start| text.starts_with(start)) {
                wrong.push(short(&path));
            }
        }
    }
    assert_none("a file begins with a comment that says what it is", wrong);
}

#[test]
fn one_file_reads_files_whole() {
    let mut wrong = Vec::new();
    for (path, inner) in host_files() {
        if inner.ends_with("tests.rs") || inner.contains("/tests/") || READ.contains(&&*inner) {
            continue;
        }
        let lines =
            code(&path).into_iter().take_while(|line| !(line.starts_with("#[cfg(") && line.contains("test")));
        let read = lines.filter(|line| READERS.iter().any(|reader| line.contains(reader)));
        wrong.extend(read.map(|line| format!("{}: {}", short(&path), line.trim())));
    }
    assert_none("files are read by `file::read`: a regular one, without waiting, in bounds", wrong);
}

#[test]
fn no_file_is_long() {
    let mut wrong = Vec::new();
    for folder in ["host", "guest-sdk", "examples", "tests", "scripts"] {
        for path in files(folder) {
            let is_source = path.extension().is_some_and(|extension| {
                ["rs", "py", "js", "ts", "go", "c", "h", "cpp", "hpp", "zig", "sh", "lua", "wit", "wat"]
                    .iter()
                    .any(|known| extension == *known)
            });
            let lines = if is_source { std::fs::read_to_string(&path).unwrap().lines().count() } else { 0 };
            if lines > MOST_LINES {
                wrong.push(format!("{}: {lines} lines", short(&path)));
            }
        }
    }
    assert_none(&format!("a file has at most {MOST_LINES} lines"), wrong);
}

/// The modules that `text` names by `crate::`, groups in braces resolved.
fn named_modules(text: &str) -> BTreeSet<String> {
    let identifier =
        |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let mut named = BTreeSet::new();
    for rest in text.split("crate::").skip(1) {
        let Some(group) = rest.strip_prefix('{') else {
            named.insert(identifier(rest));
            continue;
        };
        let mut depth = 0_usize;
        let mut starts = true;
        for (at, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => starts = true,
                c if starts && !c.is_whitespace() => {
                    named.insert(identifier(&group[at..]));
                    starts = false;
                }
                _ => {}
            }
        }
    }
    named
}

#[test]
fn groups_of_imports_are_read() {
    let found = named_modules(
        "use crate::{deploy, model::{self, Model}, plugin};\ncrate::error::Code; use crate::tensor;",
    );
    assert_eq!(found.into_iter().collect::<Vec<_>>(), ["deploy", "error", "model", "plugin", "tensor"]);
}

/// The modules that a crate declares, in the order of its list.
fn modules(folder: &str) -> Vec<String> {
    let list = code(&root().join(folder).join("lib.rs"));
    let module = |line: &String| Some(line.strip_prefix("pub mod ")?.strip_suffix(';')?.to_owned());
    list.iter().filter_map(module).collect()
}

#[test]
fn imports_go_down_the_list_of_modules() {
    let (mut wrong, mut edges) = (Vec::new(), BTreeSet::new());
    for (at, folder) in CRATES.into_iter().enumerate() {
        let source = root().join(folder);
        // Those of the crates below are passed on by their names; Cargo sees to the order of crates.
        let modules: Vec<String> = CRATES[at..].iter().flat_map(|folder| modules(folder)).collect();
        assert!(modules.last().is_some_and(|last| last == "tensor"), "{modules:?}");
        for path in rust_files(folder) {
            let inner = path.strip_prefix(&source).unwrap();
            let module = inner.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
            // The two roots name what they like.
            let Some(own) = modules.iter().position(|name| *name == module) else {
                assert!(
                    ["lib", "main"].contains(&module),
                    "`{module}` is not in the list of {folder}/lib.rs"
                );
                continue;
            };
            for named in named_modules(&code(&path).join("\n")) {
                let Some(other) = modules.iter().position(|name| *name == named) else {
                    // What a root itself defines.
                    if !ROOTS.contains(&&*named) {
                        wrong.push(format!("{} names `crate::{named}`, which is no module", short(&path)));
                    }
                    continue;
                };
                // The engine of models and the sandbox meet in the pipeline, and nowhere else.
                let strangers =
                    (module == "plugin" && named == "model") || (module == "model" && named == "plugin");
                if other < own || strangers {
                    wrong.push(format!("{} names `crate::{named}`", short(&path)));
                }
                edges.insert((module.to_owned(), named));
            }
        }
    }
    // The check does see something.
    let spine = ["rollout", "endpoint", "pipeline", "plugin", "request"].map(str::to_owned);
    for [above, below] in spine.array_windows() {
        assert!(edges.contains(&(above.clone(), below.clone())), "{above} -> {below} in {edges:?}");
    }
    assert_none(
        "a module names only modules below it in its crate's lib.rs, and `plugin` never `model`",
        wrong,
    );
}

/// The paths of the imports in `text`, groups in braces resolved.
fn imports(text: &str) -> Vec<String> {
    fn resolve(prefix: &str, tree: &str, found: &mut Vec<String>) {
        let (mut depth, mut start) = (0_usize, 0);
        for (at, c) in tree.char_indices().chain([(tree.len(), ',')]) {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    match tree[start..at].split_once('{') {
                        Some((path, group)) => {
                            resolve(&format!("{prefix}{path}"), group.trim_end_matches('}'), found);
                        }
                        None => {
                            let path = tree[start..at].split('@').next().unwrap_or_default();
                            found.push(format!("{prefix}{path}"));
                        }
                    }
                    start = at + 1;
                }
                _ => {}
            }
        }
    }
    let mut found = Vec::new();
    for statement in text.split(';') {
        let lines = statement.trim_start().trim_start_matches("pub ").trim_start_matches("pub(super) ");
        if let Some(tree) = lines.strip_prefix("use ") {
            resolve("", &tree.replace(" as ", "@").replace(char::is_whitespace, ""), &mut found);
        }
    }
    found.retain(|path| !path.is_empty());
    found
}

/// Folders whose files import each other without a circle.
const LAYERED: [&str; 10] = [
    "server",
    "workers",
    "rollout",
    "capture",
    "endpoint",
    "config",
    "model",
    "plugin",
    "compression",
    "telemetry",
];

#[test]
fn files_import_each_other_without_a_circle() {
    let module = |inner: &str| -> Vec<String> {
        Path::new(inner).with_extension("").iter().map(|part| part.to_str().unwrap().to_owned()).collect()
    };
    let all: Vec<(PathBuf, Vec<String>)> = host_files()
        .into_iter()
        .map(|(path, inner)| (path, module(&inner)))
        .filter(|(path, module)| LAYERED.contains(&module[0].as_str()) && !path.ends_with("tests.rs"))
        .collect();
    // Elsewhere than in the server, a file and its folder are one unit.
    let unit = |module: &Vec<String>| match module[0].as_str() {
        "server" => module.clone(),
        _ => module.iter().take(2).cloned().collect(),
    };
    let modules: BTreeSet<Vec<String>> = all.iter().map(|(_, module)| module.clone()).collect();
    let mut edges: BTreeSet<(Vec<String>, Vec<String>)> = BTreeSet::new();
    for (path, own) in &all {
        let lines = code(path);
        let lines: Vec<String> = lines.into_iter().take_while(|line| line != "#[cfg(test)]").collect();
        for import in imports(&lines.join("\n").replace("mod ", ";mod ")) {
            let mut named = own.clone();
            for part in import.split("::") {
                match part {
                    "crate" => named.clear(),
                    "self" => {}
                    "super" => drop(named.pop()),
                    _ => named.push(part.to_owned()),
                }
            }
            while !named.is_empty() && !modules.contains(&named) {
                named.pop();
            }
            if !named.is_empty() && unit(&named) != unit(own) {
                edges.insert((unit(own), unit(&named)));
            }
        }
        // A file composes the files of its folder.
        let children = modules.iter().filter(|other| other.len() == own.len() + 1 && other.starts_with(own));
        let children = children.map(|child| (unit(own), unit(child)));
        edges.extend(children.filter(|(own, child)| own != child));
    }
    assert!(edges.len() > 100, "the check sees few imports: {edges:?}");
    // What imports nothing that is left, and what nothing that is left imports, is in no circle.
    let mut left = usize::MAX;
    while edges.len() < left {
        left = edges.len();
        let (above, below): (BTreeSet<_>, BTreeSet<_>) = edges.iter().cloned().unzip();
        edges.retain(|(own, named)| above.contains(named) && below.contains(own));
    }
    let circle = edges.iter().map(|(own, named)| format!("{} imports {}", own.join("::"), named.join("::")));
    assert_none("files import downwards", circle.collect());
}

#[test]
fn each_big_dependency_stays_in_its_place() {
    let mut wrong = Vec::new();
    for (name, places) in QUARANTINES {
        let mut used = false;
        for (path, inner) in host_files() {
            let inside = places.iter().any(|place| inner.starts_with(place));
            for (number, line) in code(&path).iter().enumerate() {
                let names = line.match_indices(&format!("{name}::")).any(|(at, _)| {
                    let before = line[..at].chars().next_back();
                    !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':')
                }) || line.trim_start().strip_prefix("use ") == Some(&format!("{name};"));
                used |= names;
                if names && !inside {
                    wrong.push(format!("{}:{}: {name}", short(&path), number + 1));
                }
            }
        }
        assert!(used, "nothing uses `{name}`: take it out of the list");
    }
    assert_none("a dependency is named only in its place", wrong);
}

#[test]
fn unsafe_code_stays_in_its_places() {
    let is_unsafe = host_files().into_iter().filter(|(path, _)| is_unsafe(path));
    let found: Vec<(PathBuf, String)> = is_unsafe.collect();
    for place in UNSAFE {
        let has = found.iter().any(|(_, inner)| inner.starts_with(place));
        assert!(has, "`{place}` has no unsafe code: take it out of the list");
    }
    let outside = found.iter().filter(|(_, inner)| !UNSAFE.iter().any(|place| inner.starts_with(place)));
    let wrong = outside.map(|(path, _)| short(path)).collect();
    assert_none("unsafe code is only where ARCHITECTURE.md says", wrong);
}

fn is_unsafe(path: &Path) -> bool {
    let word =
        |line: &String| line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "unsafe");
    code(path).iter().any(word)
}

#[test]
fn nothing_names_the_machine_it_was_written_on() {
    // Put together, so that this file does not name them.
    let names = [["/wo", "rk/"].concat(), ["/ro", "ot/"].concat(), ["/home/", "user"].concat()];
    let mut wrong = Vec::new();
    for path in files("") {
        // Binary files hold no text to read.
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        for (number, line) in text.lines().enumerate() {
            if names.iter().any(|name| line.contains(name)) {
                wrong.push(format!("{}:{}: {}", short(&path), number + 1, line.trim()));
            }
        }
    }
    assert_none("a file names a path of one machine", wrong);
}
