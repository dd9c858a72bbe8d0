//! Handlers and libraries in text, put together.

use super::*;

/// A component that exports a function of numbers, and calls what `imports` has of them.
fn part(imports: &[&str], export: &str, random: &str) -> Vec<u8> {
    let random = match random {
        "" => String::new(),
        name => format!(
            "(import \"wasi:random/random@0.2.0\" (instance (export \"{name}\" (func (result u64)))))"
        ),
    };
    importing(imports, export, &random)
}

/// The same, with further imports in text.
fn importing(imports: &[&str], export: &str, more: &str) -> Vec<u8> {
    let function = "(func (param \"x\" u32) (result u32))";
    let imported =
        imports.iter().map(|name| format!("(import \"{name}\" (instance (export \"of\" {function})))"));
    let imported: String = imported.collect();
    let text = format!(
        r#"(component {imported} {more}
            (core module $m (func (export "of") (param i32) (result i32) local.get 0))
            (core instance $i (instantiate $m))
            (func $of (param "x" u32) (result u32) (canon lift (core func $i "of")))
            (instance $e (export "of" (func $of)))
            (export "{export}" (instance $e)))"#
    );
    wat::parse_str(text).unwrap()
}

/// An import of WASI's streams in this version, of which a part takes one method.
fn streams(version: &str, method: &str) -> String {
    format!(
        r#"(import "wasi:io/streams@{version}" (instance
            (export "input-stream" (type $stream (sub resource)))
            (export "[method]input-stream.{method}"
                (func (param "self" (borrow $stream)) (param "len" u64) (result u64)))))"#
    )
}

fn library(name: &str, bytes: Vec<u8>) -> Library {
    Library { name: name.to_owned(), bytes }
}

/// Puts them together; the names of those that are left out besides.
fn composed<'a>(handler: &[u8], libraries: &'a [Library]) -> (Result<Option<Names>, String>, Vec<&'a str>) {
    let mut idle = Vec::new();
    let composed = compose(handler, libraries, &mut idle);
    let names = composed.map(|bytes| bytes.map(|bytes| Names::of(&bytes).unwrap()));
    (names.map_err(|error| format!("{error:#}")), idle)
}

fn names(of: &[(String, ComponentExportKind)]) -> Vec<&str> {
    of.iter().map(|(name, _)| name.as_str()).collect()
}

const SUMS: &str = "acme:sums/sums@0.1.0";
const ROOTS: &str = "acme:roots/roots@0.1.2";
const HANDLER: &str = "acme:handler/run@0.1.0";

#[test]
fn what_is_left_is_imported_once_with_all_that_any_part_takes() {
    let libraries = [
        library("sums", part(&[], SUMS, "get-random-u64")),
        library("roots", part(&[SUMS], ROOTS, "")),
        library("other", part(&[], "acme:other/other", "get-random-u64")),
    ];
    // A later version of the same line serves.
    let handler = part(&["acme:roots/roots@0.1.0"], HANDLER, "get-other-u64");
    let (made, idle) = composed(&handler, &libraries);
    let made = made.unwrap().expect("a component of three parts");
    assert_eq!(names(&made.imports), ["wasi:random/random@0.2.0"]);
    assert_eq!(names(&made.exports), [HANDLER]);
    assert_eq!(idle, ["other"]);
    // Both functions are in it.
    let mut idle = Vec::new();
    let bytes = compose(&handler, &libraries, &mut idle).unwrap().unwrap();
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.contains("get-random-u64") && text.contains("get-other-u64"));
}

/// A library may take handles of the host as its handler does, in the same version and in another.
#[test]
fn resources_of_the_host_are_imported_once_in_each_version() {
    let libraries = [library("sums", importing(&[], SUMS, &streams("0.2.12", "read")))];
    for (version, expected) in [
        ("0.2.12", vec!["wasi:io/streams@0.2.12"]),
        ("0.2.4", vec!["wasi:io/streams@0.2.12", "wasi:io/streams@0.2.4"]),
    ] {
        let handler = importing(&[SUMS], HANDLER, &streams(version, "skip"));
        let bytes = compose(&handler, &libraries, &mut Vec::new()).unwrap().unwrap();
        assert_eq!(names(&Names::of(&bytes).unwrap().imports), expected);
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.contains("input-stream.read") && text.contains("input-stream.skip"));
    }
}

