//! A request's head, read once: its id, its credentials.
//!
//! Place in the flow: made when a request's head is there; handed on, boxed, until the pipeline has it as
//! what a handler may ask for.
//! Out: how long it is, and which of the headers that every request is looked at for it has. Most requests
//! have none of them, and one walk over a few headers costs less than looking each of these up.

use std::sync::Arc;

use axum::http::header::{CONTENT_ENCODING, EXPECT, HOST, HeaderValue, TRANSFER_ENCODING, UPGRADE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, Request, Version};
use uuid::Uuid;

use crate::arrivals::Origin;
use crate::error::Code;
use crate::keys::Credentials;
use crate::request::{self, ID_HEADERS, is_job_header};
use crate::server::field_text::OpaqueFields;
use crate::text;

/// Names the request, in both directions.
pub(super) const X_REQUEST_ID: HeaderName = HeaderName::from_static(ID_HEADERS[0]);
/// Names it as well, for clients that know this name.
pub(super) const ID_ALIAS: HeaderName = HeaderName::from_static(ID_HEADERS[1]);

/// Longest request id taken from a caller.
const LONGEST_ID: usize = 128;

/// Marks a request of the operator's listener.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operator;

/// Whether a request came by TLS.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Secure(pub(super) bool);

impl Secure {
    /// The scheme of its address.
    pub(super) fn scheme(self) -> &'static str {
        if self.0 { "https" } else { "http" }
    }
}

/// The name by which a handler asks for the scheme, as HTTP/2 has it: no field of a client has such a name.
pub(super) const SCHEME: &str = ":scheme";

/// A request without its body.
pub(super) struct Head {
    pub(super) parts: Parts,
    /// Bytes, about as they came: path, query, and each header's line.
    pub(super) length: usize,
    /// Whether its client waits for a word before it sends the body.
    pub(super) is_awaited: bool,
    /// Whether its client wants to speak another protocol from now on.
    pub(super) is_upgrade: bool,
    /// Whether its body says how it is packed.
    pub(super) is_coded: bool,
    /// Whether it brings an id, of either name.
    pub(super) has_id: bool,
    /// Whether its id, if it brings one, is to be returned by the other name as well.
    pub(super) has_id_alias: bool,
    /// Whose it is.
    pub(super) origin: Origin,
    pub(super) secure: Secure,
    opaque: OpaqueFields,
    /// The part of it that HTTP forbids, or the server does not do.
    pub(super) protocol_violation: Option<(Code, &'static str)>,
}

impl Head {
    /// Takes a request's body away from its head. Boxed: the head goes through many hands, and stays where it
    /// is to the end.
    pub(super) fn split<B>(request: Request<B>) -> (Box<Head>, B) {
        let (parts, body) = request.into_parts();
        (Box::new(Head::new(parts)), body)
    }

    fn new(parts: Parts) -> Head {
        let uri = &parts.uri;
        let mut head = Head {
            length: uri.path().len() + uri.query().map_or(0, str::len),
            is_awaited: false,
            is_upgrade: false,
            is_coded: false,
            has_id: false,
            has_id_alias: false,
            origin: parts.extensions.get().copied().unwrap_or_default(),
            secure: parts.extensions.get().copied().unwrap_or_default(),
            opaque: OpaqueFields::default(),
            protocol_violation: None,
            parts,
        };
        let mut hosts = 0;
        for (name, value) in &head.parts.headers {
            head.length += name.as_str().len() + value.len() + ": \r\n".len();
            hosts += u32::from(*name == HOST);
            if *name == EXPECT {
                head.is_awaited = true;
                // RFC 9110, section 10.1.1: of HTTP/1.0 an expectation is passed over.
                if !value.as_bytes().eq_ignore_ascii_case(b"100-continue")
                    && head.parts.version != Version::HTTP_10
                {
                    let text = "the head expects something other than `100-continue`";
                    head.protocol_violation = Some((Code::ExpectationFailed, text));
                }
            }
            // RFC 9112, section 6.1. What does not end with `chunked` hyper refuses: its end could not be
            // known.
            if *name == TRANSFER_ENCODING && !value.as_bytes().eq_ignore_ascii_case(b"chunked") {
                let text = "the body has a transfer coding other than `chunked`";
                head.protocol_violation = Some((Code::NotImplemented, text));
            }
            head.is_upgrade |= *name == UPGRADE;
            head.is_coded |= *name == CONTENT_ENCODING;
            head.has_id_alias |= *name == ID_ALIAS;
            head.has_id |= *name == X_REQUEST_ID;
        }
        head.has_id |= head.has_id_alias;
        // RFC 9112, section 3.2. Over HTTP/2 it is `:authority`, which there may be beside a `host`.
        match hosts {
            0 if head.parts.version == Version::HTTP_11 => {
                head.protocol_violation = Some((Code::InvalidInput, "the head has no `host`"));
            }
            2.. => head.protocol_violation = Some((Code::InvalidInput, "the head has more than one `host`")),
            _ => {}
        }
        head
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        &self.parts.headers
    }

