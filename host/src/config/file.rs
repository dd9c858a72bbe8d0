//! The config file: TOML text in, values by key out, each with its line.
//!
//! Place in the flow: `config.rs` reads the file and asks for the values; nothing here knows what they mean.
//! In:   the text. Out: the values of the process and of each `[[endpoint]]`, and every problem of form.
//! Invariants: only keys of `config/settings.rs` come out; any other key is a problem, never ignored. The
//! short form `model = "m.onnx"` comes out as the long one, `endpoint.model.path`; `models.NAME` has the same
//! keys. `input.NAME` has keys of its own, [`INPUT_KEYS`], and so have `ensemble`, [`ENSEMBLE_KEYS`],
//! `[[split]]`, [`SPLIT_KEYS`], and `[build]`, [`BUILD_KEYS`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IntoDeserializer;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{AtPlace as _, Place, Problem};
use super::settings;
use crate::text::similar;
use crate::values::{Diagnostic, list, with_article};

/// A config file, read.
#[derive(Debug, Default)]
pub(super) struct File {
    /// Where it is, as the user gave it; empty if there is none.
    pub path: PathBuf,
    /// The files that were read after it, as parts of it.
    pub further: Vec<PathBuf>,
    /// SHA-256 of all of them; empty if there is none.
    pub digest: String,
    /// Whether all that is written there came out, rather than stopped at an error of syntax.
    pub complete: bool,
    /// The settings of the process.
    pub process: Table,
    /// The settings of each `[[endpoint]]`, in the file's order.
    pub endpoints: Vec<Table>,
    /// Each `[[split]]`, in the file's order, with [`SPLIT_KEYS`].
    pub splits: Vec<Table>,
    /// `[build]`, with [`BUILD_KEYS`].
    pub build: Table,
}

/// The keys of an input; not settings, for they have neither flags nor defaults.
pub(super) const INPUT_KEYS: [&str; 5] = ["datatype", "shape", "required", "example", "description"];

/// The keys of an ensemble; not settings either.
pub(super) const ENSEMBLE_KEYS: [&str; 3] = ["inputs", "outputs", "steps"];

/// The keys of a split; not settings either.
pub(super) const SPLIT_KEYS: [&str; 3] = ["path", "endpoints", "sticky"];

/// The keys of a build; not settings either.
pub(super) const BUILD_KEYS: [&str; 2] = ["engine", "with"];

/// Values by their key in `config/settings.rs`.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// Where the table begins; `None` if there is no such table in a file.
    pub place: Option<Place>,
    /// Whether something in it was left out as a problem, so that what is missing may be there, misspelt.
    pub faulty: bool,
    /// The tables `models.NAME` of an endpoint, in the file's order, each with the keys of `model`.
    pub models: Vec<(String, Table)>,
    /// The tables `input.NAME` of an endpoint, in the file's order, each with [`INPUT_KEYS`].
    pub inputs: Vec<(String, Table)>,
    /// The table `ensemble` of an endpoint, with [`ENSEMBLE_KEYS`].
    pub ensemble: Option<Box<Table>>,
    values: BTreeMap<&'static str, Entry>,
}

/// One value and where it is written.
#[derive(Debug)]
pub(super) struct Entry {
    pub place: Place,
    pub value: toml::Value,
}

impl File {
    /// The file as a whole; `None` without one.
    pub(super) fn place(&self) -> Option<Place> {
        let text = self.path.display().to_string();
        (!text.is_empty()).then(|| Place::outside(text))
    }
}

impl File {
    /// Makes another file part of this one: its endpoints and splits come after those here, its settings in
    /// the place of those here.
    pub(super) fn merge(&mut self, other: File) {
        self.complete &= other.complete;
        self.further.push(other.path);
        self.endpoints.extend(other.endpoints);
        self.splits.extend(other.splits);
        for (into, from) in [(&mut self.process, other.process), (&mut self.build, other.build)] {
            into.faulty |= from.faulty;
            into.values.extend(from.values);
        }
    }
}

