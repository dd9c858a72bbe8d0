//! The endpoint's own path: the body is the handler's, and so is the answer.
//!
//! Place in the flow: `POST <endpoint>`, from the map of paths in [`super`] or by way of the router.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;

use super::route::EndpointRoute;
use super::transport::into_http;
use crate::endpoint::generation::Generation;
use crate::error::RequestError;
use crate::json::special::is_marked;
use crate::pipeline::respond;
use crate::request::{Form, Head as _, Input, Output, without_mark};
use crate::server::head::Head;
use crate::server::serve::{Call, Destination, Protocol, Room, serve};

struct Classic;

impl Protocol for Classic {
    type Transport = Box<Head>;

    fn decode(&mut self, head: &Box<Head>, body: Bytes, _: Room) -> Result<Input, RequestError> {
        let body = if is_marked(&body) && head.is_json() { without_mark(body) } else { body };
        Ok(Input::Body(body, Form::Plain))
    }

    fn rewrites(&self) -> bool {
        false
    }

    fn encode(self, output: Output, _: &Generation) -> Result<Response, RequestError> {
        Ok(into_http(respond::of_output(output)))
    }
}

/// `POST <endpoint>`. The route is borrowed: every request of every thread would count it at the same place.
/// Boxed: each function from here to hyper would move all of the future before it begins.
pub(super) fn call(
    route: &EndpointRoute,
    head: Box<Head>,
    body: Body,
    arrived: Instant,
) -> Pin<Box<impl Future<Output = Response> + Send>> {
    let EndpointRoute { endpoint, served } = route;
    let call = Call::new(served, head.id(), arrived);
    Box::pin(serve(call, Ok((Destination { endpoint, model: None }, Classic)), head, body))
}

/// `POST <endpoint>`, by way of the router.
pub(super) async fn routed(State(route): State<Arc<EndpointRoute>>, request: Request) -> Response {
    let (head, body) = Head::split(request);
    call(&route, head, body, Instant::now()).await
}
