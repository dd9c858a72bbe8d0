//! JSON as tensors whose datatypes are not known: what a handler answers, for a caller who wants tensors.
//!
//! Flow: `post-inference → [typed] → server`, for the Open Inference Protocol on an endpoint whose handler
//! works alone.
//! In:   a handler's JSON response. Out: a tensor for each key, typed as Inferless types a Python handler's
//!       dictionary:
//!
//! | JSON | datatype | shape |
//! |---|---|---|
//! | `true`, 3, 1.5, `"text"` | BOOL, INT64, FP64, BYTES | `[1]` |
//! | lists of them | the same; FP64 if any number has a fraction or exponent | that of the lists |
//! | an object, or a list with one or a `null` inside | BYTES, its JSON text | `[1]` |
//! | `null` | none: the output is left out | |
//!
//! Integers beyond INT64 are UINT64. What is no object at all becomes the one output `output`.

use std::fmt;
use std::sync::Arc;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::read::{self, Mode};
use crate::tensor::{Datatype, Tensor, push_bytes_element};

/// The only output's name where the JSON has no keys.
const ONLY: &str = "output";
/// Most keys an answer may have: they are looked for one by one, and each becomes a tensor.
const MOST: usize = 1000;

/// Makes tensors of `json`, in the order of its keys.
///
/// # Errors
/// Text that names the output: a list that is empty, ragged or mixed. Text without a name: this is no JSON.
pub fn tensors(json: &[u8]) -> Result<Vec<Tensor>, String> {
    let malformed = |error: &dyn fmt::Display| format!("malformed json: {error}");
    let text = str::from_utf8(json).map_err(|error| malformed(&error))?;
    let outputs = if text.trim_ascii_start().starts_with('{') {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let outputs = deserializer.deserialize_map(Entries);
        outputs.and_then(|outputs| deserializer.end().map(|()| outputs)).map_err(|error| malformed(&error))?
    } else {
        let value = serde_json::from_str::<&RawValue>(text).map_err(|error| malformed(&error))?;
        vec![(ONLY.to_owned(), value)]
    };
    if outputs.len() > MOST {
        return Err(format!("more than {MOST} outputs"));
    }
    let tensor = |(name, value): (String, &RawValue)| {
        let tensor = tensor(&name, value.get()).transpose()?;
        Some(tensor.map_err(|error| format!("output `{name}`: {error}")))
    };
    outputs.into_iter().filter_map(tensor).collect()
}

/// The entries of an object, in order.
struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries: Self::Value = Vec::new();
        while let Some((key, value)) = map.next_entry::<String, &RawValue>()? {
            if entries.len() > MOST {
                continue;
            }
            // Of a key that comes twice the last value counts, as in most parsers.
            match entries.iter_mut().find(|(known, _)| *known == key) {
                Some((_, known)) => *known = value,
                None => entries.push((key, value)),
            }
        }
        Ok(entries)
    }
}

fn tensor(name: &str, text: &str) -> Result<Option<Tensor>, String> {
    if text == "null" {
        return Ok(None);
    }
    let name: Arc<str> = name.into();
    let Some(datatype) = datatype(text)? else {
        let mut data = Vec::new();
        if !push_bytes_element(&mut data, text.as_bytes()) {
            return Err("an object too large".to_owned());
        }
        return Tensor::new(name, Datatype::Bytes, vec![1], data.into())
            .map(Some)
            .map_err(|error| error.to_string());
    };
    let read = read::elements(text, datatype, Mode::Strict);
    let (mut shape, data) = read.map_err(|error| error.text)?;
    if shape.is_empty() {
        shape = vec![1];
    }
    Tensor::new(name, datatype, shape, data.into()).map(Some).map_err(|error| error.to_string())
}