#[test]
fn a_handler_that_takes_nothing_stays_as_it_is() {
    let handler = part(&[], HANDLER, "get-random-u64");
    assert!(matches!(composed(&handler, &[]), (Ok(None), idle) if idle.is_empty()));
    let libraries = [library("sums", part(&[], SUMS, ""))];
    assert!(matches!(composed(&handler, &libraries), (Ok(None), idle) if idle == ["sums"]));
}

#[test]
fn what_does_not_fit_is_said_on_one_line() {
    let sums = || library("sums", part(&[], SUMS, ""));
    let text = library("text", part(&[], "acme:text/text", ""));
    let typed = wat::parse_str(format!(
        r#"(component (import "{SUMS}" (instance (export "of" (func (param "x" string) (result u32))))))"#
    ));
    for (handler, libraries, expected) in [
        (
            part(&["modelhost:image/images@0.1.0"], HANDLER, ""),
            vec![],
            "the handler imports `modelhost:image/images@0.1.0`, which no library exports\n  hint: `[build]` with `with = \
             [\"image\"]` in modelhost.toml puts the component in that exports it",
        ),
        (
            part(&[SUMS], HANDLER, ""),
            vec![text],
            "the handler imports `acme:sums/sums@0.1.0`, which no library exports\n  hint: `[build]` with `with = \
             [\"path/of/library.wasm\"]`",
        ),
        (
            part(&["acme:sums/sums@0.2.0"], HANDLER, ""),
            vec![sums()],
            "the handler imports `acme:sums/sums@0.2.0`, and library `sums` exports `acme:sums/sums@0.1.0`\n  hint: build both",
        ),
        (
            part(&["acme:sums/sums@0.1.1"], HANDLER, ""),
            vec![sums()],
            "the handler imports `acme:sums/sums@0.1.1`, and library `sums` exports `acme:sums/sums@0.1.0`\n",
        ),
        (
            part(&[SUMS], HANDLER, ""),
            vec![sums(), library("again", part(&[], SUMS, ""))],
            "library `sums` and library `again` both export `acme:sums/sums`",
        ),
        (
            part(&[ROOTS], HANDLER, ""),
            vec![library("roots", part(&[SUMS], ROOTS, "")), sums()],
            "library `roots` imports `acme:sums/sums@0.1.0`, which no library before it exports\n",
        ),
        (typed.unwrap(), vec![sums()], "the handler does not fit the other parts: "),
        (b"no component".to_vec(), vec![], "the handler is no component: "),
        (
            part(&[], HANDLER, ""),
            vec![library("none", b"\0asm\x01\0\0\0".to_vec())],
            "library `none` is no component: ",
        ),
    ] {
        let (made, _) = composed(&handler, &libraries);
        let error = made.err().expect("what does not fit is refused");
        assert!(error.starts_with(expected), "expected `{expected}`, got `{error}`");
        assert!(error.lines().count() <= 2, "{error}");
    }
}

#[test]
fn versions_of_one_line_serve_earlier_ones() {
    for (import, export, serves) in [
        ("a:b/c@0.1.0", "a:b/c@0.1.0", true),
        ("a:b/c@0.1.0", "a:b/c@0.1.3", true),
        ("a:b/c@0.1.3", "a:b/c@0.1.0", false),
        ("a:b/c@0.1.0", "a:b/c@0.2.0", false),
        ("a:b/c@1.2.0", "a:b/c@1.3.0", true),
        ("a:b/c@1.3.0", "a:b/c@1.2.9", false),
        ("a:b/c@1.0.0", "a:b/c@2.0.0", false),
        ("a:b/c@1.0.0-rc", "a:b/c@1.0.0-rc", true),
        ("a:b/c@1.0.0-rc", "a:b/c@1.0.0", false),
        ("a:b/c", "a:b/c", true),
        ("a:b/c", "a:b/c@0.1.0", false),
    ] {
        assert_eq!(is_served(import, export), serves, "{import} of {export}");
    }
}
