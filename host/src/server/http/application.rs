//! An endpoint that is an application: every method and path below its own.
//!
//! Place in the flow: from the map of applications in [`super`]; the handler reads the body and sends the
//! response by an [`Exchange`].
//! Invariants: a request runs in a task of its own, so that the handler may work on after its response; it
//! ends with it, or soon after its client went away. A response that is under way is never ended by the
//! server as if it were complete.

use std::sync::Arc;
use std::time::Instant;

use axum::body::{Body, HttpBody as _};
use axum::extract::{Request, State};
use axum::http::header::{HeaderName, HeaderValue};
use axum::http::request::Parts;
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, Method, Uri};
use axum::response::Response;
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};

use super::cors;
use super::route::EndpointRoute;
use crate::arrivals::Origin;
use crate::endpoint::config::EndpointConfig;
use crate::endpoint::generation::Generation;
use crate::error::{Code, RequestError, Stage};
use crate::keys::Credentials;
use crate::memory::Charge;
use crate::request::exchange::{BodyStream, BrokenBody, Exchange};
use crate::request::{self, Input, JOB_HEADERS, Output};
use crate::server::body::Bounds;
use crate::server::compat::client;
use crate::server::head::{Head, X_REQUEST_ID, insert, remove_similar};
use crate::server::serve::{Call, Destination, Protocol, Room, Signature, Transport, serve};
use crate::server::spans;
use crate::telemetry::access_log::AccessEntry;
use crate::telemetry::traces::{AnswerStatus, Operation};

/// The part of a request's path that its application does not see.
const X_FORWARDED_PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");

/// Where an application's requests go.
pub(super) struct ApplicationRoute {
    pub(super) route: EndpointRoute,
    /// The prefix that is taken from the beginning of a path; empty at the root.
    pub(super) prefix: String,
}

/// Answers a request, which came at `arrived`.
pub(super) async fn call(
    route: Arc<ApplicationRoute>,
    mut head: Box<Head>,
    body: Body,
    arrived: Instant,
) -> Response {
    let EndpointRoute { endpoint, served } = &route.route;
    let id = head.id();
    // One that is granted the headers of the answer answers by itself.
    let grants = &endpoint.config.response_headers;
    let is_its = grants.iter().any(|name| name.starts_with("access-control-"));
    if served.config.cors_allow_origin.is_some() && !is_its && cors::is_preflight(&head) {
        let mut response = cors::preflight_of_an_application(head.headers());
        insert(response.headers_mut(), X_REQUEST_ID, &id);
        return response;
    }
    below(&route.prefix, &mut head, &id);
    let is_whole = endpoint.read_current(|it| it.pipeline.reads_whole_bodies());
    let (exchange, client) = Exchange::new(&head.parts.method, served.config.tls.is_some());
    let exchange = exchange.charged_to(endpoint.memory);
    let progress = client.progress().clone();
    let is_call = head.parts.method == Method::POST;
    let (run_route, run_id) = (route.clone(), id.clone());
    let run = tokio::spawn(async move {
        let EndpointRoute { endpoint, served } = &run_route.route;
        // Until the handler has ended, which may be long after its response.
        let _held = is_call.then(|| served.activity.hold(arrived));
        let call = Call::new(served, run_id, arrived);
        let found = Ok((Destination { endpoint, model: None }, Application(Some(exchange))));
        tokio::select! {
            biased;
            answer = serve(call, found, Streaming { head, is_whole }, body) => Some(answer),
            () = progress.abandoned() => None,
        }
    });
    if let Some(streamed) = client.response().await {
        let mut response = Response::from_parts(streamed.head, Body::new(streamed.body));
        sign(&mut response, &id, &streamed.digest);
        return response;
    }
    let answer = match run.await {
        Ok(Some(Some(answer))) => answer,
        // The handler panicked, or its client is gone and reads no answer.
        Ok(_) | Err(_) => unanswered(&Call::new(served, id, arrived), &endpoint.config.name),
    };
    client::of_application(answer, &endpoint.config.paths)
}

fn unanswered(call: &Call<'_>, endpoint: &str) -> Response {
    let error = RequestError::new(Code::Internal, Stage::Admit, "the request was not answered");
    <Box<Head> as Transport>::encode_error(error, call, Some(endpoint))
}

/// Signs a response that its handler has sent.
fn sign(response: &mut Response, id: &str, digest: &str) {
    let signature = Signature { id, digest: Some(digest), bypassed: None, cached: None };
    <Box<Head> as Transport>::sign(response, &signature);
}

/// The same, by way of the router.
pub(super) async fn routed(State(route): State<Arc<ApplicationRoute>>, request: Request) -> Response {
    let (head, body) = Head::split(request);
    call(route, head, body, Instant::now()).await
}

