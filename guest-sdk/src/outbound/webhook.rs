//! A result sent to a URL of the caller's: JSON, signed and sent again on request.
//!
//! The signature is that of Standard Webhooks (<https://www.standardwebhooks.com>), which receivers have
//! libraries for: `webhook-id` names the message, the same at every attempt; `webhook-timestamp` is the
//! second of the attempt; `webhook-signature` is `v1,` and the base64 of the HMAC-SHA256 of
//! `{id}.{timestamp}.{body}`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac_sha256::HMAC;
use serde::Serialize;

use super::{OutboundError, Request, Response, Result, USUAL_TIMEOUT, host};
use crate::Error;

/// The first pause if none is said.
const USUAL_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause between two attempts, also if the receiver asks for a longer one.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The beginning of a secret whose rest is base64.
const ENCODED: &str = "whsec_";

/// A `POST` of JSON to one receiver.
#[derive(Clone)]
#[must_use]
pub struct Webhook {
    url: String,
    secret: Option<Vec<u8>>,
    attempts: u32,
    pause: Duration,
    timeout: Duration,
}

/// Sends `value` as JSON, once and without a signature.
///
/// # Errors
/// An [`Error::Internal`] of why it has not arrived; often the handler goes on
/// without it.
pub fn send_webhook<T: Serialize + ?Sized>(url: &str, value: &T) -> crate::Result<Response> {
    Webhook::new(url).send(value)
}

impl Webhook {
    /// To this URL, unsigned, at one attempt of 30 s.
    pub fn new(url: &str) -> Webhook {
        Webhook { url: url.to_owned(), secret: None, attempts: 1, pause: USUAL_PAUSE, timeout: USUAL_TIMEOUT }
    }

    /// Signed with a secret that the receiver knows too: `whsec_` and base64, as Standard Webhooks writes
    /// one, or any other text, whose bytes it is then. Give it as a granted variable. With an empty one
    /// nothing is sent: its signature could be forged.
    pub fn signed(mut self, secret: &str) -> Webhook {
        let decoded = secret.strip_prefix(ENCODED).and_then(|encoded| STANDARD.decode(encoded).ok());
        self.secret = Some(decoded.unwrap_or_else(|| secret.as_bytes().to_vec()));
        self
    }

    /// With so many attempts, one at least: the next one follows if there was no response, or 408, 429 or a
    /// 5xx. Pauses count against the request's time, or, after the response, against that of its work.
    pub fn attempts(mut self, attempts: u32) -> Webhook {
        self.attempts = attempts.max(1);
        self
    }

    /// With another first pause than 1 s, which zero stands for. Each pause is twice the one before, a fifth
    /// more or less by chance; seconds that the receiver says in `retry-after` win. None is longer than a
    /// minute.
    pub fn pause(mut self, pause: Duration) -> Webhook {
        self.pause = if pause.is_zero() { USUAL_PAUSE } else { pause };
        self
    }

    /// With another time for an attempt than 30 s, as [`Request::timeout`].
    pub fn timeout(mut self, timeout: Duration) -> Webhook {
        self.timeout = timeout;
        self
    }

    /// Sends `value` as JSON.
    ///
    /// # Errors
    /// [`Error::Internal`]: `value` cannot be written as JSON, or the last attempt
    /// ended in an [`OutboundError`].
    pub fn send<T: Serialize + ?Sized>(&self, value: &T) -> crate::Result<Response> {
        let request = Request::post(&self.url).json(value)?;
        self.send_json(request.body).map_err(Error::from)
    }

    /// Sends bytes that are JSON already.
    ///
    /// # Errors
    /// The [`OutboundError`] that the last attempt ended in; [`OutboundError::Invalid`] if the secret is
    /// empty.
    pub fn send_json(&self, json: impl Into<Vec<u8>>) -> Result<Response> {
        if self.secret.as_ref().is_some_and(Vec::is_empty) {
            return Err(OutboundError::Invalid("the secret is empty".to_owned()));
        }
        let request = Request::post(&self.url).timeout(self.timeout).body("application/json", json);
        let id = format!("msg_{:016x}{:016x}", host::random(), host::random());
        let mut pause = self.pause;
        for attempt in 1.. {
            let outcome = self.signed_now(&request, &id).send();
            let (is_over, asked) = match &outcome {
                Ok(response) => (!is_passing(response.status), retry_after(response)),
                Err(error) => (!matches!(error, OutboundError::Failed(_) | OutboundError::TimedOut), None),
            };
            if is_over || attempt >= self.attempts {
                return outcome.and_then(accepted);
            }
            // Its response would hold a place among the requests until the next attempt.
            drop(outcome);
            std::thread::sleep(asked.unwrap_or_else(|| varied(pause)).min(LONGEST_PAUSE));
            pause = pause.saturating_mul(2);
        }
        Err(OutboundError::TimedOut)
    }

    /// The request of one attempt.
    fn signed_now(&self, request: &Request, id: &str) -> Request {
        let Some(secret) = &self.secret else { return request.clone() };
        let second = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        request
            .clone()
            .header("webhook-id", id)
            .header("webhook-timestamp", &second.to_string())
            .header("webhook-signature", &signature(secret, id, second, &request.body))
    }
}

