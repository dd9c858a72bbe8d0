//! Names of interfaces with their versions: found in a component, and compared.
//!
//! In: a component's bytes; names such as `modelhost:handler/types@0.1.0`. Out: whether two are of one line.
//! Invariant: two versions are of one line exactly where wasmtime's linker takes one for the other.

use wasmparser::{Parser, Payload};

/// The last draft of WASI 0.3, which differs from the release in its name alone. Spin 4.0 has it.
pub(super) const DRAFT: &str = "0.3.0-rc-2026-03-15";

/// Names each export and import of a component itself, not of one inside of it; whether all of it could be
/// read.
pub(super) fn each<'a>(bytes: &'a [u8], mut found: impl FnMut(&'a str, bool)) -> bool {
    let (mut is_whole, mut depth) = (false, 0_usize);
    for payload in Parser::new(0).parse_all(bytes).map_while(Result::ok) {
        match payload {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) if depth == 0 => is_whole = true,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentExportSection(exports) if depth == 0 => {
                exports.into_iter().flatten().for_each(|it| found(it.name.name, true));
            }
            Payload::ComponentImportSection(imports) if depth == 0 => {
                imports.into_iter().flatten().for_each(|it| found(it.name.name, false));
            }
            _ => {}
        }
    }
    is_whole
}

/// An interface's name without its version, and the version; empty if there is none.
pub(super) fn parts(name: &str) -> (&str, &str) {
    name.rsplit_once('@').unwrap_or((name, ""))
}

/// Major, minor and patch. `None` for a version before a release (`0.2.0-draft`), or what is no version.
pub(super) fn numbers(version: &str) -> Option<[u64; 3]> {
    let released = version.split_once('+').map_or(version, |(released, _build)| released);
    let mut numbers = released.split('.').map(|number| number.parse().ok());
    let found = [numbers.next()??, numbers.next()??, numbers.next()??];
    numbers.next().is_none().then_some(found)
}

/// Whether two versions are compatible: the same major one, below 1 the same minor one, below 0.1 and before
/// a release the very same.
pub(super) fn is_line(version: &str, other: &str) -> bool {
    match (numbers(version), numbers(other)) {
        (None, Some([0, 3, _])) => version == DRAFT,
        (Some([0, 0, _]), Some(_)) | (None, _) | (_, None) => version == other,
        (Some([0, minor, _]), Some([major, other, _])) => (major, other) == (0, minor),
        (Some([major, ..]), Some([other, ..])) => major == other,
    }
}

/// Whether two names of interfaces are of one interface, in versions that are compatible: `0.2.3` and
/// `0.2.12`.
pub(super) fn is_same(name: &str, other: &str) -> bool {
    let ((interface, version), (others, another)) = (parts(name), parts(other));
    interface == others && is_line(version, another)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_of_one_line_where_the_linker_takes_them_so() {
        for (version, other, expected) in [
            ("0.1.0", "0.1.0", true),
            ("0.1.0", "0.1.9", true),
            ("0.1.9", "0.1.0", true),
            ("0.2.3", "0.2.12", true),
            ("0.1.0", "0.2.0", false),
            ("0.1.0", "1.1.0", false),
            ("1.1.0", "0.1.0", false),
            ("1.0.0", "1.4.2", true),
            ("1.0.0", "2.0.0", false),
            ("0.0.1", "0.0.1", true),
            ("0.0.1", "0.0.2", false),
            ("0.1.0+one", "0.1.4", true),
            ("0.2.0-draft", "0.2.0", false),
            ("0.2.0-rc-2024-10-28", "0.2.0-rc-2024-10-28", true),
            ("0.2.0-rc-2024-10-28", "0.2.0-rc-2025-10-28", false),
            ("0.3.0-rc-2026-03-15", "0.3.0", true),
            ("0.3.0-rc-2025-09-16", "0.3.0", false),
            ("0.1", "0.1.0", false),
            ("", "0.1.0", false),
            ("", "", true),
        ] {
            let [name, others] = [version, other].map(|it| format!("a:b/c@{it}"));
            assert_eq!(is_same(&name, &others), expected, "{version} {other}");
        }
        assert!(!is_same("a:b/c@0.1.0", "a:b/d@0.1.0") && is_same("a:b/c", "a:b/c"));
    }
}
