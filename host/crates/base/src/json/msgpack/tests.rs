//! Every format of the specification, numpy's arrays, and what a hostile document may try.

use rmpv::Value;

use super::*;

const LIMIT: usize = 1 << 20;

fn json(bytes: &[u8]) -> String {
    match to_json(bytes, LIMIT, Special::Null) {
        Ok(json) => {
            serde_json::from_slice::<serde::de::IgnoredAny>(&json).expect("what is written is JSON");
            String::from_utf8(json).unwrap()
        }
        Err(error) => error.to_string(),
    }
}

fn packed(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    rmpv::encode::write_value(&mut bytes, value).unwrap();
    bytes
}

fn array(kind: &str, shape: &[u64], data: &[u8]) -> Vec<u8> {
    let key = |name: &str| Value::Binary(name.as_bytes().to_vec());
    packed(&Value::Map(vec![
        (key("nd"), true.into()),
        (key("type"), kind.into()),
        (key("kind"), Value::Binary(Vec::new())),
        (key("shape"), Value::Array(shape.iter().map(|extent| (*extent).into()).collect())),
        (key("data"), Value::Binary(data.to_vec())),
    ]))
}

#[test]
fn acceptance_case() {
    let body = b"\x82\xa6prompt\xa2ab\xa1n\x02";
    assert_eq!(json(body), r#"{"prompt":"ab","n":2}"#);
    assert_eq!(from_json(br#"{"generated_text":"abab"}"#).unwrap(), b"\x81\xaegenerated_text\xa4abab");
}

#[test]
fn every_format() {
    for (bytes, expected) in [
        (&b"\xc0"[..], "null"),
        (b"\xc2", "false"),
        (b"\xc3", "true"),
        (b"\x7f", "127"),
        (b"\xff", "-1"),
        (b"\xcc\xff", "255"),
        (b"\xcd\xff\xff", "65535"),
        (b"\xce\xff\xff\xff\xff", "4294967295"),
        (b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff", "18446744073709551615"),
        (b"\xd0\x80", "-128"),
        (b"\xd1\x80\x00", "-32768"),
        (b"\xd2\x80\x00\x00\x00", "-2147483648"),
        (b"\xd3\x80\x00\x00\x00\x00\x00\x00\x00", "-9223372036854775808"),
        (b"\xca\x3d\xcc\xcc\xcd", "0.1"),
        (b"\xcb\x3f\xb9\x99\x99\x99\x99\x99\x9a", "0.1"),
        (b"\xca\x7f\xc0\x00\x00", "null"),
        (b"\xcb\xff\xf0\x00\x00\x00\x00\x00\x00", "null"),
        (b"\xa3h\xc3\xa9", "\"hé\""),
        (b"\xd9\x01\"", r#""\"""#),
        (b"\xda\x00\x01a", r#""a""#),
        (b"\xdb\x00\x00\x00\x01a", r#""a""#),
        (b"\xa1\xff", r#"{"b64":"/w=="}"#),
        (b"\xc4\x02hi", r#""hi""#),
        (b"\xc5\x00\x01\xff", r#"{"b64":"/w=="}"#),
        (b"\xc6\x00\x00\x00\x00", r#""""#),
        (b"\x92\x01\x90", "[1,[]]"),
        (b"\xdc\x00\x01\x01", "[1]"),
        (b"\xdd\x00\x00\x00\x01\x01", "[1]"),
        (b"\x82\xa1a\x80\xff\x01", r#"{"a":{},"-1":1}"#),
        (b"\xde\x00\x01\xc4\x01a\x01", r#"{"a":1}"#),
        (b"\xdf\x00\x00\x00\x00", "{}"),
    ] {
        assert_eq!(json(bytes), expected, "{bytes:x?}");
    }
}

#[test]
fn arrays_of_numpy() {
    let floats: Vec<u8> =
        [1.5f32, f32::NAN, -2.0, 0.1].iter().flat_map(|float| float.to_le_bytes()).collect();
    assert_eq!(json(&array("<f4", &[2, 2], &floats)), "[[1.5,null],[-2.0,0.1]]");
    // For a model, the words that its conversion reads.
    let words = |bytes: &[u8], limit: usize| {
        to_json(bytes, limit, Special::Words).map(|json| String::from_utf8(json).unwrap())
    };
    assert_eq!(words(&array("<f4", &[2, 2], &floats), LIMIT).unwrap(), "[[1.5,NaN],[-2.0,0.1]]");
    assert_eq!(
        words(b"\x92\xca\x7f\x80\x00\x00\xcb\xff\xf0\x00\x00\x00\x00\x00\x00", LIMIT).unwrap(),
        "[Infinity,-Infinity]"
    );
    let infinite: Vec<u8> = [0xfc00_u16, 0x3c00].iter().flat_map(|half| half.to_le_bytes()).collect();
    assert_eq!(words(&array("<f2", &[2], &infinite), LIMIT).unwrap(), "[-Infinity,1.0]");
    assert_eq!(words(&array("<f2", &[2], &infinite), 14), Err(Error::TooLong(14)));
    assert_eq!(json(&array(">i2", &[2], &[0, 1, 1, 0])), "[1,256]");
    assert_eq!(json(&array("|b1", &[], &[1])), "true");
    assert_eq!(json(&array("<u8", &[0, 3], &[])), "[]");
    // A scalar, with keys of the other kind.
    let scalar = Value::Map(vec![
        ("nd".into(), false.into()),
        ("type".into(), "<f8".into()),
        ("data".into(), Value::Binary(1.5f64.to_le_bytes().to_vec())),
    ]);
    assert_eq!(json(&packed(&scalar)), "1.5");
    // Within another document.
    let mut list = vec![0x92];
    list.extend(array("|u1", &[1], &[7]));
    list.push(0xc0);
    assert_eq!(json(&list), "[[7],null]");
    // Nearly one.
    let nearly = packed(&Value::Map(vec![
        ("nd".into(), true.into()),
        ("type".into(), "<f4".into()),
        ("x".into(), 1.into()),
    ]));
    assert_eq!(json(&nearly), r#"{"nd":true,"type":"<f4","x":1}"#);

    let text = "an array of numpy's type `<U3`, which is neither number nor boolean";
    assert_eq!(json(&array("<U3", &[1], &[0; 12])), text);
    assert_eq!(json(&array("|O", &[1], &[0; 8])), text.replace("<U3", "|O"));
    let text = "an array of numpy's: FP32 of shape [2] takes 8 bytes, got 4";
    assert_eq!(json(&array("<f4", &[2], &[0; 4])), text);
    assert!(json(&array("<f4", &[u64::MAX, 8], &[])).contains("memory can hold"));
}

#[test]
fn what_is_no_document() {
    for (bytes, expected) in [
        (&b""[..], "the document breaks off"),
        (b"\x91", "the document breaks off"),
        (b"\xdd\xff\xff\xff\xff", "the document breaks off"),
        (b"\xdb\xff\xff\xff\xffa", "the document breaks off"),
        (b"\xcb\x00", "the document breaks off"),
        (b"\xc0\xc0", "1 bytes after the end of the document"),
        (b"\xc1", "0xc1 begins no value"),
        (b"\xd4\x01\x00", "an extension has no form in JSON"),
        (b"\xc7\x01\x01\x00", "an extension has no form in JSON"),
        (b"\x81\xc0\x01", "a key is neither text nor an integer"),
        (b"\x81\xa1\xff\x01", "a key is not UTF-8"),
    ] {
        assert_eq!(json(bytes), expected, "{bytes:x?}");
    }
    assert_eq!(json(&[0x91; 1 << 20]), "nested deeper than 100");
    let mut deep = vec![0x91; 100];
    deep.push(0xc0);
    assert_eq!(json(&deep), format!("{}null{}", "[".repeat(100), "]".repeat(100)));
}

#[test]
fn no_longer_than_allowed() {
    let nil = |count: u8| [&[0xdc, 0, count][..], &vec![0xc0; count.into()]].concat();
    assert_eq!(to_json(&nil(20), 101, Special::Null).map(|json| json.len()), Ok(101));
    assert_eq!(to_json(&nil(20), 100, Special::Null), Err(Error::TooLong(100)));
    // Thirty brackets around each byte.
    let mut shape = vec![1000];
    shape.extend([1; 30]);
    assert_eq!(
        to_json(&array("|u1", &shape, &[0; 1000]), 60_000, Special::Null),
        Err(Error::TooLong(60_000))
    );
}

#[test]
fn there_and_back() {
    for text in [
        "null",
        "[true,false,-1,-33,-129,-32769,-2147483649,127,128,256,65536,4294967296,18446744073709551615]",
        "[0.1,-1e+300]",
        r#"["","é\n\u0000",{"a":{"b":[[],{}]},"":1}]"#,
    ] {
        let bytes = from_json(text.as_bytes()).unwrap();
        assert_eq!(json(&bytes), text, "{bytes:x?}");
        // Another implementation reads the same, and writes nothing shorter.
        let value = rmpv::decode::read_value(&mut bytes.as_slice()).unwrap();
        assert_eq!(packed(&value), bytes, "{text}");
    }
    for length in [15, 16, 65_535, 65_536] {
        let list = format!("[{}]", vec!["1"; length].join(","));
        let bytes = from_json(list.as_bytes()).unwrap();
        assert_eq!(to_json(&bytes, LIMIT, Special::Null).unwrap(), list.as_bytes());
        let text = format!("\"{}\"", "x".repeat(length));
        assert_eq!(
            to_json(&from_json(text.as_bytes()).unwrap(), LIMIT, Special::Null).unwrap(),
            text.as_bytes()
        );
    }
    assert!(from_json(b"{").is_err());
    assert!(from_json("[".repeat(1000).as_bytes()).unwrap_err().starts_with("recursion limit exceeded"));
}

/// Documents put together from pieces of real ones: never a panic, never anything but JSON.
#[test]
fn noise() {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let pieces =
        [array("<f4", &[1], &[0; 4]), b"\x82\xa6prompt\xa2ab\xa1n\x02".to_vec(), vec![0xdd, 0, 0, 0, 9]];
    for _ in 0..20_000 {
        let mut bytes = Vec::new();
        for _ in 0..random() % 6 {
            let piece = &pieces[random() as usize % pieces.len()];
            let end = random() as usize % (piece.len() + 1);
            bytes.extend_from_slice(&piece[..end]);
            bytes.push(random() as u8);
        }
        json(&bytes);
    }
}
