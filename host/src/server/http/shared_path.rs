//! A path of the server that several endpoints were given: the `model` of a request's body says which of them
//! answers it. The path of one handler around a model, which gets its bodies unread.
//!
//! Place in the flow: before the endpoint's own way, which gets the body that was read here.
//! In: a `POST` whose body is a JSON object. Out: the answer of the endpoint that it names.
//! Invariants: of bodies that are read here there are at most as many as the endpoints together would hold; a
//! caller whom none of them knows has none read. A path of one endpoint never comes here: its body is the
//! endpoint's alone.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::State;
use axum::http::Method;
use axum::http::header::{ALLOW, HeaderValue};
use axum::response::Response;
use bytes::Bytes;
use serde::Deserialize;

use super::application::{self, ApplicationRoute};
use super::route::EndpointRoute;
use super::{classic, cors, error};
use crate::arrivals::BodyRate;
use crate::endpoint::admission::AdmissionQueue;
use crate::error::{Code, RequestError, Stage};
use crate::json::object::{Object, told};
use crate::json::special;
use crate::memory::Account;
use crate::pipeline::Limits;
use crate::rollout::deployment::Deployment;
use crate::server::body::Bounds;
use crate::server::compat::client::unknown_model;
use crate::server::head::{Head, X_REQUEST_ID, credentials, insert};
use crate::server::serve::Transport as _;
use crate::server::served::Served;
use crate::{blocking, text};

/// An endpoint at a path of the server that it was given.
#[derive(Clone)]
pub(super) enum PathTarget {
    Application(Arc<ApplicationRoute>),
    Classic(Arc<EndpointRoute>),
}

impl PathTarget {
    /// The endpoint, whose own part of the path of an application begins behind `prefix`.
    pub(super) fn new(route: EndpointRoute, prefix: String) -> PathTarget {
        if route.endpoint.is_application() {
            PathTarget::Application(Arc::new(ApplicationRoute { route, prefix }))
        } else {
            PathTarget::Classic(Arc::new(route))
        }
    }

    pub(super) fn route(&self) -> &EndpointRoute {
        match self {
            PathTarget::Application(application) => &application.route,
            PathTarget::Classic(route) => route,
        }
    }

    fn endpoint(&self) -> &Arc<Deployment> {
        &self.route().endpoint
    }

    /// Answers a request, which came at `arrived`.
    pub(super) async fn call(&self, head: Box<Head>, body: Body, arrived: Instant) -> Response {
        match self {
            PathTarget::Application(route) => application::call(route.clone(), head, body, arrived).await,
            PathTarget::Classic(route) => classic::call(route, head, body, arrived).await,
        }
    }
}

/// A path with several endpoints.
pub(super) struct SharedPath {
    served: Arc<Served>,
    targets: HashMap<String, PathTarget>,
    /// In the order of the configuration.
    names: Vec<String>,
    admission: AdmissionQueue,
    longest: usize,
    body_rate: BodyRate,
    timeout: Duration,
}

/// The part of a body that says where it goes.
#[derive(Deserialize)]
struct Addressed<'a> {
    #[serde(borrow)]
    model: Option<Cow<'a, str>>,
}

impl SharedPath {
    pub(super) fn new(served: &Arc<Served>, targets: Vec<PathTarget>) -> SharedPath {
        let limits = || targets.iter().map(|target| &target.endpoint().config.limits);
        let sum = |of: fn(&Limits) -> usize| limits().map(of).fold(0, usize::saturating_add);
        let names = targets.iter().map(|target| target.endpoint().config.name.clone()).collect();
        let rate = limits().map(|limits| limits.body_rate);
        let slowest =
            rate.reduce(|a, b| BodyRate { timeout: a.timeout.max(b.timeout), rate: a.rate.min(b.rate) });
        SharedPath {
            served: served.clone(),
            admission: AdmissionQueue::new(sum(|limits| limits.concurrency), sum(|limits| limits.queue)),
            longest: limits().map(|limits| limits.body).max().unwrap_or_default(),
            body_rate: slowest.unwrap_or(BodyRate { timeout: Duration::ZERO, rate: 1 }),
            timeout: limits().map(|limits| limits.request_timeout).max().unwrap_or_default(),
            targets: targets
                .into_iter()
                .map(|target| (target.endpoint().config.name.clone(), target))
                .collect(),
            names,
        }
    }

    /// Its endpoint, if it has one alone.
    pub(super) fn only(&self) -> Option<&PathTarget> {
        self.targets.values().next().filter(|_| self.targets.len() == 1)
    }