/// Makes the head the one that the application sees.
pub(super) fn below(prefix: &str, head: &mut Head, id: &str) {
    let Parts { uri, headers, .. } = &mut head.parts;
    *uri = uri_below(prefix, uri);
    insert(headers, X_REQUEST_ID, id);
    // No client calls itself a job.
    let [job, attempt] = JOB_HEADERS;
    remove_similar(headers, &[X_FORWARDED_PREFIX.as_str(), job, attempt]);
    if let (false, Ok(prefix)) = (prefix.is_empty(), HeaderValue::from_str(prefix)) {
        headers.insert(X_FORWARDED_PREFIX, prefix);
    }
}

fn uri_below(prefix: &str, uri: &Uri) -> Uri {
    let whole = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    let Some(rest) = whole.strip_prefix(prefix).filter(|_| !prefix.is_empty()) else { return uri.clone() };
    let rest = if rest.starts_with('/') { rest.to_owned() } else { format!("/{rest}") };
    let mut parts = uri.clone().into_parts();
    let Ok(rest) = PathAndQuery::try_from(rest) else { return uri.clone() };
    parts.path_and_query = Some(rest);
    Uri::from_parts(parts).unwrap_or_else(|_| uri.clone())
}

/// The operation of a request whose head is [the application's](below).
pub(super) fn operation(head: &Head, endpoint: Option<&EndpointConfig>) -> Operation {
    let prefix = head.headers().get(X_FORWARDED_PREFIX).and_then(|prefix| prefix.to_str().ok());
    spans::below(head, prefix.unwrap_or_default(), endpoint.map_or("/", |endpoint| &endpoint.path))
}

/// A body of at most `longest` bytes.
fn limited(body: Body, longest: usize) -> BodyStream {
    Limited::new(body, longest)
        .map_err(move |error| match error.downcast_ref::<LengthLimitError>() {
            Some(_) => BrokenBody::TooLong(longest as u64),
            None => BrokenBody::Incomplete,
        })
        .boxed_unsync()
}

/// The head of a request whose body is passed on as it comes, unless the handler takes it whole.
struct Streaming {
    head: Box<Head>,
    is_whole: bool,
}

/// The body of a request to an application.
enum Message {
    Whole(Bytes),
    Coming(BodyStream),
}

impl Transport for Streaming {
    type Body = Body;
    type Message = Message;
    /// `None`: the handler has sent its response by the exchange.
    type Answer = Option<Response>;

    fn credentials(&self) -> Credentials<'_> {
        self.head.credentials()
    }

    fn origin(&self) -> Origin {
        Transport::origin(&self.head)
    }

    fn headers(&self) -> &HeaderMap {
        self.head.headers()
    }

    fn take_access(&mut self) -> Option<Arc<AccessEntry>> {
        self.head.take_access()
    }

    fn operation(&self, endpoint: Option<&EndpointConfig>) -> Operation {
        operation(&self.head, endpoint)
    }

    async fn receive(&mut self, body: Body, bounds: Bounds) -> Result<Option<Message>, RequestError> {
        if self.is_whole {
            return Ok(self.head.receive(body, bounds).await?.map(Message::Whole));
        }
        if body.size_hint().lower() > bounds.longest as u64 {
            let message = format!("the body is longer than {} bytes", bounds.longest);
            return Err(RequestError::new(Code::BodyTooLarge, Stage::Admit, message));
        }
        Ok(Some(Message::Coming(limited(body, bounds.longest))))
    }

    fn is_debug(&self) -> bool {
        self.head.is_debug()
    }

    fn into_head(self) -> Box<dyn request::Head> {
        self.head
    }

    fn encode_error(error: RequestError, call: &Call<'_>, endpoint: Option<&str>) -> Option<Response> {
        Some(<Box<Head> as Transport>::encode_error(error, call, endpoint))
    }

    fn status(answer: &Option<Response>) -> AnswerStatus {
        answer.as_ref().map_or(AnswerStatus::Streamed, |answer| AnswerStatus::Http(answer.status().as_u16()))
    }

    /// The response has left by the exchange, and is charged there.
    fn hold(_: &mut Option<Response>, _: Charge) {}

    fn sign(answer: &mut Option<Response>, signature: &Signature<'_>) {
        if let Some(answer) = answer {
            <Box<Head> as Transport>::sign(answer, signature);
        }
    }
}

/// The exchange of one request, until its run has it.
struct Application(Option<Exchange>);

impl Protocol for Application {
    type Transport = Streaming;

    fn decode(&mut self, head: &Streaming, body: Message, _: Room) -> Result<Input, RequestError> {
        let missing = || RequestError::new(Code::Internal, Stage::Admit, "the request was taken before");
        let exchange = self.0.take().ok_or_else(missing)?;
        match body {
            Message::Whole(body) => exchange.begin_whole(body),
            Message::Coming(body) => exchange.begin(head.head.again(body)),
        }
        Ok(Input::Exchange(Box::new(exchange)))
    }

    fn rewrites(&self) -> bool {
        false
    }

    /// The response has left by the exchange.
    fn encode(self, _: Output, _: &Generation) -> Result<Option<Response>, RequestError> {
        Ok(None)
    }
}
