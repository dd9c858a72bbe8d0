//! SIMD in the guests: the ones in Rust are compiled for it, and their loops over numbers use it. The interpreters of Python
//! and JavaScript come compiled, without it.

use std::path::Path;

use e2e::{component, root};
use wasmparser::{Parser, Payload};

/// What a component's core modules say of SIMD.
#[derive(Debug, Default)]
struct Simd {
    /// The compiler's note that it may use it (the custom section `target_features`).
    is_target: bool,
    /// Instructions on vectors.
    instructions: usize,
}

/// The first byte of every instruction on vectors.
const VECTOR_PREFIX: u8 = 0xfd;

/// The entry of `target_features` that says so: used, and a name of seven bytes.
const USED: &[u8] = b"+\x07simd128";

fn simd(component: &Path) -> Simd {
    let bytes = std::fs::read(component).unwrap();
    let mut found = Simd::default();
    for payload in Parser::new(0).parse_all(&bytes) {
        match payload.unwrap() {
            Payload::CodeSectionEntry(body) => {
                for operator in body.get_operators_reader().unwrap().into_iter_with_offsets() {
                    let (_, offset) = operator.unwrap();
                    found.instructions += usize::from(bytes[offset] == VECTOR_PREFIX);
                }
            }
            Payload::CustomSection(section) if section.name() == "target_features" => {
                found.is_target |= section.data().windows(USED.len()).any(|entry| entry == USED);
            }
            _ => {}
        }
    }
    found
}

#[test]
fn every_handler_in_rust_is_compiled_for_simd() {
    let stem = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let listed = |folder: &str| -> Vec<String> {
        let entries = std::fs::read_dir(root().join(folder)).unwrap();
        entries.map(|entry| stem(&entry.unwrap().path())).collect()
    };
    let tests = listed("tests/guests/examples").into_iter().map(|name| format!("tests/{name}"));
    // Those that are libraries lie with the others of their kind.
    let examples = listed("examples").into_iter().map(|name| match name.ends_with("-library") {
        true => format!("library/{name}"),
        false => name,
    });
    let libraries = ["image", "outbound", "tensor", "tokenizer"].map(|name| format!("library/{name}"));
    let all: Vec<String> = examples.chain(tests).chain(libraries).collect();
    assert!(all.len() > 30, "{all:?}");
    for name in all {
        let found = simd(&component(&name));
        assert!(found.is_target, "{name}: {found:?}; hint: `GUEST_FLAGS` in scripts/guest-toolchain.sh");
    }
    // Loops over the elements of tensors and images.
    for name in ["iris-wasm", "tests/image", "tests/normalise", "tests/encoder"] {
        let found = simd(&component(name));
        assert!(found.instructions > 0, "{name}: {found:?}");
    }
}

/// If this fails, a newer release of componentize-py or of jco has SIMD: write it down where the message says.
#[test]
fn the_interpreters_come_without_simd() {
    for name in ["tests/iris_py", "tests/iris_js"] {
        let found = simd(&component(name));
        assert_eq!(found.instructions, 0, "{name}: {found:?}; hint: docs/decisions/0011-builds-and-tests.md");
    }
}
