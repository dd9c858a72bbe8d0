//! Components that were built against a released version of the contract, served by this host; and components of versions
//! that it does not have, which it refuses with both versions.
//!
//! In: `tests/compatibility/VERSION`, components as bytes (`scripts/release-components.sh`), and beside each what it is asked
//! and answers, as JSON (`e2e::cases`).

use std::fs;
use std::path::{Path, PathBuf};

use e2e::cases::{ask, beside, setup};
use e2e::{Host, component, host, root};
use serde_json::Value;

/// The version of `wit/`.
const CURRENT: &str = "0.1.0";

/// The files in a folder with this extension, in order.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|it| it == extension)).collect();
    found.sort();
    found
}

/// The folders of the versions.
fn versions() -> Vec<PathBuf> {
    let folders = fs::read_dir(root().join("tests/compatibility")).unwrap();
    let mut found: Vec<_> = folders.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect();
    found.sort();
    found
}

/// The components of the version that is current, with what they are asked.
fn current() -> Vec<(PathBuf, Value)> {
    let components = files(&root().join("tests/compatibility").join(CURRENT), "wasm");
    components.into_iter().map(|path| (path.clone(), beside(&path))).collect()
}

#[test]
fn components_of_every_released_version_are_served() {
    let mut served = 0;
    for folder in versions() {
        let version = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let components = files(&folder, "wasm");
        let names = |paths: &[PathBuf]| paths.iter().map(|path| path.with_extension("")).collect::<Vec<_>>();
        assert_eq!(names(&components), names(&files(&folder, "json")), "each is asked something");
        for component in components {
            let (cases, scratch) = (beside(&component), tempfile::tempdir().unwrap());
            let host = setup(&component, &cases, scratch.path()).serve();
            let name = component.file_stem().unwrap().to_str().unwrap();
            ask(&format!("{version}/{name}"), &host, &cases);
            served += 1;
        }
    }
    assert!(served > 0, "no component is kept");
}

/// A guest that no other test asks: as it is built today, before it is kept.
#[test]
fn an_application_is_told_of_its_request_by_an_import() {
    let cases = beside(&root().join(format!("tests/compatibility/{CURRENT}/asked.wasm")));
    let host = setup(&component("tests/asked"), &cases, Path::new("")).serve();
    ask("asked", &host, &cases);
}

/// What is kept stays small, and has every interface of the contract.
#[test]
fn what_is_kept_of_the_current_version_has_every_interface_and_is_small() {
    let mut size = 0;
    let mut named = String::new();
    for (path, _) in current() {
        size += fs::metadata(&path).unwrap().len();
        let printed = host(&["inspect", path.to_str().unwrap()]).stdout;
        named += &String::from_utf8(printed).unwrap();
    }
    assert!(size < 2_000_000, "{size} bytes");
    let missing: Vec<String> = files(&root().join("wit"), "wit")
        .iter()
        .flat_map(|file| {
            let text = fs::read_to_string(file).unwrap();
            let names = text.lines().filter_map(|line| line.strip_prefix("interface ")?.strip_suffix(" {"));
            names.map(|name| format!("modelhost:handler/{name}@{CURRENT}")).collect::<Vec<_>>()
        })
        .filter(|name| !named.contains(name.as_str()))
        .collect();
    assert!(missing.is_empty(), "no component is kept that has {missing:?}");
}

/// The same component, with another version of the contract in every name.
fn of_version(component: &Path, version: &str) -> Vec<u8> {
    replaced(
        &fs::read(component).unwrap(),
        |name| format!("{name}@{CURRENT}"),
        |name| format!("{name}@{version}"),
    )
}

/// With every interface of the contract named otherwise, in as many bytes.
fn replaced(bytes: &[u8], from: impl Fn(&str) -> String, to: impl Fn(&str) -> String) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut at = 0;
    while let Some(found) = bytes[at..].windows(18).position(|window| window == b"modelhost:handler/") {
        at += found + 18;
        let length =
            bytes[at..].iter().take_while(|byte| byte.is_ascii_lowercase() || **byte == b'-').count();
        let name = String::from_utf8(bytes[at..at + length].to_vec()).unwrap();
        let (from, to) = (from(&name), to(&name));
        assert_eq!(from.len(), to.len(), "{from} {to}");
        if bytes[at..].starts_with(from.as_bytes()) {
            bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
        }
    }
    bytes
}

