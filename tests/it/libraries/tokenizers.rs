//! The library for texts in each language that has it, against the tokens that the package `tokenizers` has found in the same
//! texts, with four kinds of `tokenizer.json`; and files and texts that are hostile.
//!
//! In: `guest-sdk/library/tokenizer/cases`.

use std::fs;
use std::path::Path;

use e2e::clients::finished;
use e2e::{Host, component, root};
use serde_json::{Value, json};

use super::{host, project, with_files};

const KINDS: [&str; 4] = ["wordpiece", "bytelevel", "unigram", "fallback"];

const PYTHON: &str = r#"
import json

from modelhost_guest import Answer, Response, init, post_inference, pre_inference, tokenizer

loaded = {}


@init
def load():
    for name in ("wordpiece", "bytelevel", "unigram", "fallback"):
        loaded[name] = tokenizer.load(f"/mnt/project/{name}.json")


@pre_inference
def encode(sample):
    asked = json.loads(sample.body)
    words = tokenizer.load(asked["file"].encode()) if "file" in asked else loaded[asked["tokenizer"]]
    made = words.encode(**asked["asked"])
    said = {"ids": made.ids.tolist(), "mask": made.mask.tolist(), "types": made.types.tolist()}
    if made.offsets is not None:
        said["offsets"] = made.offsets.tolist()
    said["text"] = words.decode(said["ids"][0]) if said["ids"] else ""
    assert len(words) > 100 and words.id_of(words.token_of(5)) == 5
    raise Answer(Response(said))


@post_inference
def answer(tensors):
    return None
"#;

const JAVASCRIPT: &str = r#"
import { Response, handler } from "modelhost-guest";
import { load } from "modelhost-guest/tokenizer";

const loaded = {};

export const { preInference, postInference } = handler({
  preInference(sample) {
    const { tokenizer, file, asked } = JSON.parse(new TextDecoder().decode(sample.body));
    const words = (loaded[tokenizer] ??= load(new TextEncoder().encode(file)));
    const { texts, special_tokens: specialTokens, ...options } = asked;
    const made = words.encode(texts, { specialTokens, ...options });
    const rows = ({ shape, values }, width = 1) => {
      const numbers = Array.from(values, Number);
      const entries = width === 1 ? numbers : numbers.flatMap((_, at) => (at % 2 ? [] : [numbers.slice(at, at + 2)]));
      return Array.from({ length: shape[0] }, (_, at) => entries.slice(at * shape[1], (at + 1) * shape[1]));
    };
    const said = { ids: rows(made.ids), mask: rows(made.mask), types: rows(made.types) };
    if (made.offsets !== undefined) said.offsets = rows(made.offsets, 2);
    said.text = said.ids.length === 0 ? "" : words.decode(said.ids[0]);
    throw new Response(said);
  },
  postInference: () => undefined,
});
"#;

fn cases() -> Vec<Value> {
    serde_json::from_str(&file("cases")).unwrap()
}

