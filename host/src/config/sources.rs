//! Where values come from: flags and variables first, then the config file; and what was wrong with them.
//!
//! Place in the flow: `config.rs` makes [`Sources`] of the command line, the environment and the file; the
//! files beside this one take the values of their settings from it and report to it what does not fit
//! together.
//! Invariant: a flag wins over its environment twin, that over the file, that over the default.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::file::Table;
use super::problem::{AtPlace as _, Place, Problem, Problems};
use super::settings::{self as set, Kind, Row, Scope, Setting};
use crate::values::{Diagnostic, Env, Origin, RawValue};

/// The command line: texts as typed, not judged yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides(BTreeMap<&'static str, Vec<String>>);

impl Overrides {
    /// Notes the values of `setting`'s flag; only a [`Kind::List`] may have more than one.
    pub fn set(&mut self, setting: &'static Setting, values: Vec<String>) {
        self.0.insert(setting.flag, values);
    }

    /// Whether the flag of one of these is given.
    pub fn has_any(&self, settings: &[&Setting]) -> bool {
        settings.iter().any(|setting| self.0.contains_key(setting.flag))
    }
}

/// The values of flags and variables, by the flag's name, each with its place.
pub(super) type Typed = BTreeMap<&'static str, (Place, toml::Value)>;

pub(super) fn typed(overrides: &Overrides, env: Env<'_>, scope: Scope) -> Typed {
    let mut typed = Typed::new();
    for setting in set::ALL.iter().filter(|setting| setting.applies_to(scope)) {
        let place = Place::outside;
        let list = matches!(setting.kind, Kind::List(_));
        let given = match overrides.0.get(setting.flag) {
            Some(values) => Some((place(format!("--{}", setting.flag)), values.clone())),
            None => env(&setting.variable()).filter(|value| !value.is_empty()).map(|value| {
                let values = if list { value.split(',').map(str::to_owned).collect() } else { vec![value] };
                (place(setting.variable()), values)
            }),
        };
        if let Some((place, mut values)) = given {
            let value = match list {
                true => values.into(),
                false => values.pop().unwrap_or_default().into(),
            };
            typed.insert(setting.flag, (place, value));
        }
    }
    typed
}

/// Where values come from, and what was wrong with them so far.
pub(super) struct Sources<'a> {
    pub(super) typed: Typed,
    pub(super) env: Env<'a>,
    /// The config file's folder.
    pub(super) base: PathBuf,
    pub(super) problems: Vec<Problem>,
    /// Files that hold keys.
    pub(super) secret: Vec<PathBuf>,
    /// The command that they are for.
    pub(super) scope: Scope,
}

impl<'a> Sources<'a> {
    pub(super) fn new(typed: Typed, env: Env<'a>) -> Sources<'a> {
        let (base, scope) = (PathBuf::new(), Scope::Serve);
        Sources { typed, env, base, problems: Vec::new(), secret: Vec::new(), scope }
    }

    /// The configuration that was read, unless something was wrong with it.
    pub(super) fn judged<T>(self, config: T) -> Result<T, Problems> {
        if self.problems.is_empty() { Ok(config) } else { Err(Problems::new(self.problems)) }
    }

    /// The value of `row`. Where it is set wrongly, that is recorded, and the default stands in.
    pub(super) fn get<T: Clone>(&mut self, row: &'static Row<T>, table: &Table) -> T {
        let (place, raw) = match (self.typed.get(row.flag), table.get(row.key)) {
            (Some((place, value)), _) => {
                let origin = if place.text == row.variable() { Origin::Variable } else { Origin::Flag };
                let value = Cow::Borrowed(value);
                (place, RawValue { value, base: Path::new(""), origin, env: self.env })
            }
            (None, Some(entry)) => (&entry.place, self.raw(&entry.value)),
            (None, None) => return row.default(),
        };
        (row.read)(&raw).unwrap_or_else(|diagnostic| {
            let problem = diagnostic.at(place.clone());
            self.problems.push(problem);
            row.default()
        })
    }

    /// A value of the file.
    pub(super) fn raw<'b>(&'b self, value: &'b toml::Value) -> RawValue<'b> {
        RawValue { value: Cow::Borrowed(value), base: &self.base, origin: Origin::File, env: self.env }
    }

    /// Whether `setting` is set at all, rightly or not.
    pub(super) fn has(&self, setting: &Setting, table: &Table) -> bool {
        self.place(setting, table).is_some()
    }

    /// Whether `setting` is set outside the config file.
    pub(super) fn is_typed(&self, setting: &Setting) -> bool {
        self.typed.contains_key(setting.flag)
    }

    /// Whether the value that counts stands in the config file.
    pub(super) fn is_in_file(&self, setting: &Setting, table: &Table) -> bool {
        !self.typed.contains_key(setting.flag) && table.get(setting.key).is_some()
    }

    /// Where the value that counts is set.
    pub(super) fn place(&self, setting: &Setting, table: &Table) -> Option<Place> {
        let typed = self.typed.get(setting.flag).map(|(place, _)| place);
        typed.or_else(|| table.get(setting.key).map(|entry| &entry.place)).cloned()
    }

    /// Records a problem; without a place it concerns the command line as a whole.
    pub(super) fn report(&mut self, place: Option<Place>, diagnostic: Diagnostic) {
        let place = place.unwrap_or_else(|| Place::outside("command line".to_owned()));
        self.problems.push(diagnostic.at(place));
    }
}
