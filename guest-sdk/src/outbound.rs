//! Requests to others: to what the endpoint's `allow_outbound` lists, and to nothing else.
//!
//! In a component a request goes out through the host, which resolves names, checks addresses and holds the
//! connections. Natively, in a unit test, the others answer what the test says: [`answer_with`].
//!
//! ```no_run
//! use modelhost_guest::outbound::{Request, Webhook, send_webhook};
//! use modelhost_guest::{Result, internal};
//! use serde_json::json;
//!
//! fn tell(result: &[f32]) -> Result<()> {
//!     let found: Vec<String> = Request::get("https://labels.example.com/v1").send()?.json()?;
//!     send_webhook("https://hooks.example.com/done", &json!({"labels": found, "result": result}))?;
//!     // With a signature, and again if it fails.
//!     let secret = std::env::var("WEBHOOK_SECRET").map_err(|_| internal("no WEBHOOK_SECRET"))?;
//!     Webhook::new("https://hooks.example.com/done").signed(&secret).attempts(5).send(&result)?;
//!     Ok(())
//! }
//! ```

#[cfg(not(target_family = "wasm"))]
mod native;
#[cfg(target_family = "wasm")]
mod wasi;
mod webhook;

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Error, internal};

#[cfg(not(target_family = "wasm"))]
use native as host;
#[cfg(target_family = "wasm")]
use wasi as host;

#[cfg(not(target_family = "wasm"))]
pub use native::answer_with;
pub use webhook::{Webhook, send_webhook};

/// Most bytes of a body that is read whole.
const LONGEST: usize = 16 << 20;
/// The time of a request for which none is said.
const USUAL_TIMEOUT: Duration = Duration::from_secs(30);

/// Why a request has no response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutboundError {
    /// `allow_outbound` does not list the place.
    Denied,
    /// The place's name leads to an address of this machine, of a private network or of a cloud's metadata.
    Prohibited,
    /// No URL that a request can be sent to, no header that one can have, or an empty secret.
    Invalid(String),
    /// Not in the time that it had.
    TimedOut,
    /// The others refused the connection, broke it off or did not speak HTTP.
    Failed(String),
    /// The body is longer than 16 MiB: read it [in pieces](Response::read).
    TooLong,
    /// A [`Webhook`]'s receiver answered with this status.
    Status(u16),
}

impl fmt::Display for OutboundError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OutboundError::Denied => f.write_str("`allow_outbound` does not list where the request goes"),
            OutboundError::Prohibited => {
                f.write_str("the name leads to an address that is not of the internet, and not listed itself")
            }
            OutboundError::Invalid(text) => f.write_str(text),
            OutboundError::TimedOut => f.write_str("there was no answer in time"),
            OutboundError::Failed(text) => write!(f, "the request failed: {text}"),
            OutboundError::TooLong => write!(f, "the body is longer than {LONGEST} bytes"),
            OutboundError::Status(status) => write!(f, "the receiver answered with status {status}"),
        }
    }
}

impl std::error::Error for OutboundError {}

/// The handler's failure: the caller cannot mend it.
impl From<OutboundError> for Error {
    fn from(error: OutboundError) -> Error {
        internal(error.to_string())
    }
}

type Result<T> = std::result::Result<T, OutboundError>;

/// A request to others.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Request {
    /// In capitals.
    pub method: String,
    /// With scheme and host.
    pub url: String,
    /// The `content-type` among them.
    pub headers: Vec<(String, String)>,
    /// Empty for none.
    pub body: Vec<u8>,
    /// Most time to the head of the response, and between two pieces of its body; zero for 30 s. The host
    /// waits 60 s at most, and 10 s to connect.
    pub timeout: Duration,
}

impl Request {
    /// A request without headers and body, which has 30 s.
    pub fn new(method: &str, url: &str) -> Request {
        Request {
            method: method.to_owned(),
            url: url.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            timeout: USUAL_TIMEOUT,
        }
    }

    /// A `GET`.
    pub fn get(url: &str) -> Request {
        Request::new("GET", url)
    }

    /// A `POST`.
    pub fn post(url: &str) -> Request {
        Request::new("POST", url)
    }

