//! Requests in, violations or tensors out.

use super::*;
use crate::error::{RequestError, Stage, ValueErrorKind};
use crate::json::write;
use crate::tensor::{Datatype, push_bytes_element};

fn input(name: &str, datatype: Datatype, shape: &[i64], required: bool) -> Input {
    let description = String::new();
    Input { name: name.into(), datatype, shape: shape.to_vec(), required, example: None, description }
}

fn schema(inputs: &[Input]) -> Schema {
    Schema { inputs: inputs.to_vec() }
}

/// The inputs that the Inferless client sends for text, a whole number, a fraction, a truth; and a list.
fn typical() -> Schema {
    schema(&[
        input("prompt", Datatype::Bytes, &[1], true),
        input("n", Datatype::Int64, &[1], false),
        input("f", Datatype::Fp64, &[], false),
        input("b", Datatype::Bool, &[1], false),
        input("list", Datatype::Int32, &[-1], false),
        input("rows", Datatype::Fp32, &[-1, 2], false),
    ])
}

fn line(violations: Vec<Violation>) -> String {
    assert!(!violations.is_empty());
    RequestError::violating(Stage::PreInference, violations).to_string()
}

/// The tensors as `name DATATYPE [shape] values; …`, or what is wrong; both ways of checking say the same.
fn read(schema: &Schema, json: &str) -> String {
    let checked = body(schema, json.as_bytes());
    let made = body_tensors(schema, json.as_bytes());
    assert_eq!(checked.as_ref().err(), made.as_ref().err(), "{json}");
    match made {
        Err(ValidationError::Body(text)) => text,
        Err(ValidationError::Inputs(violations)) => line(violations),
        Ok(tensors) => {
            assert_eq!(super::tensors(schema, &tensors), Ok(()), "{json}");
            let shown = |tensor: &Tensor| {
                let sound = Tensor::new(
                    tensor.name.clone(),
                    tensor.datatype,
                    tensor.shape.clone(),
                    tensor.data.clone(),
                );
                sound.unwrap();
                let values = serde_json::to_string(&write::Nested(tensor)).unwrap();
                format!("{} {} {:?} {values}", tensor.name, tensor.datatype, tensor.shape)
            };
            tensors.iter().map(shown).collect::<Vec<_>>().join("; ")
        }
    }
}

