//! `[build]` of a project's file: what `host build` is told, and nothing else reads.
//!
//! In: the file. Out: the libraries that are put into the handler; the engine of one in JavaScript.

use std::path::Path;

use modelhost_project::build::JsEngine;
use toml::Value;

use super::file::File;
use super::files::open;
use super::problem::{AtPlace as _, Place, Problem, Problems};
use crate::values::Diagnostic;

/// The key of the libraries.
const WITH: &str = "with";
const HINT: &str = "write `with = [\"image\", \"path/of/library.wasm\"]`";
/// The key of the engine.
const ENGINE: &str = "engine";
const ENGINES: [(&str, JsEngine); 2] =
    [("spidermonkey", JsEngine::SpiderMonkey), ("quickjs", JsEngine::QuickJs)];

/// The libraries that the file at `path` names; none if there is no such file.
///
/// # Errors
/// It is no TOML, or what it says of libraries cannot be used. Other problems are for those who serve it.
pub fn libraries(path: &Path) -> Result<Vec<String>, Problems> {
    read(path, with)
}

/// The engine that the file at `path` names for JavaScript; SpiderMonkey if it names none.
///
/// # Errors
/// As [`libraries`].
pub fn js_engine(path: &Path) -> Result<JsEngine, Problems> {
    read(path, engine)
}

fn read<T: Default>(path: &Path, part: fn(&File, &mut Vec<Problem>) -> T) -> Result<T, Problems> {
    if !path.exists() {
        return Ok(T::default());
    }
    let place = Place::outside(path.display().to_string());
    let (file, problems) = open(&place, path, None);
    let mut problems: Vec<Problem> =
        problems.into_iter().filter(|problem| !file.complete || problem.is_of("build")).collect();
    let found = part(&file, &mut problems);
    if problems.is_empty() { Ok(found) } else { Err(Problems::new(problems)) }
}

fn engine(file: &File, problems: &mut Vec<Problem>) -> JsEngine {
    let Some(entry) = file.build.get(ENGINE) else { return JsEngine::default() };
    let named = entry.value.as_str();
    let found = ENGINES.iter().find(|(name, _)| Some(*name) == named).map(|(_, engine)| *engine);
    if found.is_none() {
        let hint = "write `engine = \"quickjs\"` or `engine = \"spidermonkey\"`";
        problems.push(Diagnostic::new("is no engine of JavaScript", hint).at(entry.place.clone()));
    }
    found.unwrap_or_default()
}

fn with(file: &File, problems: &mut Vec<Problem>) -> Vec<String> {
    let Some(entry) = file.build.get(WITH) else { return Vec::new() };
    let mut refuse = |message: &str| problems.push(Diagnostic::new(message, HINT).at(entry.place.clone()));
    let Some(items) = entry.value.as_array() else {
        refuse("is not a list");
        return Vec::new();
    };
    let mut libraries: Vec<String> = Vec::new();
    for item in items {
        match item {
            Value::String(name) if name.is_empty() => refuse("has an empty name"),
            Value::String(name) if libraries.contains(name) => refuse(&format!("has `{name}` twice")),
            Value::String(name) => libraries.push(name.clone()),
            _ => refuse("holds something that is not a string"),
        }
    }
    libraries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("modelhost.toml");
        assert_eq!(js_engine(&path), Ok(JsEngine::SpiderMonkey));
        for (text, expected) in [
            ("[build]\nwith = []", Ok(JsEngine::SpiderMonkey)),
            ("[build]\nengine = \"spidermonkey\"", Ok(JsEngine::SpiderMonkey)),
            ("[build]\nengine = \"quickjs\"", Ok(JsEngine::QuickJs)),
            ("[build]\nengine = \"v8\"", Err("2: `build.engine`: is no engine of JavaScript; hint: write `")),
            ("[build]\nengine = 1", Err("2: `build.engine`: is no engine of JavaScript")),
        ] {
            std::fs::write(&path, text).unwrap();
            let found = js_engine(&path).map_err(|problems| problems.to_string());
            match expected {
                Ok(engine) => assert_eq!(found, Ok(engine), "{text}"),
                Err(part) => {
                    assert!(found.as_ref().is_err_and(|found| found.contains(part)), "{text}: {found:?}")
                }
            }
        }
    }

    #[test]
    fn libraries_are_read_and_nothing_else_is_judged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("modelhost.toml");
        assert_eq!(libraries(&path), Ok(Vec::new()));
        for (text, expected) in [
            (
                "[[endpoint]]\nnonsense = 1\n[build]\nwith = [\"image\", \"a/b.wasm\"]",
                Ok(vec!["image", "a/b.wasm"]),
            ),
            ("[[endpoint]]\nname = \"a\"", Ok(vec![])),
            ("[build]\nwith = \"image\"", Err("2: `build.with`: is not a list; hint: write `with = [")),
            ("[build]\nwith = [1]", Err("2: `build.with`: holds something that is not a string")),
            ("[build]\nwith = [\"\"]", Err("2: `build.with`: has an empty name")),
            ("[build]\nwith = [\"a\", \"a\"]", Err("2: `build.with`: has `a` twice")),
            ("[build]\nwit = [\"a\"]", Err("2: `build.wit`: unknown key; hint: did you mean `with`?")),
            ("build = 1", Err("1: `build`: is not a table; hint: write `[build]`")),
            ("[build", Err("1: ")),
        ] {
            std::fs::write(&path, text).unwrap();
            let found = libraries(&path).map_err(|problems| problems.to_string());
            match expected {
                Ok(names) => assert_eq!(found.unwrap(), names, "{text}"),
                Err(part) => {
                    assert!(found.as_ref().is_err_and(|found| found.contains(part)), "{text}: {found:?}")
                }
            }
        }
    }
}