    /// With a header more.
    pub fn header(mut self, name: &str, value: &str) -> Request {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With a body.
    pub fn body(mut self, content_type: &str, body: impl Into<Vec<u8>>) -> Request {
        self.body = body.into();
        self.header("content-type", content_type)
    }

    /// With a body of JSON.
    ///
    /// # Errors
    /// [`Error::Internal`] if `value` cannot be written as JSON.
    pub fn json<T: Serialize + ?Sized>(self, value: &T) -> crate::Result<Request> {
        let body = serde_json::to_vec(value);
        body.map(|body| self.body("application/json", body))
            .map_err(|error| internal(format!("the request is no json: {error}")))
    }

    /// With another time than 30 s, of which the host takes 60 s at most.
    pub fn timeout(mut self, timeout: Duration) -> Request {
        self.timeout = timeout;
        self
    }

    /// Sends it and waits for the head of the response, of any status. No redirect is followed.
    ///
    /// # Errors
    /// Any [`OutboundError`] but [`Status`](OutboundError::Status).
    pub fn send(&self) -> Result<Response> {
        self.check()?;
        if self.timeout.is_zero() {
            return host::send(&self.clone().timeout(USUAL_TIMEOUT));
        }
        host::send(self)
    }

    /// Refuses what the host would, so that a unit test sees it too.
    fn check(&self) -> Result<()> {
        self.target()?;
        if !is_token(&self.method) {
            return Err(OutboundError::Invalid("the method is none".to_owned()));
        }
        for (name, value) in &self.headers {
            if !is_token(name) || value.bytes().any(|byte| byte != b'\t' && byte.is_ascii_control()) {
                return Err(OutboundError::Invalid("a header cannot be sent".to_owned()));
            }
            if name.eq_ignore_ascii_case("content-length") && value.parse() != Ok(self.body.len()) {
                return Err(OutboundError::Invalid("a header does not fit the body".to_owned()));
            }
        }
        Ok(())
    }

    /// Its headers, with the length of the body: there are receivers that cannot read one in chunks, which is
    /// how a body of unknown length is sent.
    #[cfg(any(test, target_family = "wasm"))]
    fn sent_headers(&self) -> Vec<(String, Vec<u8>)> {
        let mut headers: Vec<_> =
            self.headers.iter().map(|(name, value)| (name.clone(), value.clone().into_bytes())).collect();
        let is_said = self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        let has_body = !self.body.is_empty() || !["GET", "HEAD"].contains(&self.method.as_str());
        if has_body && !is_said {
            headers.push(("content-length".to_owned(), self.body.len().to_string().into_bytes()));
        }
        headers
    }

    /// The parts of its URL: whether it is `https`, the authority, the rest.
    fn target(&self) -> Result<(bool, &str, &str)> {
        let (is_secure, rest) = match (self.url.strip_prefix("https://"), self.url.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => {
                let text = "the URL does not begin with `http://` or `https://`";
                return Err(OutboundError::Invalid(text.to_owned()));
            }
        };
        let rest = rest.split_once('#').map_or(rest, |(rest, _)| rest);
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.is_empty() {
            return Err(OutboundError::Invalid("the URL has no host".to_owned()));
        }
        Ok((is_secure, authority, path))
    }
}

/// Whether it is a name of a header, or a method.
fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// The response of others; its body is read as it comes.
#[derive(Debug)]
pub struct Response {
    /// Its status.
    pub status: u16,
    /// Names in lower case; values that are no text are left out.
    pub headers: Vec<(String, String)>,
    body: host::Body,
}

impl Response {
    /// The first header of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name));
        found.map(|(_, value)| &**value)
    }

    /// The next piece of the body; `None` at its end.
    ///
    /// # Errors
    /// [`OutboundError::Failed`] if it broke off, [`OutboundError::TimedOut`] if no more came in time.
    pub fn read(&mut self) -> Result<Option<Vec<u8>>> {
        self.body.read()
    }

