//! Every form of a body and of an answer, and every way to be wrong.

use super::*;
use crate::tensor::{Extent, Role, push_bytes_element};

fn signature(inputs: &[(&str, Datatype, &[i64])]) -> Signature {
    let extent = |extent: &i64| u64::try_from(*extent).map_or(Extent::Free(None), Extent::Fixed);
    let spec = |(name, datatype, shape): &(&str, Datatype, &[i64])| TensorSpec {
        name: (*name).into(),
        datatype: *datatype,
        shape: shape.iter().map(extent).collect(),
        role: Role::Plain,
    };
    Signature { inputs: inputs.iter().map(spec).collect(), outputs: Vec::new() }
}

fn iris() -> Signature {
    signature(&[("input", Datatype::Fp32, &[-1, 4])])
}

fn add() -> Signature {
    signature(&[("a", Datatype::Uint8, &[-1, 2]), ("b", Datatype::Uint8, &[-1])])
}

fn text() -> Signature {
    signature(&[("s", Datatype::Bytes, &[-1])])
}

/// The layout and each tensor's name, shape and values, or the error.
fn show(body: &str, signature: &Signature) -> String {
    let body = Bytes::copy_from_slice(body.as_bytes());
    let serving = match Serving::scan(&body) {
        Ok(serving) => serving,
        Err(error) => return format!("malformed: {error}"),
    };
    let tensors = serving.tensors(&body, signature, "serving_default");
    match tensors {
        Err(error) => error,
        Ok(tensors) => {
            let shown = |tensor: &Tensor| {
                let value = serde_json::to_string(&Nested(tensor)).unwrap();
                format!("{} {:?} {value}", tensor.name, tensor.shape)
            };
            let tensors = tensors.iter().map(shown).collect::<Vec<_>>().join("; ");
            format!("{:?} {tensors}", serving.layout())
        }
    }
}

