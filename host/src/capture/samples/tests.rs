//! What is kept of requests, and what is not.

use std::time::Duration;

use super::*;
use crate::error::Stage;
use crate::request::{Caller, Head as _, Response};

fn request(body: &str, headers: &[(&str, &str)], query: &str) -> Request {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let head = PlainHead {
        method: "POST".to_owned(),
        path: "/iris".to_owned(),
        query: query.to_owned(),
        headers: headers.iter().map(own).collect(),
    };
    let arrived = Instant::now();
    Request {
        id: "id".into(),
        caller: Caller::Client,
        trace: None,
        head: Box::new(head),
        input: Input::Body(Bytes::from(body.to_owned()), Form::Plain),
        model: None,
        arrived,
        deadline: arrived + Duration::from_secs(1),
        debug: false,
        body_limit: 1 << 20,
        memory: crate::memory::Account::default(),
    }
}

fn none() -> KnownCalls {
    KnownCalls::default()
}

fn patterns(texts: &[&str]) -> Vec<Pattern> {
    texts.iter().map(|text| Pattern::parse(text).unwrap()).collect()
}

fn answered() -> Result<Output, RequestError> {
    let (content_type, headers, body) = (String::new(), Vec::new(), Bytes::new());
    Ok(Output::Response(Response { status: 200, content_type, headers, body }))
}

#[test]
fn secrets_are_not_kept() {
    const SECRET: &str = "s3cret";
    let body = r#"{"a":1,"card":"s3cret","rows":[{"x":2,"pin":"s3cret"}]}"#;
    let headers = [
        ("authorization", "Bearer s3cret"),
        ("cookie", "s3cret"),
        ("x-api-key", "s3cret"),
        ("x-banana-api-key", "s3cret"),
        ("x-user", "s3cret"),
        ("content-type", "application/json"),
    ];
    let request = request(body, &headers, "access_token=s3cret&user=s3cret&%75ser=s3cret&debug&b=1");
    let redact = patterns(&["/card", "/rows/*/pin", "X-User", "user"]);
    let sample = Sample::of(&request, none(), &redact, 1).unwrap();
    assert!(!format!("{sample:?}").contains(SECRET), "{sample:?}");
    assert_eq!(sample.head.query, "access_token=redacted&user=redacted&%75ser=redacted&debug&b=1");
    assert_eq!(sample.head.headers(), [("x-user", "redacted"), ("content-type", "application/json")]);
    let again = sample.request("again", Instant::now(), 1 << 20, false).0;
    assert_eq!(again.body(), br#"{"a":1,"card":null,"rows":[{"x":2,"pin":null}]}"#);
    assert_eq!((again.head.method(), again.head.path()), ("POST", "/iris"));
}

#[test]
fn what_cannot_be_redacted_is_not_kept() {
    let text = request("not json, s3cret", &[], "");
    assert!(Sample::of(&text, none(), &patterns(&["/card"]), 1).is_none());
    assert!(Sample::of(&text, none(), &patterns(&["x-user"]), 1).is_some(), "nothing in the body is named");
}

#[test]
fn tensors_are_blanked_by_name() {
    let tensor = |name: &str, datatype, data: &'static [u8]| {
        Tensor::new(name.into(), datatype, vec![2], Bytes::from_static(data)).unwrap()
    };
    let text: &[u8] = b"\x06\0\0\0s3cret\x01\0\0\0x";
    let tensors = vec![
        tensor("card", Datatype::Bytes, text),
        tensor("pin", Datatype::Uint8, &[1, 2]),
        tensor("x", Datatype::Uint8, &[3, 4]),
    ];
    let input = Input::Tensors(TensorInput::new(tensors, Some(r#"{"card":"s3cret","a":1}"#.into())));
    let request = Request { input, ..request("", &[], "") };
    let sample = Sample::of(&request, none(), &patterns(&["/card", "/pin/0"]), 1).unwrap();
    let SampleInput::Tensors(tensors, parameters) = &sample.input else { panic!("{sample:?}") };
    let data: Vec<&[u8]> = tensors.iter().map(|tensor| &*tensor.data).collect();
    assert_eq!(data, [&[0; 8][..], &[0, 0], &[3, 4]]);
    assert_eq!(parameters.as_deref(), Some(r#"{"card":null,"a":1}"#));
}

#[test]
fn the_ring_is_bounded_by_number_and_by_bytes() {
    let config = SamplesConfig { samples: 3, bytes: 4000, redact: Vec::new() };
    let mut ring = Ring::default();
    let mut push = |body: &str, number| {
        ring.push(Sample::of(&request(body, &[], ""), none(), &[], number).unwrap(), &config);
        assert!(ring.bytes <= config.bytes && ring.samples.len() <= config.samples, "{ring:?}");
        assert_eq!(ring.bytes, ring.samples.iter().map(|sample| sample.size()).sum::<usize>());
        ring.samples.iter().map(|sample| sample.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(push("1", 1), ["request 1"]);
    assert_eq!(push("2", 2).len(), 2);
    assert_eq!(push("3", 3).len(), 3);
    assert_eq!(push("4", 4), ["request 2", "request 3", "request 4"]);
    // Too long for all of them, and what is too long for any.
    assert_eq!(push(&"5".repeat(2600), 5), ["request 4", "request 5"]);
    assert_eq!(push(&"6".repeat(4000), 6), ["request 4", "request 5"]);
}

#[test]
fn only_so_many_of_a_moment_are_taken() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let config = SamplesConfig { samples: 5, bytes: 1 << 20, redact: Vec::new() };
        let samples = Samples::start(config).unwrap();
        let at = |millis| samples.started + Duration::from_millis(millis);
        let taken = |millis| (0..8).filter(|_| samples.takes(at(millis))).count();
        assert_eq!((taken(0), taken(99), taken(100), taken(150), taken(250)), (5, 0, 5, 0, 5));
    });
    assert!(Samples::start(SamplesConfig::default()).is_none());
}

#[test]
fn what_was_answered_is_kept_in_its_order() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let config = SamplesConfig { samples: 2, bytes: 1 << 20, redact: Vec::new() };
        let samples = Samples::start(config).unwrap();
        let failed = |code| Err(RequestError::new(code, Stage::PreInference, ""));
        for (second, (body, outcome)) in [
            ("1", answered()),
            ("2", failed(Code::PluginTrap)),
            ("3", failed(Code::Overloaded)),
            ("4", failed(Code::PluginTimeout)),
            ("5", failed(Code::InvalidInput)),
            ("6", answered()),
        ]
        .into_iter()
        .enumerate()
        {
            let arrived = samples.started + Duration::from_secs(second as u64);
            samples.offer(&Arc::new(Request { arrived, ..request(body, &[], "") }), &outcome);
        }
        // The task is one of this very thread.
        while samples.way.waiting.load(Ordering::Relaxed) > 0 {
            tokio::task::yield_now().await;
        }
        let kept = samples.latest();
        let bodies = |sample: &Arc<Sample>| match &sample.input {
            SampleInput::Body(body) => String::from_utf8_lossy(body).into_owned(),
            other => panic!("{other:?}"),
        };
        assert_eq!(kept.iter().map(bodies).collect::<Vec<_>>(), ["6", "5"]);
        assert_eq!(samples.kept(), 2);
        // What is larger than all that may be kept does not even wait.
        let large = request(&"7".repeat(2 << 20), &[], "");
        let arrived = samples.started + Duration::from_secs(60);
        samples.offer(&Arc::new(Request { arrived, ..large }), &answered());
        assert_eq!(samples.way.waiting.load(Ordering::Relaxed), 0);
    });
}
