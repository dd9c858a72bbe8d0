//! What is written reads the same; what strangers wrote is read or refused.

use super::*;

const SMALL: &str = r#"{"format":1,"host":"0","recorded":"","endpoint":"e","handler":{"digest":"d","contract":"0.1.0",
    "functions":["pre-inference"],"isolation":"worker","network":"none","project":null,"metadata":{"a":[1]},
    "memory":1,"output":2,"pre_timeout_ms":3,"post_timeout_ms":4},"request":{"id":"i","method":"POST","path":"/",
    "query":"","content_type":"","body_limit":5,"input":{"tensors":{"tensors":[],"parameters":{"x":1}}}},
    "signature":{"inputs":[{"name":"x","datatype":"FP32","shape":[2,"N",null]}],"outputs":[]},
    "drawn":{"calls":[{"function":"start","draws":[{"wall-clock":[7,5]},{"random":"AQI="},"waited",{"poll":[0]}]}],
    "headers":{"a":null,"b":"c"}},"model":{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":"AACAPw==",
    "values":[1.0]}]},"outcome":{"error":{"code":"model_error","stage":"infer","message":"m"}}}"#;

/// Reads everything of a recording that a replay reads.
fn read(text: &[u8]) -> Result<(), FormatError> {
    let recording = Recording::read(text)?;
    recording.request.input.input()?;
    recording.signature.map(Signature::signature).transpose()?;
    if let Some(model) = recording.model {
        read_tensors(model.inputs)?;
    }
    recording.outcome.outcome()?.map(drop).or(Ok(()))
}

#[test]
fn whatever_is_read_is_read_or_refused_on_one_line() {
    assert_eq!(read(SMALL.as_bytes()), Ok(()));
    let long = SMALL.replace("[2,\"N\",null]", &format!("[{}1]", "1,".repeat(32)));
    let reason = read(long.as_bytes()).unwrap_err();
    assert!(reason.contains("invalid length 33, expected a list of at most 32"), "{reason}");
    let (mut good, mut bad) = (0, 0);
    let mut attempt = |text: &[u8]| match read(text) {
        Ok(()) => good += 1,
        Err(reason) => {
            assert!(!reason.contains(char::is_control), "{reason:?}");
            bad += 1;
        }
    };
    for at in 0..SMALL.len() {
        attempt(&SMALL.as_bytes()[..at]);
        for byte in [0, b'"', b'9', b'-', b'[', b'}', b'z', 0xff] {
            let mut text = SMALL.as_bytes().to_vec();
            text[at] = byte;
            attempt(&text);
            text.remove(at);
            attempt(&text);
        }
    }
    assert!(good > 1_000 && bad > 1_000, "{good} {bad}");
}

#[test]
fn what_is_written_reads_the_same() {
    let tensor = |datatype, shape: &[u64], data: &'static [u8]| {
        tensor::Tensor::new("t".into(), datatype, shape.to_vec(), Bytes::from_static(data)).unwrap()
    };
    let written = [
        tensor(Datatype::Bool, &[2, 1], &[0, 1]),
        tensor(Datatype::Fp32, &[1], &[0, 0, 0xc0, 0x7f]),
        tensor(Datatype::Bytes, &[2], b"\x01\0\0\0\xff\0\0\0\0"),
        tensor(Datatype::Int64, &[], &[0xff; 8]),
        tensor(Datatype::Uint8, &[0, 4], &[]),
        tensor(Datatype::Uint8, &[17], &[7; 17]),
    ];
    let text = serde_json::to_string(&tensors(&written)).unwrap();
    assert_eq!(read_tensors(serde_json::from_str(&text).unwrap()).unwrap(), written, "{text}");
    let shown = [r#""values":[[false],[true]]"#, r#""values":[null]"#, r#""values":[{"b64":"/w=="},""]"#];
    assert!(shown.iter().all(|shown| text.contains(shown)), "{text}");
    assert_eq!(text.matches("values").count(), 5, "the longest has none");
    for bytes in [&b"{\"a\":\"\xc3\xa9\\n\"}"[..], b"\xff\0", b""] {
        let text = serde_json::to_string(&Body::of(&Bytes::copy_from_slice(bytes))).unwrap();
        assert_eq!(serde_json::from_str::<Body>(&text).unwrap().bytes(), bytes, "{text}");
    }
}

#[test]
fn the_members_of_capabilities_are_those_of_the_released_format() {
    use crate::plugin::capabilities::Stores;

    let text = SMALL
        .replace("\"waited\"", r#""waited",{"kv":0},{"jobs":0}"#)
        .replace("\"post_timeout_ms\":4", r#""post_timeout_ms":4,"kv":["a","shared/b"],"jobs":true"#)
        .replace(
            "\"outcome\"",
            r#""kv":[{"bucket":"a","get":{"key":"k"},"answer":{"Ok":{"value":null}}}],
                "jobs":[{"get":{"id":"j"}}],"outcome""#,
        );
    let mut recording = Recording::read(text.as_bytes()).unwrap();
    let (read, written): (serde_json::Value, _) =
        (serde_json::from_str(&text).unwrap(), serde_json::to_value(&recording).unwrap());
    for member in ["/kv", "/jobs", "/handler/kv", "/handler/jobs", "/drawn/calls"] {
        assert!(read.pointer(member).is_some(), "{member}");
        assert_eq!(written.pointer(member), read.pointer(member), "{member}");
    }
    let grants = recording.handler.grants(&Stores::default());
    assert!(grants.kv.is_some() && grants.jobs.is_some());
    let calls = recording.take_calls();
    assert_eq!((calls.kv.len(), calls.jobs.len()), (1, 1));

    let none = Recording::read(SMALL.as_bytes()).unwrap();
    let grants = none.handler.grants(&Stores::default());
    assert!(grants.kv.is_none() && grants.jobs.is_none());
    let written = serde_json::to_value(&none).unwrap();
    for member in ["/kv", "/jobs", "/blobs", "/handler/kv", "/handler/blobs"] {
        assert_eq!(written.pointer(member), None, "{member}");
    }
    assert_eq!(written.pointer("/handler/jobs"), Some(&serde_json::Value::Bool(false)));
}