impl Table {
    /// Its values as texts, by their keys; those of the tables in it under theirs.
    pub(super) fn texts(&self) -> Vec<(String, String)> {
        let own = self.values.iter().map(|(key, entry)| ((*key).to_owned(), entry.value.to_string()));
        let mut texts: Vec<_> = own.collect();
        let inner = self.models.iter().map(|(name, table)| (format!("models.{name}"), table));
        let inner = inner.chain(self.inputs.iter().map(|(name, table)| (format!("input.{name}"), table)));
        for (name, table) in inner.chain(self.ensemble.iter().map(|it| ("ensemble".to_owned(), &**it))) {
            let below = |(key, text): (String, String)| {
                let key = key.strip_prefix("endpoint.model.").unwrap_or(&key);
                (format!("endpoint.{name}.{key}"), text)
            };
            texts.extend(table.texts().into_iter().map(below));
        }
        texts
    }

    /// A table without values.
    pub(super) fn empty(place: Option<Place>) -> Table {
        Table { place, ..Table::default() }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Entry> {
        self.values.get(key)
    }

    /// The first value whose key starts with `prefix`.
    pub(super) fn first_under(&self, prefix: &str) -> Option<&Entry> {
        self.values.iter().find(|(key, _)| key.starts_with(prefix)).map(|(_, entry)| entry)
    }
}

/// Reads `text`, the content of the file at `path`, which is the `number`th that is read, from 0.
///
/// Values come out even where there are problems, so that the values can be judged in the same report; after
/// an error of syntax they do not, because what was recovered could mislead.
pub(super) fn parse(number: usize, path: &Path, text: &str) -> (File, Vec<Problem>) {
    let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect();
    let mut walker = Walker { number, path, text, ends, problems: Vec::new() };
    let mut file = File { path: path.to_owned(), ..File::default() };
    let (document, errors) = DeTable::parse_recoverable(text);
    // What follows an open bracket is read as part of it, so that each line would be another error.
    let open = errors.iter().find(|error| error.message().starts_with("unclosed"));
    for error in errors.iter().take(if open.is_some() { 1 } else { usize::MAX }) {
        let line = error.span().map_or(1, |span| walker.line(span.start));
        let place = Place { file: number, line, text: format!("{}:{line}", path.display()) };
        let message = open.unwrap_or(error).message().replace('\n', ", ");
        let hint = if open.is_some() {
            "close the bracket that is open here"
        } else if walker.is_bare_word(line) {
            "write a text in quotes"
        } else {
            "see https://toml.io for the syntax"
        };
        walker.problems.push(Diagnostic::new(message, hint).at(place));
    }
    if errors.is_empty() {
        file.complete = true;
        walker.document(document.get_ref(), &mut file);
    }
    (file, walker.problems)
}

struct Walker<'a> {
    number: usize,
    path: &'a Path,
    text: &'a str,
    /// Where each line ends.
    ends: Vec<usize>,
    problems: Vec<Problem>,
}

/// A table's key in `config/settings.rs`, and as it stands in the file.
#[derive(Clone, Copy)]
struct Keys<'a> {
    meant: &'a str,
    shown: &'a str,
}

