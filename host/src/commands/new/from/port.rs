//! A Python source as it is in the new project: its imports changed where they have to be, and nothing else
//! of it.
//!
//! In:  a file of the old project. Out: its text, what it imports inside functions, and findings.
//! Names of native packages become `unported("…")`, which can be imported and not called; names of other
//! systems become those of the
//! SDK. Statements that load a model get a comment.
//! Invariant: a line keeps its place, but for one that is added above the first statement.

use super::packages::{self, Advice, Package};
use super::python::{Name, Source, Statement, has_word, imports, star};
use super::report::{Report, Topic};

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
    ("urlopen(", Advice::Requests),
    ("urlretrieve(", Advice::Requests),
    ("HTTPConnection(", Advice::Requests),
    ("HTTPSConnection(", Advice::Requests),
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
struct Imports<'a> {
    /// Statements, and what stands in their place.
    changes: Vec<(&'a Statement, String)>,
    /// Lines that get a comment.
    marked: Vec<usize>,
    natives: Vec<Native>,
    is_unported: bool,
    late: Vec<(String, usize)>,
    unknown: Vec<(String, usize)>,
}

/// Brings over a file. `is_local` tells modules of the project; `has_project`, whether there is a folder of
/// files for it.
pub(super) fn port(
    path: &str,
    source: &Source,
    is_local: &dyn Fn(&str) -> bool,
    has_project: bool,
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
    let in_place = found.is_unported && found.name_in_place(source);
    let added = usize::from(found.is_unported && !in_place);
    let top = top(source);
    let placed = |line: usize| format!("{path}:{}", line + 1 + if line >= top { added } else { 0 });
    let mut calls = Report::default();
    let reported = report_calls(source, &placed, &mut calls);
    report_files(source, &reported, has_project, &placed, &mut calls);
    let line = |at: &usize| source.statements.get(*at).map(|it| it.first);
    let mut marked: Vec<usize> = reported.iter().filter_map(line).collect();
    report_natives(found.natives, &marked, &placed, report);
    marked.append(&mut found.marked);
    report.findings.append(&mut calls.findings);
    let at_places = |lines: Vec<(String, usize)>| -> Vec<(String, String)> {
        lines.into_iter().map(|(what, line)| (what, placed(line))).collect()
    };
    Ported {
        text: text(source, &found.changes, &marked, (added > 0).then_some(top)),
        added,
        late: at_places(found.late),
        unknown: at_places(found.unknown),
    }
}

impl<'a> Imports<'a> {
    /// Has the first statement bring `unported` by itself, if it stands behind a docstring or a
    /// `from __future__` on their line: nothing may stand above these.
    fn name_in_place(&mut self, source: &Source) -> bool {
        let Some(at) = source.statements.iter().position(|it| !is_before(it)) else { return false };
        let (above, below) = source.statements.split_at(at);
        let (Some(above), Some(first)) = (above.last(), below.first()) else { return false };
        let change = self.changes.iter_mut().find(|(it, _)| std::ptr::eq(*it, first));
        let Some((_, new)) = change.filter(|_| above.last == first.first) else { return false };
        new.insert_str(0, "from modelhost_guest import unported; ");
        true
    }

    /// A statement that imports all names of a module.
    fn all_of(&mut self, module: &str, statement: &'a Statement, is_local: &dyn Fn(&str) -> bool) {
        let first = module.split('.').next().unwrap_or_default();
        match packages::module(module) {
            Package::Sdk("") => {}
            Package::Sdk(own) => {
                self.changes.push((statement, format!("from modelhost_guest.{own} import *")));
            }
            _ if first.is_empty() || is_local(first) => {}
            Package::Native(advice) => {
                self.changes.push((statement, "pass".to_owned()));
                self.marked.push(statement.first);
                self.native(statement.first, module, advice, vec![statement.first]);
            }
            Package::Unknown => self.unknown.push((first.to_owned(), statement.first)),
            Package::Standard => {}
        }
    }

