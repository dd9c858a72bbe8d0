//! What a component exports and imports, by names alone.
//!
//! Place in the flow: read when a component is loaded or inspected, before it is compiled.
//! In: a component's bytes. Out: names, and what follows from them.

use super::bindings::{HANDLER, INIT, INPUT_SCHEMA};
use super::capabilities;
use super::names::{self, is_same, parts};
use super::stages::Stages;

/// The names that a component exports and imports, in order, as far as they can be read: found without
/// compiling it.
#[derive(Debug, Default)]
pub(super) struct Outline {
    pub(super) exports: Vec<String>,
    pub(super) imports: Vec<String>,
    /// Whether all of it could be read.
    pub(super) is_whole: bool,
}

impl Outline {
    pub(super) fn of(bytes: &[u8]) -> Outline {
        let mut outline = Outline::default();
        outline.is_whole = names::each(bytes, |name, is_export| {
            let names = if is_export { &mut outline.exports } else { &mut outline.imports };
            names.push(name.to_owned());
        });
        outline
    }

    /// Whether it serves requests by `wasi:http` 0.3, in any version of that, and so runs where tasks may
    /// wait for each other.
    pub(super) fn is_concurrent(&self) -> bool {
        let (handler, _) = parts(HANDLER);
        self.exports.iter().any(|name| parts(name).0 == handler)
    }

    /// Whether it says what it takes.
    pub(super) fn has_schema(&self) -> bool {
        self.exports.iter().any(|name| is_same(name, INPUT_SCHEMA))
    }

    /// Whether it has `init`.
    pub(super) fn has_init(&self) -> bool {
        self.exports.iter().any(|name| is_same(name, INIT))
    }

    /// The capabilities that it can use.
    pub(super) fn uses(&self) -> capabilities::Set {
        capabilities::Set::used_by(&self.imports)
    }

    /// Its stages of the contract.
    pub(super) fn stages(&self) -> Stages {
        Stages::among(&self.exports)
    }
}
