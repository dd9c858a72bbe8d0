//! The Open Inference Protocol over HTTP (kserve/open-inference-protocol, version 2), with Triton's extensions for binary
//! tensors, model configuration, model repository, parameters and statistics.
//!
//! Place in the flow: beside [`call`]: a body becomes tensors ([`request`]), the pipeline runs, tensors become an answer
//! ([`response`]). What the protocol tells about models is in [`metadata`], what it does with them in [`repository`].
//!
//! | method and path | answered by |
//! |---|---|
//! | `POST /v2/models/{model}[/versions/{version}]/infer` | [`infer`] |
//! | `GET /v2`, `/v2/models/{model}[/versions/{version}]`, `…/ready`, `…/config`, `…/stats`, `/v2/models/stats` | [`metadata`] |
//! | `POST /v2/repository/index`, `/v2/repository/models/{model}/load`, `…/unload` | [`repository`] |

mod metadata;
mod repository;
mod request;
mod response;

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::path::Path;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use axum::routing::{get, options, post};
use serde::Deserialize;

use self::request::RequestedOutputs;
use super::compression::Coding;
use super::{call, cors, error};
use crate::deploy::Answer;
use crate::error::{Code, RequestError, Stage};
use crate::keys::{self, Credentials};
use crate::request::{Input, Protocol};
use crate::server::Served;
use crate::server::head::Head;
use crate::server::models::Entry;

/// Whether clients of a listener may load and unload models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum Orders {
    Taken,
    Refused,
}

/// Everything but inference.
pub(in crate::server) fn router(orders: Orders) -> Router<Arc<Served>> {
    let mut router = Router::new()
        .route("/v2", get(metadata::server))
        .route("/v2/models/stats", get(metadata::all_statistics))
        .route("/v2/repository/index", post(repository::index));
    for model in ["/v2/models/{model}", "/v2/models/{model}/versions/{version}"] {
        router = router
            .route(model, get(metadata::model))
            .route(&format!("{model}/ready"), get(metadata::ready))
            .route(&format!("{model}/config"), get(metadata::config))
            .route(&format!("{model}/stats"), get(metadata::statistics));
    }
    let (load, unload) = match orders {
        Orders::Taken => (post(repository::load), post(repository::unload)),
        Orders::Refused => (post(repository::refused), post(repository::refused)),
    };
    router
        .route("/v2/repository/models/{model}/load", load)
        .route("/v2/repository/models/{model}/unload", unload)
}

/// Inference, for the names that [`is_inference`] leaves to the router, and for its other methods.
pub(super) fn inference(served: &Served) -> Router<Arc<Served>> {
    let preflight = options(cors::preflight_of_calls).with_state(served.config.cors_allow_origin.is_some());
    let methods = post(routed).merge(preflight);
    Router::new()
        .route("/v2/models/{model}/infer", methods.clone())
        .route("/v2/models/{model}/versions/{version}/infer", methods)
}

/// Whether a `POST` to this path is one for [`infer`].
pub(super) fn is_inference(path: &str) -> bool {
    target(path).is_some()
}

/// Model and version of an inference; `None` for any other path, and for names with escapes, which the router reads.
fn target(path: &str) -> Option<(&str, Option<&str>)> {
    let target = path.strip_prefix("/v2/models/")?.strip_suffix("/infer")?;
    let (model, version) = match target.split_once("/versions/") {
        Some((model, version)) => (model, Some(version)),
        None => (target, None),
    };
    let plain = |name: &str| !name.is_empty() && !name.contains(['/', '%']);
    (plain(model) && version.is_none_or(plain)).then_some((model, version))
}

/// How models are looked for.
const V2: Option<Protocol> = Some(Protocol::V2);

/// One inference.
pub(super) async fn infer(served: &Served, head: Box<Head>, body: Body, arrived: Instant) -> Response {
    let entry = match target(head.parts.uri.path()) {
        Some((model, version)) => served.model(model, version, call::credentials(head.headers()), V2),
        None => Err(RequestError::new(Code::NotFound, Stage::Admit, "no model is named")),
    };
    run(served, entry, head, body, arrived).await
}

