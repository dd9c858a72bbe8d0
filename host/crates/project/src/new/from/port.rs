//! A Python source as it is in the new project: its imports changed where they have to be, and nothing else
//! of it.
//!
//! In:  a file of the old project. Out: its text, what it imports inside functions, and findings.
//! Names of native packages become `unported("…")`, which can be imported and not called; names of other
//! systems become those of the
//! SDK. Statements that load a model get a comment.
//! Invariants: a line keeps its place, but for one that is added above the first statement; work grows with
//! the text, however many names it imports and uses.

mod findings;
mod lifetime;

use std::collections::{BTreeMap, HashMap, HashSet};

use self::findings::Native;
use super::packages::{self, Advice, Package};
use super::python::{Name, Source, Statement, imports, star};
use super::reached::Places;
use super::report::Report;

/// At the end of a line that a person has to look at.
const MARK: &str = "  # MIGRATE: see MIGRATION.md";
const UNPORTED: &str = "from modelhost_guest import unported";
/// Why most packages are not there, which is what `unported` says by itself.
const NATIVE: &str = "is native code";
/// Names of FastAPI and Starlette that the SDK has, of any of their modules.
const WEB: &[&str] = &[
    "HTMLResponse",
    "HTTPException",
    "JSONResponse",
    "ORJSONResponse",
    "PlainTextResponse",
    "RedirectResponse",
    "Request",
    "Response",
    "State",
    "StreamingResponse",
    "UJSONResponse",
    "URL",
    "WebSocket",
    "WebSocketDisconnect",
    "WebSocketException",
    "WebSocketState",
    "datastructures",
    "exceptions",
    "requests",
    "responses",
    "status",
    "websockets",
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

/// The result for one source.
pub(super) struct Project<'a> {
    /// Where the new project has sources.
    pub(super) places: &'a Places<'a>,
    /// Whether there is a folder of files for the handler.
    pub(super) has_files: bool,
    /// Models that were taken over: their names, and their files.
    pub(super) models: &'a [(String, String)],
}

impl Project<'_> {
    /// Whether a module is the project's, by the first part of its name.
    fn has(&self, first: &str) -> bool {
        self.places.has_module(first)
    }
}

/// The imports of a source, as they are read. Lines are those of the old file, from 0.
#[derive(Default)]
struct Imports<'a> {
    /// Statements, and what stands in their place.
    changes: Vec<(&'a Statement, String)>,
    /// Lines that get a comment.
    marked: HashSet<usize>,
    natives: Vec<Native>,
    /// Of each package, its place among them.
    known: HashMap<String, usize>,
    is_unported: bool,
    late: Vec<(String, usize)>,
    /// Imports in functions, by lines.
    in_functions: BTreeMap<usize, Vec<String>>,
    unknown: Vec<(String, usize)>,
}

