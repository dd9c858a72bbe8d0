//! Components in parts: what is shared, what stays, and forms that are left whole.

use wasmparser::{Validator, WasmFeatures};

use super::*;

const ALL: Sizes = Sizes { library: 0, interpreter: 0 };

/// The same of a component of any size.
pub(in crate::plugin) fn split_small(component: &[u8]) -> Option<Split<'_>> {
    split_by(component, ALL)
}

/// An interpreter with `text` in its memory and `number` in a variable, and a library. Each call of `get`
/// adds 3 to the variable, and gives the sum of it and of the text's first byte.
pub(in crate::plugin) fn handler(text: &str, number: u32) -> Vec<u8> {
    wat::parse_str(handler_text(text, number)).unwrap()
}

/// The same inside a component, as a build with libraries makes it, beside one that is small.
pub(in crate::plugin) fn nested_handler(text: &str, number: u32) -> Vec<u8> {
    wat::parse_str(nesting(&handler_text(text, number), "")).unwrap()
}

fn nesting(handler: &str, more: &str) -> String {
    let handler = handler.replacen("(component", "(component $handler", 1);
    format!(
        r#"(component
          (component $library)
          (instance (instantiate $library))
          {handler}
          (instance $it (instantiate $handler))
          (alias export $it "get" (func $get))
          (export "get" (func $get))
          {more})"#
    )
}

fn handler_text(text: &str, number: u32) -> String {
    format!(
        r#"(component
          (core module $interpreter
            (import "library" "add" (func $add (param i32 i32) (result i32)))
            (memory (export "memory") 1)
            (global $variable (mut i32) (i32.const {number}))
            (global $constant i32 (i32.const 3))
            (data (i32.const 8) "{text}")
            (func (export "get") (result i32)
              (global.set $variable (call $add (global.get $variable) (global.get $constant)))
              (call $add (global.get $variable) (i32.load8_u (i32.const 8)))))
          (core module $library
            (func (export "add") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1))))
          (core instance $library (instantiate $library))
          (core instance $interpreter (instantiate $interpreter (with "library" (instance $library))))
          (core module $last (import "interpreter" "get" (func (result i32)))
            (export "get" (func 0)))
          (core instance $last (instantiate $last (with "interpreter" (instance $interpreter))))
          (func (export "get") (result u32) (canon lift (core func $last "get"))))"#
    )
}

fn is_valid(bytes: &[u8]) -> bool {
    Validator::new_with_features(WasmFeatures::all()).validate_all(bytes).is_ok()
}

#[test]
fn code_is_the_same_whatever_is_in_the_memory() {
    let handlers = [handler("a", 1), handler("bc", 2)];
    let [first, second] = [&handlers[0], &handlers[1]].map(|bytes| split_by(bytes, ALL).unwrap());
    assert_eq!(digests(&first), digests(&second));
    assert_eq!(first.modules.len(), 2, "the last one comes after the first instance");
    assert_eq!(first.frame, second.frame);
    for split in [first, second] {
        assert!(is_valid(&split.frame) && split.obstacle.is_none());
        assert!(split.modules.iter().all(|module| is_valid(&module.bytes)));
        assert!(split.states.iter().all(|state| is_valid(&state.module("x", 0))));
    }
}

fn digests(split: &Split<'_>) -> Vec<String> {
    split.modules.iter().map(|module| module.digest.clone()).collect()
}

#[test]
fn modules_of_components_inside_are_those_of_components_alone() {
    let whole = nested_handler("a", 1);
    let (once, inside) = (handler("a", 1), split_by(&whole, ALL).unwrap());
    let alone = split_by(&once, ALL).unwrap();
    assert_eq!(digests(&alone), digests(&inside));
    assert!(is_valid(&inside.frame) && inside.obstacle.is_none());
    for (name, more) in [
        ("a second instance", "(instance (instantiate $handler))"),
        ("it is exported", r#"(export "handler" (component $handler))"#),
        ("it is named inside another", "(component (alias outer 1 $handler (component)))"),
        ("it is given away", r#"(instance (export "c" (component $handler)))"#),
        (
            "an alias of it",
            r#"(component $c (export "c" (component $d)) (component $d))
            (instance $i (instantiate $c)) (alias export $i "c" (component))"#,
        ),
    ] {
        let component = wat::parse_str(nesting(&handler_text("a", 1), more)).unwrap();
        assert!(split_by(&component, ALL).is_none(), "{name}");
    }
    // One with modules of its own is left as it is, and so is a second one with the same modules.
    let own = wat::parse_str(nesting(&handler_text("a", 1), "(core module)")).unwrap();
    assert!(split_by(&own, ALL).is_none());
    let twice =
        nesting(&handler_text("a", 1), &handler_text("a", 1).replacen("(component", "(component $b", 1));
    let twice = wat::parse_str(twice).unwrap();
    let split = split_by(&twice, ALL).unwrap();
    assert_eq!(digests(&split), digests(&alone));
    assert!(is_valid(&split.frame) && split.obstacle.is_some());
    for end in 0..whole.len() {
        let _ = split_by(&whole[..end], ALL);
        let mut changed = whole.clone();
        changed[end] ^= 0x41;
        let _ = split_by(&changed, ALL);
    }
}

#[test]
fn small_handlers_are_left_whole() {
    assert!(split(&handler("a", 1)).is_none());
    let libraries = Sizes { interpreter: usize::MAX, ..ALL };
    assert_eq!(split_by(&handler("a", 1), libraries).unwrap().modules.len(), 1);
}

#[test]
fn unusual_forms_are_left_whole_and_broken_ones_harm_nothing() {
    let module =
        r#"(core module $m (import "x" "f" (func)) (memory (export "m") 1) (data (i32.const 0) "x"))"#;
    let given = r#"(with "x" (instance $x))"#;
    let with = |text: &str| {
        let x = r#"(core module $f (func (export "f"))) (core instance $x (instantiate $f))"#;
        wat::parse_str(format!("(component {module} {x} {text})")).unwrap()
    };
    let once = format!("(core instance (instantiate $m {given}))");
    assert!(split_by(&with(&once), ALL).is_some());
    for (name, component) in [
        ("a type of its own", with("(core type (func))")),
        ("two instances", with(&once.repeat(2))),
        ("no instance", with("")),
        ("an imported module", with(r#"(import "m" (core module))"#)),
        ("a module of another's", with(&format!("{once} (component (alias outer 1 $m (core module)))"))),
        ("a module that is exported", with(&format!(r#"{once} (export "m" (core module $m))"#))),
        (
            "a module that is given away",
            with(&format!(
                r#"{once} (component $c (import "m" (core module (export "f" (func)))))
                (instance (instantiate $c (with "m" (core module $f))))"#
            )),
        ),
        ("two instances of a library", with(&format!("{once} (core instance (instantiate $f))"))),
        (
            "more globals than any tool makes",
            wat::parse_str(format!(
                r#"(component (core module (func (export "f")) {}))"#,
                "(global i32 (i32.const 1))".repeat(5000)
            ))
            .unwrap(),
        ),
        ("the header of something else", [b"\0asm\x0e\0\x01\0", &with(&once)[8..]].concat()),
        ("more sections than any tool makes", [with(&once), b"\0\x01\0".repeat(2000)].concat()),
    ] {
        assert!(split_by(&component, ALL).is_none(), "{name}");
    }
    let whole = handler("a", 1);
    for end in 0..whole.len() {
        let _ = split_by(&whole[..end], ALL);
        let mut changed = whole.clone();
        changed[end] ^= 0x41;
        let _ = split_by(&changed, ALL);
    }
}