    /// The rest of the body.
    ///
    /// # Errors
    /// As [`read`](Response::read), and [`OutboundError::TooLong`].
    pub fn bytes(mut self) -> Result<Vec<u8>> {
        let mut whole = Vec::new();
        while let Some(piece) = self.read()? {
            if whole.len() + piece.len() > LONGEST {
                return Err(OutboundError::TooLong);
            }
            whole.extend_from_slice(&piece);
        }
        Ok(whole)
    }

    /// The rest of the body as text; what is no UTF-8 in it is replaced by U+FFFD.
    ///
    /// # Errors
    /// As [`bytes`](Response::bytes).
    pub fn text(self) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.bytes()?).into_owned())
    }

    /// The rest of the body as JSON.
    ///
    /// # Errors
    /// As [`bytes`](Response::bytes), and [`OutboundError::Failed`] if it is none of this type.
    pub fn json<T: DeserializeOwned>(self) -> Result<T> {
        let body = self.bytes()?;
        serde_json::from_slice(&body).map_err(|error| OutboundError::Failed(format!("its json: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_a_scheme_an_authority_and_the_rest() {
        for (url, expected) in [
            ("https://a.example", Some((true, "a.example", ""))),
            ("http://a:81/b?c=d#e", Some((false, "a:81", "/b?c=d"))),
            ("http://[::1]:81?c", Some((false, "[::1]:81", "?c"))),
            ("ftp://a", None),
            ("/path", None),
            ("https:///path", None),
        ] {
            assert_eq!(Request::get(url).target().ok(), expected, "{url}");
        }
    }

    #[test]
    fn a_body_has_its_length() {
        let url = "https://a";
        for (request, expected) in [
            (Request::post(url).body("text/plain", "hello"), Some("5")),
            (Request::post(url), Some("0")),
            (Request::new("DELETE", url), Some("0")),
            (Request::get(url).body("text/plain", "hello"), Some("5")),
            (Request::get(url), None),
            (Request::post(url).body("text/plain", "hello").header("Content-Length", "5"), None),
        ] {
            let headers = request.sent_headers();
            let found = headers.iter().find(|(name, _)| name == "content-length");
            assert_eq!(found.map(|(_, value)| value.as_slice()), expected.map(str::as_bytes), "{request:?}");
        }
    }

    #[test]
    fn a_test_says_what_others_answer() {
        answer_with(|request| match request.url.as_str() {
            "https://a.example/labels" => Ok(Response::with(200, &[("X-Kind", "b")], r#"["cat"]"#)),
            _ => Err(OutboundError::Denied),
        });
        let found = Request::get("https://a.example/labels").header("a", "b").send().unwrap();
        assert_eq!((found.status, found.header("x-kind")), (200, Some("b")));
        assert_eq!(found.json::<Vec<String>>().unwrap(), ["cat"]);
        let error = Request::post("https://b.example").json(&1).unwrap().send().unwrap_err();
        assert_eq!(error, OutboundError::Denied);
        let shown = Error::from(error);
        assert_eq!(shown, internal("`allow_outbound` does not list where the request goes"));
        answer_with(|_| Ok(Response::with(200, &[], vec![b'x'; LONGEST + 1])));
        assert_eq!(Request::get("https://a").send().unwrap().bytes(), Err(OutboundError::TooLong));
    }

    #[test]
    fn what_a_host_would_refuse_is_refused_in_a_test_too() {
        answer_with(|request| {
            assert_eq!(request.timeout, USUAL_TIMEOUT);
            Ok(Response::with(200, &[], ""))
        });
        let url = "https://a";
        for request in [
            Request::get("ftp://a"),
            Request::get("https://"),
            Request::new("A B", url),
            Request::get(url).header("x y", "1"),
            Request::get(url).header("", "1"),
            Request::get(url).header("a", "1\r\nb: 2"),
            Request::get(url).header("a", "\0"),
            Request::get(url).header("content-length", "1"),
        ] {
            let error = request.send().unwrap_err();
            assert!(matches!(error, OutboundError::Invalid(_)), "{request:?}: {error:?}");
        }
        let fine = Request::get(url).header("x-a", "gr\u{fc}\u{df}\t1").timeout(Duration::ZERO);
        assert_eq!(fine.send().unwrap().status, 200);
    }
}
