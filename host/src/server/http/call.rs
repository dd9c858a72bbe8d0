//! A call of an endpoint: HTTP request → [`Request`] → pipeline → HTTP response.
//!
//! Place in the flow: first and last file of the project that sees a request. Protocols with bodies and answers of their own
//! share [`serve`] and say only what they make of a body.
//! Invariants: no body is read of a request that has no place at its endpoint; at most `limits.body` bytes are read of the
//! others, and held once: a body that arrives in one piece is never copied, any other once; so are those that come packed,
//! before and after.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Instant;

use arc_swap::Guard;
use axum::body::{Body, HttpBody as _};
use axum::extract::State;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response as HttpResponse;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use uuid::Uuid;

use super::compression::Coding;
use super::{EndpointRoute, X_HANDLER_BYPASSED, X_HANDLER_DIGEST, error};
use crate::arrivals::Pace;
use crate::deploy::{Answer, Endpoint, Generation};
use crate::error::{Code, RequestError, Stage};
use crate::json::write;
use crate::keys::Credentials;
use crate::pipeline::respond;
use crate::request::{Form, Input, Output, Request, Response, until};
use crate::server::compat::potassium::X_BANANA_REQUEST_ID;
use crate::server::head::{Head, X_REQUEST_ID};

/// Longest request id taken from a caller.
const LONGEST_ID: usize = 128;
/// Most that is set aside for a body on the strength of its announced length; a longer one has to come first.
const SET_ASIDE: usize = 1 << 20;

/// `POST <endpoint>`, by way of the router.
pub(super) async fn routed(
    State(target): State<Arc<EndpointRoute>>,
    request: axum::extract::Request,
) -> HttpResponse {
    let (head, body) = Head::split(request);
    call(&target, head, body, Instant::now()).await
}

/// `POST <endpoint>`. The target is borrowed: every request of every thread would count it at the same place.
pub(super) async fn call(
    target: &EndpointRoute,
    head: Box<Head>,
    body: Body,
    arrived: Instant,
) -> HttpResponse {
    let EndpointRoute { endpoint, served } = target;
    let id = id_of(&head);
    let plain = |_: &HeaderMap, body| Ok(Input::Body(body, Form::Plain));
    let (outcome, by) = match serve(endpoint, None, head, body, &id, arrived, plain).await {
        Ok(Answer { outcome, generation, bypassed }) => (outcome, Some((generation, bypassed))),
        Err(failure) => (Err(failure), None),
    };
    let mut response = match outcome {
        Ok(Output::Response(response)) => into_http(response),
        // Only those who bring tensors get tensors, and they come another way.
        Ok(Output::Tensors(tensors)) => into_http(respond::json(write::outputs(&tensors))),
        Err(failure) => error::respond(failure, &id, served, Some(&endpoint.config.name), arrived),
    };
    sign(response.headers_mut(), &id, by.as_ref());
    response
}

/// Who gave an answer, and from which stage on without its handler.
pub(super) type By = (Guard<Arc<Generation>>, Option<Stage>);

/// Says on an answer which request it is for, and which handler gave it, or did not.
pub(super) fn sign(headers: &mut HeaderMap, id: &str, by: Option<&By>) {
    insert(headers, X_REQUEST_ID, id);
    let Some((generation, bypassed)) = by else { return };
    if let Some(digest) = generation.digest.as_deref() {
        insert(headers, X_HANDLER_DIGEST, digest);
    }
    if let Some(stage) = bypassed {
        insert(headers, X_HANDLER_BYPASSED, stage.name());
    }
}

/// Takes a request on, reads its body, makes of it what `input` says, and runs the pipeline.
///
/// # Errors
/// The endpoint's handler never saw the request.
pub(super) async fn serve(
    endpoint: &Endpoint,
    model: Option<Arc<str>>,
    mut head: Box<Head>,
    body: Body,
    id: &Arc<str>,
    arrived: Instant,
    input: impl FnOnce(&HeaderMap, Bytes) -> Result<Input, RequestError>,
) -> Result<Answer, RequestError> {
    let limits = &endpoint.config.limits;
    let deadline = arrived + limits.request_timeout;
    let visit = endpoint.knock(|| credentials(head.headers()))?;
    let (origin, bounds) =
        (head.origin, Bounds { longest: limits.body, pace: limits.pace, arrived, deadline });
    let received = visit.arrive(origin, receive(&mut head, body, bounds)).await;
    let body = match received.flatten() {
        Ok(Some(body)) => body,
        // The client is gone. `visit`, dropped here, counts it as such, and nobody will read this.
        Ok(None) => return Err(RequestError::invalid(Stage::Admit, "the body broke off")),
        Err(failure) => {
            visit.refuse(&failure);
            return Err(failure);
        }
    };
    let debug = head.parts.uri.query().is_some_and(|query| query.split('&').any(|part| part == "debug=true"));
    let input = match input(head.headers(), body) {
        Ok(input) => input,
        Err(failure) => {
            visit.refuse(&failure);
            return Err(failure);
        }
    };
    let body_limit = limits.body;
    let request = Request { id: id.clone(), head, input, model, arrived, deadline, debug, body_limit };
    Ok(visit.serve(Arc::new(request)).await)
}