impl Walker<'_> {
    fn document(&mut self, document: &DeTable<'_>, file: &mut File) {
        for (name, value) in document {
            match &**name.get_ref() {
                "endpoint" => {
                    let keys = Keys { meant: "endpoint", shown: "endpoint" };
                    file.endpoints = self.tables("endpoint", name, value, |walker, table, into| {
                        walker.table(keys, table, into);
                    });
                }
                "split" => {
                    file.splits = self.tables("split", name, value, |walker, table, into| {
                        walker.parts("split", &SPLIT_KEYS, table, into);
                    });
                }
                "build" => match value.get_ref() {
                    DeValue::Table(parts) => self.parts("build", &BUILD_KEYS, parts, &mut file.build),
                    _ => {
                        let place = self.place(name.span().start, "build");
                        let diagnostic = Diagnostic::new("is not a table", "write `[build]`");
                        self.refuse(diagnostic, place, &mut file.build);
                    }
                },
                _ => self.entry(Keys { meant: "", shown: "" }, name, value, &mut file.process),
            }
        }
    }

    /// `[[KIND]]`, each read by `read`.
    fn tables(
        &mut self,
        kind: &str,
        name: &Spanned<impl AsRef<str>>,
        value: &Spanned<DeValue<'_>>,
        read: impl Fn(&mut Self, &DeTable<'_>, &mut Table),
    ) -> Vec<Table> {
        let one = std::slice::from_ref(value);
        let items = value.get_ref().as_array().map_or(one, |array| &**array);
        if !value.get_ref().is_array() || items.iter().any(|item| !item.get_ref().is_table()) {
            let hint = format!("write `[[{kind}]]`, in double brackets");
            let diagnostic = Diagnostic::new("is not a list of tables", hint);
            self.problems.push(diagnostic.at(self.place(name.span().start, kind)));
        }
        let mut tables = Vec::new();
        for item in items {
            let mut into = Table::empty(Some(self.place(item.span().start, kind)));
            match item.get_ref().as_table() {
                Some(table) => read(self, table, &mut into),
                None => into.faulty = true,
            }
            tables.push(into);
        }
        tables
    }

    fn table(&mut self, keys: Keys<'_>, table: &DeTable<'_>, into: &mut Table) {
        for (name, value) in table {
            self.entry(keys, name, value, into);
        }
    }

    /// One `name = value` of the table at `keys`.
    fn entry(
        &mut self,
        keys: Keys<'_>,
        name: &Spanned<impl AsRef<str>>,
        value: &Spanned<DeValue<'_>>,
        into: &mut Table,
    ) {
        let name_text = name.get_ref().as_ref();
        let (meant, shown) = (join(keys.meant, name_text), join(keys.shown, name_text));
        let place = self.place(name.span().start, &shown);
        let here = Keys { meant: &meant, shown: &shown };
        match value.get_ref() {
            DeValue::Table(models) if meant == "endpoint.models" => self.models(here, models, place, into),
            DeValue::Table(inputs) if meant == "endpoint.input" => self.inputs(here, inputs, into),
            DeValue::Table(parts) if meant == "endpoint.ensemble" => {
                let mut table = Table::empty(Some(place));
                self.parts(&shown, &ENSEMBLE_KEYS, parts, &mut table);
                into.ensemble = Some(Box::new(table));
            }
            _ if meant == "endpoint.ensemble" => {
                let diagnostic = Diagnostic::new("is not a table", "write `[endpoint.ensemble]`");
                self.refuse(diagnostic, place, into);
            }
            _ if meant == "endpoint.input" => {
                let diagnostic = Diagnostic::new("is not a table", "write `[endpoint.input.NAME]`");
                self.refuse(diagnostic, place, into);
            }
            short if meant == "endpoint.model" && !short.is_table() => {
                self.insert("endpoint.model.path", place, value, into);
            }
            DeValue::Table(table) if is_table(&meant) => self.table(here, table, into),
            other if is_table(&meant) => {
                let message = format!("expected a table, found {}", with_article(other.type_str()));
                let hint = format!("its keys are {}", list(children(&meant), "and"));
                self.refuse(Diagnostic::new(message, hint), place, into);
            }
            _ => match settings::ALL.iter().find(|setting| setting.key == meant) {
                Some(setting) => self.insert(setting.key, place, value, into),
                None => self.refuse(unknown(keys, name_text), place, into),
            },
        }
    }

    /// `models.NAME = …`, each with the keys of `model`.
    fn models(&mut self, keys: Keys<'_>, models: &DeTable<'_>, place: Place, into: &mut Table) {
        if into.first_under("endpoint.model.").is_some() {
            // `model` sorts before `models`, so it has been read by now.
            let diagnostic = Diagnostic::new("`model` is set too", "keep one of `model` and `models`");
            self.refuse(diagnostic, place, into);
            return;
        }
        let mut models: Vec<_> = models.iter().collect();
        models.sort_by_key(|(name, _)| name.span().start);
        for (name, model) in models {
            let shown = join(keys.shown, name.get_ref());
            let place = self.place(name.span().start, &shown);
            let mut table = Table::empty(Some(place.clone()));
            match model.get_ref() {
                DeValue::Table(model) => {
                    self.table(Keys { meant: "endpoint.model", shown: &shown }, model, &mut table);
                }
                _ => self.insert("endpoint.model.path", place, model, &mut table),
            }
            into.faulty |= table.faulty;
            into.models.push((name.get_ref().to_string(), table));
        }
    }

    /// `input.NAME = { … }`
    fn inputs(&mut self, keys: Keys<'_>, inputs: &DeTable<'_>, into: &mut Table) {
        let mut inputs: Vec<_> = inputs.iter().collect();
        inputs.sort_by_key(|(name, _)| name.span().start);
        for (name, input) in inputs {
            let shown = join(keys.shown, name.get_ref());
            let place = self.place(name.span().start, &shown);
            let mut table = Table::empty(Some(place.clone()));
            let DeValue::Table(parts) = input.get_ref() else {
                let hint = format!("write `[{shown}]` with {}", list(INPUT_KEYS, "and"));
                self.refuse(Diagnostic::new("is not a table", hint), place, into);
                continue;
            };
            self.parts(&shown, &INPUT_KEYS, parts, &mut table);
            into.inputs.push((name.get_ref().to_string(), table));
        }
    }

    /// The values of a table that is no setting's.
    fn parts(&mut self, shown: &str, keys: &[&'static str], parts: &DeTable<'_>, into: &mut Table) {
        for (part, value) in parts {
            let place = self.place(part.span().start, &join(shown, part.get_ref()));
            match keys.iter().find(|key| **key == part.get_ref()) {
                Some(key) => self.insert(key, place, value, into),
                None => {
                    let hint = match similar(part.get_ref(), keys.iter().copied()) {
                        Some(key) => format!("did you mean `{key}`?"),
                        None => format!("known here are {}", list(keys.iter().copied(), "and")),
                    };
                    self.refuse(Diagnostic::new("unknown key", hint), place, into);
                }
            }
        }
    }

    fn insert(&mut self, key: &'static str, place: Place, value: &Spanned<DeValue<'_>>, into: &mut Table) {
        match toml::Value::deserialize(value.clone().into_deserializer()) {
            Ok(value) => {
                into.values.insert(key, Entry { place, value });
            }
            // A number that TOML allows and 64 bits do not hold.
            Err(error) => {
                let message = error.message().replace('\n', ", ");
                self.refuse(Diagnostic::new(message, "write a smaller number"), place, into);
            }
        }
    }

    fn refuse(&mut self, diagnostic: Diagnostic, place: Place, from: &mut Table) {
        from.faulty = true;
        self.problems.push(diagnostic.at(place));
    }

    /// Whether a line gives a key a text without quotes: `name = iris`.
    fn is_bare_word(&self, line: usize) -> bool {
        let Some((_, value)) = self.text.lines().nth(line - 1).and_then(|line| line.split_once('=')) else {
            return false;
        };
        let value = value.trim();
        value.starts_with(|c: char| c.is_alphabetic() || "./~@".contains(c))
            && !["true", "false"].contains(&value)
    }

    fn place(&self, offset: usize, key: &str) -> Place {
        let line = self.line(offset);
        Place { file: self.number, line, text: format!("{}:{line}: `{key}`", self.path.display()) }
    }

    fn line(&self, offset: usize) -> usize {
        1 + self.ends.partition_point(|end| *end < offset)
    }
}

/// Other servers' names for a setting.
const ALIASES: [(&str, &str); 5] = [
    ("handler", "endpoint.plugin"),
    ("component", "endpoint.plugin"),
    ("timeout", "endpoint.limits.request_timeout"),
    ("max_body_size", "endpoint.limits.body"),
    ("workers", "endpoint.model.instances"),
];

/// The diagnostic of an unknown key.
fn unknown(table: Keys<'_>, name: &str) -> Diagnostic {
    let elsewhere = settings::ALL
        .iter()
        .map(|setting| setting.key)
        .find(|key| key.rsplit_once('.').is_some_and(|(_, last)| last == name));
    let alias = ALIASES.iter().find(|(alias, _)| *alias == name).map(|(_, meant)| *meant);
    let siblings = children(table.meant);
    let hint = match (alias.or(elsewhere), similar(name, siblings.iter().copied())) {
        (Some(key), _) => format!("did you mean `{key}`?"),
        (None, Some(sibling)) => format!("did you mean `{sibling}`?"),
        (None, None) => format!("known here are {}", list(siblings, "and")),
    };
    Diagnostic::new("unknown key", hint)
}

/// The names that the table `key` may hold; of the root, if it is empty.
fn children(key: &str) -> Vec<&'static str> {
    let prefix = if key.is_empty() { String::new() } else { format!("{key}.") };
    let mut names: Vec<&str> = settings::ALL
        .iter()
        .filter_map(|setting| setting.key.strip_prefix(&prefix)?.split('.').next())
        .filter(|name| !name.is_empty())
        // Not settings but tables, see `Walker::models` and `Walker::inputs`.
        .chain(["ensemble", "input", "models"].into_iter().filter(|_| key == "endpoint"))
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn is_table(key: &str) -> bool {
    settings::ALL
        .iter()
        .any(|setting| setting.key.strip_prefix(key).is_some_and(|rest| rest.starts_with('.')))
}

fn join(table: &str, name: &str) -> String {
    if table.is_empty() { name.to_owned() } else { format!("{table}.{name}") }
}
