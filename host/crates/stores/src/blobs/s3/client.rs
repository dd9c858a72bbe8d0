//! Requests to S3: signed, sent, sent again where that may help, and bounded in time.
//!
//! Place in the flow: below [`super`]. In: method, key, query, headers and body. Out: an [`Answer`] with a
//! status of 2xx, or a [`Failure`]. Invariants: requests go to the one server of the configuration; no text
//! of this file's holds a secret; no answer is waited for longer than the configured time, and no request is
//! sent again after it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};

use super::credentials::{Credentials, CurrentCredentials};
use super::place::S3Place;
use super::sign::{self, Signed};
use super::xml;
use crate::outbound::{Body, Outbound, OutboundError, Patience, Rule, Rules};
use crate::throttle::Throttle;

/// Longest document that is read: a page of a listing has a few hundred bytes for each of its keys.
const LONGEST: usize = 4 << 20;
/// Private addresses are as good as others for a server that the operator has named.
const ANYWHERE: [&str; 2] = ["0.0.0.0/0", "::/0"];

/// The way to a bucket.
pub(super) struct Client {
    outbound: Outbound,
    scheme: String,
    authority: String,
    /// The path before a key.
    path: String,
    region: String,
    credentials: CurrentCredentials,
    timeout: Duration,
    is_up: AtomicBool,
    /// Of lines about a store that cannot be used.
    failures: Throttle,
    /// Whether the last line was one of them.
    is_told_down: AtomicBool,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// S3 has said no.
    #[error("S3 has answered {status}{}{code}", if code.is_empty() { "" } else { " " })]
    Refused { status: u16, code: String, after: Option<Duration> },
    /// It has said nothing.
    #[error("{0}")]
    Silent(OutboundError),
    /// It has said something that is no answer, or was cut off.
    #[error("S3 sent an unexpected response")]
    Broken,
}

impl Failure {
    /// Whether another request might be served: S3 is there and takes this host's credentials. To a `HEAD` it
    /// answers without a code.
    fn is_about_the_request(&self) -> bool {
        const OF_THE_HOST: [&str; 8] = [
            "",
            "AuthorizationHeaderMalformed",
            "ExpiredToken",
            "InvalidAccessKeyId",
            "InvalidToken",
            "RequestTimeTooSkewed",
            "SignatureDoesNotMatch",
            "TokenRefreshRequired",
        ];
        match self {
            // Rights may be those of an action or of an object.
            Failure::Refused { status: 400 | 401 | 403, code, .. } => !OF_THE_HOST.contains(&&**code),
            Failure::Refused { status, .. } => *status < 500,
            Failure::Silent(_) | Failure::Broken => false,
        }
    }

    /// Whether S3 does not take this host's credentials, as far as it says.
    fn is_about_the_credentials(&self) -> bool {
        matches!(self, Failure::Refused { status: 400 | 401 | 403, .. }) && !self.is_about_the_request()
    }

    /// Whether the same request, `is_safe` to be served twice, may be served in a moment.
    fn may_pass(&self, is_safe: bool) -> bool {
        match self {
            Failure::Refused { status: 429 | 500 | 502..=504, .. } => true,
            Failure::Refused { code, .. } => is_transient(code),
            Failure::Silent(OutboundError::Refused | OutboundError::Name) => true,
            // It may have been served.
            Failure::Silent(OutboundError::Broken) => is_safe,
            Failure::Silent(_) | Failure::Broken => false,
        }
    }

    /// When to come again, where S3 has said so.
    fn after(&self) -> Option<Duration> {
        match self {
            Failure::Refused { after, .. } => *after,
            _ => None,
        }
    }
}

/// Whether S3 says by this code that the same request may be served in a moment.
pub(super) fn is_transient(code: &str) -> bool {
    ["InternalError", "RequestTimeout", "ServiceUnavailable", "SlowDown", "Throttling"].contains(&code)
}

/// How often a request is sent, and how long is waited before the second time; longer before each next.
const TRIES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The times that one request is sent.
pub(super) struct Retries {
    until: Instant,
    sent: u32,
}

