//! The headers by which an answer tells how it came about, the same of a client's request and of a job.
//!
//! Place in the flow: put into the answer once it is made. In: what signed it, or the error that it is. Out:
//! its headers.

use http::header::{ACCEPT_ENCODING, AGE, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::compression::Coding;
use crate::endpoint::response_cache::CacheUse;
use crate::error::{RequestError, Stage};

/// SHA-256 of the handler that answered.
const X_HANDLER_DIGEST: HeaderName = HeaderName::from_static("x-handler-digest");
/// The stage from which on the handler had no part in the answer, because it failed there.
const X_HANDLER_BYPASSED: HeaderName = HeaderName::from_static("x-handler-bypassed");
/// Whether the answer was kept (RFC 9211).
const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// Signs an answer: by the handler's digest, the stage that was left out, the response cache's part.
pub fn sign(
    headers: &mut HeaderMap,
    digest: Option<&str>,
    bypassed: Option<Stage>,
    cached: Option<CacheUse>,
) {
    if let Some(digest) = digest.and_then(|digest| HeaderValue::from_str(digest).ok()) {
        headers.insert(X_HANDLER_DIGEST, digest);
    }
    if let Some(stage) = bypassed {
        headers.insert(X_HANDLER_BYPASSED, HeaderValue::from_static(stage.name()));
    }
    if let Some(cached) = cached {
        headers.insert(CACHE_STATUS, HeaderValue::from_static(cached.status()));
        if let Some(age) = cached.age() {
            headers.insert(AGE, HeaderValue::from(age));
        }
    }
}

/// The headers of an error that is told as JSON.
pub fn explain(headers: &mut HeaderMap, error: &RequestError) {
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(seconds) = error.retry_seconds() {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if error.is_of_coding {
        // RFC 9110, section 15.5.16.
        headers.insert(ACCEPT_ENCODING, Coding::TAKEN);
    }
}
