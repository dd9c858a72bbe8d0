//! What is wrong with a request's inputs, in the words of Truss, whose models say what they take by
//! pydantic's types.
//!
//! Place in the flow: a failed prediction's message, where the endpoint has an input schema and the request
//! does not fit it. Clients show these texts to people, and some look for them.

use std::fmt::Write as _;

use crate::error::{ValueError, ValueErrorKind, Violation, ViolationKind};
use crate::tensor::{Datatype, ShownShape};

/// ``Input Parsing Error:\n  `prompt`: Field required.``
pub(in crate::server) fn of(violations: &[Violation]) -> String {
    let mut text = format!("Input Parsing Error{}:", if violations.len() == 1 { "" } else { "s" });
    for violation in violations {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n  `{}`: {}.", violation.input, problem(&violation.kind));
    }
    text
}

fn problem(kind: &ViolationKind) -> String {
    match kind {
        ViolationKind::Missing { .. } => "Field required".to_owned(),
        ViolationKind::Unknown => "Extra inputs are not permitted".to_owned(),
        ViolationKind::Repeated => "Given twice".to_owned(),
        ViolationKind::Value { expected, error } => value(expected.datatype, error),
        ViolationKind::Mismatch { expected, datatype, shape } => {
            format!("Input should be {expected}, got {datatype} {}", ShownShape(shape))
        }
    }
}

fn value(datatype: Datatype, error: &ValueError) -> String {
    let is_text = error.value.starts_with('"');
    let (valid, parsing) = match datatype {
        Datatype::Bytes => ("a valid string", ""),
        Datatype::Bool => ("a valid boolean", ", unable to interpret input"),
        Datatype::Fp16 | Datatype::Bf16 | Datatype::Fp32 | Datatype::Fp64 => {
            ("a valid number", ", unable to parse string as a number")
        }
        _ => ("a valid integer", ", unable to parse string as an integer"),
    };
    match error.kind {
        ValueErrorKind::Type if is_text => format!("Input should be {valid}{parsing}"),
        ValueErrorKind::Type => format!("Input should be {valid}"),
        ValueErrorKind::Inexact => format!("Input should be {valid}, got a number with a fractional part"),
        // Pydantic has no words for these.
        ValueErrorKind::Range | ValueErrorKind::Lists | ValueErrorKind::Base64 => {
            format!("Input should be {valid}: {}", error.text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Input, Schema, check};

    #[test]
    fn faults_in_the_words_of_truss() {
        let input = |name: &str, datatype, required| Input {
            name: name.into(),
            datatype,
            shape: vec![1],
            required,
            example: None,
            description: String::new(),
        };
        let inputs = vec![
            input("prompt", Datatype::Bytes, true),
            input("n", Datatype::Int64, false),
            input("on", Datatype::Bool, false),
            input("x", Datatype::Fp32, false),
        ];
        let schema = Schema { inputs };
        // T17, then pydantic's other words.
        for (body, expected) in [
            ("{}", "Input Parsing Error:\n  `prompt`: Field required."),
            (
                r#"{"prompt":1,"n":"z"}"#,
                "Input Parsing Errors:\n  `prompt`: Input should be a valid string.\n  `n`: Input should be a \
                 valid integer, unable to parse string as an integer.",
            ),
            (
                r#"{"prompt":"","n":1.5,"on":"x","x":[true]}"#,
                "Input Parsing Errors:\n  `n`: Input should be a valid integer, got a number with a fractional \
                 part.\n  `on`: Input should be a valid boolean, unable to interpret input.\n  `x`: Input should \
                 be a valid number.",
            ),
        ] {
            match check::body(&schema, body.as_bytes()) {
                Err(check::ValidationError::Inputs(violations)) => {
                    assert_eq!(of(&violations), expected, "{body}")
                }
                _ => panic!("{body} fits"),
            }
        }
    }
}