impl Retries {
    /// Waits before the request is sent again, longer each time and never as long as others do; whether it is
    /// to be.
    pub(super) async fn pause(&mut self, after: Option<Duration>) -> bool {
        self.sent += 1;
        let longest = FIRST_PAUSE * 2_u32.saturating_pow(self.sent - 1);
        let pause = longest.mul_f64(0.5 + jitter() / 2.0).max(after.unwrap_or_default());
        if self.sent >= TRIES || Instant::now() + pause >= self.until {
            return false;
        }
        tokio::time::sleep(pause).await;
        true
    }
}

/// From 0 to 1, by chance enough.
fn jitter() -> f64 {
    let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().subsec_nanos();
    f64::from(nanos / 64 % 1000) / 1000.0
}

impl Client {
    pub(super) async fn new(place: &S3Place) -> io::Result<Client> {
        let (scheme, authority, path) = place.base();
        let own = format!("{scheme}://{authority}");
        let rules = ANYWHERE.into_iter().chain([&*own]).map(Rule::parse);
        let rules = rules.collect::<Result<Vec<_>, _>>().map_err(io::Error::other)?;
        let none = || io::Error::other("there are no credentials");
        let credentials = place.credentials.clone().ok_or_else(none)?;
        let credentials = CurrentCredentials::new(credentials, place.credential_files.clone());
        Ok(Client {
            outbound: Outbound::new(Rules(rules)).await?.with_places(super::REQUESTS),
            scheme,
            authority,
            path,
            region: place.region.clone(),
            credentials,
            timeout: place.timeout,
            is_up: AtomicBool::new(true),
            failures: Throttle::default(),
            is_told_down: AtomicBool::new(false),
        })
    }

    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The times that a request may be sent from now on.
    pub(super) fn retries(&self) -> Retries {
        Retries { until: Instant::now() + self.timeout, sent: 0 }
    }

