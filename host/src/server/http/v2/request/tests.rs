//! Requests and what becomes of them.

use super::*;
use crate::json::write;
use crate::memory::Account;
use crate::tensor::{Role, TensorSpec};

fn room() -> Room {
    Room { longest: 1 << 40, memory: Account::default() }
}

/// `"name DATATYPE [shape] = [flat data]; …"`, or the error.
fn shown(headers: &[&str], body: &[u8], inputs: &[TensorSpec]) -> Result<(String, RequestedOutputs), String> {
    let headers: HeaderMap = headers.iter().map(|value| (HEADER_LENGTH, value.parse().unwrap())).collect();
    let signature = Arc::new(Signature { inputs: inputs.to_vec(), outputs: Vec::new() });
    let memory = SharedMemory::default();
    let read = read(&headers, &Bytes::copy_from_slice(body), room(), &memory, || signature);
    let (input, wanted) = read.map_err(|error| {
        assert_eq!((error.code.name(), error.stage), ("invalid_input", Stage::Admit));
        error.to_string()
    })?;
    let tensor = |tensor: &Tensor| {
        let data = serde_json::to_string(&write::Flat(tensor)).unwrap();
        format!("{} {} {:?} = {data}", tensor.name, tensor.datatype, tensor.shape)
    };
    Ok((input.tensors.iter().map(tensor).collect::<Vec<_>>().join("; "), wanted))
}