    /// Answers a request, which came at `arrived`.
    pub(super) async fn call(&self, mut head: Box<Head>, body: Body, arrived: Instant) -> Response {
        if head.parts.method == Method::OPTIONS {
            let allowed = State(self.served.config.cors_allow_origin.is_some());
            return cors::preflight_of_calls(allowed, head.headers().clone()).await;
        }
        if head.parts.method != Method::POST {
            let message = format!("`{}` does not answer `{}`", head.parts.uri.path(), head.parts.method);
            let mut response = error::refuse(Code::MethodNotAllowed, message, &self.served, head.headers());
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("OPTIONS, POST"));
            return response;
        }
        if let (1, Some(PathTarget::Classic(only))) = (self.targets.len(), self.targets.values().next()) {
            return classic::call(only, head, body, arrived).await;
        }
        // The endpoint's own errors name the request too.
        let id = head.id();
        insert(&mut head.parts.headers, X_REQUEST_ID, &id);
        head.has_id = true;
        match self.find(&mut head, body, arrived).await {
            Ok((target, body)) => target.call(head, Body::from(body), arrived).await,
            Err(error) => {
                let is_unknown = error.code == Code::NotFound;
                let mut response = error::respond(error, &id, &self.served, None, arrived);
                insert(response.headers_mut(), X_REQUEST_ID, &id);
                if is_unknown { unknown_model(response) } else { response }
            }
        }
    }

    /// In the order of the configuration.
    fn targets(&self) -> impl Iterator<Item = &PathTarget> {
        self.names.iter().filter_map(|name| self.targets.get(name))
    }

    /// Those that the caller may call.
    fn open_to(&self, head: &Head) -> impl Iterator<Item = &PathTarget> {
        self.targets().filter(|target| target.endpoint().config.keys.admit(|| credentials(head.headers())))
    }

    async fn find(
        &self,
        head: &mut Box<Head>,
        body: Body,
        arrived: Instant,
    ) -> Result<(&PathTarget, Bytes), RequestError> {
        if let (None, Some(first)) = (self.open_to(head).next(), self.targets().next()) {
            first.endpoint().authorize(|| head.credentials())?;
        }
        let bounds = Bounds {
            longest: self.longest,
            body_rate: self.body_rate,
            arrived,
            deadline: arrived + self.timeout,
            memory: Account::unknown(),
        };
        let body = {
            let _place = self.admission.try_reserve()?;
            let origin = head.origin;
            let receive = pin!(head.receive(body, bounds));
            tokio::select! {
                biased;
                body = self.admission.arrive(origin, receive) => body??,
                // No endpoint has it yet that could end it.
                () = self.served.drain.over() => return Err(RequestError::shutting_down(Stage::Admit)),
            }
        };
        let body = body.ok_or_else(|| RequestError::invalid(Stage::Admit, "the body broke off"))?;
        let model = blocking::if_large(body.len(), || {
            let copied = bounds.memory.take(special::most_copied(&body));
            let _copied = copied.map_err(|full| full.at(Stage::Admit))?;
            model_of(&body)
        })?;
        let open = || {
            let name = |target: &PathTarget| format!("`{}`", target.endpoint().config.name);
            self.open_to(head).map(name).collect::<Vec<_>>().join(", ")
        };
        let path = head.parts.uri.path();
        let Some(model) = model else {
            let message = format!("the body has no `model`; `{path}` is answered by {}", open());
            return Err(RequestError::invalid(Stage::Admit, message));
        };
        match self.targets.get(&model) {
            Some(target) => Ok((target, body)),
            None => {
                let model = text::shown(&model);
                let message =
                    format!("there is no model `{model}` at `{path}`, which is answered by {}", open());
                Err(RequestError::new(Code::NotFound, Stage::Admit, message))
            }
        }
    }
}

/// The `model` of a body.
fn model_of(body: &[u8]) -> Result<Option<String>, RequestError> {
    let wrong = |error: &dyn fmt::Display| {
        let message = format!("the body is no JSON object with a text as its `model`: {error}");
        RequestError::invalid(Stage::Admit, message)
    };
    let text = special::text(body).map_err(|error| wrong(&error))?;
    let mut copy = None;
    // Numbers that are no JSON are the handler's to take or not.
    let found = special::read(text, &mut copy, serde_json::from_str::<Object<Addressed<'_>>>);
    let (Object(addressed), _) = found.map_err(|error| wrong(&told(&error)))?;
    Ok(addressed.model.map(Cow::into_owned))
}