/// The same, by way of the router.
async fn routed(asked: ModelRequest, request: Request) -> Response {
    let (head, body) = Head::split(request);
    run(&asked.served, asked.entry(), head, body, asked.arrived).await
}

async fn run(
    served: &Served,
    entry: Result<Entry<'_>, RequestError>,
    head: Box<Head>,
    body: Body,
    arrived: Instant,
) -> Response {
    let id = call::id_of(&head);
    let coding = Coding::wanted(head.headers());
    let entry = match entry {
        Ok(entry) => entry,
        Err(failure) => {
            let mut response = error::respond(failure, &id, served, None, arrived);
            call::sign(response.headers_mut(), &id, None);
            return response;
        }
    };
    let mut wanted = RequestedOutputs::default();
    let input = |headers: &HeaderMap, body| {
        let (input, asked) = request::read(headers, &body, || entry.signature())?;
        wanted = asked;
        Ok(Input::Tensors(input))
    };
    let answer = call::serve(entry.endpoint, entry.model.clone(), head, body, &id, arrived, input).await;
    let (outcome, by) = match answer {
        Ok(Answer { outcome, generation, bypassed }) => {
            let version = entry.version_in(&generation);
            let outcome =
                outcome.and_then(|output| response::of(output, &entry.name, &version, &wanted, coding));
            (outcome, Some((generation, bypassed)))
        }
        Err(failure) => (Err(failure), None),
    };
    let mut response = outcome.unwrap_or_else(|failure| {
        error::respond(failure, &id, served, Some(&entry.endpoint.config.name), arrived)
    });
    call::sign(response.headers_mut(), &id, by.as_ref());
    response
}

/// What a call that is no inference is about.
struct ModelRequest {
    served: Arc<Served>,
    id: Arc<str>,
    arrived: Instant,
    named: Named,
    /// What it shows to be let in: [`keys::HEADERS`], in their order.
    credentials: [Option<HeaderValue>; 2],
    is_operator: bool,
}

/// The parts of its path; empty where the path has none.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    model: String,
    version: Option<String>,
}

impl FromRequestParts<Arc<Served>> for ModelRequest {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, served: &Arc<Served>) -> Result<ModelRequest, Response> {
        let path = Path::<Named>::from_request_parts(parts, served).await;
        let id = call::request_id(&parts.headers);
        let mut asked = ModelRequest {
            served: served.clone(),
            id,
            arrived: Instant::now(),
            named: Named::default(),
            credentials: keys::HEADERS.map(|name| parts.headers.get(name).cloned()),
            is_operator: parts.extensions.get::<call::Operator>().is_some(),
        };
        match path {
            Ok(Path(named)) => asked.named = named,
            // A path without parts.
            Err(PathRejection::MissingPathParams(_)) => {}
            Err(rejection) => {
                let failure = RequestError::new(Code::NotFound, Stage::Admit, rejection.body_text());
                return Err(asked.answer(Err(failure)));
            }
        }
        Ok(asked)
    }
}

impl ModelRequest {
    fn entry(&self) -> Result<Entry<'_>, RequestError> {
        let header = |name| {
            let mut pairs = keys::HEADERS.into_iter().zip(&self.credentials);
            pairs.find(|(header, _)| *header == name)?.1.as_ref()?.to_str().ok()
        };
        let credentials = if self.is_operator { Credentials::operator() } else { Credentials::of(header) };
        self.served.model(&self.named.model, self.named.version.as_deref(), credentials, self.protocol())
    }

    /// The operator is told of everything.
    fn protocol(&self) -> Option<Protocol> {
        if self.is_operator { None } else { V2 }
    }

    /// The answer, or the error as every other.
    fn answer(&self, outcome: Result<Response, RequestError>) -> Response {
        outcome.unwrap_or_else(|failure| error::respond(failure, &self.id, &self.served, None, self.arrived))
    }
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
    request::read(&headers, body, || Arc::new(signature)).ok().map(|(input, _)| input)
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
