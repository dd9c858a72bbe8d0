//! Tests of bodies as tensors, and of answers.

use super::*;
use crate::tensor::{Extent, Role};

fn spec(name: &str, datatype: Datatype, shape: &[i64]) -> TensorSpec {
    let extent = |size: &i64| u64::try_from(*size).map_or(Extent::Free(None), Extent::Fixed);
    TensorSpec { name: name.into(), datatype, shape: shape.iter().map(extent).collect(), role: Role::Plain }
}

fn size(limit: usize, memory: Account) -> Size {
    Size { bytes: 0, limit, charge: memory.open() }
}

/// `name [shape] [elements]` of each input, or why there are none.
fn read_as(
    specs: &[TensorSpec],
    body: &str,
    limit: usize,
    memory: Account,
) -> Result<Vec<String>, RequestError> {
    let Parts { context, examples, .. } = Parts::of(body.as_bytes())?;
    let tensors = List::of(context, examples)?.features(specs, &mut size(limit, memory))?;
    let shown = |tensor: &Tensor| {
        let data = serde_json::to_string(&crate::json::write::Flat(tensor)).unwrap();
        format!("{} {:?} {data}", tensor.name, tensor.shape)
    };
    Ok(tensors.iter().map(shown).collect())
}

fn check(specs: &[TensorSpec], body: &str, expected: Result<&[&str], &str>) {
    let found = read_as(specs, body, 100, Account::default()).map_err(|error| error.message.clone());
    let expected = expected.map(|it| it.iter().map(ToString::to_string).collect()).map_err(ToOwned::to_owned);
    assert_eq!(found, expected, "{body}");
}