/// Without the secret.
impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhook")
            .field("url", &self.url)
            .field("is_signed", &self.secret.is_some())
            .field("attempts", &self.attempts)
            .finish_non_exhaustive()
    }
}

fn signature(secret: &[u8], id: &str, second: u64, body: &[u8]) -> String {
    let mut hmac = HMAC::new(secret);
    hmac.update(format!("{id}.{second}."));
    hmac.update(body);
    format!("v1,{}", STANDARD.encode(hmac.finalize()))
}

fn accepted(response: Response) -> Result<Response> {
    match response.status {
        200..=299 => Ok(response),
        status => Err(OutboundError::Status(status)),
    }
}

/// Whether the same request may be taken later.
fn is_passing(status: u16) -> bool {
    matches!(status, 408 | 429 | 500..=599)
}

fn retry_after(response: &Response) -> Option<Duration> {
    response.header("retry-after")?.trim().parse().ok().map(Duration::from_secs)
}

/// Between four fifths and six fifths of `pause`, so that many senders do not come back together.
fn varied(pause: Duration) -> Duration {
    let share = u32::try_from(host::random() % 401).unwrap_or_default() + 800;
    pause.saturating_mul(share) / 1000
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;
    use crate::internal;
    use crate::outbound::answer_with;

    /// Requests that come to a receiver, which answers them one after another in these ways.
    fn receiver(answers: &[std::result::Result<u16, OutboundError>]) -> Rc<RefCell<Vec<Request>>> {
        let (seen, answers) = (Rc::<RefCell<Vec<Request>>>::default(), answers.to_vec());
        let (kept, mut answers) = (seen.clone(), answers.into_iter());
        answer_with(move |request| {
            kept.borrow_mut().push(request.clone());
            answers.next().unwrap().map(|status| Response::with(status, &[("retry-after", "0")], ""))
        });
        seen
    }

    /// The message, secret and signature of the standard's own examples.
    #[test]
    fn a_signature_is_the_standards() {
        let body = br#"{"test": 2432232314}"#;
        let webhook = Webhook::new("https://a").signed("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let secret = webhook.secret.clone().unwrap();
        assert_eq!(
            signature(&secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
        assert!(!format!("{webhook:?}").contains("77, 1"), "{webhook:?}");
        assert_eq!(Webhook::new("https://a").signed("whsec_no base64!").secret.unwrap()[..6], *b"whsec_");
    }

    #[test]
    fn attempts_go_on_while_they_may_help() {
        let failed = || Err(OutboundError::Failed("refused".to_owned()));
        for (answers, attempts, sent, expected) in [
            (vec![Ok(200)], 5, 1, None),
            (vec![Ok(503), failed(), Err(OutboundError::TimedOut), Ok(429), Ok(204)], 5, 5, None),
            (vec![Ok(503), Ok(503)], 2, 2, Some(OutboundError::Status(503))),
            (vec![Ok(404)], 5, 1, Some(OutboundError::Status(404))),
            (vec![failed()], 1, 1, failed().err()),
            (vec![Err(OutboundError::Denied)], 5, 1, Some(OutboundError::Denied)),
        ] {
            let seen = receiver(&answers);
            let webhook =
                Webhook::new("https://a/b").signed("s").attempts(attempts).pause(Duration::from_nanos(1));
            let error = webhook.send(&[1, 2]).err();
            assert_eq!(
                error,
                expected.map(|error: OutboundError| internal(error.to_string())),
                "{answers:?}"
            );
            let seen = seen.borrow();
            assert_eq!(seen.len(), sent, "{answers:?}");
            let header = |request: &Request, name: &str| {
                request.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone()).unwrap()
            };
            for request in &*seen {
                assert_eq!((request.method.as_str(), request.body.as_slice()), ("POST", &b"[1,2]"[..]));
                assert_eq!(header(request, "content-type"), "application/json");
                // One message, however often it is sent.
                assert_eq!(header(request, "webhook-id"), header(&seen[0], "webhook-id"));
            }
        }
    }

    #[test]
    fn nothing_is_sent_with_an_empty_secret() {
        let seen = receiver(&[]);
        for secret in ["", "whsec_"] {
            let error = Webhook::new("https://a").signed(secret).send_json("1").unwrap_err();
            assert_eq!(error, OutboundError::Invalid("the secret is empty".to_owned()), "{secret}");
        }
        let error = Webhook::new("https://a").signed("").send(&1).unwrap_err();
        assert_eq!(error, internal("the secret is empty"));
        assert!(seen.borrow().is_empty());
    }

    #[test]
    fn no_pause_is_the_usual_one() {
        assert_eq!(Webhook::new("https://a").pause(Duration::ZERO).pause, USUAL_PAUSE);
    }

    #[test]
    fn pauses_vary_by_a_fifth() {
        let varied = varied(Duration::from_secs(10));
        assert!((Duration::from_secs(8)..=Duration::from_secs(12)).contains(&varied), "{varied:?}");
    }
}