#[test]
fn rows() {
    let check = |signature: &Signature, body: &str, expected: &str| {
        assert_eq!(show(body, signature), expected, "{body}");
    };
    let two = "Some(Rows(2)) input [2, 4] [[1.0,2.0,3.0,4.0],[5.0,6.0,7.0,8.0]]";
    check(&iris(), r#"{"instances": [[1,2,3,4], [5,6,7,8]]}"#, two);
    check(&iris(), r#"{"instances":[{"input":[1,2,3,4]},{"x":{},"input":[5,6,7,8]}],"x":1}"#, two);
    // Instances need not all be written alike.
    check(&iris(), r#"{"signature_name":"","instances":[[1,2,3,4],{"input":[5,6,7,8]}]}"#, two);
    check(
        &add(),
        r#"{"instances":[{"a":[1,2],"b":3},{"b":6,"a":[4,5]}],"signature_name":"serving_default"}"#,
        "Some(Rows(2)) a [2, 2] [[1,2],[4,5]]; b [2] [3,6]",
    );
    check(
        &text(),
        r#"{"instances":["a","{\"x\": [\"]", {"b64":"//4="}, 1]}"#,
        r#"Some(Rows(4)) s [4] ["a","{\"x\": [\"]",{"b64":"//4="},"1"]"#,
    );
    check(&text(), r#"{"instances":[{"s":{"b64":"aGk="}}]}"#, r#"Some(Rows(1)) s [1] ["hi"]"#);
    // Where an input is called so, the key is its name.
    let named = signature(&[("b64", Datatype::Bytes, &[-1])]);
    check(&named, r#"{"instances":[{"b64":"aGk="}]}"#, r#"Some(Rows(1)) b64 [1] ["aGk="]"#);
}

#[test]
fn special_numbers() {
    let one = || signature(&[("x", Datatype::Fp32, &[-1])]);
    let pair = || signature(&[("x", Datatype::Fp32, &[-1]), ("y", Datatype::Int64, &[-1])]);
    for (signature, body, expected) in [
        (
            iris(),
            r#"{"instances":[[NaN,1,Infinity,null]]}"#,
            "Some(Rows(1)) input [1, 4] [[null,1.0,null,null]]",
        ),
        (
            iris(),
            r#"{"inputs":[[NaN,1,2,3]],"signature_name":""}"#,
            "Some(Columns) input [1, 4] [[null,1.0,2.0,3.0]]",
        ),
        (iris(), r#"{"input":[NaN,1,2,3]}"#, "None input [4] [null,1.0,2.0,3.0]"),
        (one(), r#"{"instances":[1,null,NaN]}"#, "Some(Rows(3)) x [3] [1.0,null,null]"),
        (
            pair(),
            "\u{feff}{\"instances\":[{\"x\":NaN,\"y\":1},{\"y\":2,\"x\":null}]}",
            "Some(Rows(2)) x [2] [null,null]; y [2] [1,2]",
        ),
        (pair(), r#"{"inputs":{"x":[null],"y":[1]}}"#, "Some(Columns) x [1] [null]; y [1] [1]"),
        (pair(), r#"{"instances":[{"x":1,"y":NaN}]}"#, r#"instance 0: key "y": cannot convert NaN to INT64"#),
        (pair(), r#"{"instances":[{"x":1,"y":null}]}"#, r#"instance 0: missing key "y""#),
        (
            pair(),
            r#"{"instances":[{"x":1,"y":2,"z":NaN}]}"#,
            "instance 0: malformed json: NaN at line 1 column 18, where no data of an FP type is",
        ),
        (
            iris(),
            r#"{"id":NaN,"instances":[[1,2,3,4]]}"#,
            "malformed: NaN at line 1 column 7, where no data of an FP type is",
        ),
    ] {
        assert_eq!(show(body, &signature), expected, "{body}");
    }
    let body = Bytes::from(r#"{"instances":[NaN]}"#);
    assert!(Serving::scan(&body).unwrap().has_special());
    assert!(!Serving::scan(&Bytes::from(r#"{"instances":["NaN"]}"#)).unwrap().has_special());
}

#[test]
fn columns() {
    for (signature, body, expected) in [
        (iris(), r#"{"inputs":[[1,2,3,4]]}"#, "Some(Columns) input [1, 4] [[1.0,2.0,3.0,4.0]]"),
        (iris(), r#"{"inputs":{"input":[[1,2,3,4]]}}"#, "Some(Columns) input [1, 4] [[1.0,2.0,3.0,4.0]]"),
        (add(), r#"{"inputs":{"a":[[1,2]],"b":[3]}}"#, "Some(Columns) a [1, 2] [[1,2]]; b [1] [3]"),
        (text(), r#"{"inputs":{"b64":"aGk="}}"#, r#"Some(Columns) s [] "hi""#),
        (text(), r#"{"inputs":["x",{"b64":"aGk"}]}"#, r#"Some(Columns) s [2] ["x","hi"]"#),
        // Neither: the plain rule, with anything beside it.
        (iris(), "[1,2,3,4]", "None input [4] [1.0,2.0,3.0,4.0]"),
        (add(), r#"{"a":[[1,2]],"b":3,"signature_name":7}"#, "None a [1, 2] [[1,2]]; b [] 3"),
        (iris(), r#"{"instances":null,"input":[1,2,3,4]}"#, "None input [4] [1.0,2.0,3.0,4.0]"),
    ] {
        assert_eq!(show(body, &signature), expected, "{body}");
    }
}

#[test]
fn what_is_wrong_is_named() {
    for (signature, body, expected) in [
        (iris(), "{bad", "malformed: key must be a string at line 1 column 2"),
        (iris(), "", "malformed: EOF while parsing a value at line 1 column 0"),
        (iris(), r#"{"instances":[1,}"#, "malformed: expected value at line 1 column 17"),
        (iris(), r#"{"instances":[]} x"#, "malformed: trailing characters at line 1 column 18"),
        (iris(), r#"{"instances":[]}"#, "`instances` is empty"),
        (iris(), r#"{"instances":{"input":1}}"#, "`instances` is no list"),
        (iris(), r#"{"instances":[1],"inputs":1}"#, "expected one of `instances` and `inputs`, got both"),
        (
            iris(),
            r#"{"instances":[[1,2,3,4],[5,"x",7,8]]}"#,
            r#"instance 1: key "input": element 1: cannot convert "x" to FP32"#,
        ),
        (
            iris(),
            r#"{"instances":[[1,2,3,4],[5,6,7]]}"#,
            r#"instance 1: key "input": a list of 3 where the ones before have 4"#,
        ),
        (
            iris(),
            r#"{"instances":[[1,2,3,4],5]}"#,
            r#"instance 1: key "input": 5 where the elements before are lists"#,
        ),
        (iris(), r#"{"instances":[{"input":null}]}"#, r#"instance 0: missing key "input""#),
        (iris(), r#"{"instances":[{"b64":"aGk="}]}"#, r#"instance 0: missing key "input""#),
        (add(), r#"{"instances":[{"a":[1,2],"b":3},{"a":[1,2]}]}"#, r#"instance 1: missing key "b""#),
        (add(), r#"{"instances":[1]}"#, r#"instance 0: expected an object with keys "a", "b""#),
        (add(), r#"{"inputs":[1]}"#, r#"expected sample to be a dictionary with keys "a", "b""#),
        (
            add(),
            r#"{"instances":[{"a":[1,2],"b":300}]}"#,
            r#"instance 0: key "b": 300 is out of range for UINT8"#,
        ),
        (
            text(),
            r#"{"instances":[{"b64":"?"}]}"#,
            r#"instance 0: key "s": `b64` is not base64 (RFC 4648, section 4)"#,
        ),
        (text(), r#"{"instances":[{"b64":"","x":1}]}"#, r#"instance 0: missing key "s""#),
        (
            iris(),
            r#"{"inputs":[1,2,3,4],"signature_name":"other"}"#,
            "there is no signature `other`; the model is served by `serving_default`",
        ),
        (iris(), r#"{"inputs":[1,2,3,4],"signature_name":1}"#, "`signature_name` is no string"),
    ] {
        assert_eq!(show(body, &signature), expected, "{body}");
    }
    // Nesting costs no stack, instances no more memory than their text.
    let bomb = format!(r#"{{"instances":{}}}"#, "[".repeat(1 << 18));
    assert!(show(&bomb, &iris()).starts_with("malformed: "));
    let deep = format!(r#"{{"instances":[{}{}]}}"#, "[".repeat(40), "]".repeat(40));
    assert_eq!(show(&deep, &iris()), r#"instance 0: key "input": lists nested deeper than 32"#);
}

fn tensor(name: &str, shape: &[u64], data: &[u8]) -> Tensor {
    Tensor::new(name.into(), Datatype::Uint8, shape.to_vec(), data.to_vec().into()).unwrap()
}

#[test]
fn answers() {
    let texts = |values: &[&[u8]]| {
        let mut data = Vec::new();
        assert!(values.iter().all(|value| push_bytes_element(&mut data, value)));
        Tensor::new("t".into(), Datatype::Bytes, vec![values.len() as u64], data.into()).unwrap()
    };
    let [p, l] = [tensor("p", &[2, 2], &[1, 2, 3, 4]), tensor("l", &[2], &[5, 6])];
    let (rows, columns) = (Layout::Rows, Layout::Columns);
    for (outputs, layout, expected) in [
        (vec![p.clone()], rows(2), r#"{"predictions":[[1,2],[3,4]]}"#),
        (vec![l.clone()], rows(2), r#"{"predictions":[5,6]}"#),
        (vec![p.clone(), l.clone()], rows(2), r#"{"predictions":[{"p":[1,2],"l":5},{"p":[3,4],"l":6}]}"#),
        (vec![texts(&[b"a", b"\xff"])], rows(2), r#"{"predictions":["a",{"b64":"/w=="}]}"#),
        (
            vec![texts(&[b"", b"bc"]), l.clone()],
            rows(2),
            r#"{"predictions":[{"t":"","l":5},{"t":"bc","l":6}]}"#,
        ),
        // A model without rows has one answer for one instance.
        (vec![l.clone()], rows(1), r#"{"predictions":[[5,6]]}"#),
        (vec![tensor("s", &[], &[7])], rows(1), r#"{"predictions":[7]}"#),
        (vec![tensor("e", &[2, 0], &[])], rows(2), r#"{"predictions":[[],[]]}"#),
        (vec![p.clone()], columns, r#"{"outputs":[[1,2],[3,4]]}"#),
        (vec![p.clone(), l.clone()], columns, r#"{"outputs":{"p":[[1,2],[3,4]],"l":[5,6]}}"#),
        (vec![], columns, r#"{"outputs":{}}"#),
    ] {
        let json = outputs_text(&outputs, layout);
        assert_eq!(json.as_deref(), Ok(expected));
    }
    let expected = "output \"l\" of shape [2] has no row for each of 3 instances: send `inputs` instead";
    assert_eq!(outputs_text(&[l], rows(3)), Err(expected.to_owned()));
    assert!(outputs_text(&[tensor("s", &[], &[7])], rows(2)).is_err());
}

fn outputs_text(tensors: &[Tensor], layout: Layout) -> Result<String, String> {
    outputs(tensors, &[], layout).map(|json| String::from_utf8(json).unwrap())
}
