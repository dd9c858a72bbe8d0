//! The trace context of requests that leave.
//!
//! In: the headers of a request, and the span that sends it. Out: `traceparent` and `tracestate` among them,
//! unless the handler has set a `traceparent` itself: it may have spans of its own.

use http::{HeaderMap, HeaderValue};

use crate::trace::{TRACEPARENT, TRACESTATE, TraceContext};

/// Adds the context of a span to the headers of a request that it sends.
pub fn stamp(headers: &mut HeaderMap, context: &TraceContext) {
    if headers.contains_key(TRACEPARENT) {
        return;
    }
    headers.remove(TRACESTATE);
    // More headers than there may be are left out.
    let mut add = |name: &'static str, value: &str| {
        let value = HeaderValue::from_str(value).ok();
        let _ = value.map(|value| headers.try_insert(name, value));
    };
    add(TRACEPARENT, &context.traceparent());
    if let Some(state) = &context.state {
        add(TRACESTATE, state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_gets_the_context_unless_it_has_one() {
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let context = TraceContext::read([parent.as_bytes()].into_iter(), [&b"a=1"[..]].into_iter()).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(TRACESTATE, HeaderValue::from_static("alone=1"));
        stamp(&mut headers, &context);
        assert_eq!(
            (&headers[TRACEPARENT], &headers[TRACESTATE]),
            (&parent.parse().unwrap(), &"a=1".parse().unwrap())
        );
        let own = HeaderValue::from_static("00-11111111111111111111111111111111-2222222222222222-00");
        let mut headers = HeaderMap::from_iter([(TRACEPARENT.parse().unwrap(), own.clone())]);
        stamp(&mut headers, &context);
        assert_eq!((headers.len(), &headers[TRACEPARENT]), (1, &own));
    }
}
