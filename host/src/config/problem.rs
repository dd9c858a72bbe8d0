//! What is wrong with the configuration: one report of everything, never only the first thing.
//!
//! Place in the flow: every reader under `config/` adds to it, `main.rs` prints it and exits with 2.
//! Invariant: each problem is one line that names its place (a flag, a variable, or file, line and key), says
//! what is wrong and ends in a `hint:` that says what to write instead. What is granted to handlers is never
//! shown: of `MODELHOST_ENV` nothing at all, of other grants the name. Nor is what stands in a key's place.

use std::fmt;

use crate::values::Diagnostic;

/// Everything that is wrong, in the order of the files, flags and variables first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    place: Place,
    diagnostic: Diagnostic,
}

/// Where a value comes from, or where it is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// Which of the files, in the order in which they are read.
    pub file: usize,
    /// Line in the config file, from 1; 0 stands for what comes before it: flags, variables, the whole file.
    pub line: usize,
    /// As the user knows it: a flag, a variable, or file, line and key.
    pub text: String,
}

impl Place {
    /// A place that is no line of a file: a flag, a variable, a whole file.
    pub(super) fn outside(text: String) -> Place {
        Place { file: 0, line: 0, text }
    }
}

/// A diagnostic becomes a problem of the configuration.
pub(super) trait AtPlace {
    fn at(self, place: Place) -> Problem;
}

impl AtPlace for Diagnostic {
    fn at(self, place: Place) -> Problem {
        Problem { place, diagnostic: self }
    }
}

impl Problem {
    /// Whether it is in a table of the config file, or is the table.
    pub(super) fn is_of(&self, table: &str) -> bool {
        let key = self.place.text.split_once('`').map_or("", |(_, key)| key);
        key.strip_prefix(table).is_some_and(|rest| rest.starts_with(['.', '`']))
    }
}

impl Problems {
    pub(super) fn new(mut found: Vec<Problem>) -> Problems {
        found.sort_by_key(|problem| (problem.place.file, problem.place.line));
        Problems(found)
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.len();
        write!(f, "{count} {} in the configuration", if count == 1 { "problem" } else { "problems" })?;
        for Problem { place, diagnostic: Diagnostic { message, hint } } in &self.0 {
            write!(f, "\n  {}: {message}; hint: {hint}", place.text)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
