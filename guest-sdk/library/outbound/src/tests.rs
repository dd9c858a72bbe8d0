//! What the SDK is asked for, and what comes back, against others that answer what the test says.

use std::rc::Rc;

use super::*;

/// Requests that come to the others, which answer all of them so.
fn others(answer: fn() -> Result<sdk::Response, sdk::OutboundError>) -> Rc<RefCell<Vec<sdk::Request>>> {
    let seen = Rc::<RefCell<Vec<sdk::Request>>>::default();
    let kept = seen.clone();
    sdk::answer_with(move |request| {
        kept.borrow_mut().push(request.clone());
        answer()
    });
    seen
}

fn request(url: &str) -> Request {
    Request {
        method: "PUT".to_owned(),
        url: url.to_owned(),
        headers: vec![("x-a".to_owned(), "b".to_owned())],
        body: b"body".to_vec(),
        timeout: 1500,
    }
}

fn webhook(secret: Option<&str>, attempts: u32) -> Webhook {
    Webhook {
        url: "https://a.example/hook".to_owned(),
        json: b"[1]".to_vec(),
        secret: secret.map(str::to_owned),
        attempts,
        pause: 0,
        timeout: 2000,
    }
}

/// The error, which is all that the interface's types can be compared by.
fn told(sent: Result<Head, Error>) -> String {
    format!("{:?}", sent.unwrap_err())
}

#[test]
fn a_request_goes_out_as_it_was_given_and_its_body_is_read_to_its_end() {
    let seen = others(|| Ok(sdk::Response::with(201, &[("X-Kind", "c")], "whole")));
    let head = sent(request("https://a.example/path")).unwrap();
    assert_eq!((head.status, head.headers), (201, vec![("x-kind".to_owned(), "c".to_owned())]));
    let pieces = [(); 3].map(|()| head.body.read().unwrap());
    assert_eq!(pieces, [Some(b"whole".to_vec()), None, None]);
    assert!(head.body.0.borrow().is_none(), "the host's handles are given back");
    let Request { method, url, headers, body, .. } = request("https://a.example/path");
    let expected = sdk::Request { method, url, headers, body, timeout: Duration::from_millis(1500) };
    assert_eq!(*seen.borrow(), [expected]);
}

#[test]
fn a_webhook_is_signed_and_sent_again_as_it_says() {
    let seen = others(|| Ok(sdk::Response::with(503, &[("retry-after", "0")], "")));
    assert_eq!(told(webhook_sent(webhook(Some("whsec_c2VjcmV0"), 2))), "Error::Status(503)");
    assert_eq!(told(webhook_sent(webhook(None, 0))), "Error::Status(503)");
    let names = |request: &sdk::Request| {
        let names: Vec<String> = request.headers.iter().map(|(name, _)| name.clone()).collect();
        names
    };
    let signed = ["content-type", "webhook-id", "webhook-timestamp", "webhook-signature"];
    let seen = seen.borrow();
    assert_eq!(seen.iter().map(names).collect::<Vec<_>>(), [&signed[..], &signed, &["content-type"]]);
    for request in &*seen {
        let sent = (request.method.as_str(), request.body.as_slice(), request.timeout);
        assert_eq!(sent, ("POST", &b"[1]"[..], Duration::from_secs(2)));
    }
    drop(seen);
    others(|| Ok(sdk::Response::with(204, &[], "")));
    assert_eq!(webhook_sent(webhook(None, 1)).unwrap().status, 204);
}

#[test]
fn nothing_is_sent_with_an_empty_secret() {
    let seen = others(|| Ok(sdk::Response::with(204, &[], "")));
    assert_eq!(told(webhook_sent(webhook(Some(""), 1))), "Error::Invalid(\"the secret is empty\")");
    assert!(seen.borrow().is_empty());
}

#[test]
fn errors_are_those_of_the_sdk() {
    for (answer, expected) in [
        ((|| Err(sdk::OutboundError::Denied)) as fn() -> _, "Error::Denied"),
        (|| Err(sdk::OutboundError::Prohibited), "Error::Prohibited"),
        (|| Err(sdk::OutboundError::Invalid("url".to_owned())), "Error::Invalid(\"url\")"),
        (|| Err(sdk::OutboundError::TimedOut), "Error::TimedOut"),
        (|| Err(sdk::OutboundError::Failed("cut".to_owned())), "Error::Failed(\"cut\")"),
    ] {
        others(answer);
        assert_eq!(told(sent(request("https://a.example"))), expected);
        assert_eq!(told(webhook_sent(webhook(None, 1))), expected);
    }
}
