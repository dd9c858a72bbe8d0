//! Lets pages in a browser call the endpoints (the Fetch standard's CORS protocol).
//!
//! Place in the flow: [`headers`] go onto every response of the main listener, [`preflight`] answers what a
//! browser asks first. By hand because it is two constant headers: as a general middleware it cost more on
//! each request than the routing itself.

use axum::extract::State;
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ALLOW, HeaderMap, ORIGIN, VARY,
};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};

use crate::server::head::Head;

const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, OPTIONS, POST");
/// Of an application, which decides about methods when the request comes.
const ALL: HeaderValue = HeaderValue::from_static("DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT");
/// Of a path that only takes calls.
const CALLS: HeaderValue = HeaderValue::from_static("OPTIONS, POST");
/// Of a path that only tells something.
const READS: HeaderValue = HeaderValue::from_static("GET, HEAD, OPTIONS");
const EXPOSED: HeaderValue =
    HeaderValue::from_static("x-request-id, x-handler-digest, inference-header-content-length");
/// Seconds a browser may remember the answer.
const MAX_AGE: HeaderValue = HeaderValue::from_static("3600");

/// The headers that every response carries; none without an origin.
pub(super) fn headers(allow_origin: Option<&str>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Some(origin) = allow_origin.and_then(|origin| HeaderValue::from_str(origin).ok()) {
        if origin != "*" {
            headers.insert(VARY, HeaderValue::from_static("origin"));
        }
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    }
    headers
}

/// Adds headers of every response to one. A handler that is granted one of them says more than the server's
/// one word for all, and a response may depend on more than the origin; any other is the server's.
pub(super) fn add(headers: &mut HeaderMap, of_every: &HeaderMap) {
    for (name, value) in of_every {
        if name == VARY {
            vary(headers, value);
        } else if name.as_str().starts_with("access-control-") {
            headers.entry(name).or_insert_with(|| value.clone());
        } else {
            headers.insert(name, value.clone());
        }
    }
}

/// Says that a response depends on a header of the request, if it does not say so.
pub(super) fn vary(headers: &mut HeaderMap, on: &HeaderValue) {
    let is_named = |line: &HeaderValue| {
        let mut names = line.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        names.any(|name| name == b"*" || name.eq_ignore_ascii_case(on.as_bytes()))
    };
    if !headers.get_all(VARY).iter().any(is_named) {
        // A map that is full is no reason to panic.
        let _ = headers.try_append(VARY, on.clone());
    }
}

/// `OPTIONS *`: what some path of the server takes (RFC 9110, section 9.3.7).
pub(super) fn of_the_server() -> Response {
    (StatusCode::NO_CONTENT, [(ALLOW, ALL)]).into_response()
}

/// `OPTIONS` on an endpoint. `State`: whether pages of other origins may call it.
pub(super) async fn preflight(State(allowed): State<bool>, request: HeaderMap) -> Response {
    answer(&METHODS, allowed, &request)
}

/// `OPTIONS` on a path that answers nothing but `POST`. `State` as above.
pub(super) async fn preflight_of_calls(State(allowed): State<bool>, request: HeaderMap) -> Response {
    answer(&CALLS, allowed, &request)
}

/// `OPTIONS` on a path that answers nothing but `GET`. `State` as above.
pub(super) async fn preflight_of_reads(State(allowed): State<bool>, request: HeaderMap) -> Response {
    answer(&READS, allowed, &request)
}

/// Whether a browser asks by this whether a page may send a request.
pub(super) fn is_preflight(head: &Head) -> bool {
    head.parts.method == Method::OPTIONS
        && head.headers().contains_key(ORIGIN)
        && head.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// The answer to that in place of an application, for pages that may call it.
pub(super) fn preflight_of_an_application(request: &HeaderMap) -> Response {
    answer(&ALL, true, request)
}

/// The answer to `OPTIONS` on a path with these methods.
pub(super) fn answer(methods: &HeaderValue, allowed: bool, request: &HeaderMap) -> Response {
    let mut response = (StatusCode::NO_CONTENT, [(ALLOW, methods)]).into_response();
    if allowed {
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, methods.clone());
        headers.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
        if let Some(wanted) = request.get(ACCESS_CONTROL_REQUEST_HEADERS) {
            headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;

    use super::*;

    #[test]
    fn what_a_handler_says_is_kept_beside_what_the_server_does() {
        let pairs = |pairs: &[(&str, &str)]| -> HeaderMap {
            let pair = |(name, value): &(&str, &str)| -> (HeaderName, HeaderValue) {
                (name.parse().unwrap(), value.parse().unwrap())
            };
            pairs.iter().map(pair).collect()
        };
        let mut of_every = headers(Some("https://a"));
        of_every.insert("x-build-error", HeaderValue::from_static("1"));
        for (said, name, expected) in [
            (&[][..], "vary", &["origin"][..]),
            (&[("vary", "accept-language")], "vary", &["accept-language", "origin"]),
            (&[("vary", "accept, Origin")], "vary", &["accept, Origin"]),
            (&[("vary", "*")], "vary", &["*"]),
            (&[], "access-control-allow-origin", &["https://a"]),
            (&[("access-control-allow-origin", "https://b")], "access-control-allow-origin", &["https://b"]),
            (&[("x-build-error", "2")], "x-build-error", &["1"]),
        ] {
            let mut headers = pairs(said);
            add(&mut headers, &of_every);
            let values: Vec<&str> =
                headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect();
            assert_eq!(values, expected, "{said:?}");
        }
    }
}
