//! Calls of a path that stands for several endpoints.
//!
//! Place in the flow: before the way of the endpoint that was drawn for a request, which serves it with that
//! endpoint's keys, limits and metrics. `GET` says which endpoints there are.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use serde_json::{Map, Value, json};

use super::error;
use super::route::EndpointRoute;
use super::shared_path::PathTarget;
use crate::bucketing::Bucketing;
use crate::server::head::{Head, credentials, request_id};
use crate::server::served::Served;
use crate::server::split::Split;

/// The endpoints at one path.
pub(super) struct WeightedRoute {
    split: Split,
    bucketing: Bucketing,
    first: PathTarget,
    others: Vec<PathTarget>,
}

/// Every split's path and whom it stands for.
pub(super) fn routes(served: &Arc<Served>) -> impl Iterator<Item = (String, WeightedRoute)> {
    served.config.splits.iter().filter_map(|split| {
        let target = |endpoint: &Arc<_>| {
            let route = EndpointRoute { endpoint: Arc::clone(endpoint), served: served.clone() };
            PathTarget::new(route, split.path.clone())
        };
        // The configuration has seen to it that all of them are there.
        let mut targets =
            split.endpoints.iter().filter_map(|(name, _)| served.endpoints.named(name)).map(target);
        let first = targets.next()?;
        let others = targets.collect();
        let bucketing = Bucketing::new(split.sticky.clone(), &split.path);
        let weighted = WeightedRoute { split: split.clone(), bucketing, first, others };
        Some((split.path.clone(), weighted))
    })
}

impl WeightedRoute {
    /// Answers a request, which came at `arrived`.
    pub(super) async fn call(&self, head: Box<Head>, body: Body, arrived: Instant) -> Response {
        self.target(head.headers()).call(head, body, arrived).await
    }

    /// The endpoint for a request with these headers.
    pub(super) fn endpoint(&self, headers: &HeaderMap) -> &EndpointRoute {
        self.target(headers).route()
    }

    fn target(&self, headers: &HeaderMap) -> &PathTarget {
        let place = self.bucketing.place(|name| headers.get(name)?.to_str().ok());
        let others = self.split.of(place).checked_sub(1).and_then(|index| self.others.get(index));
        others.unwrap_or(&self.first)
    }
}

/// `POST <split>`, by way of the router.
pub(super) async fn routed(State(weighted): State<Arc<WeightedRoute>>, request: Request) -> Response {
    let (head, body) = Head::split(request);
    weighted.call(head, body, Instant::now()).await
}

/// `GET <split>`.
pub(super) async fn describe(State(weighted): State<Arc<WeightedRoute>>, headers: HeaderMap) -> Response {
    for target in std::iter::once(&weighted.first).chain(&weighted.others).map(PathTarget::route) {
        // A client without the key of one of them is not told of any.
        if let Err(failure) = target.endpoint.authorize(|| credentials(&headers)) {
            let name = Some(target.endpoint.config.name.as_str());
            return error::respond(failure, &request_id(&headers), &target.served, name, Instant::now());
        }
    }
    let weights = weighted.split.endpoints.iter().map(|(name, weight)| (name.clone(), json!(weight)));
    let weights: Map<String, Value> = weights.collect();
    Json(json!({
        "endpoints": weights,
        "message": "make a prediction by sending a post request; one of these endpoints answers, by weight",
    }))
    .into_response()
}
