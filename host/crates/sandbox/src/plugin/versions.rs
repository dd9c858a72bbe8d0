//! Versions of interfaces: which of them one host serves, and what is said of those that it does not.
//!
//! Place in the flow: asked by names alone when a component is checked ([`refused`]), and again when it does
//! not link ([`LoadError::or_later`]). In: names with versions, `modelhost:handler/types@0.1.0`. Out: whether
//! they are of one line, errors with both versions.
//! Invariant: two versions are of one line exactly where wasmtime's linker takes one for the other,
//! [`released`] components included, so that what is said here is what happens there.

use std::borrow::Cow;

use super::bindings::{PACKAGE, VERSION};
use super::load_error::{LoadError, quoted};
use super::names::{self, DRAFT, is_line, numbers, parts};
use super::outline::Outline;
use crate::text;

/// A component whose imports and exports of WASI's last draft of 0.3 are those of the release: of two
/// versions that differ in what follows a `+`, the linker takes one for the other. Nothing else of it is
/// changed.
pub(super) fn released(bytes: &[u8]) -> Cow<'_, [u8]> {
    let mut found = Vec::new();
    names::each(bytes, |name, _| {
        if name.starts_with("wasi:") && parts(name).1 == DRAFT {
            let start = name.as_ptr().addr().wrapping_sub(bytes.as_ptr().addr());
            found.push(start + name.len() - DRAFT.len() + "0.3.0".len());
        }
    });
    let mut bytes = Cow::Borrowed(bytes);
    for at in found {
        if let Some(byte) = bytes.to_mut().get_mut(at) {
            *byte = b'+';
        }
    }
    bytes
}

/// The contract's package, and what the package's names begin with.
fn is_contract(name: &str) -> bool {
    name.strip_prefix(PACKAGE).is_some_and(|rest| rest.starts_with('/'))
}

/// Names of the contract that a component has, in order, those that `is` this.
fn of_contract(outline: &Outline, is: impl Fn(&str) -> bool) -> Vec<String> {
    let names = outline.exports.iter().chain(&outline.imports);
    names.filter(|name| is_contract(name) && is(parts(name).1)).cloned().collect()
}

/// The error of a component that names a line of the contract which this host does not have.
pub(super) fn refused(outline: &Outline) -> Option<LoadError> {
    let found = of_contract(outline, |version| !is_line(version, VERSION));
    let first = parts(found.first()?).1;
    let is_older = numbers(first).is_none_or(|version| Some(version) < numbers(VERSION));
    let hint = if is_older { OLDER_HINT } else { LATER_HINT };
    let wanted = if first.is_empty() { "one without a version".to_owned() } else { first.to_owned() };
    Some(error(&found, &wanted, "", hint))
}

/// Whether a version of this host's line comes after the host's.
fn is_later(version: &str) -> bool {
    numbers(version) > numbers(VERSION)
}

impl LoadError {
    /// The same, or that the component is of a later version than the host, if it does not fit for that.
    pub(super) fn or_later(self, outline: &Outline) -> LoadError {
        let lacks = match &self {
            LoadError::Link(cause) => text::on_one_line(&format!("{cause:#}")),
            LoadError::Export { export, cause } => {
                text::on_one_line(&format!("`{export}` has another type there: {cause:#}"))
            }
            _ => return self,
        };
        later(outline, &lacks).unwrap_or(self)
    }
}

/// The error of a component that does not fit, if that may be because it is of a later version.
fn later(outline: &Outline, lacks: &str) -> Option<LoadError> {
    let found = of_contract(outline, is_later);
    let wanted = found.iter().map(|name| parts(name).1).max_by_key(|version| numbers(version))?.to_owned();
    Some(error(&found, &wanted, &format!(": {lacks}"), LATER_HINT))
}

/// The error of a component that names this interface, which the host does not have, if a later version does.
pub(super) fn added(name: &str) -> Option<LoadError> {
    let wanted = parts(name).1;
    is_later(wanted).then(|| error(&[name.to_owned()], wanted, ", without this interface", LATER_HINT))
}

/// The error of a component that names these, of which the host lacks something.
fn error(found: &[String], wanted: &str, lacks: &str, hint: &'static str) -> LoadError {
    let by = quoted(found);
    let said = format!("version {wanted} of the handler contract, by {by}; this host has {VERSION}{lacks}");
    LoadError::Version { said, hint }
}

const LATER_HINT: &str = "serve it with a newer host, or build the handler against the host's version";
const OLDER_HINT: &str = "build the handler against the host's version";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draft_that_became_the_release_is_taken_for_it() {
        let draft = wat::parse_str(format!(
            r#"(component (import "wasi:http/types@{DRAFT}" (instance)) (import "own:api/types@{DRAFT}" (instance))
                (component (import "wasi:http/types@{DRAFT}" (instance))))"#
        ))
        .unwrap();
        let changed = released(&draft);
        let expected = ["wasi:http/types@0.3.0+rc-2026-03-15", "own:api/types@0.3.0-rc-2026-03-15"];
        assert_eq!(Outline::of(&changed).imports, expected);
        let differing = draft.iter().zip(&*changed).filter(|(old, new)| old != new).count();
        assert_eq!((differing, changed.len()), (1, draft.len()));
        let other = wat::parse_str(r#"(component (import "wasi:http/types@0.3.0" (instance)))"#).unwrap();
        assert!(matches!(released(&other), Cow::Borrowed(_)));
    }

    /// A component with these exports and imports.
    fn said(exports: &[&str], imports: &[&str]) -> [Option<String>; 2] {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let outline = Outline { exports: owned(exports), imports: owned(imports), is_whole: true };
        [refused(&outline), later(&outline, "something")].map(|error| error.map(|error| error.to_string()))
    }

    #[test]
    fn what_is_said_has_interfaces_and_both_versions() {
        let init = format!("{PACKAGE}/init@");
        let [models, types] = ["models", "types"].map(|name| format!("{PACKAGE}/{name}@0.1.9"));
        let ours = format!("{init}{VERSION}");
        assert_eq!(said(&[&ours], &["wasi:io/poll@9.0.0", "modelhost:handlers/x@9.0.0"]), [None, None]);
        for (version, wanted, hint) in [
            ("0.2.0", "0.2.0", LATER_HINT),
            ("1.0.0", "1.0.0", LATER_HINT),
            ("0.0.9", "0.0.9", OLDER_HINT),
            ("0.2.0-draft", "0.2.0-draft", OLDER_HINT),
        ] {
            let name = format!("{init}{version}");
            let expected = format!(
                "needs version {wanted} of the handler contract, by `{name}`; this host has {VERSION}\n  hint: {hint}"
            );
            assert_eq!(said(&[&name, &ours], &[])[0].as_deref(), Some(&*expected));
        }
        let expected = format!(
            "needs version 0.1.9 of the handler contract, by `{models}`, `{types}`; this host has {VERSION}: something\n  \
             hint: {LATER_HINT}"
        );
        assert_eq!(said(&[&ours], &[&models, &types]), [None, Some(expected)]);
    }
}