    /// A request with this head and another body.
    pub(super) fn again<B>(&self, body: B) -> Request<B> {
        let mut request = Request::new(body);
        *request.method_mut() = self.parts.method.clone();
        *request.version_mut() = self.parts.version;
        *request.uri_mut() = self.parts.uri.clone();
        *request.headers_mut() = self.parts.headers.clone();
        request
    }

    /// As [`request_id`], but without a look at the headers where there is none.
    pub(super) fn id(&self) -> Arc<str> {
        if self.has_id { request_id(self.headers()) } else { new_id() }
    }
}

/// The head that a handler may ask for. It has no header of a job's: no client's request is one.
impl request::Head for Head {
    fn as_exchange(&self) -> Option<request::exchange::Head> {
        Some(self.again(()))
    }

    fn method(&self) -> &str {
        self.parts.method.as_str()
    }

    fn path(&self) -> &str {
        self.parts.uri.path()
    }

    fn query(&self) -> &str {
        self.parts.uri.query().unwrap_or_default()
    }

    fn header(&self, name: &str) -> Option<&str> {
        if name == SCHEME {
            return Some(self.secure.scheme());
        }
        if is_job_header(name) { None } else { self.opaque.text(&self.parts.headers, name) }
    }

    fn headers(&self) -> Vec<(&str, &str)> {
        let mut headers = self.opaque.all(&self.parts.headers);
        headers.retain(|(name, _)| !is_job_header(name));
        headers
    }
}

/// The credentials among a request's headers.
pub(super) fn credentials(headers: &HeaderMap) -> Credentials<'_> {
    Credentials::of(|name| headers.get(name)?.to_str().ok())
}

/// The caller's own id if it is fit to be logged and returned, else a new one.
pub(super) fn request_id(headers: &HeaderMap) -> Arc<str> {
    let given = headers.get(X_REQUEST_ID).or_else(|| headers.get(ID_ALIAS));
    match given.and_then(|value| value.to_str().ok()) {
        Some(id) if (1..=LONGEST_ID).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic()) => {
            id.into()
        }
        _ => new_id(),
    }
}

fn new_id() -> Arc<str> {
    (&*Uuid::new_v4().hyphenated().encode_lower(&mut Uuid::encode_buffer())).into()
}

/// Removes headers that only the server sets from a client's request, in every spelling: `_` is `-` to
/// handlers.
pub(super) fn remove_similar(headers: &mut HeaderMap, names: &[&str]) {
    let is_similar = |name: &str| names.iter().any(|own| text::is_similar(own, name));
    let of_client: Vec<HeaderName> =
        headers.keys().filter(|name| is_similar(name.as_str())).cloned().collect();
    for name in of_client {
        headers.remove(name);
    }
}

/// Sets a header, if its value can be one.
pub(super) fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::JOB_HEADERS;

    #[test]
    fn no_spelling_makes_a_clients_request_a_job() {
        for (name, is_of_a_job) in [
            ("x-modelhost-job", true),
            ("X_ModelHost-Job", true),
            ("x_modelhost_job_attempt", true),
            ("x-modelhost-job-delay", false),
            ("x-modelhost", false),
        ] {
            let request = Request::get("/").header("host", "here").header(name, "1").body(()).unwrap();
            let (mut head, ()) = Head::split(request);
            let seen: &dyn request::Head = &*head;
            let asked = (seen.header(name), seen.header_or_similar(name), seen.headers().len());
            assert_eq!(
                asked,
                if is_of_a_job { (None, None, 1) } else { (Some("1"), Some("1"), 2) },
                "{name}"
            );
            remove_similar(&mut head.parts.headers, &JOB_HEADERS);
            assert_eq!(head.headers().len(), if is_of_a_job { 1 } else { 2 }, "{name}");
        }
    }
}