/// Marks a request of the operator's listener.
#[derive(Debug, Clone, Copy)]
pub(in crate::server) struct Operator;

/// What a request shows to be let in.
pub(in crate::server) fn credentials(headers: &HeaderMap) -> Credentials<'_> {
    Credentials::of(|name| headers.get(name)?.to_str().ok())
}

/// As [`request_id`], of a head that has been looked through.
pub(super) fn id_of(head: &Head) -> Arc<str> {
    if head.has_id { request_id(head.headers()) } else { new_id() }
}

/// The caller's own id if it is fit to be logged and returned, else a new one.
pub(super) fn request_id(headers: &HeaderMap) -> Arc<str> {
    let given = headers.get(X_REQUEST_ID).or_else(|| headers.get(X_BANANA_REQUEST_ID));
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

pub(super) fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

/// The whole body, unpacked; `None` if the client went away before its end.
async fn receive(head: &mut Head, body: Body, bounds: Bounds) -> Result<Option<Bytes>, RequestError> {
    let coding = if head.is_coded { Coding::of_body(head.headers())? } else { None };
    let body = read_body(body, bounds).await?;
    let (Some(coding), Some(packed)) = (coding, &body) else { return Ok(body) };
    // Whoever reads them reads the body as it is now.
    head.parts.headers.remove(CONTENT_ENCODING);
    head.parts.headers.remove(CONTENT_LENGTH);
    coding.decode(packed, bounds.longest).map(Some)
}

/// What a body may take.
#[derive(Debug, Clone, Copy)]
pub(in crate::server) struct Bounds {
    /// Bytes.
    pub(in crate::server) longest: usize,
    /// How fast it has to come.
    pub(in crate::server) pace: Pace,
    /// When its request's head came.
    pub(in crate::server) arrived: Instant,
    /// When its request ends.
    pub(in crate::server) deadline: Instant,
}

/// The whole body as it comes; `None` if the client went away before its end.
pub(in crate::server) async fn read_body(
    mut body: Body,
    bounds: Bounds,
) -> Result<Option<Bytes>, RequestError> {
    let limit = bounds.longest;
    let too_large = || {
        RequestError::new(Code::BodyTooLarge, Stage::Admit, format!("the body is longer than {limit} bytes"))
    };
    // Announced length first: nothing is read of a body that cannot be taken.
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    // One frame, the usual case, is passed on as it is. More are copied together: a client decides how small they are, and
    // each keeps far more memory than its bytes.
    let (mut first, mut all) = (Bytes::new(), BytesMut::new());
    loop {
        let due = bounds.pace.deadline(bounds.arrived, first.len() + all.len());
        let Some(frame) = until(due.min(bounds.deadline), body.frame()).await else {
            return Err(too_slow(&bounds, due));
        };
        let Some(frame) = frame else { break };
        let data = match frame {
            Ok(frame) => frame.into_data().unwrap_or_default(),
            Err(error) if is_malformed(&error) => {
                let text = "the body could not be read";
                return Err(RequestError::invalid(Stage::Admit, text).with_detail(error));
            }
            Err(_) => return Ok(None),
        };
        if first.len() + all.len() + data.len() > limit {
            return Err(too_large());
        }
        if first.is_empty() && all.is_empty() {
            first = data;
        } else {
            if all.is_empty() {
                let rest = usize::try_from(body.size_hint().lower()).unwrap_or(limit);
                all.reserve((first.len() + data.len()).saturating_add(rest).min(SET_ASIDE));
            }
            all.extend_from_slice(&std::mem::take(&mut first));
            all.extend_from_slice(&data);
        }
    }
    Ok(Some(if all.is_empty() { first } else { all.freeze() }))
}

fn too_slow(bounds: &Bounds, due: Instant) -> RequestError {
    if due > bounds.deadline {
        let message = "the body took longer than a request may";
        return RequestError::new(Code::RequestTimeout, Stage::Admit, message);
    }
    let Pace { timeout, rate } = bounds.pace;
    let message = format!("the body came too slowly, expected {rate} bytes a second after {timeout:?}");
    RequestError::new(Code::BodyTimeout, Stage::Admit, message)
}

/// Whether a body ended because its client sent nonsense, not because it went away.
fn is_malformed(error: &(dyn Error + 'static)) -> bool {
    std::iter::successors(Some(error), |&error| error.source())
        .filter_map(|error| error.downcast_ref::<io::Error>())
        .any(|error| matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::InvalidData))
}

pub(super) fn into_http(response: Response) -> HttpResponse {
    let mut http = HttpResponse::new(Body::from(response.body));
    *http.status_mut() = StatusCode::from_u16(response.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = http.headers_mut();
    if response.content_type == "application/json" {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    } else if !response.content_type.is_empty() {
        insert(headers, CONTENT_TYPE, &response.content_type);
    }
    for (name, value) in &response.headers {
        // Names and values were checked when the handler returned them.
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_str(value)) {
            // So was their number; a map that is full is no reason to panic.
            let _ = headers.try_append(name, value);
        }
    }
    http
}