/// Brings over a file.
pub(super) fn port(path: &str, source: &Source, project: &Project<'_>, report: &mut Report) -> Ported {
    let mut found = Imports::default();
    for (at, statement) in source.statements.iter().enumerate() {
        let (all, names) = (star(&statement.code), imports(&statement.code));
        if (all.is_none() && names.is_none()) || source.is_guarded(at) {
            continue;
        }
        match all {
            Some(module) => found.all_of(module, statement, project),
            None => found.names(&names.unwrap_or_default(), path, source, at, project),
        }
    }
    let in_place = found.is_unported && found.name_in_place(source);
    let added = usize::from(found.is_unported && !in_place);
    let top = top(source);
    let placed = |line: usize| format!("{path}:{}", line + 1 + if line >= top { added } else { 0 });
    let mut calls = Report::default();
    let reported = findings::calls(source, project, &placed, &mut calls);
    findings::files(source, &reported, project.has_files, &placed, &mut calls);
    let line = |at: &usize| source.statements.get(*at).map(|it| it.first);
    let mut marked: HashSet<usize> = reported.iter().filter_map(line).collect();
    findings::natives(&found.natives, source, &marked, &placed, report);
    marked.extend(found.marked.iter().copied());
    report.append(calls);
    lifetime::environment(source, &placed, report);
    lifetime::late(&found.in_functions, &placed, report);
    lifetime::state(source, &placed, report);
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
    fn all_of(&mut self, module: &str, statement: &'a Statement, project: &Project<'_>) {
        let first = module.split('.').next().unwrap_or_default();
        match packages::module(module) {
            Package::Sdk("") => {}
            Package::Sdk(own) => {
                self.changes.push((statement, format!("from modelhost_guest.{own} import *")));
            }
            _ if first.is_empty() || project.has(first) => {}
            Package::Native(advice) => {
                self.changes.push((statement, "pass".to_owned()));
                self.marked.insert(statement.first);
                self.native(statement.first, module, advice, None);
            }
            Package::Unknown | Package::Wheel => self.unknown.push((first.to_owned(), statement.first)),
            Package::Standard => {}
        }
    }

    /// The statement with a number, which imports these names.
    fn names(&mut self, names: &[Name], path: &str, source: &'a Source, at: usize, project: &Project<'_>) {
        let Some(statement) = source.statements.get(at) else { return };
        let is_late = source.is_in_function(at);
        let as_they_are: Vec<String> = names.iter().map(as_it_is).collect();
        let parts: Vec<String> =
            names.iter().map(|name| self.name(name, path, statement.first, is_late, project)).collect();
        if parts != as_they_are {
            self.changes.push((statement, joined(&parts)));
        }
    }

    /// The import of one name, as it stands in the new source.
    fn name(&mut self, name: &Name, path: &str, line: usize, is_late: bool, project: &Project<'_>) -> String {
        let first = name.module.split('.').next().unwrap_or_default();
        let is_relative = name.module.starts_with('.');
        // A module of the SDK goes before one of the project, which may have the old system beside it.
        let package = match packages::module(&name.module) {
            Package::Sdk(module) => Package::Sdk(module),
            _ if is_relative || project.has(first) => Package::Standard,
            other => other,
        };
        let new = match (package, name.member.as_deref()) {
            (Package::Native(advice), member) => {
                self.native(line, first, advice, Some(&name.bound));
                let dotted = match member {
                    Some(member) => format!("{}.{member}", name.module),
                    None if name.alias => name.module.clone(),
                    None => first.to_owned(),
                };
                return self.unported(name, &dotted, advice);
            }
            (Package::Sdk("web"), Some(member)) if !WEB.contains(&member) => {
                let dotted = format!("{}.{member}", name.module);
                self.native(line, &dotted, Advice::Names, Some(&name.bound));
                return self.unported(name, &dotted, Advice::Names);
            }
            (Package::Sdk(""), _) => as_it_is(name),
            (Package::Sdk(module), Some(member)) => {
                format!("from modelhost_guest.{module} import {}", renamed(member, name))
            }
            (Package::Sdk(module), None) => format!("from modelhost_guest import {}", renamed(module, name)),
            (Package::Standard | Package::Unknown | Package::Wheel, _) => {
                if matches!(package, Package::Unknown | Package::Wheel) {
                    self.unknown.push((first.to_owned(), line));
                }
                as_it_is(name)
            }
        };
        if is_late && let Some(module) = absolute(&name.module, path) {
            let modules = self.in_functions.entry(line).or_default();
            if modules.last() != Some(&name.module) {
                modules.push(name.module.clone());
            }
            let import = match (package, &name.member) {
                (Package::Sdk(_), _) => format!("{} as _", new.split(" as ").next().unwrap_or_default()),
                (_, Some(member)) => format!("from {module} import {member} as _"),
                (_, None) => format!("import {module}"),
            };
            self.late.push((import, line));
        }
        new
    }

    /// A package that is not there, known from now on by a name, or by all of its own.
    fn native(&mut self, line: usize, package: &str, advice: Advice, bound: Option<&str>) {
        let next = self.natives.len();
        let at = *self.known.entry(package.to_owned()).or_insert(next);
        if at == next {
            let (package, bound, all) = (package.to_owned(), HashSet::new(), Vec::new());
            self.natives.push(Native { line, package, advice, bound, all });
        }
        if let Some(native) = self.natives.get_mut(at) {
            native.bound.extend(bound.map(str::to_owned));
            native.all.extend(bound.is_none().then_some(line));
        }
    }

    fn unported(&mut self, name: &Name, dotted: &str, advice: Advice) -> String {
        self.is_unported = true;
        match advice.reason() {
            NATIVE => format!("{} = unported(\"{dotted}\")", name.bound),
            reason => format!("{} = unported(\"{dotted}\", \"{reason}\")", name.bound),
        }
    }
}

/// A module by its whole name, where the file at a path imports it by one that may be relative.
fn absolute(module: &str, path: &str) -> Option<String> {
    let below = module.trim_start_matches('.');
    let dots = module.len() - below.len();
    if dots == 0 {
        return Some(module.to_owned());
    }
    let folder = path.rsplitn(dots + 1, '/').nth(dots)?.replace('/', ".");
    Some(if below.is_empty() { folder } else { format!("{folder}.{below}") })
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

/// The text with its changes.
fn text(
    source: &Source,
    changes: &[(&Statement, String)],
    marked: &HashSet<usize>,
    top: Option<usize>,
) -> String {
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
