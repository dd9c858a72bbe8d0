//! A Python source as it is in the new project: its imports changed where they have to be, and nothing else
//! of it.
//!
//! In:  a file of the old project. Out: its text, what it imports inside functions, and findings.
//! Names of native packages become `unported("…")`, which can be imported and not called; names of other
//! systems become those of the
//! SDK. Statements that load a model get a comment.
//! Invariant: a line keeps its place, but for one that is added above the first statement.

use super::packages::{self, Advice, Package};
use super::python::{Name, Source, Statement, imports, star};
use super::report::Report;

/// At the end of a line that a person has to look at.
const MARK: &str = "  # MIGRATE: see MIGRATION.md";
const UNPORTED: &str = "from modelhost_guest import unported";
const WEB: &[&str] = &[
    "HTMLResponse",
    "HTTPException",
    "JSONResponse",
    "PlainTextResponse",
    "Request",
    "Response",
    "StreamingResponse",
];

/// Calls that load a model.
const LOADS: &[&str] = &[
    "torch.load(",
    "torch.jit.load(",
    "torch.hub.load(",
    ".from_pretrained(",
    "pipeline(",
    "InferenceSession(",
    "load_model(",
    "joblib.load(",
    "pickle.load(",
    "pickle.loads(",
    ".load_state_dict(",
    "spacy.load(",
    "SentenceTransformer(",
    "xgb.Booster(",
    "saved_model.load(",
    "hub.load(",
    "hub.Module(",
    "WhisperModel(",
    "LLM(",
    "Llama(",
];
/// Calls of the standard library that the sandbox does not answer.
const SYSTEM: &[(&str, Advice)] = &[
    ("subprocess.", Advice::System),
    ("os.system(", Advice::System),
    ("Thread(", Advice::System),
    ("ThreadPoolExecutor(", Advice::System),
    ("ProcessPoolExecutor(", Advice::System),
    ("multiprocessing.", Advice::System),
    ("urlopen(", Advice::Network),
    ("socket.socket(", Advice::Network),
];

/// A source that was brought over.
pub(super) struct Ported {
    pub(super) text: String,
    /// `import` statements that stand in functions, with their places.
    pub(super) late: Vec<(String, String)>,
    /// Lines that were added at the beginning: one, if names of it are not there.
    pub(super) added: usize,
    /// Names of packages that are not known, with their places.
    pub(super) unknown: Vec<(String, String)>,
}

/// A native package that a source imports.
struct Native {
    /// The line of the import, from 0.
    line: usize,
    package: String,
    advice: Advice,
    /// The lines that use what is imported.
    uses: Vec<usize>,
}

/// The imports of a source, as they are read. Lines are those of the old file, from 0.
#[derive(Default)]
struct Imports {
    /// Statements in the place of others: first line, last line, text.
    changes: Vec<(usize, usize, String)>,
    natives: Vec<Native>,
    is_unported: bool,
    late: Vec<(String, usize)>,
    unknown: Vec<(String, usize)>,
}

/// Brings over a file. `is_local` tells modules of the project.
pub(super) fn port(
    path: &str,
    source: &Source,
    is_local: &dyn Fn(&str) -> bool,
    report: &mut Report,
) -> Ported {
    let mut found = Imports::default();
    for (at, statement) in source.statements.iter().enumerate().filter(|(at, _)| !source.is_guarded(*at)) {
        if let Some(module) = star(&statement.code) {
            found.all_of(module, statement, is_local);
        } else if let Some(names) = imports(&statement.code) {
            found.names(&names, source, at, is_local);
        }
    }
    let added = usize::from(found.is_unported);
    let top = top(source);
    let placed = |line: usize| format!("{path}:{}", line + 1 + if line >= top { added } else { 0 });
    let mut calls = Report::default();
    let marked = report_calls(source, &placed, &mut calls);
    report_natives(found.natives, &marked, &placed, report);
    report.findings.append(&mut calls.findings);
    let at_places = |lines: Vec<(String, usize)>| -> Vec<(String, String)> {
        lines.into_iter().map(|(what, line)| (what, placed(line))).collect()
    };
    Ported {
        text: text(source, &found.changes, &marked, found.is_unported.then_some(top)),
        added,
        late: at_places(found.late),
        unknown: at_places(found.unknown),
    }
}

impl Imports {
    /// A statement that imports all names of a module.
    fn all_of(&mut self, module: &str, statement: &Statement, is_local: &dyn Fn(&str) -> bool) {
        if module.starts_with('.') || is_local(module) {
            return;
        }
        if let Package::Native(advice) = packages::module(module) {
            self.changes.push((statement.first, statement.last, format!("pass{MARK}")));
            self.native(statement.first, module, advice, vec![statement.first]);
        }
    }

