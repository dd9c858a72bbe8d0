//! That what single vendors' clients expect is in one folder.

use super::{assert_none, host_files, short};

/// Words that name a vendor, or are part of a name that one has given. TensorFlow Serving's is a protocol.
const VENDORS: [&str; 6] = ["banana", "potassium", "truss", "baseten", "cortex", "openai"];

/// The folder of their dialects.
const PLACE: &str = "server/compat";

/// Other files that name one, and why: prefixes of paths under one of the crates.
const EXCEPTIONS: [(&str, &str); 8] = [
    ("config/settings/endpoint.rs", "the text of the setting `jobs` says whose clients a value is for"),
    ("cli/project.rs", "`new --from` brings over the projects of vendors"),
    ("new/from", "the same"),
    ("keys.rs", "a header that brings a key is known to all that must not keep one"),
    ("request.rs", "a header that names a request is known to all that must not take it for another one's"),
    ("server/http/v1", "paths that several vendors share: each has its part of an answer there"),
    ("server/http/openapi/v1.rs", "the same, in the OpenAPI document"),
    ("server/http/openapi/process.rs", "the OpenAPI document says whose paths they are"),
];

/// The lines of a file before its tests, in lower case.
fn lines(text: &str) -> impl Iterator<Item = (usize, String)> {
    let is_code = |line: &&str| !(line.starts_with("#[cfg(") && line.contains("test"));
    text.lines().take_while(is_code).map(str::to_lowercase).enumerate()
}

/// Whether a word of the line begins with the vendor's name.
fn names(line: &str, vendor: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphabetic();
    line.match_indices(vendor).any(|(at, _)| !line[..at].ends_with(is_letter))
}

#[test]
fn no_file_but_the_dialects_names_a_vendor() {
    let mut wrong = Vec::new();
    let mut excepted = [false; EXCEPTIONS.len()];
    for (path, inner) in host_files() {
        if inner.starts_with(PLACE) || inner.ends_with("tests.rs") || inner.contains("/tests/") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for (number, line) in lines(&text) {
            let Some(vendor) = VENDORS.iter().find(|vendor| names(&line, vendor)) else { continue };
            match EXCEPTIONS.iter().position(|(place, _)| inner.starts_with(place)) {
                Some(exception) => excepted[exception] = true,
                None => wrong.push(format!("{}:{}: `{vendor}`", short(&path), number + 1)),
            }
        }
    }
    assert_none("vendors are named in `server/compat` alone", wrong);
    for ((place, _), is_one) in EXCEPTIONS.iter().zip(excepted) {
        assert!(is_one, "`{place}` names no vendor: take it out of the list");
    }
}
