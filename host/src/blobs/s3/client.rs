//! Requests to S3: signed, sent, and bounded in time.
//!
//! Place in the flow: below [`super`]. In: method, key, query, headers and body. Out: an [`Answer`] with a
//! status of 2xx, or a [`Failure`]. Invariants: requests go to the one server of the configuration; no text
//! of this file's holds a secret; nothing is waited for longer than the configured time.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};

use super::place::{Credentials, S3Place};
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
    credentials: Credentials,
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
    Refused { status: u16, code: String },
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
            Failure::Refused { status: 400 | 401 | 403, code } => !OF_THE_HOST.contains(&&**code),
            Failure::Refused { status, .. } => *status < 500,
            Failure::Silent(_) | Failure::Broken => false,
        }
    }
}

impl Client {
    pub(super) fn new(place: &S3Place) -> io::Result<Client> {
        let (scheme, authority, path) = place.base();
        let own = format!("{scheme}://{authority}");
        let rules = ANYWHERE.into_iter().chain([&*own]).map(Rule::parse);
        let rules = rules.collect::<Result<Vec<_>, _>>().map_err(io::Error::other)?;
        let none = || io::Error::other("there are no credentials");
        Ok(Client {
            outbound: Outbound::new(Rules(rules))?.with_places(super::REQUESTS),
            scheme,
            authority,
            path,
            region: place.region.clone(),
            credentials: place.credentials.clone().ok_or_else(none)?,
            timeout: place.timeout,
            is_up: AtomicBool::new(true),
            failures: Throttle::default(),
            is_told_down: AtomicBool::new(false),
        })
    }

    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Whether the last request was served.
    pub(super) fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Relaxed)
    }

    /// Sends a request for a key; without one, for the bucket.
    pub(super) async fn send(
        &self,
        method: Method,
        key: &str,
        query: &[(&str, &str)],
        headers: &[(&str, String)],
        body: Bytes,
    ) -> Result<Answer, Failure> {
        let answer = self.send_once(method, key, query, headers, body).await;
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

    async fn send_once(
        &self,
        method: Method,
        key: &str,
        query: &[(&str, &str)],
        headers: &[(&str, String)],
        body: Bytes,
    ) -> Result<Answer, Failure> {
        let request = self.request(&method, key, query, headers, body).map_err(|_| Failure::Broken)?;
        let patience = Patience { first_byte: Some(self.timeout), between_bytes: Some(self.timeout) };
        let response = self.outbound.send(request, patience).await.map_err(Failure::Silent)?;
        let answer = Answer { response, timeout: self.timeout };
        let status = answer.status();
        if (200..300).contains(&status) {
            return Ok(answer);
        }
        let text = answer.into_bytes().await.unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let code = xml::first(&text, "Code").unwrap_or_default();
        Err(Failure::Refused { status, code: tame(code) })
    }

    fn request(
        &self,
        method: &Method,
        key: &str,
        query: &[(&str, &str)],
        headers: &[(&str, String)],
        body: Bytes,
    ) -> http::Result<Request<Body>> {
        let path = sign::escaped(&format!("{}{key}", self.path), true);
        let query = sign::query(query);
        let hash = crate::blocking::if_large(body.len(), || sign::hash(&body));
        // `2015-08-30T12:36:00Z`, without what is between the digits.
        let mut time = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        time.retain(|c| !"-:".contains(c));
        let mut signed = vec![
            ("host", self.authority.clone()),
            ("x-amz-content-sha256", hash.clone()),
            ("x-amz-date", time.clone()),
        ];
        signed.extend(self.credentials.session_token.clone().map(|token| ("x-amz-security-token", token)));
        signed.extend(headers.iter().cloned());
        let parts = Signed {
            method: method.as_str(),
            path: &path,
            query: &query,
            headers: &signed,
            body: &hash,
            region: &self.region,
            service: "s3",
            time: &time,
        };
        let authorization = sign::authorization(&parts, &self.credentials);
        let mark = if query.is_empty() { "" } else { "?" };
        let uri = format!("{}://{}{path}{mark}{query}", self.scheme, self.authority);
        let mut request = Request::builder().method(method).uri(uri).header("authorization", authorization);
        for (name, value) in &signed {
            request = request.header(*name, value);
        }
        if body.is_empty() && [Method::PUT, Method::POST].contains(method) {
            request = request.header("content-length", "0");
        }
        request.body(Full::new(body).map_err(|never| match never {}).boxed_unsync())
    }
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