    /// Whether the last request was served.
    pub(super) fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Relaxed)
    }

    /// Sends a request for a key; without one, for the bucket. Where S3 has no time for it or the connection
    /// fails, again; with another key of its own where that has been replaced.
    pub(super) async fn send(
        &self,
        method: Method,
        key: &str,
        query: &[(&str, &str)],
        headers: &[(&str, String)],
        body: Bytes,
    ) -> Result<Answer, Failure> {
        let call = Call {
            hash: crate::blocking::if_large(body.len(), || sign::hash(&body)),
            method,
            key,
            query,
            headers,
            body,
        };
        let answer = self.send_again(&call).await;
        let is_up = match &answer {
            // The server has not been asked.
            Err(Failure::Silent(OutboundError::TooMany)) => return answer,
            Ok(_) => true,
            Err(failure) => failure.is_about_the_request(),
        };
        if self.is_up.swap(is_up, Ordering::Relaxed) != is_up {
            self.tell(answer.as_ref().err().filter(|_| !is_up));
        }
        answer
    }

    /// Says in the log that the store cannot be used, or can be again: now and then, since it may change with
    /// every request.
    fn tell(&self, failure: Option<&Failure>) {
        match failure {
            Some(error) if self.failures.is_due() => {
                self.is_told_down.store(true, Ordering::Relaxed);
                tracing::error!("the store of objects cannot be used: {error}");
            }
            Some(_) => {}
            None if self.is_told_down.swap(false, Ordering::Relaxed) => {
                tracing::info!("the store of objects can be used again");
            }
            None => {}
        }
    }

    async fn send_again(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let is_safe = call.method != Method::POST;
        let (mut retries, mut is_replaced) = (self.retries(), false);
        loop {
            let credentials = self.credentials.current().await;
            let failure = match self.send_once(call, &credentials).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            if failure.is_about_the_credentials() && !is_replaced {
                is_replaced = self.credentials.replaced(&credentials).await;
                if is_replaced {
                    continue;
                }
            }
            if !failure.may_pass(is_safe) || !retries.pause(failure.after()).await {
                return Err(failure);
            }
        }
    }

    async fn send_once(&self, call: &Call<'_>, credentials: &Credentials) -> Result<Answer, Failure> {
        let request = self.request(call, credentials).map_err(|_| Failure::Broken)?;
        let patience = Patience { first_byte: Some(self.timeout), between_bytes: Some(self.timeout) };
        let response = self.outbound.send(request, patience).await.map_err(Failure::Silent)?;
        let answer = Answer { response, timeout: self.timeout };
        let status = answer.status();
        if (200..300).contains(&status) {
            return Ok(answer);
        }
        let after = answer.header("retry-after").and_then(|seconds| seconds.parse().ok());
        let text = answer.into_bytes().await.unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let code = tame(xml::first(&text, "Code").unwrap_or_default());
        Err(Failure::Refused { status, code, after: after.map(Duration::from_secs) })
    }

    fn request(&self, call: &Call<'_>, credentials: &Credentials) -> http::Result<Request<Body>> {
        let Call { method, key, query, headers, body, hash } = call;
        let path = sign::escaped(&format!("{}{key}", self.path), true);
        let query = sign::query(query);
        // `2015-08-30T12:36:00Z`, without what is between the digits.
        let mut time = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        time.retain(|c| !"-:".contains(c));
        let mut signed = vec![
            ("host", self.authority.clone()),
            ("x-amz-content-sha256", hash.clone()),
            ("x-amz-date", time.clone()),
        ];
        signed.extend(credentials.session_token.clone().map(|token| ("x-amz-security-token", token)));
        signed.extend(headers.iter().cloned());
        let parts = Signed {
            method: method.as_str(),
            path: &path,
            query: &query,
            headers: &signed,
            body: hash,
            region: &self.region,
            service: "s3",
            time: &time,
        };
        let authorization = sign::authorization(&parts, credentials);
        let mark = if query.is_empty() { "" } else { "?" };
        let uri = format!("{}://{}{path}{mark}{query}", self.scheme, self.authority);
        let mut request = Request::builder().method(method).uri(uri).header("authorization", authorization);
        for (name, value) in &signed {
            request = request.header(*name, value);
        }
        if body.is_empty() && [Method::PUT, Method::POST].contains(method) {
            request = request.header("content-length", "0");
        }
        request.body(Full::new(body.clone()).map_err(|never| match never {}).boxed_unsync())
    }
}

/// A request that is not signed yet.
struct Call<'a> {
    method: Method,
    key: &'a str,
    query: &'a [(&'a str, &'a str)],
    headers: &'a [(&'a str, String)],
    body: Bytes,
    /// SHA-256 of the body.
    hash: String,
}

/// A code of S3's; what does not look like one is none.
pub(super) fn tame(code: String) -> String {
    let is_code = code.len() <= 64 && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_code { code } else { String::new() }
}

/// An answer with a status of 2xx.
pub(super) struct Answer {
    response: Response<Body>,
    timeout: Duration,
}

impl Answer {
    pub(super) fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    /// The value of a header.
    pub(super) fn header(&self, name: &str) -> Option<String> {
        let value = self.response.headers().get(name)?;
        value.to_str().ok().map(str::to_owned)
    }

    pub(super) fn into_body(self) -> Body {
        self.response.into_body()
    }

    /// All of it.
    pub(super) async fn into_bytes(self) -> Result<Vec<u8>, Failure> {
        let Answer { response, timeout } = self;
        let mut body = response.into_body();
        let all = async {
            let mut bytes = Vec::new();
            while let Some(frame) = body.frame().await {
                let piece = frame.map_err(|_| Failure::Broken)?.into_data().unwrap_or_default();
                if bytes.len() + piece.len() > LONGEST {
                    return Err(Failure::Broken);
                }
                bytes.extend_from_slice(&piece);
            }
            Ok(bytes)
        };
        let timed_out = |_| Failure::Silent(OutboundError::TimedOut);
        tokio::time::timeout(timeout, all).await.map_err(timed_out)?
    }
}