    /// The statement with a number, which imports these names.
    fn names(&mut self, names: &[Name], source: &Source, at: usize, is_local: &dyn Fn(&str) -> bool) {
        let Some(statement) = source.statements.get(at) else { return };
        let as_they_are: Vec<String> = names.iter().map(as_it_is).collect();
        let parts: Vec<String> =
            names.iter().map(|name| self.name(name, source, at, statement.first, is_local)).collect();
        if parts != as_they_are {
            self.changes.push((statement.first, statement.last, joined(&parts)));
        }
    }

    /// The import of one name, as it stands in the new source.
    fn name(
        &mut self,
        name: &Name,
        source: &Source,
        at: usize,
        line: usize,
        is_local: &dyn Fn(&str) -> bool,
    ) -> String {
        let first = name.module.split('.').next().unwrap_or_default();
        let is_relative = name.module.starts_with('.');
        // A module of the SDK goes before one of the project, which may have the old system beside it.
        let package = match packages::module(&name.module) {
            Package::Sdk(module) => Package::Sdk(module),
            _ if is_relative || is_local(first) => Package::Standard,
            other => other,
        };
        match (package, name.member.as_deref()) {
            (Package::Native(advice), member) => {
                self.native(line, first, advice, source.uses(&name.bound, at));
                let dotted = match member {
                    Some(member) => format!("{}.{member}", name.module),
                    None if name.alias => name.module.clone(),
                    None => first.to_owned(),
                };
                self.unported(name, &dotted)
            }
            (Package::Sdk(""), _) => as_it_is(name),
            (Package::Sdk("web"), Some(member)) if !WEB.contains(&member) => {
                self.native(line, first, Advice::System, vec![line]);
                self.unported(name, &format!("{}.{member}", name.module))
            }
            (Package::Sdk(module), Some(member)) => {
                format!("from modelhost_guest.{module} import {}", renamed(member, name))
            }
            (Package::Sdk(module), None) => format!("from modelhost_guest import {}", renamed(module, name)),
            (Package::Standard | Package::Unknown, _) => {
                if package == Package::Unknown {
                    self.unknown.push((first.to_owned(), line));
                }
                if source.is_in_function(at) && !is_relative {
                    self.late.push((format!("import {}", name.module), line));
                }
                as_it_is(name)
            }
        }
    }

    fn native(&mut self, line: usize, package: &str, advice: Advice, uses: Vec<usize>) {
        self.natives.push(Native { line, package: package.to_owned(), advice, uses });
    }

    fn unported(&mut self, name: &Name, dotted: &str) -> String {
        self.is_unported = true;
        format!("{} = unported(\"{dotted}\")", name.bound)
    }
}

/// Statements on one line; imports of one module are one.
fn joined(parts: &[String]) -> String {
    let mut line: Vec<String> = Vec::new();
    for part in parts {
        let module = part.split_once(" import ").filter(|(module, _)| module.starts_with("from "));
        match (line.last_mut(), module) {
            (Some(last), Some((module, member))) if last.starts_with(&format!("{module} import ")) => {
                last.push_str(", ");
                last.push_str(member);
            }
            _ => line.push(part.clone()),
        }
    }
    line.join("; ")
}

fn as_it_is(name: &Name) -> String {
    match &name.member {
        Some(member) => format!("from {} import {}", name.module, renamed(member, name)),
        None => {
            format!("import {}", if name.alias { renamed(&name.module, name) } else { name.module.clone() })
        }
    }
}

/// A name under the name that the source knows it by.
fn renamed(own: &str, name: &Name) -> String {
    if own == name.bound { own.to_owned() } else { format!("{own} as {}", name.bound) }
}

/// The line of the first statement that is no docstring and no `from __future__`.
fn top(source: &Source) -> usize {
    let is_before = |it: &&Statement| it.code == "\"\"" || it.code.starts_with("from __future__");
    source.statements.iter().find(|it| !is_before(it)).map_or(source.lines.len(), |it| it.first)
}

/// One finding for each package; none for one whose every use is `marked`, and has a finding of its own.
fn report_natives(
    natives: Vec<Native>,
    marked: &[usize],
    placed: &dyn Fn(usize) -> String,
    report: &mut Report,
) {
    let mut packages: Vec<Native> = Vec::new();
    for native in natives {
        match packages.iter_mut().find(|other| other.package == native.package) {
            Some(first) => first.uses.extend(native.uses),
            None => packages.push(native),
        }
    }
    for Native { line, package, advice, mut uses } in packages {
        uses.sort_unstable();
        uses.dedup();
        let number = |line: &usize| placed(*line).rsplit(':').next().unwrap_or_default().to_owned();
        match uses.as_slice() {
            [] => report.done(
                &placed(line),
                format!("`{package}`, imported and not used"),
                "a name that stands for it",
            ),
            lines if lines.iter().all(|line| marked.contains(line)) => {}
            lines => {
                let shown: Vec<String> = lines.iter().take(6).map(number).collect();
                let more = if lines.len() > shown.len() { ", …" } else { "" };
                let what =
                    format!("`{package}` {}; used in line {}{more}", advice.reason(), shown.join(", "));
                report.decide(&placed(line), what, advice.text());
            }
        }
    }
}

