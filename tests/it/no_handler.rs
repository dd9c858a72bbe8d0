//! An endpoint without a handler: the JSON body is the model's input, the model's outputs are the JSON response.

use e2e::{Host, assert_close, model};
use serde_json::{Value, json};

/// What an endpoint with this bare model answers.
fn bare(name: &str) -> Host {
    Host::with(None, Some(&model(name)), &[])
}

/// Sends each body; `Ok` is the exact response, `Err` the exact text of a 400.
fn check(model: &str, cases: &[(&str, Result<&str, &str>)]) {
    let host = bare(model);
    for (body, expected) in cases {
        let reply = host.post("/", body);
        match expected {
            Ok(expected) => {
                assert_eq!((reply.status, reply.text().as_str()), (200, *expected), "{model}: `{body}`")
            }
            Err(expected) => {
                let text = reply.error(400, "invalid_input", "pre_inference");
                assert_eq!(text, *expected, "{model}: `{body}`");
            }
        }
    }
}

const ONE: [f64; 3] = [0.9819308, 0.0180693, 1.737e-8];
const OTHER: [f64; 3] = [5.59e-5, 0.0800746, 0.9198695];

#[test]
fn one_row_or_many_named_or_bare() {
    let host = bare("iris_dyn");
    let cases = [
        (r#"{"input":[5.2,3.6,1.4,0.3]}"#, json!([[0], [ONE]])),
        (r#"[5.2,3.6,1.4,0.3]"#, json!([[0], [ONE]])),
        (r#" {"input" : [[5.2, 3.6, 1.4, 0.3]], "other": {"input": 1}} "#, json!([[0], [ONE]])),
        (r#"{"input":[[5.2,3.6],[1.4,0.3]]}"#, json!([[0], [ONE]])),
        (r#"{"input":[[5.2,3.6,1.4,0.3],[6.7,3.0,5.2,2.3]]}"#, json!([[0, 2], [ONE, OTHER]])),
        (r#"[[5.2,3.6,1.4,0.3],[6.7,3.0,5.2,2.3]]"#, json!([[0, 2], [ONE, OTHER]])),
    ];
    for (body, expected) in cases {
        let reply = host.post("/iris_dyn", body);
        assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/json")), "{body}");
        assert_close(&reply.json(), &expected);
    }
    // A fixed number of rows is a fixed number of rows.
    let fixed = bare("iris_static");
    assert_close(&fixed.post("/", "[5.2,3.6,1.4,0.3]").json(), &json!([[ONE]]));
    let text =
        fixed.post("/", "[[5.2,3.6,1.4,0.3],[6.7,3.0,5.2,2.3]]").error(400, "invalid_input", "pre_inference");
    assert_eq!(text, "input `input`: expected FP32 [1, 4], got FP32 [2, 4]");
}

#[test]
fn a_hundred_rows_in_order() {
    let host = bare("iris_dyn");
    let rows: Vec<[f64; 4]> =
        (0..100).map(|row| if row % 3 == 0 { [6.7, 3.0, 5.2, 2.3] } else { [5.2, 3.6, 1.4, 0.3] }).collect();
    let labels = host.post("/", json!(rows).to_string()).json()[0].take();
    let expected: Vec<u8> = (0..100).map(|row| if row % 3 == 0 { 2 } else { 0 }).collect();
    assert_eq!(labels, json!(expected));
}

#[test]
fn what_does_not_fit_one_input_is_named() {
    check(
        "iris_dyn",
        &[
            (r#"{"x":1}"#, Err(r#"missing key "input""#)),
            (r#"{"input":null}"#, Err(r#"missing key "input""#)),
            ("null", Err(r#"missing key "input""#)),
            ("{}", Err(r#"missing key "input""#)),
            ("[1,2,3]", Err("input `input`: expected FP32 [N, 4], got FP32 [3]")),
            ("[]", Err("input `input`: expected FP32 [N, 4], got FP32 [0]")),
            (r#"{"input":5}"#, Err("input `input`: expected FP32 [N, 4], got FP32 []")),
            (r#"[1,"x",3,4]"#, Err(r#"key "input": element 1: cannot convert "x" to FP32"#)),
            (
                "[1,2,3,[4]]",
                Err(r#"key "input": element 3: a list where the elements before are single values"#),
            ),
            ("[[1,2,3,4],[5]]", Err(r#"key "input": element 1: a list of 1 where the ones before have 4"#)),
            ("[1,2,3,1e39]", Err(r#"key "input": element 3: 1e39 is out of range for FP32"#)),
        ],
    );
}

#[test]
fn several_inputs_need_names() {
    check(
        "add",
        &[
            (r#"{"a":[1,2],"b":[3,4]}"#, Ok("[[4.0,6.0]]")),
            (r#"{"b":[3,4],"a":[1,2],"c":1}"#, Ok("[[4.0,6.0]]")),
            (r#"{"a":[0.1,2],"b":[[0.2],[4]]}"#, Ok("[[0.3,6.0]]")),
            (r#"{"a":[1,2]}"#, Err(r#"missing key "b""#)),
            (r#"{"a":[1,2],"b":null}"#, Err(r#"missing key "b""#)),
            (r#"[[1,2],[3,4]]"#, Err(r#"expected sample to be a dictionary with keys "a", "b""#)),
            ("7", Err(r#"expected sample to be a dictionary with keys "a", "b""#)),
            (r#"{"a":[1,2],"b":["x",1]}"#, Err(r#"key "b": element 0: cannot convert "x" to FP32"#)),
            (r#"{"a":[1,2],"b":[1,2,3]}"#, Err("input `b`: expected FP32 [2], got FP32 [3]")),
        ],
    );
}

#[test]
fn text_is_a_tensor_too() {
    check(
        "strid",
        &[
            (r#"{"s":["hé"]}"#, Ok(r#"[["hé"]]"#)),
            (r#"{"s":["h\u00e9"]}"#, Ok(r#"[["hé"]]"#)),
            (r#"{"s":[1]}"#, Ok(r#"[["1"]]"#)),
            (r#""bare""#, Ok(r#"[["bare"]]"#)),
            (r#"{"s":[""]}"#, Ok(r#"[[""]]"#)),
            (r#"{"s":[true]}"#, Err(r#"key "s": element 0: cannot convert true to BYTES"#)),
            (r#"{"s":["a","b"]}"#, Err("input `s`: expected BYTES [1], got BYTES [2]")),
        ],
    );
}

#[test]
fn every_datatype_comes_back_as_it_went_in() {
    let cases: [(&str, &str, &str); 14] = [
        ("bool", "[true,false]", "[[true,false]]"),
        ("uint8", "[0,255]", "[[0,255]]"),
        ("uint16", "[0,65535]", "[[0,65535]]"),
        ("uint32", "[0,4294967295]", "[[0,4294967295]]"),
        ("uint64", "[0,18446744073709551615]", "[[0,18446744073709551615]]"),
        ("int8", "[-128,127]", "[[-128,127]]"),
        ("int16", "[-32768,32767]", "[[-32768,32767]]"),
        ("int32", "[-2147483648,2147483647]", "[[-2147483648,2147483647]]"),
        (
            "int64",
            "[-9223372036854775808,9223372036854775807]",
            "[[-9223372036854775808,9223372036854775807]]",
        ),
        ("fp16", "[0.1,-2]", "[[0.099975586,-2.0]]"),
        ("bf16", "[0.1,-2]", "[[0.100097656,-2.0]]"),
        ("fp32", "[0.1,-2,3.4028235e38]", "[[0.1,-2.0,3.4028235e+38]]"),
        ("fp64", "[0.1,-2,1e300]", "[[0.1,-2.0,1e+300]]"),
        ("bytes", r#"["hé",""]"#, r#"[["hé",""]]"#),
    ];
    for (datatype, body, expected) in cases {
        check(&format!("identity_{datatype}"), &[(body, Ok(expected))]);
    }
}

#[test]
fn a_value_beyond_its_datatype_is_refused_not_wrapped() {
    check(
        "identity_uint8",
        &[
            ("[256]", Err(r#"key "x": element 0: 256 is out of range for UINT8"#)),
            ("[1,-1]", Err(r#"key "x": element 1: -1 is out of range for UINT8"#)),
            ("[1.5]", Err(r#"key "x": element 0: 1.5 is not an exact integer, which UINT8 needs"#)),
            ("[3.0]", Ok("[[3]]")),
            ("[true]", Err(r#"key "x": element 0: cannot convert true to UINT8"#)),
        ],
    );
    check("identity_bool", &[("[1]", Err(r#"key "x": element 0: cannot convert 1 to BOOL"#))]);
    check("identity_fp16", &[("[65536]", Err(r#"key "x": element 0: 65536 is out of range for FP16"#))]);
}

/// A missing value, as clients of other servers write it and as this one answers it, by every protocol of JSON.
#[test]
fn numbers_that_json_does_not_have_are_data_of_fp_types() {
    let special = "[NaN,Infinity,-Infinity,null,1.5]";
    for datatype in ["fp16", "bf16", "fp32", "fp64"] {
        let null = "[null,null,null,null,1.5]";
        let answer = format!("[{null}]");
        let (model, marked) = (format!("identity_{datatype}"), format!("\u{feff}{special}"));
        check(
            &model,
            &[
                (special, Ok(answer.as_str())),
                (null, Ok(answer.as_str())),
                (marked.as_str(), Ok(answer.as_str())),
            ],
        );
    }
    let host = bare("identity_fp32");
    let bytes: Vec<u8> = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1.5]
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    let wanted = r#""outputs":[{"name":"y","parameters":{"binary_data":true}}]"#;
    let body =
        format!(r#"{{"inputs":[{{"name":"x","datatype":"FP32","shape":[5],"data":{special}}}],{wanted}}}"#);
    let reply = host.post("/v2/models/identity_fp32/infer", &body);
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(reply.body[reply.body.len() - 20..], bytes, "infinities stay infinities");
    for (path, body, expected) in [
        (
            "v1/models/identity_fp32:predict",
            r#"{"instances":[NaN,null,1]}"#,
            r#"{"predictions":[null,null,1.0]}"#,
        ),
        ("v1/models/identity_fp32:predict", r#"{"inputs":[-Infinity]}"#, r#"{"outputs":[null]}"#),
    ] {
        assert_eq!(host.post(&format!("/{path}"), body).text(), expected, "{body}");
    }
    let reply = host.post("/v2/models/identity_fp32/generate", r#"{"x":[NaN,null,2]}"#);
    assert_eq!(reply.json()["y"], json!([null, null, 2.0]), "{}", reply.text());
    check(
        "identity_int32",
        &[
            ("[1,NaN]", Err(r#"key "x": element 1: cannot convert NaN to INT32"#)),
            ("[null]", Err(r#"key "x": element 0: cannot convert null to INT32"#)),
            (
                r#"{"x":[1],"y":NaN}"#,
                Err("malformed json: NaN at line 1 column 14, where no data of an FP type is"),
            ),
        ],
    );
}

/// A model that fails says which inputs disagree, by the names of its extents; one that runs does as it will.
#[test]
fn inputs_that_disagree_are_the_callers() {
    check("add_rows", &[(r#"{"a":[1,2],"b":[3]}"#, Ok("[[4.0,5.0]]"))]);
    let refused = bare("add_rows").post("/", r#"{"a":[1,2],"b":[3,4,5]}"#);
    let expected = "inputs `a` and `b` disagree: `N` is 2 of FP32 [2] and 3 of FP32 [3]";
    assert_eq!(refused.error(400, "invalid_input", "infer"), expected);
}

#[test]
fn scalars_and_shapes_the_model_leaves_open() {
    check("scalar", &[("2.5", Ok("[2.5]")), (r#"{"x":2.5}"#, Ok("[2.5]"))]);
    check(
        "unknown_rank",
        &[("[[1,2],[3,4]]", Ok("[[[1.0,2.0],[3.0,4.0]]]")), ("7", Ok("[7.0]")), ("[[]]", Ok("[[]]"))],
    );
}

#[test]
fn only_json_is_converted() {
    let host = bare("iris_dyn");
    let send = |content_type: Option<&str>, body: &[u8]| {
        let headers: Vec<_> = content_type.map(|value| ("content-type", value)).into_iter().collect();
        host.request("POST", "/", &headers, body)
    };
    let good = b"[5.2,3.6,1.4,0.3]";
    for accepted in [
        Some("application/json"),
        Some("application/json; charset=utf-8"),
        Some("Application/JSON"),
        Some("application/vnd.api+json"),
        None,
    ] {
        assert_eq!(send(accepted, good).status, 200, "{accepted:?}");
    }
    for refused in ["text/plain", "application/x-www-form-urlencoded", "application/octet-stream"] {
        let text = send(Some(refused), good).error(415, "unsupported_media_type", "pre_inference");
        let expected =
            format!("expected `application/json`, got `{refused}`; say it in the header `content-type`");
        assert_eq!(text, expected);
    }
    let malformed: [&[u8]; 7] =
        [b"{bad", b"", b"[1,2,3,4", b"[1,2,3,nan]", b"[1] 2", b"\xff\xfe", b"{\"input\":[1,]}"];
    for body in malformed {
        let text = send(Some("application/json"), body).error(400, "invalid_input", "pre_inference");
        assert!(text.starts_with("malformed json: "), "{:?}: {text}", String::from_utf8_lossy(body));
    }
    // Nesting costs no stack.
    for bomb in
        ["[".repeat(1 << 20), format!("{}{}", "[".repeat(40), "]".repeat(40)), "{\"a\":".repeat(1 << 18)]
    {
        let reply = send(None, bomb.as_bytes());
        reply.error(400, "invalid_input", "pre_inference");
    }
}

#[test]
fn a_model_that_fails_says_so_without_its_inner_life() {
    let host = bare("gather");
    assert_eq!(host.post("/", "[0,2]").text(), "[[1.0,3.0]]");
    let reply = host.post("/", "[0,5]");
    assert_eq!(reply.error(500, "model_error", "infer"), "the model failed");
    assert_eq!(reply.json().get("detail"), None);
    e2e::wait_until("the engine's words in the log", || {
        let id = reply.header("x-request-id").unwrap();
        host.log()
            .lines()
            .any(|line| line.contains(id) && line.contains("model_error") && line.contains("Gather"))
    });
    // The session stays usable.
    assert_eq!(host.post("/", "[1]").text(), "[[2.0]]");

    let debug = Host::with(None, Some(&model("gather")), &["--debug"]);
    let detail = debug.post("/", "[5]").json()["detail"].take();
    assert!(matches!(&detail, Value::String(text) if text.contains("Gather")), "{detail}");
}
