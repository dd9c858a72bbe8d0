//! Requests that a handler sends while its calls are logged, known or recorded.
//!
//! Place in the flow: between a guest's `outgoing-handler` and `outbound`, where a run has a log. In: the
//! request, whose body is yet to come, and the way to send it. Out: the response: that of the other server,
//! or the one that the log knows. Invariant: what the log answers goes nowhere; its body is taken from the
//! guest all the same.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt as _, Full};

use crate::outbound::{Body, OutboundAnswer, OutboundCall, OutboundError};
use crate::plugin::host_call_log::{HostCallLog, Outgoing};
use crate::request::exchange::kept::{Keeping, KeptBody, Partial};

/// The outcome of a request.
pub(super) type Answer = Result<Response<Body>, OutboundError>;

/// Sends a request, unless the log has its answer.
pub(super) fn send<F: Future<Output = Answer> + Send + 'static>(
    log: Arc<HostCallLog>,
    request: Request<Body>,
    live: impl FnOnce(Request<Body>) -> F,
) -> impl Future<Output = Answer> + Send + 'static {
    let call = OutboundCall {
        method: request.method().to_string(),
        url: request.uri().to_string(),
        headers: plain(request.headers()),
        ..OutboundCall::default()
    };
    let sent = log.sent(call);
    let request = request.map(|body| Keeping::new(body, sent.body).boxed_unsync());
    let way = match sent.way {
        Outgoing::Live => Ok(live(request)),
        known => {
            log.drains(tokio::spawn(drain(request.into_body())));
            Err(known)
        }
    };
    async move {
        match way {
            Ok(live) => {
                let response = live.await;
                let kept = log.answered(sent.number, answer(&response));
                response.map(|response| response.map(|body| Keeping::new(body, kept).boxed_unsync()))
            }
            Err(Outgoing::Known(answer)) => known(&log, sent.number, answer),
            Err(Outgoing::Live | Outgoing::Unanswered) => std::future::pending().await,
        }
    }
}

fn answer(response: &Answer) -> OutboundAnswer {
    match response {
        Ok(response) => OutboundAnswer::Response {
            status: response.status().as_u16(),
            headers: plain(response.headers()),
            body: Bytes::new(),
            is_whole: false,
        },
        Err(error) => OutboundAnswer::Failed(*error),
    }
}

/// The response that the log has. What of it the handler reads is noted as it would be of any.
fn known(log: &HostCallLog, number: usize, answer: OutboundAnswer) -> Answer {
    let (status, headers, body, is_whole) = match &answer {
        OutboundAnswer::Failed(error) => return Err(*error),
        OutboundAnswer::Response { status, headers, body, is_whole } => (status, headers, body, is_whole),
    };
    let mut response = Response::new(());
    *response.status_mut() = http::StatusCode::from_u16(*status).unwrap_or_default();
    for (name, value) in headers {
        let pair = name.parse::<http::HeaderName>().ok().zip(http::HeaderValue::from_str(value).ok());
        if let Some((name, value)) = pair {
            // More than there may be is left out.
            let _ = response.headers_mut().try_append(name, value);
        }
    }
    let body: Body = match is_whole {
        true => Full::new(body.clone()).map_err(|never| match never {}).boxed_unsync(),
        false => Partial::new(body.clone()).map_err(|()| OutboundError::Broken.into()).boxed_unsync(),
    };
    let kept: Arc<KeptBody> = log.answered(number, answer);
    Ok(response.map(|()| Keeping::new(body, kept).boxed_unsync()))
}

/// Takes a body to its end, or as far as it comes.
async fn drain(mut body: Body) {
    while let Some(Ok(_)) = body.frame().await {}
}

fn plain(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect()
}