    /// The statement with a number, which imports these names.
    fn names(&mut self, names: &[Name], source: &'a Source, at: usize, is_local: &dyn Fn(&str) -> bool) {
        let Some(statement) = source.statements.get(at) else { return };
        let as_they_are: Vec<String> = names.iter().map(as_it_is).collect();
        let parts: Vec<String> =
            names.iter().map(|name| self.name(name, source, at, statement.first, is_local)).collect();
        if parts != as_they_are {
            self.changes.push((statement, joined(&parts)));
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
    source.statements.iter().find(|it| !is_before(it)).map_or(source.lines.len(), |it| it.first)
}

/// Whether a statement is a docstring or a `from __future__`.
fn is_before(statement: &Statement) -> bool {
    // A raw text has its letter before it.
    let is_text = |code: &str| code.replace("\"\"", "").chars().all(|c| " rRuU".contains(c));
    is_text(&statement.code) || statement.code.starts_with("from __future__")
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

/// Reports calls that load models or need what the sandbox has not; the numbers of their statements.
fn report_calls(source: &Source, placed: &dyn Fn(usize) -> String, report: &mut Report) -> Vec<usize> {
    let mut marked = Vec::new();
    for call in LOADS {
        for (at, statement) in source.with(call) {
            if imports(&statement.code).is_some() || statement.code.starts_with("def ") {
                continue;
            }
            let shown = call.trim_start_matches('.').trim_end_matches('(');
            if !marked.contains(&at) {
                let hint = "export it to ONNX, `models.NAME = { path = \"model.onnx\" }` in modelhost.toml, `models.infer(tensors, \"NAME\")` here";
                report.decide(&placed(statement.first), format!("`{shown}` loads a model"), hint);
                marked.push(at);
            }
        }
    }
    for (call, advice) in SYSTEM {
        for (at, statement) in source.with(call) {
            if imports(&statement.code).is_some() || marked.contains(&at) {
                continue;
            }
            let shown = call.trim_end_matches(['(', '.']);
            report.decide(
                &placed(statement.first),
                format!("`{shown}` does not work in the sandbox"),
                advice.text(),
            );
            marked.push(at);
        }
    }
    marked
}

/// Reports where the source reads files, which are not where they were. Those of a project's folder are there
/// once the component is built.
fn report_files(
    source: &Source,
    reported: &[usize],
    has_project: bool,
    placed: &dyn Fn(usize) -> String,
    report: &mut Report,
) {
    for (at, Statement { first, last, code, .. }) in source.statements.iter().enumerate() {
        let calls = has_word(code, "open") && code.contains("open(");
        let word = if calls { Some("open") } else { has_word(code, "__file__").then_some("__file__") };
        let found = word
            .or_else(|| ["read_text", "read_bytes"].into_iter().find(|it| code.contains(&format!(".{it}("))));
        let is_other = reported.contains(&at)
            || imports(code).is_some()
            || code.starts_with("def ")
            || code.contains("sys.path");
        let Some(name) = found.filter(|_| !is_other) else { continue };
        let is_later = has_project && source.is_in_function(at);
        let lines = source.lines.get(*first..=*last).unwrap_or_default();
        if is_later && (code.contains("data_dir") || lines.iter().any(|line| line.contains("/mnt/project"))) {
            continue;
        }
        let (topic, hint) = match has_project {
            true if is_later => {
                (Topic::Check, "files of `project` are at /mnt/project, and there are no others")
            }
            true => (Topic::Decide, "files of `project` are at /mnt/project, from `init` on"),
            false => (
                Topic::Decide,
                "put its files into a folder DIR, `project = \"DIR\"` in modelhost.toml, and read them at /mnt/project",
            ),
        };
        report.add(topic, &placed(*first), format!("`{name}` leads to a file"), hint);
    }
}

/// The text with its changes.
fn text(source: &Source, changes: &[(&Statement, String)], marked: &[usize], top: Option<usize>) -> String {
    let (mut made, mut changes) = (String::new(), changes.iter().peekable());
    // The statement that was changed last, and goes on.
    let mut open: Option<&Statement> = None;
    for (number, line) in source.lines.iter().enumerate() {
        if top == Some(number) {
            made.push_str(UNPORTED);
            made.push('\n');
        }
        let mut at = 0;
        loop {
            match open {
                Some(it) if it.last > number => {
                    at = line.len();
                    break;
                }
                Some(it) => at = it.to,
                None => {}
            }
            open = None;
            let Some((statement, new)) = changes.next_if(|(it, _)| it.first == number) else { break };
            made.push_str(line.get(at..statement.from).unwrap_or_default());
            made.push_str(new);
            open = Some(statement);
        }
        made.push_str(line.get(at..).unwrap_or_default());
        let takes = source.takes_comment.get(number).copied().unwrap_or_default();
        if marked.contains(&number) && takes {
            made.push_str(MARK);
        }
        made.push('\n');
    }
    made
}

#[cfg(test)]
mod tests;