/// The datatype of the values in `text`, which is known to be JSON; `None` if it holds an object or a `null`.
fn datatype(text: &str) -> Result<Option<Datatype>, String> {
    let mut found = None;
    let mut rest = text;
    while let Some(first) = rest.bytes().next() {
        let (datatype, length) = match first {
            b'{' | b'n' => return Ok(None),
            b'[' | b']' | b',' | b' ' | b'\t' | b'\n' | b'\r' => (None, 1),
            _ => {
                let length = read::scalar_length(rest);
                (Some(scalar(rest.get(..length).unwrap_or(rest))), length)
            }
        };
        found = match (found, datatype) {
            (found, None) => found,
            (Some(Datatype::Fp64), Some(Datatype::Int64 | Datatype::Uint64))
            | (Some(Datatype::Int64 | Datatype::Uint64), Some(Datatype::Fp64)) => Some(Datatype::Fp64),
            (Some(Datatype::Int64), Some(Datatype::Uint64)) => Some(Datatype::Uint64),
            // A mixture is found out where the elements are read, which says where it is.
            (Some(found), Some(_)) => Some(found),
            (None, datatype) => datatype,
        };
        rest = rest.get(length..).unwrap_or_default();
    }
    found.map(Some).ok_or_else(|| "an empty list has no datatype".to_owned())
}

fn scalar(token: &str) -> Datatype {
    match token.bytes().next() {
        Some(b't' | b'f') => Datatype::Bool,
        Some(b'-' | b'0'..=b'9') if token.contains(['.', 'e', 'E']) => Datatype::Fp64,
        Some(b'-' | b'0'..=b'9') if token.parse::<i64>().is_ok() => Datatype::Int64,
        Some(b'0'..=b'9') if token.parse::<u64>().is_ok() => Datatype::Uint64,
        Some(b'-' | b'0'..=b'9') => Datatype::Fp64,
        _ => Datatype::Bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::write;

    /// `"name DATATYPE [shape] value; …"`, or the error.
    fn check(json: &str, expected: &str) {
        let shown = match tensors(json.as_bytes()) {
            Err(error) => error,
            Ok(tensors) => {
                let shown = |tensor: &Tensor| {
                    let value = serde_json::to_string(&write::Nested(tensor)).unwrap();
                    format!("{} {} {:?} {value}", tensor.name, tensor.datatype, tensor.shape)
                };
                tensors.iter().map(shown).collect::<Vec<_>>().join("; ")
            }
        };
        assert_eq!(shown, expected, "{json}");
    }

    #[test]
    fn values_find_their_datatypes() {
        check(r#"{"out":"hi!"}"#, r#"out BYTES [1] ["hi!"]"#);
        check(r#"{"b":true,"a":3}"#, "b BOOL [1] [true]; a INT64 [1] [3]");
        check(r#"{"x":[[1,2,3],[4,5,6]]}"#, "x INT64 [2, 3] [[1,2,3],[4,5,6]]");
        check(r#"{"x":[1, 2.5]}"#, "x FP64 [2] [1.0,2.5]");
        check(r#"{"x":[1.5, 2]}"#, "x FP64 [2] [1.5,2.0]");
        check(r#"{"x":18446744073709551615}"#, "x UINT64 [1] [18446744073709551615]");
        check(r#"{"x":[1,18446744073709551615]}"#, "x UINT64 [2] [1,18446744073709551615]");
        check(r#"{"x":1e400}"#, "output `x`: 1e400 is out of range for FP64");
        check(r#"{"x":{"a":[1]}}"#, r#"x BYTES [1] ["{\"a\":[1]}"]"#);
        check(r#"{"x":[{"a":1}]}"#, r#"x BYTES [1] ["[{\"a\":1}]"]"#);
        check(r#"{"x":[1,null]}"#, r#"x BYTES [1] ["[1,null]"]"#);
        check(r#"{"x":null,"y":1,"y":2}"#, "y INT64 [1] [2]");
        check(r#""setosa""#, r#"output BYTES [1] ["setosa"]"#);
        check("[[0],[1]]", "output INT64 [2, 1] [[0],[1]]");
        check("{}", "");
        check("null", "");
    }

    #[test]
    fn what_is_no_tensor_is_named() {
        check(r#"{"x":[]}"#, "output `x`: an empty list has no datatype");
        check(r#"{"x":[1,"a"]}"#, r#"output `x`: element 1: cannot convert "a" to INT64"#);
        check(r#"{"x":[[1],[2,3]]}"#, "output `x`: element 1: a list of 2 where the ones before have 1");
        let many: Vec<String> = (0..=MOST).map(|n| format!("\"{n}\":1")).collect();
        check(&format!("{{{}}}", many.join(",")), "more than 1000 outputs");
        check(r#"{"x":["a",1]}"#, "output `x`: element 1: cannot convert 1 to BYTES");
        check("{", "malformed json: EOF while parsing an object at line 1 column 1");
        check("", "malformed json: EOF while parsing a value at line 1 column 0");
    }
}