#[test]
fn a_later_version_of_the_line_is_served_if_all_that_it_uses_is_there() {
    for (path, cases) in current() {
        let scratch = tempfile::tempdir().unwrap();
        let component = scratch.path().join("later.wasm");
        fs::write(&component, of_version(&path, "0.1.9")).unwrap();
        let host = setup(&component, &cases, scratch.path()).serve();
        ask(&format!("0.1.9 of {}", path.display()), &host, &cases);
    }
}

/// What `serve`, `check` and `inspect` say of a component.
fn said(component: &Path, cases: &Value) -> [String; 3] {
    let scratch = tempfile::tempdir().unwrap();
    let config = scratch.path().join("modelhost.toml");
    fs::write(&config, setup(component, cases, scratch.path()).text()).unwrap();
    let config = ["--config", config.to_str().unwrap()];
    let serve = Host::try_serve(&config).err().expect("it is refused").1;
    let check = host(&[&["check"], &config[..]].concat());
    assert_eq!(check.status.code(), Some(1));
    let inspect = host(&["inspect", component.to_str().unwrap()]);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    [serve, text(check.stderr) + &text(check.stdout), text(inspect.stdout)]
}

#[test]
fn a_component_of_a_version_that_is_not_there_is_refused_with_both_versions() {
    let folder = tempfile::tempdir().unwrap();
    let [kept, models, responder] = ["iris_rust", "models", "responder"]
        .map(|name| root().join(format!("tests/compatibility/{CURRENT}/{name}.wasm")));
    let contract = |name: &str, version: &str| format!("`modelhost:handler/{name}@{version}`");
    let bytes = |path: &Path| fs::read(path).unwrap();
    const LATER: &str = "serve it with a newer host, or build the handler against the host's version";
    const OLDER: &str = "build the handler against the host's version";
    // One import of a later version alone; a function, an import and an export that a later version added.
    let only = |name: &'static str| {
        move |it: &str| if it == name { format!("{it}@0.2.0") } else { format!("{it}@{CURRENT}") }
    };
    let one = replaced(&bytes(&models), |it| format!("{it}@{CURRENT}"), only("models"));
    let renamed = |from: &'static [u8], to: &'static [u8], path: &Path| {
        let mut bytes = of_version(path, "0.1.9");
        for at in 0..bytes.len() - from.len() {
            if bytes[at..].starts_with(from) {
                bytes[at..at + to.len()].copy_from_slice(to);
            }
        }
        bytes
    };
    let function = renamed(b"[method]resident.rows", b"[method]resident.cuts", &models);
    let import = renamed(b"handler/models@", b"handler/tokens@", &models);
    let export = renamed(b"handler/operations@", b"handler/streamings@", &responder);
    for (name, component, cases, version, named, adds, hint) in [
        ("minor", of_version(&kept, "0.2.0"), &kept, "0.2.0", contract("post-inference", "0.2.0"), "", LATER),
        ("major", of_version(&kept, "1.0.0"), &kept, "1.0.0", contract("init", "1.0.0"), "", LATER),
        ("older", of_version(&kept, "0.0.9"), &kept, "0.0.9", contract("types", "0.0.9"), "", OLDER),
        ("one", one, &models, "0.2.0", format!("by {};", contract("models", "0.2.0")), "", LATER),
        ("function", function, &models, "0.1.9", contract("models", "0.1.9"), "[method]resident.cuts", LATER),
        ("import", import, &models, "0.1.9", contract("tokens", "0.1.9"), ", without this interface", LATER),
        (
            "export",
            export,
            &responder,
            "0.1.9",
            contract("streamings", "0.1.9"),
            ", without this interface",
            LATER,
        ),
    ] {
        let file = folder.path().join(format!("{name}.wasm"));
        fs::write(&file, component).unwrap();
        let wanted = format!("needs version {version} of the handler contract, by ");
        let said = said(&file, &beside(cases));
        for text in said {
            let line =
                text.lines().find(|line| line.contains(&wanted)).unwrap_or_else(|| panic!("{name}: {text}"));
            for part in [&*named, &format!("this host has {CURRENT}"), adds] {
                assert!(line.contains(part), "{name}: `{part}` in `{line}`");
            }
            assert!(text.contains(&format!("hint: {hint}")), "{name}: {text}");
            assert!(text.matches("hint: ").count() == 1, "{name}: {text}");
        }
        // What `inspect` says of versions stands on a line of its own.
        let inspected = String::from_utf8(host(&["inspect", file.to_str().unwrap()]).stdout).unwrap();
        assert!(inspected.contains(&format!("(this host has {CURRENT})\n")), "{inspected}");
    }
}