#[test]
fn bodies_fit_or_all_their_faults_are_named() {
    let schema = typical();
    for (json, expected) in [
        // A scalar is the bare value, or a list of one.
        (r#"{"prompt":"hi"}"#, r#"prompt BYTES [1] ["hi"]"#),
        (r#" {"prompt" : [ "h\ni" ]} "#, r#"prompt BYTES [1] ["h\ni"]"#),
        (
            r#"{"b":true,"f":1.5,"n":3,"prompt":"x"}"#,
            r#"prompt BYTES [1] ["x"]; n INT64 [1] [3]; f FP64 [] 1.5; b BOOL [1] [true]"#,
        ),
        (r#"{"prompt":"x","f":[1]}"#, r#"prompt BYTES [1] ["x"]; f FP64 [] 1.0"#),
        (r#"{"prompt":"x","n":3.0}"#, r#"prompt BYTES [1] ["x"]; n INT64 [1] [3]"#),
        // Any extent is any, none included.
        (
            r#"{"prompt":"x","list":[1,2,3],"rows":[[1,2]]}"#,
            r#"prompt BYTES [1] ["x"]; list INT32 [3] [1,2,3]; rows FP32 [1, 2] [[1.0,2.0]]"#,
        ),
        (r#"{"prompt":"x","list":[]}"#, r#"prompt BYTES [1] ["x"]; list INT32 [0] []"#),
        // What is not declared is ignored; null is not there.
        (r#"{"prompt":"x","other":{"prompt":1},"n":null}"#, r#"prompt BYTES [1] ["x"]"#),
        // Everything that is wrong, in the schema's order.
        ("{}", "input `prompt`: missing, expected BYTES [1]"),
        (r#"{"prompt":null}"#, "input `prompt`: missing, expected BYTES [1]"),
        (
            r#"{"n":"z","b":1,"prompt":7}"#,
            "input `prompt`: cannot convert 7 to BYTES; input `n`: cannot convert \"z\" to INT64; \
             input `b`: cannot convert 1 to BOOL",
        ),
        (r#"{"prompt":"x","n":1.5}"#, "input `n`: 1.5 is not an exact integer, which INT64 needs"),
        (
            r#"{"prompt":"x","list":[0,2147483648]}"#,
            "input `list`: element 1: 2147483648 is out of range for INT32",
        ),
        (r#"{"prompt":{"a":1}}"#, "input `prompt`: cannot convert an object to BYTES"),
        // Shapes.
        (r#"{"prompt":["a","b"]}"#, "input `prompt`: expected BYTES [1], got BYTES [2]"),
        (r#"{"prompt":[]}"#, "input `prompt`: expected BYTES [1], got BYTES [0]"),
        (r#"{"prompt":[["a"]]}"#, "input `prompt`: expected BYTES [1], got BYTES [1, 1]"),
        (r#"{"prompt":"x","list":3}"#, "input `list`: expected INT32 [-1], got INT32 []"),
        (r#"{"prompt":"x","rows":[1,2]}"#, "input `rows`: expected FP32 [-1, 2], got FP32 [2]"),
        (r#"{"prompt":"x","rows":[[1,2,3]]}"#, "input `rows`: expected FP32 [-1, 2], got FP32 [1, 3]"),
        (
            r#"{"prompt":"x","rows":[[1,2],[3]]}"#,
            "input `rows`: element 1: a list of 1 where the ones before have 2",
        ),
        // No object, no JSON.
        (
            r#""hi""#,
            "expected sample to be a dictionary with keys \"prompt\", \"n\", \"f\", \"b\", \"list\", \"rows\"",
        ),
        (r#"{"prompt":null,"prompt":"x"}"#, r#"key "prompt" is given twice at line 1 column 23"#),
        ("{", "malformed json: EOF while parsing an object at line 1 column 1"),
        (r#"{"prompt":"x"} x"#, "malformed json: trailing characters at line 1 column 16"),
        ("", "malformed json: EOF while parsing a value at line 1 column 0"),
        ("\u{feff}{}", "input `prompt`: missing, expected BYTES [1]"),
        // Data of FP types may be what JSON has no number for.
        (
            r#"{"prompt":"x","f":NaN,"rows":[[-Infinity,null]]}"#,
            r#"prompt BYTES [1] ["x"]; f FP64 [] null; rows FP32 [1, 2] [[null,null]]"#,
        ),
        (r#"{"prompt":"x","n":NaN}"#, "input `n`: cannot convert NaN to INT64"),
        (
            r#"{"prompt":"x","other":NaN}"#,
            "malformed json: NaN at line 1 column 23, where no data of an FP type is",
        ),
    ] {
        assert_eq!(read(&schema, json), expected, "{json}");
    }
}

#[test]
fn the_only_input_may_come_bare() {
    let only = schema(&[input("n", Datatype::Int8, &[1], true)]);
    for (json, expected) in [
        ("7", "n INT8 [1] [7]"),
        ("[7]", "n INT8 [1] [7]"),
        (r#"{"n":7}"#, "n INT8 [1] [7]"),
        ("768", "input `n`: 768 is out of range for INT8"),
        ("null", "input `n`: missing, expected INT8 [1]"),
    ] {
        assert_eq!(read(&only, json), expected, "{json}");
    }
    let optional = schema(&[input("n", Datatype::Int8, &[1], false)]);
    assert_eq!(read(&optional, "null"), "");
    assert_eq!(read(&optional, "{}"), "");
}

#[test]
fn every_datatype_knows_its_range() {
    for (datatype, fits, not) in [
        (Datatype::Bool, "true", "0"),
        (Datatype::Uint8, "255", "256"),
        (Datatype::Uint16, "65535", "-1"),
        (Datatype::Uint32, "4294967295", "4294967296"),
        (Datatype::Uint64, "18446744073709551615", "18446744073709551616"),
        (Datatype::Int8, "-128", "-129"),
        (Datatype::Int16, "32767", "32768"),
        (Datatype::Int32, "-2147483648", "-2147483649"),
        (Datatype::Int64, "9223372036854775807", "9223372036854775808"),
        (Datatype::Fp16, "65504", "65520"),
        (Datatype::Bf16, "3.3e38", "3.4e38"),
        (Datatype::Fp32, "3.4e38", "3.5e38"),
        (Datatype::Fp64, "1.7e308", "1.8e308"),
        (Datatype::Bytes, "\"\"", "true"),
    ] {
        let input = input("x", datatype, &[1], true);
        assert_eq!(value(&input, fits), Ok(()), "{datatype} {fits}");
        let violation = value(&input, not).unwrap_err();
        let ViolationKind::Value { error, expected } = &violation.kind else { panic!("{violation:?}") };
        let range = !matches!(datatype, Datatype::Bool | Datatype::Bytes);
        assert_eq!(
            error.kind,
            if range { ValueErrorKind::Range } else { ValueErrorKind::Type },
            "{violation}"
        );
        assert_eq!((&*error.value, expected.datatype), (not, datatype));
    }
}

fn tensor_of(name: &str, datatype: Datatype, shape: &[u64]) -> Tensor {
    let count = crate::tensor::element_count(shape).unwrap();
    let data = match datatype.size() {
        Some(size) => vec![0; size * count],
        None => {
            let mut data = Vec::new();
            (0..count).for_each(|_| assert!(push_bytes_element(&mut data, b"x")));
            data
        }
    };
    Tensor::new(name.into(), datatype, shape.to_vec(), data.into()).unwrap()
}

#[test]
fn tensors_fit_or_all_their_faults_are_named() {
    let schema = typical();
    let prompt = ("prompt", Datatype::Bytes, &[1][..]);
    type Named<'a> = (&'a str, Datatype, &'a [u64]);
    let cases: &[(&[Named<'_>], &str)] = &[
        (&[prompt], ""),
        (&[("prompt", Datatype::Bytes, &[])], ""),
        (
            &[("b", Datatype::Bool, &[1]), ("f", Datatype::Fp64, &[1]), ("n", Datatype::Int64, &[1]), prompt],
            "",
        ),
        (&[prompt, ("list", Datatype::Int32, &[3])], ""),
        (&[prompt, ("list", Datatype::Int32, &[0])], ""),
        (&[prompt, ("rows", Datatype::Fp32, &[7, 2])], ""),
        (&[], "input `prompt`: missing, expected BYTES [1]"),
        (&[("prompt", Datatype::Bytes, &[2])], "input `prompt`: expected BYTES [1], got BYTES [2]"),
        (&[("prompt", Datatype::Bytes, &[1, 1])], "input `prompt`: expected BYTES [1], got BYTES [1, 1]"),
        (&[prompt, ("list", Datatype::Int64, &[3])], "input `list`: expected INT32 [-1], got INT64 [3]"),
        (&[prompt, ("rows", Datatype::Fp32, &[2])], "input `rows`: expected FP32 [-1, 2], got FP32 [2]"),
        (&[prompt, prompt], "input `prompt`: given twice"),
        (
            &[("n", Datatype::Int8, &[1]), ("promt", Datatype::Bytes, &[1])],
            "input `n`: expected INT64 [1], got INT8 [1]; input `promt`: unknown; \
             input `prompt`: missing, expected BYTES [1]",
        ),
        (&[prompt, ("a\nb", Datatype::Bytes, &[1])], "input `a\\nb`: unknown"),
    ];
    for (given, expected) in cases {
        let given: Vec<Tensor> =
            given.iter().map(|(name, datatype, shape)| tensor_of(name, *datatype, shape)).collect();
        let found = tensors(&schema, &given).err().map(line).unwrap_or_default();
        assert_eq!(found, *expected);
    }
}

#[test]
fn what_is_said_of_a_hostile_request_is_short() {
    let many: Vec<Tensor> =
        (0..1000).map(|n| tensor_of(&format!("{n}{}", "x".repeat(10_000)), Datatype::Int8, &[1])).collect();
    let violations = tensors(&typical(), &many).unwrap_err();
    assert_eq!(violations.len(), MAX_VIOLATIONS);
    assert!(line(violations).len() < 2000);
    let names: Vec<Input> = (0..100).map(|n| input(&format!("i{n}"), Datatype::Int8, &[1], true)).collect();
    let text = read(&schema(&names), "{}");
    assert_eq!(text.matches("missing").count(), MAX_VIOLATIONS);
    let long = format!(r#"{{"prompt":"x","n":"{}"}}"#, "y".repeat(100_000));
    assert!(read(&typical(), &long).len() < 200);
    let deep = format!(r#"{{"prompt":"x","list":{}{}}}"#, "[".repeat(100), "]".repeat(100));
    assert_eq!(read(&typical(), &deep), "input `list`: lists nested deeper than 32");
}
