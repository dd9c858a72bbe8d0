//! Documents that are read into types of Rust's: objects that are nothing else, and errors for callers.
//!
//! Place in the flow: protocols whose requests are typed. In: JSON, or an error of serde's. Out: a value, or
//! a text without a type of Rust's.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::error::Category;

/// An object of JSON and nothing else: serde takes a list of its values for a struct as well.
#[derive(Default)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }

        deserializer.deserialize_map(Fields(PhantomData))
    }
}

/// The problem of a document that is malformed, or is not what it should be: `wrong` says so of it.
pub fn problem(wrong: &str, error: &serde_json::Error) -> String {
    match error.classify() {
        Category::Data => format!("{wrong}: {}", told(error)),
        Category::Io | Category::Syntax | Category::Eof => format!("malformed json: {error}"),
    }
}

/// Why a document could not be read, without the names of Rust's numbers.
pub fn told(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let Some((before, after)) = text.split_once("expected ") else { return text };
    let (kind, rest) = after.split_once(" at line ").unwrap_or((after, ""));
    let kind = match kind {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number from 0 up",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        _ => return text,
    };
    format!("{before}expected {kind} at line {rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_no_type_of_rusts() {
        let of = |text: &str| told(&serde_json::from_str::<Object<Numbers>>(text).err().unwrap());
        #[derive(Deserialize)]
        #[expect(dead_code, reason = "read for its errors")]
        struct Numbers {
            whole: u32,
            any: Option<i64>,
        }
        for (text, expected) in [
            ("[1]", "invalid type: sequence, expected an object at line 1 column 0"),
            (
                r#"{"whole":-1}"#,
                "invalid value: integer `-1`, expected a whole number from 0 up at line 1 column 11",
            ),
            (
                r#"{"whole":1,"any":"1"}"#,
                "invalid type: string \"1\", expected a whole number at line 1 column 20",
            ),
            ("{}", "missing field `whole` at line 1 column 2"),
            ("{", "EOF while parsing an object at line 1 column 1"),
        ] {
            assert_eq!(of(text), expected, "{text}");
        }
    }
}
