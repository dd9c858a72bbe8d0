//! `POST /v2/models/{model}[/versions/{version}]/infer`: a body becomes tensors, tensors become an answer.
//!
//! Place in the flow: the [`Protocol`] of these paths, which
//! [`HttpService`](crate::server::http::HttpService) finds itself; the router has them for names with
//! escapes.

use std::time::Instant;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;

use super::model_request::{ModelRequest, V2};
use super::request::{self, RequestedOutputs};
use super::response;
use crate::compression::Coding;
use crate::endpoint::generation::Generation;
use crate::error::{Code, RequestError, Stage};
use crate::request::{Input, Output};
use crate::server::head::{Head, credentials};
use crate::server::models::Entry;
use crate::server::serve::{Call, Protocol, Room, serve};
use crate::server::served::Served;
use crate::server::shared_memory::SharedMemory;

struct OpenInference<'a> {
    entry: Entry<'a>,
    memory: &'a SharedMemory,
    outputs: RequestedOutputs,
    /// The answer's.
    coding: Option<Coding>,
}

impl Protocol for OpenInference<'_> {
    type Transport = Box<Head>;

    fn decode(&mut self, head: &Box<Head>, body: Bytes, room: Room) -> Result<Input, RequestError> {
        let signature = || self.entry.signature();
        let (mut input, outputs) = request::read(head.headers(), &body, room, self.memory, signature)?;
        self.entry.strip_batch_axis(&mut input.tensors);
        self.outputs = outputs;
        Ok(Input::Tensors(input))
    }

    fn encode(self, output: Output, generation: &Generation) -> Result<Response, RequestError> {
        let version = self.entry.version_in(generation);
        let name = &self.entry.name;
        let classes = || self.entry.classes_in(generation);
        response::of(output, name, &version, &self.outputs, classes, self.coding)
    }
}

/// Whether a `POST` to this path is one for [`infer`].
pub(in crate::server::http) fn is_inference(path: &str) -> bool {
    target(path).is_some()
}

/// Model and version of an inference; `None` for any other path, and for names with escapes, which the router
/// reads.
fn target(path: &str) -> Option<(&str, Option<&str>)> {
    let target = path.strip_prefix("/v2/models/")?.strip_suffix("/infer")?;
    let (model, version) = match target.split_once("/versions/") {
        Some((model, version)) => (model, Some(version)),
        None => (target, None),
    };
    let plain = |name: &str| !name.is_empty() && !name.contains(['/', '%']);
    (plain(model) && version.is_none_or(plain)).then_some((model, version))
}

/// One inference.
pub(in crate::server::http) async fn infer(
    served: &Served,
    head: Box<Head>,
    body: Body,
    arrived: Instant,
) -> Response {
    let entry = match target(head.parts.uri.path()) {
        Some((model, version)) => served.model(model, version, credentials(head.headers()), V2),
        None => Err(RequestError::new(Code::NotFound, Stage::Admit, "no model is named")),
    };
    run(served, entry, head, body, arrived).await
}

async fn run(
    served: &Served,
    entry: Result<Entry<'_>, RequestError>,
    head: Box<Head>,
    body: Body,
    arrived: Instant,
) -> Response {
    let call = Call::new(served, head.id(), arrived);
    let coding = Coding::wanted(head.headers());
    let found = entry.map(|entry| {
        let (outputs, memory) = (RequestedOutputs::default(), &served.shared_memory);
        (entry.destination(), OpenInference { entry, memory, outputs, coding })
    });
    serve(call, found, head, body).await
}

/// One inference, by way of the router.
pub(super) async fn routed(model: ModelRequest, request: Request) -> Response {
    let (head, body) = Head::split(request);
    run(&model.served, model.entry(), head, body, model.arrived).await
}

/// Reads a request for a model of one FP32 input, as [`infer`] does; for tests/fuzz.
#[cfg(fuzzing)]
pub fn fuzz(header_length: Option<usize>, body: &bytes::Bytes) -> Option<crate::request::TensorInput> {
    use crate::tensor::{Datatype, Extent, Role, Signature, TensorSpec};
    let mut headers = axum::http::HeaderMap::new();
    headers.extend(header_length.map(|length| (request::HEADER_LENGTH, length.into())));
    let shape = vec![Extent::Free(None), Extent::Fixed(2)];
    let input = TensorSpec { name: "x".into(), datatype: Datatype::Fp32, shape, role: Role::Plain };
    let signature = Signature { inputs: vec![input], outputs: Vec::new() };
    let memory = SharedMemory::default();
    let room = Room { longest: usize::MAX, memory: crate::memory::Account::default() };
    request::read(&headers, body, room, &memory, || std::sync::Arc::new(signature))
        .ok()
        .map(|(input, _)| input)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_inferences() {
        for (path, expected) in [
            ("/v2/models/iris/infer", Some(("iris", None))),
            ("/v2/models/a.b-c/versions/12/infer", Some(("a.b-c", Some("12")))),
            ("/v2/models/infer", None),
            ("/v2/models//infer", None),
            ("/v2/models/a/b/infer", None),
            ("/v2/models/a/versions/infer", None),
            ("/v2/models/a/versions//infer", None),
            ("/v2/models/a/versions/1/2/infer", None),
            ("/v2/models/a%2Eb/infer", None),
            ("/v2/models/iris", None),
            ("/v1/models/iris/infer", None),
        ] {
            assert_eq!(target(path), expected, "{path}");
        }
    }
}
