//! The acceptance cases of requests without a handler, then every datatype, shape and way to be wrong.

use crate::json::read::tensors;
use crate::pipeline::verify;
use crate::tensor::{BytesElements, Datatype, Extent, Role, Signature, Tensor, TensorSpec};

fn spec(name: &str, datatype: Datatype, shape: &[i64]) -> TensorSpec {
    let extent = |extent: &i64| u64::try_from(*extent).map_or(Extent::Free(Some("N".into())), Extent::Fixed);
    TensorSpec { name: name.into(), datatype, shape: shape.iter().map(extent).collect(), role: Role::Plain }
}

fn iris() -> Signature {
    Signature { inputs: vec![spec("input", Datatype::Fp32, &[-1, 4])], outputs: Vec::new() }
}

fn add() -> Signature {
    let inputs = vec![spec("a", Datatype::Fp32, &[2]), spec("b", Datatype::Fp32, &[2])];
    Signature { inputs, outputs: Vec::new() }
}

fn strid() -> Signature {
    Signature { inputs: vec![spec("s", Datatype::Bytes, &[1])], outputs: Vec::new() }
}

/// `name [shape] elements` for each tensor, or the error.
fn show(result: Result<Vec<Tensor>, String>) -> String {
    let tensor = |tensor: &Tensor| {
        let elements = match tensor.datatype.size() {
            None => {
                let text = |element: Result<&[u8], _>| String::from_utf8(element.unwrap().to_vec()).unwrap();
                format!("{:?}", BytesElements::new(&tensor.data).map(text).collect::<Vec<_>>())
            }
            Some(4) if tensor.datatype == Datatype::Fp32 => {
                let float = |bytes: &[u8; 4]| f32::from_le_bytes(*bytes);
                format!("{:?}", tensor.data.as_chunks().0.iter().map(float).collect::<Vec<_>>())
            }
            Some(_) => format!("{:x?}", &tensor.data[..]),
        };
        format!("{} {:?} {elements}", tensor.name, tensor.shape)
    };
    match result {
        Ok(tensors) => tensors.iter().map(tensor).collect::<Vec<_>>().join("; "),
        Err(error) => error,
    }
}

/// Through the conversion and the check after it, as a request goes.
fn check(signature: &Signature, body: &str, expected: &str) {
    let result = tensors(body.as_bytes(), signature).and_then(|tensors| verify::inputs(tensors, signature));
    assert_eq!(show(result), expected, "{body}");
}

/// The conversion alone, of one value to one datatype; the key is left out of the error.
fn convert(datatype: Datatype, value: &str, expected: &str) {
    let signature = Signature { inputs: vec![spec("x", datatype, &[])], outputs: Vec::new() };
    let shown = show(tensors(value.as_bytes(), &signature));
    let shown = shown.strip_prefix("key \"x\": ").or(shown.strip_prefix("x ")).unwrap_or(&shown);
    assert_eq!(shown, expected, "{value}");
}