/// Reports calls that load models or need what the sandbox has not; the lines of them.
fn report_calls(source: &Source, placed: &dyn Fn(usize) -> String, report: &mut Report) -> Vec<usize> {
    let mut marked = Vec::new();
    for call in LOADS {
        for (_, statement) in source.with(call) {
            if imports(&statement.code).is_some() || statement.code.starts_with("def ") {
                continue;
            }
            let shown = call.trim_start_matches('.').trim_end_matches('(');
            if !marked.contains(&statement.first) {
                let hint = "export it to ONNX, `models.NAME = { path = \"model.onnx\" }` in modelhost.toml, `models.infer(tensors, \"NAME\")` here";
                report.decide(&placed(statement.first), format!("`{shown}` loads a model"), hint);
                marked.push(statement.first);
            }
        }
    }
    for (call, advice) in SYSTEM {
        for (_, statement) in source.with(call) {
            if imports(&statement.code).is_some() || marked.contains(&statement.first) {
                continue;
            }
            let shown = call.trim_end_matches(['(', '.']);
            report.decide(
                &placed(statement.first),
                format!("`{shown}` does not work in the sandbox"),
                advice.text(),
            );
            marked.push(statement.first);
        }
    }
    marked
}

/// The text with its changes: `(first line, last line, statement)`.
fn text(source: &Source, changes: &[(usize, usize, String)], marked: &[usize], top: Option<usize>) -> String {
    let mut made = String::new();
    for (number, line) in source.lines.iter().enumerate() {
        if top == Some(number) {
            made.push_str(UNPORTED);
            made.push('\n');
        }
        let indent = line.get(..line.len() - line.trim_start().len()).unwrap_or_default();
        match changes.iter().find(|(first, last, _)| (*first..=*last).contains(&number)) {
            Some((first, _, statement)) if *first == number => {
                made.push_str(indent);
                made.push_str(statement);
            }
            // The other lines of an import that was changed.
            Some(_) => {}
            None => made.push_str(line.trim_end_matches('\r')),
        }
        let takes = source.takes_comment.get(number).copied().unwrap_or_default();
        if marked.contains(&number) && takes {
            made.push_str(MARK);
        }
        made.push('\n');
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::new::from::report::Topic;

    const TEXT: &str = r#""""A model."""
import os, torch
import numpy as np
from potassium import Potassium, Response as Answer
from transformers import (
    pipeline,
)
import fastapi

import emoji


def load():
    import csv
    return pipeline("x")


class Net(torch.nn.Module):
    pass
"#;

    #[test]
    fn imports_are_changed_and_lines_stay_where_they_are() {
        let mut report = Report::default();
        let ported = port("app.py", &Source::read(TEXT), &|module| module == "helper", &mut report);
        let lines: Vec<&str> = ported.text.lines().collect();
        assert_eq!(
            lines[..10],
            [
                "\"\"\"A model.\"\"\"",
                "from modelhost_guest import unported",
                "import os; torch = unported(\"torch\")",
                "np = unported(\"numpy\")",
                "from modelhost_guest.potassium import Potassium, Response as Answer",
                "pipeline = unported(\"transformers.pipeline\")",
                "",
                "",
                "from modelhost_guest import web as fastapi",
                "",
            ]
        );
        assert_eq!(lines[15], "    return pipeline(\"x\")  # MIGRATE: see MIGRATION.md");
        assert_eq!(ported.late, [("import csv".to_owned(), "app.py:15".to_owned())]);
        assert_eq!(ported.unknown, [("emoji".to_owned(), "app.py:11".to_owned())]);
        let decided: Vec<String> = report
            .findings
            .iter()
            .filter(|it| it.topic == Topic::Decide)
            .map(|it| format!("{} {}", it.place, it.what))
            .collect();
        assert_eq!(
            decided,
            ["app.py:3 `torch` is native code; used in line 19", "app.py:16 `pipeline` loads a model",]
        );
        // numpy is imported and not used.
        assert_eq!(report.count(Topic::Done), 1);
    }

    #[test]
    fn a_project_without_native_code_is_not_changed() {
        let text = "import json\n\ndef f():\n    return json.dumps(1)\n";
        let mut report = Report::default();
        let ported = port("app.py", &Source::read(text), &|_| false, &mut report);
        assert_eq!((ported.text.as_str(), ported.added, report.findings.len()), (text, 0, 0));
    }
}