#[test]
fn features_become_rows() {
    let rows = [spec("x", Datatype::Fp32, &[-1, 2]), spec("s", Datatype::Bytes, &[-1])];
    for (body, expected) in [
        // A whole number is one of an FP type, and a single value is a list of one.
        (
            r#"{"examples": [{"x": [1, 2.5], "s": "a", "other": [[]]}, {"s": [{"b64": "Yg=="}], "x": [3, 4]}]}"#,
            &["x [2, 2] [1.0,2.5,3.0,4.0]", r#"s [2] ["a","b"]"#][..],
        ),
        (
            r#"{"context": {"s": "c", "x": [0, 0]}, "examples": [{}, {"x": [NaN, Infinity], "s": null}]}"#,
            &["x [2, 2] [0.0,0.0,null,null]", r#"s [2] ["c","c"]"#],
        ),
    ] {
        check(&rows, body, Ok(expected));
    }
    let numbers = [spec("n", Datatype::Int64, &[-1]), spec("b", Datatype::Bool, &[-1])];
    let body = r#"{"examples": [{"n": 9223372036854775807, "b": true}]}"#;
    check(&numbers, body, Ok(&["n [1] [9223372036854775807]", "b [1] [true]"]));
}

#[test]
fn an_optional_input_is_given_with_every_example_or_with_none() {
    let optional = TensorSpec { role: Role::Optional, ..spec("o", Datatype::Int8, &[-1]) };
    let specs = [spec("x", Datatype::Int8, &[-1]), optional];
    check(&specs, r#"{"examples": [{"x": 1}, {"x": 2}]}"#, Ok(&["x [2] [1,2]"]));
    check(&specs, r#"{"examples": [{"x": 1, "o": 3}]}"#, Ok(&["x [1] [1]", "o [1] [3]"]));
    for (body, number) in [
        (r#"{"examples": [{"x": 1}, {"x": 2, "o": 3}]}"#, 0),
        (r#"{"examples": [{"x": 2, "o": 3}, {"x": 1}]}"#, 1),
    ] {
        check(&specs, body, Err(&format!("example {number}: feature `o`: it is missing")));
    }
}

#[test]
fn what_is_no_list_of_examples_is_named() {
    let specs = [spec("x", Datatype::Fp32, &[-1, 2])];
    for (body, expected) in [
        ("{", "Invalid JSON payload: EOF while parsing an object at line 1 column 1"),
        (
            "[]",
            "the body is no list of examples: invalid type: sequence, expected an object at line 1 column 0",
        ),
        (
            r#"{"signature_name": 1}"#,
            "the body is no list of examples: invalid type: integer `1`, expected a string at line 1 column 20",
        ),
        (
            r#"{"examples": [], "x": NaN}"#,
            "Invalid JSON payload: NaN at line 1 column 23, where no data of an FP type is",
        ),
        ("{}", "the body has no `examples`"),
        (r#"{"examples": {}}"#, "`examples` is no list"),
        (r#"{"examples": []}"#, "there are no examples in `examples`"),
        (r#"{"examples": [1]}"#, "example 0: an object of features is expected"),
        (r#"{"examples": [{}], "context": []}"#, "`context`: an object of features is expected"),
        (r#"{"examples": [{"x": [1, 2]}, {}]}"#, "example 1: feature `x`: it is missing"),
        (
            r#"{"examples": [{"x": [1, "a"]}]}"#,
            r#"example 0: feature `x`: element 1: cannot convert "a" to FP32"#,
        ),
        (
            r#"{"examples": [{"x": [[1, 2]]}]}"#,
            "example 0: feature `x`: a value or a list of values is expected, not a list of lists",
        ),
        (
            r#"{"examples": [{"x": [1, 2]}, {"x": 1}]}"#,
            "example 1: feature `x`: the first example has 2 values, this one 1",
        ),
        (r#"{"examples": [{"x": 1}]}"#, "feature `x`: 2 values are expected, got 1"),
    ] {
        check(&specs, body, Err(expected));
    }
}

/// A context is there for each of many examples.
#[test]
fn inputs_have_bounds_before_they_are_made() {
    let specs = [spec("x", Datatype::Fp32, &[-1, -1])];
    let zeros = vec!["0"; 1024].join(",");
    let body = format!(r#"{{"context": {{"x": [{zeros}]}}, "examples": [{}]}}"#, vec!["{}"; 64].join(","));
    for (limit, budget, expected) in
        [(4096 * 63, 1 << 20, Code::BodyTooLarge), (1 << 30, 64 << 10, Code::Overloaded)]
    {
        let memory = Account::alone(budget);
        let error = read_as(&specs, &body, limit, memory).unwrap_err();
        assert_eq!((error.code, memory.held()), (expected, 0));
    }
    assert!(read_as(&specs, &body, 4096 * 64, Account::alone(300 << 10)).is_ok());
}

/// The one rule that there is for numbers without a datatype.
#[test]
fn features_have_the_kind_that_tensorflow_serving_gives_them() {
    let floats = |value: &[f32]| Some(Feature::FloatList(FloatList { value: value.to_vec() }));
    let integers = |value: &[i64]| Some(Feature::Int64List(Int64List { value: value.to_vec() }));
    let texts = |value: &[&str]| {
        let value = value.iter().map(|text| Bytes::copy_from_slice(text.as_bytes())).collect();
        Some(Feature::BytesList(BytesList { value }))
    };
    for (value, expected) in [
        ("[1, 2]", integers(&[1, 2])),
        ("-3", integers(&[-3])),
        ("[true, false]", integers(&[1, 0])),
        ("[1, 2.5]", floats(&[1.0, 2.5])),
        ("1e1", floats(&[10.0])),
        ("-Infinity", floats(&[f32::NEG_INFINITY])),
        (r#"["a", {"b64": "Yg=="}]"#, texts(&["a", "b"])),
        ("[]", None),
    ] {
        assert_eq!(feature(value), Ok(expected), "{value}");
    }
    for value in ["[[1]]", "[true, 2]", r#"{"a": 1}"#, "9223372036854775808"] {
        assert!(feature(value).is_err(), "{value}");
    }
}

/// The encoding of one feature after the other is that of all.
#[test]
fn examples_are_encoded_for_models_that_parse_them() {
    let body = r#"{"context": {"c": 1}, "examples": [{"b": "x", "a": [0.5]}, {"c": 2}]}"#;
    let Parts { context, examples, .. } = Parts::of(body.as_bytes()).unwrap();
    let list = List::of(context, examples).unwrap();
    let tensor =
        list.encoded(&spec("inputs", Datatype::Bytes, &[-1]), &mut size(1000, Account::default())).unwrap();
    assert_eq!(tensor.shape, [2]);
    let of = |name: &str, value: &str| Example::of(name.to_owned(), feature(value).unwrap()).encoded();
    let expected =
        [[of("c", "1"), of("b", "\"x\""), of("a", "[0.5]")].concat(), [of("c", "1"), of("c", "2")].concat()];
    let found: Vec<&[u8]> = BytesElements::new(&tensor.data).flatten().collect();
    assert_eq!(found, expected);
}

#[test]
fn an_answer_has_its_list_under_both_names() {
    let classes = [vec![("a", 0.5_f32), ("b", f32::NAN)], Vec::new()];
    let body = String::from_utf8(written(classes).unwrap()).unwrap();
    let list = r#"[[["a",0.5],["b",null]],[]]"#;
    assert_eq!(body, format!(r#"{{"result":{list},"results":{list}}}"#));
}
