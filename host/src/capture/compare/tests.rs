//! Tables: two answers, and what is said of them.

use std::sync::Arc;

use bytes::Bytes;

use super::*;
use crate::error::{Code, Stage};
use crate::json::path::Pattern;
use crate::tensor::{Datatype, Tensor};

fn response(status: u16, content_type: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Outcome {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let content_type = content_type.to_owned();
    Ok(Output::Response(Response { status, content_type, headers, body: body.into() }))
}

fn json(body: &str) -> Outcome {
    response(200, "application/json", &[], body.to_owned())
}

fn bounds(tolerance: f64, ignore: &[&str]) -> Bounds {
    Bounds { tolerance, ignore: ignore.iter().map(|text| Pattern::parse(text).unwrap()).collect() }
}

/// The differences of the two, line by line.
fn told(old: &Outcome, new: &Outcome, bounds: &Bounds) -> Vec<String> {
    compare(old, new, bounds).iter().map(ToString::to_string).collect()
}

#[test]
fn json_is_compared_by_structure() {
    for (old, new, expected) in [
        ("{}", " { } ", &[][..]),
        (r#"{"a":1,"b":[1,2]}"#, r#"{"b":[1, 2],"a":1}"#, &[]),
        (r#"{"\u0061":"\u00e9\n"}"#, "{\"a\":\"é\\n\"}", &[]),
        (r#"{"a":{"b":null}}"#, r#"{"a":{"b":null}}  "#, &[]),
        (r#"{"label":"setosa"}"#, r#"{"label":"virginica"}"#, &[r#"/label: "setosa" became "virginica""#]),
        ("[1,2]", "[1,3]", &["/1: 2 became 3"]),
        ("[1,2]", "[2,1,4]", &["/: 2 elements became 3 elements", "/0: 1 became 2", "/1: 2 became 1"]),
        (r#"{"a":[1,[2],3]}"#, r#"{"a":[1]}"#, &["/a: 3 elements became 1 element"]),
        ("[]", "[[]]", &["/: 0 elements became 1 element"]),
        (r#"{"a":1}"#, r#"{"b":2}"#, &["/a: 1 is gone", "/b: 2 is new"]),
        (
            r#"{"a":1,"c":{"d":1}}"#,
            r#"{"c":{"d":2},"b":0}"#,
            &["/a: 1 is gone", "/b: 0 is new", "/c/d: 1 became 2"],
        ),
        (r#"{"a":1}"#, r#"{"a":1,"b":[1]}"#, &["/b: [1] is new"]),
        (r#"{"a":{"x":1}}"#, r#"{"a":[1]}"#, &[r#"/a: {"x":1} became [1]"#]),
        ("null", "0", &["/: null became 0"]),
        ("true", "false", &["/: true became false"]),
        (r#""1""#, "1", &[r#"/: "1" became 1"#]),
        (r#"{"a/b":{"~":1}}"#, r#"{"a/b":{"~":2}}"#, &["/a~1b/~0: 1 became 2"]),
        // A key that comes twice counts twice, in its order.
        (r#"{"a":1,"a":2}"#, r#"{"a":1,"a":2}"#, &[]),
        (r#"{"a":1,"b":0,"a":2}"#, r#"{"b":0,"a":1,"a":2}"#, &[]),
        (r#"{"a":1,"a":2}"#, r#"{"a":2,"a":1}"#, &["/a: 1 became 2", "/a: 2 became 1"]),
        (r#"{"a":1,"a":2}"#, r#"{"a":2}"#, &["/a: 1 became 2", "/a: 2 is gone"]),
    ] {
        assert_eq!(told(&json(old), &json(new), &bounds(1e-6, &[])), expected, "{old} and {new}");
    }
}

#[test]
fn numbers_may_be_a_little_off_and_whole_ones_may_not() {
    for (old, new, tolerance, is_same) in [
        ("1.0", "1.0000001", 1e-6, true),
        ("1.0", "1.00001", 1e-6, false),
        ("1e9", "1.0000001e9", 1e-6, true),
        ("1e9", "1.0001e9", 1e-6, false),
        ("0.0", "0.0000001", 1e-6, true),
        ("0.0", "1e-5", 1e-6, false),
        ("-1.5", "1.5", 1e-6, false),
        ("0.1", "0.1", 0.0, true),
        ("0.1", "0.10000000000000001", 0.0, true),
        ("0.1", "0.11", 0.0, false),
        ("1", "1.0", 0.0, true),
        ("10", "1e1", 0.0, true),
        ("3", "3.0000001", 1e-6, true),
        ("0", "-0", 0.0, true),
        ("5", "6", 1.0, false),
        ("10000000", "10000001", 1e-6, false),
        ("9007199254740992", "9007199254740993", 1e-6, false),
        ("18446744073709551616", "18446744073709551617", 1e-6, false),
        ("123456789012345678901234567890", "123456789012345678901234567890", 0.0, true),
        ("1e999", "1e999", 0.0, true),
        ("1e999", "1.5", 1e-6, false),
    ] {
        for (old, new) in [(old, new), (new, old)] {
            let told = told(&json(old), &json(new), &bounds(tolerance, &[]));
            assert_eq!(told.is_empty(), is_same, "{old} and {new} within {tolerance}: {told:?}");
        }
    }
}

#[test]
fn what_is_ignored_is_not_compared() {
    let old = r#"{"id":1,"rows":[{"score":0.1,"label":"a"},{"score":0.2,"label":"b"}],"took":3}"#;
    let new = r#"{"rows":[{"score":9,"label":"a"},{"score":8,"label":"B"}],"took":[4],"extra":1}"#;
    for (ignore, expected) in [
        (&["/"][..], 6),
        (&["/took"], 5),
        (&["/rows"], 3),
        (&["/rows/*"], 3),
        (&["/rows/*/score"], 4),
        (&["/rows/1"], 4),
        (&["/id", "/extra"], 4),
        (&["/id", "/extra", "/took", "/rows/*/score"], 1),
        (&["/id", "/extra", "/took", "/rows/0/score", "/rows/1/*"], 0),
    ] {
        let told = told(&json(old), &json(new), &bounds(1e-6, ignore));
        assert_eq!(told.len(), expected, "{ignore:?}: {told:?}");
    }
}

#[test]
fn everything_else_of_a_response_is_compared_too() {
    let ok = |content_type, body: &'static [u8]| response(200, content_type, &[], body);
    let headers = |headers: &[(&str, &str)]| response(200, "", headers, "");
    for (old, new, ignore, expected) in [
        (
            json(r#"{"a":1}"#),
            response(503, "application/json", &[], r#"{"error":"no"}"#),
            &[][..],
            &[r#"status: 200 became 503 {"error":"no"}"#][..],
        ),
        (ok("text/plain", b"a"), ok("text/plain", b"b\n\x1b["), &[], &["body: a became b\\n\\u{1b}["]),
        (
            ok("image/png", b"\xff\x01"),
            ok("image/png", b"\xff\x02"),
            &[],
            &["body: other bytes in 2 bytes, not text"],
        ),
        (
            ok("image/png", b"\xff\x01"),
            ok("image/png", b"\xff"),
            &[],
            &["body: 2 bytes, not text became 1 bytes, not text"],
        ),
        // What says that it is JSON and is not is compared by its bytes.
        (ok("application/geo+json", b"{} "), ok("application/geo+json", b"{"), &[], &["body: {} became {"]),
        (ok("application/geo+json", b"{} "), ok("application/geo+json", b"{ }"), &[], &[]),
        (ok("application/json", b"1"), ok("Application/JSON ; charset=UTF-8", b"1"), &[], &[]),
        (ok("text/plain; charset=UTF-8", b""), ok("text/plain;charset=\"utf-8\"", b""), &[], &[]),
        (ok("a/b; x=1; y=2", b""), ok("a/b;Y=2;X=1", b""), &[], &[]),
        (
            ok("text/plain; charset=utf-8", b""),
            ok("text/plain; charset=latin1", b""),
            &[],
            &["content-type: `text/plain; charset=utf-8` became `text/plain; charset=latin1`"],
        ),
        (ok("text/plain", b""), ok("", b""), &[], &["content-type: `text/plain` became none"]),
        (ok("text/plain", b""), ok("", b""), &["content-type"], &[]),
        (headers(&[("A", "1"), ("b", "2")]), headers(&[("B", "2"), ("a", "1")]), &[], &[]),
        (
            headers(&[("a", "1"), ("a", "2")]),
            headers(&[("a", "2"), ("a", "1")]),
            &[],
            &["header a: `1`, `2` became `2`, `1`"],
        ),
        (
            headers(&[("a", "1")]),
            headers(&[("b", "1")]),
            &[],
            &["header a: `1` became none", "header b: none became `1`"],
        ),
        (headers(&[("a", "1")]), headers(&[("B", "1")]), &["A", "b"], &[]),
    ] {
        assert_eq!(told(&old, &new, &bounds(1e-6, ignore)), expected, "{old:?} and {new:?}");
    }
}

#[test]
fn errors_are_compared_by_code() {
    let failed = |code, message: &str| Err(RequestError::new(code, Stage::PreInference, message));
    let trap = || failed(Code::PluginTrap, "the handler trapped:\nunreachable");
    for (old, new, expected) in [
        (failed(Code::InvalidInput, "one"), failed(Code::InvalidInput, "another"), &[][..]),
        (
            json("1"),
            trap(),
            &["answer: status 200 1 became plugin_trap in pre_inference: the handler trapped:\\nunreachable"],
        ),
        (
            failed(Code::InvalidInput, "bad"),
            json("[]"),
            &["answer: invalid_input in pre_inference: bad became status 200 []"],
        ),
        (
            failed(Code::InvalidInput, "bad"),
            trap(),
            &[
                "answer: invalid_input in pre_inference: bad became plugin_trap in pre_inference: the handler \
             trapped:\\nunreachable",
            ],
        ),
        (json("1"), Ok(Output::Tensors(Vec::new())), &["answer: status 200 1 became "]),
    ] {
        assert_eq!(told(&old, &new, &Bounds::default()), expected, "{old:?} and {new:?}");
    }
}

fn tensor(name: &str, datatype: Datatype, shape: &[u64], data: &[u8]) -> Tensor {
    Tensor::new(Arc::from(name), datatype, shape.to_vec(), Bytes::copy_from_slice(data)).unwrap()
}

fn fp32(name: &str, values: &[f32]) -> Tensor {
    let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    tensor(name, Datatype::Fp32, &[values.len() as u64], &data)
}

#[test]
fn tensors_are_compared_by_name_and_value() {
    let half = |value: f32| tensor("h", Datatype::Fp16, &[], &half::f16::from_f32(value).to_le_bytes());
    let brain = |value: f32| tensor("h", Datatype::Bf16, &[], &half::bf16::from_f32(value).to_le_bytes());
    let double = |value: f64| tensor("d", Datatype::Fp64, &[1], &value.to_le_bytes());
    let whole = |value: i64| tensor("i", Datatype::Int64, &[1], &value.to_le_bytes());
    let text = |elements: &[&[u8]]| {
        let mut data = Vec::new();
        for element in elements {
            assert!(crate::tensor::push_bytes_element(&mut data, element));
        }
        tensor("t", Datatype::Bytes, &[elements.len() as u64], &data)
    };
    for (old, new, ignore, expected) in [
        (
            vec![fp32("a", &[1.0]), fp32("b", &[2.0])],
            vec![fp32("b", &[2.0]), fp32("a", &[1.0])],
            &[][..],
            &[][..],
        ),
        (vec![fp32("a", &[1.0, 2.0])], vec![fp32("a", &[1.000_000_1, 2.5])], &[], &["/a/1: 2.0 became 2.5"]),
        (
            vec![fp32("a", &[f32::NAN, 1.0])],
            vec![fp32("a", &[f32::NAN, f32::INFINITY])],
            &[],
            &["/a/1: 1.0 became inf"],
        ),
        (vec![fp32("a", &[f32::NAN])], vec![fp32("a", &[0.0])], &[], &["/a/0: NaN became 0.0"]),
        (vec![fp32("a", &[1.0])], vec![fp32("a", &[1.0, 1.0])], &[], &["/a: FP32 [1] became FP32 [2]"]),
        (vec![fp32("d", &[1.0])], vec![double(1.0)], &[], &["/d: FP32 [1] became FP64 [1]"]),
        (
            vec![fp32("a", &[1.0])],
            vec![fp32("b", &[1.0])],
            &[],
            &["/a: FP32 [1] is gone", "/b: FP32 [1] is new"],
        ),
        (vec![fp32("a", &[1.0])], vec![fp32("b", &[1.0])], &["/a", "/b"], &[]),
        (vec![fp32("a", &[1.0, 2.0])], vec![fp32("a", &[3.0, 4.0])], &["/a/1"], &["/a/0: 1.0 became 3.0"]),
        (vec![half(0.5)], vec![half(0.501)], &[], &["/h/0: 0.5 became 0.50097656"]),
        (vec![brain(0.5)], vec![brain(0.5)], &[], &[]),
        (vec![brain(0.5)], vec![brain(-0.5)], &[], &["/h/0: 0.5 became -0.5"]),
        (vec![double(1.0)], vec![double(1.0 + 1e-9)], &[], &[]),
        (
            vec![whole(1 << 53)],
            vec![whole((1 << 53) + 1)],
            &[],
            &["/i/0: 9007199254740992 became 9007199254740993"],
        ),
        (
            vec![text(&[b"a", b"\n"])],
            vec![text(&[b"a", b"\xff"])],
            &[],
            &[r#"/t/1: "\n" became {"b64":"/w=="}"#],
        ),
    ] {
        let (old, new) = (Ok(Output::Tensors(old)), Ok(Output::Tensors(new)));
        assert_eq!(told(&old, &new, &bounds(1e-6, ignore)), expected, "{old:?} and {new:?}");
    }
}

#[test]
fn hostile_answers_make_few_short_lines() {
    let zeroes = |digit: &str| format!("[{}]", vec![digit; 100_000].join(","));
    let deep = |leaf: &str| format!("{}{leaf}{}", "[".repeat(10_000), "]".repeat(10_000));
    let keys = |value: usize| {
        let member = |n: usize| format!("\"{}{n}\":{}", "k".repeat(1000), value + n);
        format!("{{{}}}", (0..100).map(member).collect::<Vec<_>>().join(","))
    };
    let long = |letter: &str| format!("\"{}\"", letter.repeat(100_000));
    for (old, new, lines) in [
        (zeroes("0"), zeroes("1"), MOST),
        (deep("0"), deep("1"), 1),
        (keys(0), keys(1), MOST),
        (long("a"), long("b"), 1),
        (long("\u{202e}"), long("\\n"), 1),
    ] {
        let told = told(&json(&old), &json(&new), &Bounds::default());
        assert_eq!(told.len(), lines);
        for line in told {
            assert!(line.chars().count() < 500 && !line.contains(char::is_control), "{line}");
        }
    }
    let tensors = |value| Ok(Output::Tensors(vec![fp32("a", &[value; 10_000])]));
    assert_eq!(told(&tensors(0.0), &tensors(1.0), &Bounds::default()).len(), MOST);
}