/// A request of inputs and nothing else.
fn inputs(inputs: &str) -> String {
    format!(r#"{{"inputs":[{inputs}]}}"#)
}

/// JSON alone.
fn check(input: &str, expected: Result<&str, &str>) {
    let found = shown(&[], inputs(input).as_bytes(), &[]).map(|(tensors, _)| tensors);
    assert_eq!(found.as_deref().map_err(String::as_str), expected, "{input}");
}

/// JSON and binary data behind it.
fn check_binary(input: &str, binary: &[u8], expected: Result<&str, &str>) {
    let json = inputs(input);
    let body = [json.as_bytes(), binary].concat();
    let found = shown(&[&json.len().to_string()], &body, &[]).map(|(tensors, _)| tensors);
    assert_eq!(found.as_deref().map_err(String::as_str), expected, "{input}");
}

#[test]
fn data_may_be_flat_or_nested() {
    let input = |shape: &str, data: &str| {
        format!(r#"{{"name":"x","shape":{shape},"datatype":"FP32","data":{data}}}"#)
    };
    check(&input("[2,2]", "[1,2,3,4]"), Ok("x FP32 [2, 2] = [1.0,2.0,3.0,4.0]"));
    check(&input("[2,2]", "[[1,2],[3,4]]"), Ok("x FP32 [2, 2] = [1.0,2.0,3.0,4.0]"));
    check(&input("[1]", "5"), Ok("x FP32 [1] = [5.0]"));
    check(&input("[]", "[5]"), Ok("x FP32 [] = [5.0]"));
    check(&input("[0,4]", "[]"), Ok("x FP32 [0, 4] = []"));
    check(&input("[4]", "[1,2,3]"), Err("input `x`: shape [4] does not have the 3 elements of `data`"));
    check(
        &input("[2]", "[[1,2],[3]]"),
        Err("input `x`: element 1: a list of 1 where the ones before have 2"),
    );
    check(&input("[1]", "[null]"), Ok("x FP32 [1] = [null]"));
    let huge = "[18446744073709551615,18446744073709551615]";
    check(
        &input(huge, "[1]"),
        Err(&format!("input `x`: shape {} does not have the 1 elements of `data`", huge.replace(',', ", "))),
    );
    let deep = format!("[{}]", ["1"; 33].join(","));
    check(&input(&deep, "[1]"), Err("input `x`: the shape has 33 extents, more than 32"));
    let nested = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    check(&input("[1]", &nested), Err("input `x`: lists nested deeper than 32"));
}

#[test]
fn what_is_wrong_with_an_input_is_named() {
    let input =
        |datatype: &str, more: &str| format!(r#"{{"name":"x","shape":[1],"datatype":"{datatype}"{more}}}"#);
    check(&input("INT8", r#","data":[768]"#), Err("input `x`: element 0: 768 is out of range for INT8"));
    check(&input("UINT8", r#","data":[-1]"#), Err("input `x`: element 0: -1 is out of range for UINT8"));
    check(
        &input("FLOAT", r#","data":[1]"#),
        Err(
            "input `x`: there is no datatype `FLOAT`; there are BOOL, UINT8, UINT16, UINT32, UINT64, INT8, INT16, \
             INT32, INT64, FP16, BF16, FP32, FP64, BYTES",
        ),
    );
    check(&input("FP32", ""), Err("input `x`: has neither `data` nor `binary_data_size`"));
    check(&input("FP32", r#","data":null"#), Err("input `x`: has neither `data` nor `binary_data_size`"));
    let twice = input("FP32", r#","data":[1]"#);
    check(&format!("{twice},{twice}"), Err("input `x`: given twice"));
    check(
        &input("FP32", r#","parameters":{"shared_memory_region":"r","shared_memory_byte_size":4}"#),
        Err("input `x`: shared memory is not served"),
    );
    check(
        r#"{"name":"x","shape":[-1],"datatype":"FP32","data":[1]}"#,
        Err(
            "no inference request: invalid value: integer `-1`, expected a whole number from 0 up at line 1 column 34",
        ),
    );
    check(r#"{"shape":[1]}"#, Err("no inference request: missing field `name` at line 1 column 24"));
}

#[test]
fn binary_data_is_cut_into_its_inputs() {
    let input = |name: &str, datatype: &str, shape: &str, size: &str| {
        let start = format!(r#"{{"name":"{name}","shape":{shape},"datatype":"{datatype}","#);
        format!(r#"{start}"parameters":{{"binary_data_size":{size}}}}}"#)
    };
    let a = input("a", "UINT8", "[2]", "2");
    let b = input("b", "INT16", "[1]", "2");
    let json = r#"{"name":"j","shape":[1],"datatype":"INT8","data":[-1]}"#;
    check_binary(&format!("{a},{b}"), &[1, 2, 3, 0], Ok("a UINT8 [2] = [1,2]; b INT16 [1] = [3]"));
    check_binary(
        &format!("{a},{json},{b}"),
        &[1, 2, 3, 0],
        Ok("a UINT8 [2] = [1,2]; j INT8 [1] = [-1]; b INT16 [1] = [3]"),
    );
    check_binary(&input("e", "FP64", "[0]", "0"), &[], Ok("e FP64 [0] = []"));
    check_binary(&input("s", "BYTES", "[1]", "6"), b"\x02\0\0\0hi", Ok(r#"s BYTES [1] = ["hi"]"#));

    let left = "bytes left behind `inference-header-content-length`";
    check_binary(&a, &[1], Err(&format!("input `a`: `binary_data_size` is more than the 1 {left}")));
    check_binary(
        &format!("{a},{b}"),
        &[1, 2, 3],
        Err(&format!("input `b`: `binary_data_size` is more than the 1 {left}")),
    );
    let huge = input("a", "UINT8", "[2]", "18446744073709551615");
    check_binary(&huge, &[1, 2], Err(&format!("input `a`: `binary_data_size` is more than the 2 {left}")));
    check_binary(&a, &[1, 2, 3], Err("1 bytes of binary data belong to no input"));
    check_binary(json, &[1], Err("1 bytes of binary data belong to no input"));
    check_binary(
        &input("a", "FP32", "[2]", "4"),
        &[0; 4],
        Err("input `a`: FP32 of shape [2] takes 8 bytes, got 4"),
    );
    check_binary(
        &input("a", "BOOL", "[1]", "1"),
        &[2],
        Err("input `a`: BOOL data holds a byte that is neither 0 nor 1"),
    );
    check_binary(
        &input("s", "BYTES", "[1]", "5"),
        b"\x02\0\0\0h",
        Err("input `s`: BYTES data is cut short or has bytes left over"),
    );
    check_binary(
        &input("s", "BYTES", "[2]", "6"),
        b"\x02\0\0\0hi",
        Err("input `s`: BYTES of shape [2] takes 2 elements, got 1"),
    );
    check_binary(
        &input("a", "UINT8", "[1099511627776,1099511627776]", "1"),
        &[1],
        Err("input `a`: shape [1099511627776, 1099511627776] has more elements than memory can hold"),
    );
    let both = a.replace("\"parameters\"", "\"data\":[1,2],\"parameters\"");
    check_binary(&both, &[1, 2], Err("input `a`: has both `data` and `binary_data_size`"));
    for size in ["-1", "1.5", "\"2\""] {
        let input = input("a", "UINT8", "[2]", size);
        let json = inputs(&input);
        let error = shown(&[&json.len().to_string()], json.as_bytes(), &[]).unwrap_err();
        assert!(error.starts_with("no inference request: invalid"), "{size}: {error}");
    }
    // Without the header all of it is JSON.
    check(&a, Err(&format!("input `a`: `binary_data_size` is more than the 0 {left}")));
}

#[test]
fn binary_data_is_not_copied() {
    let json = inputs(r#"{"name":"a","shape":[3],"datatype":"UINT8","parameters":{"binary_data_size":3}}"#);
    let body = Bytes::from([json.as_bytes(), &[1, 2, 3]].concat());
    let headers = HeaderMap::from_iter([(HEADER_LENGTH, json.len().into())]);
    let (input, _) = read(&headers, &body, room(), &SharedMemory::default(), Arc::default).unwrap();
    assert_eq!(input.tensors[0].data.as_ptr(), body[json.len()..].as_ptr());
}

#[test]
fn the_header_says_how_long_the_json_is() {
    let body = inputs("");
    let length = body.len().to_string();
    assert_eq!(shown(&[&length], body.as_bytes(), &[]).unwrap().0, "");
    for (value, expected) in [
        ("100", "`inference-header-content-length` is 100, and the body has 13 bytes"),
        ("-1", "`inference-header-content-length` is no number of bytes"),
        ("+13", "`inference-header-content-length` is no number of bytes"),
        ("", "`inference-header-content-length` is no number of bytes"),
        ("99999999999999999999999", "`inference-header-content-length` is no number of bytes"),
        ("5", "malformed json: EOF while parsing a string at line 1 column 5"),
    ] {
        assert_eq!(shown(&[value], body.as_bytes(), &[]).unwrap_err(), expected, "{value}");
    }
    for (body, expected) in [
        ("", "malformed json: EOF while parsing a value at line 1 column 0"),
        ("{", "malformed json: EOF while parsing an object at line 1 column 1"),
        ("{}", "no inference request: missing field `inputs` at line 1 column 2"),
        ("7", "no inference request: invalid type: integer `7`, expected an object at line 1 column 1"),
        // A list of what an object would have is none.
        (
            r#"[null,null,[],null]"#,
            "no inference request: invalid type: sequence, expected an object at line 1 column 0",
        ),
        (
            r#"{"inputs":[{"name":"x","shape":[],"datatype":"FP32","data":1,"parameters":[null]}]}"#,
            "no inference request: invalid type: sequence, expected an object at line 1 column 74",
        ),
    ] {
        assert_eq!(shown(&[], body.as_bytes(), &[]).unwrap_err(), expected, "{body}");
    }
}

#[test]
fn what_is_wanted_back() {
    let read = |more: &str| {
        shown(&[], format!(r#"{{"inputs":[]{more}}}"#).as_bytes(), &[]).map(|(_, wanted)| wanted)
    };
    let output =
        |name: &str, binary| RequestedOutput { name: name.to_owned(), binary, classes: 0, place: None };
    assert_eq!(read("").unwrap(), RequestedOutputs::default());
    assert_eq!(read(r#","id":"7","outputs":[]"#).unwrap().id.as_deref(), Some("7"));
    let wanted = read(
        r#","outputs":[{"name":"b"},{"name":"a","parameters":{"binary_data":false}}],
           "parameters":{"binary_data_output":true}"#,
    );
    let outputs = vec![output("b", true), output("a", false)];
    assert_eq!(wanted.unwrap(), RequestedOutputs { id: None, outputs, binary: true });
    let wanted = read(r#","outputs":[{"name":"b"},{"name":"a","parameters":{"binary_data":true}}]"#);
    assert_eq!(wanted.unwrap().outputs, [output("b", false), output("a", true)]);
    assert!(read(r#","parameters":{"sequence_id":7,"priority":1,"timeout":5,"own":[1]}"#).is_ok());
    for (more, expected) in [
        (r#","parameters":7"#, "`parameters`: expected an object"),
        (
            r#","outputs":[{"name":"y","parameters":{"shared_memory_region":"r"}}]"#,
            "output `y`: shared memory is not served",
        ),
    ] {
        assert_eq!(read(more).unwrap_err(), expected, "{more}");
    }
}

#[test]
fn a_body_without_json_is_the_only_input() {
    let spec = |name: &str, datatype, shape: &[i64]| TensorSpec {
        name: name.into(),
        datatype,
        shape: shape.iter().map(|e| u64::try_from(*e).map_or(Extent::Free(None), Extent::Fixed)).collect(),
        role: Role::Plain,
    };
    let check = |specs: &[TensorSpec], body: &[u8], expected: Result<&str, &str>| {
        let found = shown(&["0"], body, specs).map(|(tensors, wanted)| {
            assert!(wanted.binary);
            tensors
        });
        assert_eq!(found.as_deref().map_err(String::as_str), expected, "{body:?}");
    };
    let bytes = [1, 2, 3, 4];
    check(&[spec("x", Datatype::Uint8, &[4])], &bytes, Ok("x UINT8 [4] = [1,2,3,4]"));
    check(&[spec("x", Datatype::Uint8, &[-1, 2])], &bytes, Ok("x UINT8 [2, 2] = [1,2,3,4]"));
    check(&[spec("s", Datatype::Bytes, &[1])], b"hi", Ok(r#"s BYTES [1] = ["hi"]"#));
    check(
        &[spec("x", Datatype::Uint8, &[3])],
        &bytes,
        Err("input `x`: UINT8 of shape [3] takes 3 bytes, got 4"),
    );
    for shape in [&[-1, -1][..], &[-1, 3], &[-1, 0]] {
        let error = shown(&["0"], &bytes, &[spec("x", Datatype::Uint8, shape)]).unwrap_err();
        assert!(error.starts_with("input `x`: 4 bytes do not say which shape of UINT8 ["), "{error}");
    }
    let two = [spec("a", Datatype::Uint8, &[4]), spec("b", Datatype::Uint8, &[4])];
    check(&two, &bytes, Err("a body without JSON is for models of one input, and this one has 2"));
    check(&[], &bytes, Err("a body without JSON is for models of one input, and this one has 0"));
}

/// Stock `tritonclient` with `binary_data=False`, MLServer's clients, and what this server itself answers.
#[test]
fn special_numbers_are_data_of_fp_types() {
    let input = |datatype: &str, data: &str| {
        format!(r#"{{"name":"x","shape":[4],"datatype":"{datatype}","data":{data}}}"#)
    };
    for datatype in ["FP16", "FP32", "FP64"] {
        let body = inputs(&input(datatype, "[NaN, -Infinity,Infinity,null]"));
        let memory = SharedMemory::default();
        let body = Bytes::from(format!("\u{feff}{body}"));
        let read = read(&HeaderMap::new(), &body, room(), &memory, || unreachable!());
        let values: Vec<f64> = match (datatype, &read.unwrap().0.tensors[0].data[..]) {
            ("FP16", data) => {
                data.as_chunks().0.iter().map(|it| half::f16::from_le_bytes(*it).into()).collect()
            }
            ("FP32", data) => data.as_chunks().0.iter().map(|it| f32::from_le_bytes(*it).into()).collect(),
            (_, data) => data.as_chunks().0.iter().map(|it| f64::from_le_bytes(*it)).collect(),
        };
        assert!(values[0].is_nan() && values[3].is_nan(), "{values:?}");
        assert_eq!(values[1..3], [f64::NEG_INFINITY, f64::INFINITY], "{datatype}");
    }
    for (datatype, data, expected) in [
        ("INT32", "[1,NaN,2,3]", "input `x`: element 1: cannot convert NaN to INT32"),
        ("INT64", "[1,2,3,-Infinity]", "input `x`: element 3: cannot convert -Infinity to INT64"),
        ("BOOL", "[true,null,true,true]", "input `x`: element 1: cannot convert null to BOOL"),
        ("BYTES", "[\"a\",-Infinity,1,1]", "input `x`: element 1: cannot convert -Infinity to BYTES"),
        ("BYTES", "[\"a\",null,1,1]", "input `x`: element 1: cannot convert null to BYTES"),
        ("FP32", "[1,2,3,inf]", "malformed json: expected value at line 1 column 68"),
        (
            "FP32",
            "[1,2,3,NaN],\"parameters\":{\"a\":NaN}",
            "malformed json: NaN at line 1 column 91, where no data of an FP type is",
        ),
    ] {
        check(&input(datatype, data), Err(expected));
    }
}

/// MLServer's codecs: of all that they name, only base64 is another form of the data.
#[test]
fn content_types_of_mlservers_clients() {
    let input = |datatype: &str, content_type: &str, data: &str| {
        format!(
            r#"{{"name":"x","shape":[2],"datatype":"{datatype}","parameters":{{"content_type":"{content_type}"}},"data":{data}}}"#
        )
    };
    for (datatype, content_type, data, expected) in [
        ("BYTES", "base64", r#"["aGk=","/w=="]"#, Ok(r#"x BYTES [2] = ["hi",{"b64":"/w=="}]"#)),
        ("BYTES", "str", r#"["aGk=","b"]"#, Ok(r#"x BYTES [2] = ["aGk=","b"]"#)),
        ("BYTES", "hg_json", r#"["{}","b"]"#, Ok(r#"x BYTES [2] = ["{}","b"]"#)),
        ("FP32", "np", "[1,NaN]", Ok("x FP32 [2] = [1.0,null]")),
        ("FP32", "base64", "[1,2]", Ok("x FP32 [2] = [1.0,2.0]")),
        (
            "BYTES",
            "base64",
            r#"["aGk=","?"]"#,
            Err("input `x`: element 1 is not base64, as its `content_type` says"),
        ),
    ] {
        check(&input(datatype, content_type, data), expected);
    }
}