fn file(name: &str) -> String {
    let path = root().join(format!("guest-sdk/library/tokenizer/cases/{name}.json"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn built(project: &Path) -> Host {
    component("library/tokenizer");
    for kind in KINDS {
        fs::write(project.join(format!("{kind}.json")), file(kind)).unwrap();
    }
    with_files(project, &["tokenizer"]);
    finished(&mut host(project, &["build"]), "host build");
    Host::serve(&["--config", project.join("modelhost.toml").to_str().unwrap()])
}

#[test]
fn tokens_in_python() {
    let folder = tempfile::tempdir().unwrap();
    let project = project(folder.path(), "python", "app.py", PYTHON);
    let host = encodes_as_the_package_does(&project);
    // A tokenizer is a handle, not memory, so each instance loads them.
    assert!(host.log().contains("whose handles are in no memory"), "{}", host.log());
}

#[test]
fn tokens_in_go() {
    let folder = tempfile::tempdir().unwrap();
    let program = include_str!("go/tokens.go");
    _ = encodes_as_the_package_does(&project(folder.path(), "go", "handler.go", program));
}

#[test]
fn tokens_in_c() {
    let folder = tempfile::tempdir().unwrap();
    let program = include_str!("c/tokens.c");
    _ = encodes_as_the_package_does(&project(folder.path(), "c", "src/handler.c", program));
}

#[test]
fn tokens_in_zig() {
    let folder = tempfile::tempdir().unwrap();
    let program = include_str!("zig/tokens.zig");
    _ = encodes_as_the_package_does(&project(folder.path(), "zig", "src/handler.zig", program));
}

/// Every case, by a handler that counts places in characters; and what it refuses.
fn encodes_as_the_package_does(project: &Path) -> Host {
    let host = built(project);
    for case in cases() {
        let reply = host.post("/", case.to_string());
        assert_eq!(reply.status, 200, "{case}: {}", reply.text());
        let made: Value = serde_json::from_str(&reply.text()).unwrap();
        assert_eq!(made, case["expected"], "{}: {}", case["tokenizer"], case["asked"]);
    }
    refuses_what_is_hostile(&host);
    host
}

fn refuses_what_is_hostile(host: &Host) {
    let case = cases().swap_remove(3);
    let served = |what: &str| {
        let reply = host.post("/", case.to_string());
        assert_eq!(serde_json::from_str::<Value>(&reply.text()).unwrap(), case["expected"], "after {what}");
    };
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let cut = file("unigram");
    // Of a file that is not the caller's the reason is in the log.
    for broken in ["", "{}", "[1, 2]", &deep, &cut[..cut.len() / 2]] {
        let asked = json!({ "file": broken, "asked": { "texts": ["a"] } });
        host.post("/", asked.to_string()).error(500, "plugin_error", "pre_inference");
        served("a broken file");
    }
    let wrong = json!({ "tokenizer": "wordpiece", "asked": { "texts": ["a"], "truncation": 1 } });
    host.post("/", wrong.to_string()).error(500, "plugin_error", "pre_inference");
    served("options that contradict each other");
    for (texts, padding, said) in [
        (json!(["a b c d e f"]), json!(4), "a text of 8 tokens, expected at most 4"),
        (json!(["a"]), json!(u32::MAX), "no memory for 1 rows of 4294967295 tokens"),
        (json!(["a ".repeat(900_000)]), json!("longest"), "no memory for a text of 1800000 bytes"),
    ] {
        let asked = json!({ "texts": texts, "padding": padding, "truncation": "off" });
        let asked = json!({ "tokenizer": "wordpiece", "asked": asked });
        let text = host.post("/", asked.to_string()).error(400, "invalid_input", "pre_inference");
        assert!(text.contains(said), "{text}");
        served(said);
    }
}

#[test]
fn tokens_in_javascript() {
    let folder = tempfile::tempdir().unwrap();
    let host = built(&project(folder.path(), "js", "handler.js", JAVASCRIPT));
    let kinds: std::collections::HashMap<_, _> = KINDS.map(|kind| (kind, file(kind))).into();
    for mut case in cases() {
        case["file"] = json!(kinds[case["tokenizer"].as_str().unwrap()]);
        let reply = host.post("/", case.to_string());
        let mut made: Value = serde_json::from_str(&reply.text()).unwrap();
        if let Some(offsets) = in_utf16(&case) {
            case["expected"]["offsets"] = offsets;
        } else if made.get("offsets").is_some() {
            made["offsets"] = case["expected"]["offsets"].clone();
        }
        assert_eq!(made, case["expected"], "{}: {}", case["tokenizer"], case["asked"]);
    }
}

/// The places of a case's tokens in strings of JavaScript, which are counted in UTF-16. `None` where a model does not tell
/// which of two texts a token is of.
fn in_utf16(case: &Value) -> Option<Value> {
    let (asked, expected) = (&case["asked"], &case["expected"]);
    let mut rows = Vec::new();
    for (row, offsets) in expected["offsets"].as_array()?.iter().enumerate() {
        let first = asked["texts"][row].as_str()?;
        let second = match asked.get("seconds") {
            Some(_) if case["tokenizer"] != "wordpiece" => return None,
            Some(seconds) => seconds[row].as_str()?,
            None => first,
        };
        let places = offsets.as_array()?.iter().enumerate().map(|(token, places)| {
            let text = if expected["types"][row][token] == 1 { second } else { first };
            let counted = |at: &Value| {
                let characters = text.chars().take(at.as_u64().unwrap() as usize);
                characters.map(char::len_utf16).sum::<usize>()
            };
            json!([counted(&places[0]), counted(&places[1])])
        });
        rows.push(places.collect::<Value>());
    }
    Some(rows.into())
}