#[test]
fn acceptance_cases() {
    let flower = "input [1, 4] [5.2, 3.6, 1.4, 0.3]";
    let keys = r#"expected sample to be a dictionary with keys "a", "b""#;
    // C5, C6
    check(&iris(), "{bad", "malformed json: key must be a string at line 1 column 2");
    check(&iris(), "", "malformed json: EOF while parsing a value at line 1 column 0");
    // C11, C12
    check(&iris(), r#"{"input":[5.2,3.6,1.4,0.3]}"#, flower);
    check(&iris(), "[5.2,3.6,1.4,0.3]", flower);
    check(&iris(), " [ [ 5.2 , 3.6 ,\n1.4,\t0.3 ] ]\r\n", flower);
    // C13
    check(&iris(), r#"{"x":1}"#, r#"missing key "input""#);
    // C14
    check(&iris(), "[1,2,3]", "input `input`: expected FP32 [N, 4], got FP32 [3]");
    // C15
    check(
        &iris(),
        r#"{"input":[[5.2,3.6,1.4,0.3],[6.7,3.0,5.2,2.3]]}"#,
        "input [2, 4] [5.2, 3.6, 1.4, 0.3, 6.7, 3.0, 5.2, 2.3]",
    );
    // C16
    check(&add(), r#"{"a":[1,2],"b":[3,4]}"#, "a [2] [1.0, 2.0]; b [2] [3.0, 4.0]");
    // C17
    check(&add(), r#"{"a":[1,2]}"#, r#"missing key "b""#);
    check(&add(), "[[1,2],[3,4]]", keys);
    check(&add(), "1", keys);
    check(&add(), r#"{"a":[1,2],"b":["x",1]}"#, r#"key "b": element 0: cannot convert "x" to FP32"#);
    check(&add(), r#"{"a":[1,2],"b":[3,4],"c":1}"#, "a [2] [1.0, 2.0]; b [2] [3.0, 4.0]");
    check(&add(), r#"{"a":[1,2],"b":null}"#, r#"missing key "b""#);
    // C18
    check(&strid(), r#"{"s":["hé"]}"#, r#"s [1] ["hé"]"#);
    check(&strid(), r#"{"s":[1]}"#, r#"s [1] ["1"]"#);
}

#[test]
fn bodies() {
    // Malformed wins over everything that could be said about the part before.
    check(&add(), r#"{"a":"x","b":[1"#, "malformed json: EOF while parsing a list at line 1 column 15");
    check(&iris(), "[1,2,3,4] x", "malformed json: trailing characters at line 1 column 11");
    check(&iris(), r#"{"input":[1,2,3,4]} x"#, "malformed json: trailing characters at line 1 column 21");
    check(&iris(), "[nan]", "malformed json: expected ident at line 1 column 3");
    check(&iris(), "\u{feff}[5.2,3.6,1.4,0.3]", "input [1, 4] [5.2, 3.6, 1.4, 0.3]");
    check(&iris(), "\u{feff} {\"input\":[5.2,3.6,1.4,0.3]}", "input [1, 4] [5.2, 3.6, 1.4, 0.3]");
    check(&iris(), "[1,2,3,4,]", "malformed json: expected value at line 1 column 10");
    let invalid = tensors(b"[\"\xff\"]", &strid()).unwrap_err();
    assert!(invalid.starts_with("malformed json: invalid utf-8"), "{invalid}");
    check(&iris(), "null", r#"missing key "input""#);
    check(&iris(), "{}", r#"missing key "input""#);
    // Keys are compared after unescaping; the last of two counts.
    check(&iris(), r#"{"\u0069nput":[1,2,3,4]}"#, "input [1, 4] [1.0, 2.0, 3.0, 4.0]");
    check(&iris(), r#"{"input":"x","input":[1,2,3,4]}"#, "input [1, 4] [1.0, 2.0, 3.0, 4.0]");
    check(&Signature::default(), "[1]", "");
    check(&Signature::default(), r#"{"a":1}"#, "");
    check(&Signature::default(), "{", "malformed json: EOF while parsing an object at line 1 column 1");
}

/// A missing value, as clients of three servers write it, and as this one answers it.
#[test]
fn special_numbers() {
    let special = "input [1, 4] [NaN, inf, -inf, NaN]";
    check(&iris(), "[NaN, Infinity, -Infinity, null]", special);
    check(&iris(), r#"{"input":[[NaN,Infinity,-Infinity,null]],"NaN":"NaN"}"#, special);
    check(&add(), r#"{"b":[NaN,1],"a":[null,-Infinity]}"#, "a [2] [NaN, -inf]; b [2] [NaN, 1.0]");
    // One value that has to be given may be missing, a whole row may not.
    let one = Signature { inputs: vec![spec("x", Datatype::Fp32, &[-1, 1])], outputs: Vec::new() };
    check(&one, r#"{"x":null}"#, "x [1, 1] [NaN]");
    check(&one, r#"{"x":NaN}"#, "x [1, 1] [NaN]");
    check(&one, r#"{"x":[1,NaN,null]}"#, "x [3, 1] [1.0, NaN, NaN]");
    check(&iris(), r#"{"input":null}"#, r#"missing key "input""#);
    // Nowhere else.
    let elsewhere = "malformed json: NaN at line 1 column 26, where no data of an FP type is";
    check(&iris(), r#"{"input":[NaN,2,3,4],"c":NaN}"#, elsewhere);
    check(
        &iris(),
        r#"{"c":Infinity,"input":[1,2,3,4]}"#,
        "malformed json: Infinity at line 1 column 6, where no data of an FP type is",
    );
    check(
        &Signature::default(),
        "NaN",
        "malformed json: NaN at line 1 column 1, where no data of an FP type is",
    );
    check(&strid(), "[NaN]", "key \"s\": element 0: cannot convert NaN to BYTES");
    check(&iris(), "[NaN,2,3,4", "malformed json: EOF while parsing a list at line 1 column 10");
    check(&iris(), "[1NaN]", "malformed json: expected `,` or `]` at line 1 column 3");
    check(&iris(), r#"{"input":[NaN,2,3,{}]}"#, "key \"input\": element 3: cannot convert an object to FP32");
    use Datatype::{Bf16, Bool, Fp16, Fp64, Int64, Uint8};
    for (datatype, value, expected) in [
        (Fp16, "[NaN,-Infinity]", "[2] [0, 7e, 0, fc]"),
        (Bf16, "[null,Infinity]", "[2] [c0, 7f, 80, 7f]"),
        (Fp64, "-Infinity", "[] [0, 0, 0, 0, 0, 0, f0, ff]"),
        (Fp64, "[\"NaN\"]", "element 0: cannot convert \"NaN\" to FP64"),
        (Int64, "[1,-Infinity]", "element 1: cannot convert -Infinity to INT64"),
        (Uint8, "[NaN]", "element 0: cannot convert NaN to UINT8"),
        (Bool, "[Infinity]", "element 0: cannot convert Infinity to BOOL"),
    ] {
        convert(datatype, value, expected);
    }
}

#[test]
fn shapes() {
    let check = |value: &str, expected: &str| convert(Datatype::Uint8, value, expected);
    check("7", "[] [7]");
    check("[7]", "[1] [7]");
    check("[[1,2,3],[4,5,6]]", "[2, 3] [1, 2, 3, 4, 5, 6]");
    check("[[[1],[2]]]", "[1, 2, 1] [1, 2]");
    check("[]", "[0] []");
    check("[[],[]]", "[2, 0] []");
    check("[[[]],[[]]]", "[2, 1, 0] []");
    check("[[1,2],[3]]", "element 1: a list of 1 where the ones before have 2");
    check("[[[1],[2]],[[3],[4,5]]]", "element [1, 1]: a list of 2 where the ones before have 1");
    check("[[],[1]]", "element 1: a list of 1 where the ones before have 0");
    check("[[],[[]]]", "element 1: a list of 1 where the ones before have 0");
    check("[1,[2]]", "element 1: a list where the elements before are single values");
    check("[[1],2]", "element 1: 2 where the elements before are lists");
    check("[[],2]", "element 1: 2 where the elements before are lists");
    check("[[1],[[2]]]", "element [1, 0]: a list where the elements before are single values");
    let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    check(&nested(32), &format!("{:?} [1]", [1; 32]));
    check(&nested(33), "lists nested deeper than 32");
    check(&nested(1_000_000), "lists nested deeper than 32");
    // Nor does nesting cost anything where it is skipped.
    let ignored = format!(r#"{{"input":[1,2,3,4],"other":{}}}"#, nested(1_000_000));
    super::tests::check(&iris(), &ignored, "input [1, 4] [1.0, 2.0, 3.0, 4.0]");
}

#[test]
fn datatypes() {
    use Datatype::{Bf16, Bool, Bytes, Fp16, Fp32, Fp64, Int8, Int64, Uint8, Uint16, Uint64};
    let cases: &[(Datatype, &str, &str)] = &[
        (Bool, "[true,false]", "[2] [1, 0]"),
        (Bool, "[1]", "element 0: cannot convert 1 to BOOL"),
        (Uint8, "[0,255]", "[2] [0, ff]"),
        (Uint8, "[-0]", "[1] [0]"),
        (Uint8, "256", "256 is out of range for UINT8"),
        (Uint8, "-1", "-1 is out of range for UINT8"),
        (Uint8, "[1, 2.5]", "element 1: 2.5 is not an exact integer, which UINT8 needs"),
        (Uint8, "[3.0,1e1,2E+1]", "[3] [3, a, 14]"),
        (Uint8, "1e3", "1e3 is out of range for UINT8"),
        (Uint8, "true", "cannot convert true to UINT8"),
        (Uint8, "\"1\"", "cannot convert \"1\" to UINT8"),
        (Uint8, "[1,null]", "element 1: cannot convert null to UINT8"),
        (Uint8, "[{\"a\":[1,2]}]", "element 0: cannot convert an object to UINT8"),
        (Uint16, "65535", "[] [ff, ff]"),
        (Int8, "[-128,127]", "[2] [80, 7f]"),
        (Int8, "768", "768 is out of range for INT8"),
        (Int64, "-9223372036854775808", "[] [0, 0, 0, 0, 0, 0, 0, 80]"),
        (Int64, "9007199254740993", "[] [1, 0, 0, 0, 0, 0, 20, 0]"),
        (Int64, "9007199254740993.0", "9007199254740993.0 is not an exact integer, which INT64 needs"),
        (Int64, "1e18", "1e18 is not an exact integer, which INT64 needs"),
        (Int64, "9223372036854775808", "9223372036854775808 is out of range for INT64"),
        (Uint64, "18446744073709551615", "[] [ff, ff, ff, ff, ff, ff, ff, ff]"),
        (Uint64, "18446744073709551616", "18446744073709551616 is out of range for UINT64"),
        (Fp16, "[1,65504]", "[2] [0, 3c, ff, 7b]"),
        (Fp16, "65520", "65520 is out of range for FP16"),
        (Bf16, "[1,-2.5]", "[2] [80, 3f, 20, c0]"),
        (Fp32, "[0.1,-0.0,1e-46]", "[3] [0.1, -0.0, 0.0]"),
        (Fp32, "1e39", "1e39 is out of range for FP32"),
        // Halfway between two floats by way of f64, just above it in truth.
        (Fp32, "1.00000005960464477540", "[] [1.0000001]"),
        (Fp64, "0.1", "[] [9a, 99, 99, 99, 99, 99, b9, 3f]"),
        (Fp64, "1e999", "1e999 is out of range for FP64"),
        (Bytes, r#"["","a,b]","\"\\\u00e9\n"]"#, r#"[3] ["", "a,b]", "\"\\é\n"]"#),
        (Bytes, "[1,1.50,1e5,-0]", r#"[4] ["1", "1.50", "1e5", "-0"]"#),
        (Bytes, "[true]", "element 0: cannot convert true to BYTES"),
        (Bytes, r#"["\ud800"]"#, r#"element 0: cannot convert "\ud800" to BYTES"#),
    ];
    for (datatype, value, expected) in cases {
        convert(*datatype, value, expected);
    }
}

#[test]
fn long_values_are_cut() {
    let value = format!("\"{}\"", "é".repeat(100));
    convert(Datatype::Fp32, &value, &format!("cannot convert \"{}… to FP32", "é".repeat(19)));
}
