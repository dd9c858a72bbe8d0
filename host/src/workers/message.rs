//! The message of a webhook: a job and its result as JSON, and the headers that sign it.
//!
//! Place in the flow: `deliveries.rs` sends it. In: a finished job, its result, the endpoint's secrets.
//! Out: a body, the same at every attempt, and headers. The signature is that of Standard Webhooks
//! (<https://www.standardwebhooks.com>), as of those that handlers send with the SDK. A [`MessageForm`] is
//! another body, which may be signed in another way besides.

use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{HeaderName, HeaderValue};
use ring::hmac;
use serde::Serialize;
use serde_json::value::RawValue;

use super::view::JobView;
use crate::endpoint::config::EndpointConfig;
use crate::jobs::{Job, WebhookForm, WebhookSecret, time_text};
use crate::time::unix_seconds;

/// Longest result that is part of a message, in bytes; a longer one is asked for.
pub(super) const LONGEST_RESULT: usize = 2 << 20;
/// The beginning of a secret whose rest is base64.
const ENCODED: &str = "whsec_";

#[derive(Serialize)]
struct Event<'a> {
    #[serde(rename = "type")]
    kind: String,
    timestamp: String,
    data: Data<'a>,
}

#[derive(Serialize)]
struct Data<'a> {
    #[serde(flatten)]
    job: JobView<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<AnswerView<'a>>,
}

/// The answer to a job; its body in one of three forms, or in none if it is too long.
#[derive(Serialize)]
struct AnswerView<'a> {
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'a str>,
    size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

/// A message in other words than the server's own, for receivers that expect them.
pub trait MessageForm: Sync {
    /// Its name in the store.
    fn form(&self) -> WebhookForm;

    /// The body of the message of an endpoint's job; `result` is that of its answer, if it is not too long.
    fn body(&self, endpoint: &str, job: &Job, result: Option<&[u8]>) -> Vec<u8>;

    /// The header that signs a body with each of the secrets, of which there is one at least.
    fn signature(&self, secrets: &[WebhookSecret], body: &[u8]) -> (&'static str, String);
}

/// The form of a message; `None`: the server's own.
pub(super) fn form(
    forms: &'static [&'static dyn MessageForm],
    form: &WebhookForm,
) -> Option<&'static dyn MessageForm> {
    forms.iter().find(|one| one.form() == *form).copied()
}

/// The body of a job's message; `result` is that of its answer, if it is not too long.
pub(super) fn body(
    config: &EndpointConfig,
    job: &Job,
    form: Option<&dyn MessageForm>,
    result: Option<&[u8]>,
) -> Vec<u8> {
    if let Some(form) = form {
        return form.body(&config.name, job, result);
    }
    let answer = job.answer.as_ref().map(|answer| {
        let json = result.and_then(|result| serde_json::from_slice::<&RawValue>(result).ok());
        let other = result.filter(|_| json.is_none());
        let text = other.and_then(|other| std::str::from_utf8(other).ok());
        AnswerView {
            status: answer.status,
            content_type: answer.header("content-type"),
            size: answer.size,
            body: json,
            text,
            base64: other.filter(|_| text.is_none()).map(|other| STANDARD.encode(other)),
        }
    });
    let event = Event {
        kind: format!("job.{}", job.state.name()),
        timestamp: time_text(job.changed),
        data: Data { job: JobView::new(config, job).without_webhook(), answer },
    };
    serde_json::to_vec(&event).unwrap_or_default()
}

/// The headers that name a message and sign it with each of the secrets.
pub(super) fn signed(
    secrets: &[WebhookSecret],
    id: &str,
    form: Option<&dyn MessageForm>,
    body: &[u8],
) -> Vec<(HeaderName, HeaderValue)> {
    let second = unix_seconds(SystemTime::now());
    signed_at(secrets, id, form, body, second)
        .into_iter()
        .filter_map(|(name, value)| Some((HeaderName::from_static(name), HeaderValue::try_from(value).ok()?)))
        .collect()
}

fn signed_at(
    secrets: &[WebhookSecret],
    id: &str,
    form: Option<&dyn MessageForm>,
    body: &[u8],
    second: u64,
) -> Vec<(&'static str, String)> {
    let mut headers = vec![("webhook-id", id.to_owned()), ("webhook-timestamp", second.to_string())];
    if secrets.is_empty() {
        return headers;
    }
    let standard = |secret: &WebhookSecret| {
        let decoded = secret.text().strip_prefix(ENCODED).and_then(|encoded| STANDARD.decode(encoded).ok());
        let key = decoded.unwrap_or_else(|| secret.text().as_bytes().to_vec());
        let head = format!("{id}.{second}.");
        format!("v1,{}", STANDARD.encode(tag(&key, &[head.as_bytes(), body])))
    };
    let signatures: Vec<String> = secrets.iter().map(standard).collect();
    headers.push(("webhook-signature", signatures.join(" ")));
    headers.extend(form.map(|form| form.signature(secrets, body)));
    headers
}

/// HMAC-SHA256 of these parts, one after another.
pub fn tag(key: &[u8], parts: &[&[u8]]) -> hmac::Tag {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
    parts.iter().for_each(|part| context.update(part));
    context.sign()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The message, secret and signature of the standard's own examples.
    #[test]
    fn a_signature_is_the_standards_and_every_secret_signs() {
        let body = br#"{"test": 2432232314}"#;
        let secrets = WebhookSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\nplain").unwrap();
        let headers = signed_at(&secrets, "msg_p5jXN8AQM9LWM0D4loKWxJek", None, body, 1_614_265_330);
        let (_, standard) = headers.iter().find(|(own, _)| *own == "webhook-signature").unwrap();
        let (first, second) = standard.split_once(' ').unwrap();
        assert_eq!(first, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        assert!(second.starts_with("v1,") && second != first);
        assert_eq!(signed_at(&[], "x", None, body, 1).len(), 2);
    }
}
