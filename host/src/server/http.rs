//! The main listener's table of contents.
//!
//! | method and path | answered by |
//! |---|---|
//! | the paths of jobs, where endpoints have some | [`jobs`] |
//! | a handshake for a WebSocket, where the handler serves them, and at a dialect's path | [`socket`] |
//! | everything on and below the path of an application | [`application`] |
//! | `POST` on a path of the server that several endpoints were given | [`shared_path`], then one of the two |
//! | `POST <endpoint>`, `POST /` and `POST /predict` if there is one endpoint | [`classic`] |
//! | the same on the path of a split | [`split`], then [`classic`] |
//! | `OPTIONS` on the same paths, `OPTIONS *` | [`cors`] |
//! | `GET` on the same paths, `GET <path>/signature` | [`describe`] |
//! | `GET /openapi.json`, `/docs/…`, unless switched off | [`openapi`], [`docs`] |
//! | `GET /` of a browser, unless those are switched off | [`home`] |
//! | `/v2/…` but for health: the Open Inference Protocol | [`v2`] |
//! | `/v1/models/…` | [`v1`] |
//! | `/_k/warmup`, `/_k/status`, `/__status__` | [`client`] |
//! | `GET /healthz`, `/v2/health/live`, `/v2/health/ready`, `/metrics` | [`health`] |
//!
//! Place in the flow: between a connection and an endpoint. Every error leaves through [`error`]; an answer
//! to a client with a [dialect](ClientDialect) takes its form.

mod application;
mod classic;
mod cors;
mod describe;
mod docs;
mod error;
mod home;
mod shared_path;
pub(super) mod health;
pub(super) mod loading;
mod metrics;
pub(in crate::server) mod jobs;
pub(in crate::server) mod openapi;
mod route;
mod socket;
mod split;
mod transport;
mod v1;
pub(super) mod v2;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, Method};
use axum::response::Response;
use axum::routing::{MethodRouter, get, options, post};
use tower_service::Service as _;

use self::application::ApplicationRoute;
pub(super) use self::error::{method_not_allowed, not_found, refuse};
use self::jobs::{JobRequest, JobRoutes};
use self::route::EndpointRoute;
use self::shared_path::{PathTarget, SharedPath};
use self::socket::SocketTarget;
use self::split::WeightedRoute;
#[cfg(fuzzing)]
pub use self::v2::fuzz;
use super::compat::client::{self, ClientDialect};
use super::development::{Development, X_BUILD_ERROR};
use super::head::{Head, X_REQUEST_ID, insert};
use super::served::Served;
use crate::request::Protocol;
use crate::rollout::deployment::Deployment;
use crate::telemetry::activity::Activity;

/// Where a request goes: a row of the table above.
enum Target<'a> {
    Socket(Box<SocketTarget>),
    Jobs(Box<JobRequest>),
    /// `OPTIONS *`
    Server,
    Shared(&'a SharedPath),
    Application(&'a Arc<ApplicationRoute>),
    Endpoint(&'a Arc<EndpointRoute>),
    Weighted(&'a Arc<WeightedRoute>),
    /// An inference of the Open Inference Protocol.
    Models(&'a Arc<Served>),
    /// Everything else.
    Router,
}

/// Where the calls of a path go.
enum Route {
    Endpoint(Arc<EndpointRoute>),
    Weighted(Arc<WeightedRoute>),
}

/// Everything a listener answers.
pub struct HttpService {
    /// Calls, by path. Not in the router: what every request pays for is one look into a map.
    calls: HashMap<String, Route>,
    /// Everything on these paths and below them.
    applications: HashMap<String, Arc<ApplicationRoute>>,
    /// Paths of the server that several endpoints were given.
    shared: HashMap<String, SharedPath>,
    /// The paths of jobs.
    jobs: JobRoutes,
    /// The length of the longest of these paths.
    longest_application: usize,
    /// The application that gets all that nothing else answers.
    at_root: Option<Arc<ApplicationRoute>>,
    /// Where inferences find their models, not by the router either; `None` if there are none.
    models: Option<Arc<Served>>,
    /// Everything else, the other methods on the same paths included.
    router: Router,
    /// On every response.
    headers: HeaderMap,
    activity: Arc<Activity>,
}

impl HttpService {
    /// A service without endpoints.
    pub(super) fn of(router: Router) -> HttpService {
        HttpService {
            calls: HashMap::new(),
            applications: HashMap::new(),
            shared: HashMap::new(),
            jobs: JobRoutes::default(),
            longest_application: 0,
            at_root: None,
            models: None,
            router,
            headers: HeaderMap::new(),
            activity: Arc::default(),
        }
    }

    /// The main listener's. A path is its first endpoint's: as configured, then as derived from those.
    pub fn new(served: &Arc<Served>) -> HttpService {
        let mut calls = HashMap::new();
        let mut add = |path: &str, endpoint: &Arc<Deployment>| {
            let target = || Arc::new(EndpointRoute { endpoint: endpoint.clone(), served: served.clone() });
            calls.entry(path.to_owned()).or_insert_with(|| Route::Endpoint(target()));
        };
        // Those of the endpoints that HTTP reaches, by whether they are applications.
        let speaks = |endpoint: &Deployment, is_application: bool| {
            endpoint.config.speaks(Some(Protocol::Http)) && endpoint.is_application() == is_application
        };
        for endpoint in served.endpoints.iter().filter(|it| speaks(it, false)) {
            add(&endpoint.config.path, endpoint);
        }
        if let [only] = &*served.endpoints
            && speaks(only, false)
        {
            add("/", only);
            add("/predict", only);
        }
        calls.extend(split::routes(served).map(|(path, route)| (path, Route::Weighted(Arc::new(route)))));
        let mut applications = HashMap::new();
        for endpoint in served.endpoints.iter().filter(|it| speaks(it, true)) {
            let prefix = endpoint.config.path.trim_end_matches('/').to_owned();
            let route = EndpointRoute { endpoint: endpoint.clone(), served: served.clone() };
            applications.insert(prefix.clone(), Arc::new(ApplicationRoute { route, prefix }));
        }
        let mut targets: BTreeMap<&String, Vec<PathTarget>> = BTreeMap::new();
        for endpoint in &served.endpoints {
            for path in &endpoint.config.paths {
                let route = EndpointRoute { endpoint: endpoint.clone(), served: served.clone() };
                targets.entry(path).or_default().push(PathTarget::new(route, String::new()));
            }
        }
        let mut shared = HashMap::new();
        for (path, mut targets) in targets {
            match targets.pop() {
                Some(PathTarget::Application(only)) if targets.is_empty() => {
                    applications.entry(path.clone()).or_insert(only);
                }
                Some(last) => {
                    targets.push(last);
                    shared.insert(path.clone(), SharedPath::new(served, targets));
                }
                None => {}
            }
        }
        // At the root it gets what nothing else answers.
        let at_root = match &*served.endpoints {
            [only] if speaks(only, true) => Some(only),
            all => all.iter().find(|endpoint| endpoint.config.path == "/" && speaks(endpoint, true)),
        };
        let at_root = at_root.map(|endpoint| {
            let route = EndpointRoute { endpoint: endpoint.clone(), served: served.clone() };
            Arc::new(ApplicationRoute { route, prefix: String::new() })
        });
        applications.remove("");
        let longest_application = applications.keys().map(String::len).max().unwrap_or(0);
        let router = router(served, at_root.clone());
        HttpService {
            calls,
            applications,
            shared,
            jobs: JobRoutes::new(served),
            longest_application,
            at_root,
            models: Some(served.clone()),
            router,
            headers: headers(served),
            activity: served.activity.clone(),
        }
    }

    /// The main listener's, until everything is loaded.
    pub fn loading(served: &Arc<Served>) -> HttpService {
        let root = Router::new().route("/", get(health::root));
        let mut router = loading::router(root, served, served.config.metrics_on_main);
        if served.development.is_some() && served.config.docs {
            // A page that is open sees the first handler come.
            for (path, methods) in docs::methods(served) {
                router = router.route(path, methods.with_state(()));
            }
        }
        let router = router.with_state(served.clone());
        HttpService { headers: headers(served), activity: served.activity.clone(), ..HttpService::of(router) }
    }

    /// Answers one request, which came at `arrived`. Every answer carries the request's id.
    pub(super) async fn answer(&self, head: Box<Head>, body: Body, arrived: Instant) -> Response {
        let target = self.find(&head);
        let dialect = ClientDialect::of(&head);
        let is_call = head.parts.method == Method::POST && !matches!(target, Target::Jobs(_));
        let _guard = is_call.then(|| self.activity.begin(arrived));
        // All boxed: hyper moves this future before it begins.
        let mut response = match target {
            Target::Endpoint(endpoint) => classic::call(endpoint, head, body, arrived).await,
            Target::Weighted(weighted) => Box::pin(weighted.call(head, body, arrived)).await,
            Target::Models(served) => Box::pin(v2::infer(served, head, body, arrived)).await,
            Target::Application(route) => {
                Box::pin(application::call(route.clone(), head, body, arrived)).await
            }
            Target::Shared(shared) => Box::pin(shared.call(head, body, arrived)).await,
            Target::Socket(socket) => Box::pin(socket::open(*socket, head, arrived)).await,
            Target::Jobs(request) => Box::pin(jobs::answer(*request, head, body, arrived)).await,
            Target::Server => signed(cors::of_the_server(), &head.id()),
            Target::Router => Box::pin(self.routed(head, body)).await,
        };
        if dialect.is_any() {
            response = Box::pin(dialect.finish(response)).await;
        }
        if !self.headers.is_empty() {
            cors::add(response.headers_mut(), &self.headers);
        }
        response
    }

    /// Where this request goes.
    fn find(&self, head: &Head) -> Target<'_> {
        if head.is_upgrade
            && let Some(target) = self.socket_target(head)
        {
            return Target::Socket(Box::new(target));
        }
        let (method, path) = (&head.parts.method, head.parts.uri.path());
        if !self.jobs.is_empty()
            && let Some(request) = self.jobs.find(method, &head.parts.uri)
        {
            return Target::Jobs(Box::new(request));
        }
        if path == "*" && method == Method::OPTIONS {
            return Target::Server;
        }
        if !self.shared.is_empty()
            && let Some(shared) = self.shared.get(path)
        {
            return Target::Shared(shared);
        }
        if !self.applications.is_empty()
            && let Some(route) = self.application(path)
        {
            return Target::Application(route);
        }
        if method != Method::POST {
            return Target::Router;
        }
        match (self.calls.get(path), &self.models) {
            (Some(Route::Endpoint(endpoint)), _) => Target::Endpoint(endpoint),
            (Some(Route::Weighted(weighted)), _) => Target::Weighted(weighted),
            (None, Some(served)) if v2::is_inference(path) => Target::Models(served),
            (None, _) => Target::Router,
        }
    }

    /// Has the router answer.
    async fn routed(&self, mut head: Box<Head>, body: Body) -> Response {
        let id = head.id();
        // The id that handlers of routes will find.
        insert(&mut head.parts.headers, X_REQUEST_ID, &id);
        head.parts.extensions.insert(head.origin);
        head.parts.extensions.insert(head.secure);
        let mut router = self.of_endpoint(head.parts.uri.path()).unwrap_or_else(|| self.router.clone());
        let Ok(response) = router.call(Request::from_parts(head.parts, body)).await;
        signed(response, &id)
    }

    /// The router of a path of an endpoint, but for calls; made when it is asked, which is seldom.
    fn of_endpoint(&self, path: &str) -> Option<Router> {
        let served = self.models.as_ref()?;
        let methods = match self.calls.get(path) {
            Some(route) => {
                let allowed = served.config.cors_allow_origin.is_some();
                let methods = match route {
                    Route::Endpoint(target) => {
                        post(classic::routed).get(describe::describe).with_state(target.clone())
                    }
                    Route::Weighted(weighted) => {
                        post(split::routed).get(split::describe).with_state(weighted.clone())
                    }
                };
                methods.merge(options(cors::preflight).with_state(allowed))
            }
            None => {
                let endpoint = path.strip_suffix("/signature")?;
                let endpoint = if endpoint.is_empty() { "/" } else { endpoint };
                match self.calls.get(endpoint)? {
                    Route::Endpoint(target) if target.endpoint.config.path == endpoint => {
                        get(describe::signature).with_state(target.clone())
                    }
                    _ => return None,
                }
            }
        };
        let is_home = path == "/" && served.config.docs;
        let methods = if is_home { home::before(methods, served) } else { methods };
        // A segment of a path may begin with `:`, which once was the syntax of a parameter.
        let router = Router::new().without_v07_checks().route(path, methods.with_state(()));
        Some(router.method_not_allowed_fallback(method_not_allowed).with_state(served.clone()))
    }

    /// The endpoint at whose handler this head may open a WebSocket; `None`: it is answered as if it did not
    /// ask for that.
    fn socket_target(&self, head: &Head) -> Option<SocketTarget> {
        if !socket::is_handshake(head) {
            return None;
        }
        let path = head.parts.uri.path();
        let is_dialects = client::is_socket(path);
        let of_application = |it: &Arc<ApplicationRoute>| SocketTarget::new(&it.route, &it.prefix);
        let called = self.calls.get(path).map(|route| match route {
            Route::Endpoint(target) => SocketTarget::new(target, ""),
            Route::Weighted(weighted) => SocketTarget::new(weighted.endpoint(head.headers()), ""),
        });
        let shared = self.shared.get(path).and_then(SharedPath::only);
        let only = self.models.as_ref().filter(|_| is_dialects).and_then(|served| match &*served.endpoints {
            [only] => {
                let (endpoint, served) = (only.clone(), served.clone());
                Some(SocketTarget::new(&EndpointRoute { endpoint, served }, ""))
            }
            _ => None,
        });
        // As a request without an upgrade finds its way, but for those that serve none.
        let mut candidates = [
            shared.map(|target| SocketTarget::new(target.route(), "")),
            self.application(path).map(of_application),
            called,
            self.at_root.as_ref().map(of_application),
            only,
        ]
        .into_iter()
        .flatten()
        .peekable();
        let first = candidates.peek().cloned().filter(|_| is_dialects);
        candidates.find(SocketTarget::is_served).or(first)
    }

    /// The application whose path this is, or is below of, if it is not that of another endpoint. No more
    /// of a path is looked at than can be one: each look reads it from its beginning, and a client may send
    /// thousands of slashes.
    fn application(&self, path: &str) -> Option<&Arc<ApplicationRoute>> {
        let ends = |end: &usize| *end == path.len() || path.as_bytes().get(*end) == Some(&b'/');
        let longest = self.longest_application.min(path.len());
        let found = |end| Some((end, self.applications.get(path.get(..end)?)?));
        let (end, application) = (1..=longest).rev().filter(ends).find_map(found)?;
        (end == path.len() || !self.calls.contains_key(path)).then_some(application)
    }
}

/// A response of the server's with the request's id.
fn signed(mut response: Response, id: &str) -> Response {
    insert(response.headers_mut(), X_REQUEST_ID, id);
    response
}

/// The headers that every response carries.
fn headers(served: &Served) -> HeaderMap {
    let mut headers = cors::headers(served.config.cors_allow_origin.as_deref());
    let error = served.development.as_ref().and_then(Development::header);
    headers.extend(error.map(|error| (X_BUILD_ERROR, error)));
    headers
}

/// The paths that are not those of endpoints, which would make it grow with their number.
fn router(served: &Arc<Served>, at_root: Option<Arc<ApplicationRoute>>) -> Router {
    let mut paths: BTreeMap<String, MethodRouter> = BTreeMap::new();
    for (path, methods) in health::methods(served, served.config.metrics_on_main) {
        paths.insert(path.to_owned(), methods);
    }
    if at_root.is_none() {
        paths.entry("/".to_owned()).or_insert_with(|| get(health::root));
    }
    paths.extend(client::methods(served).map(|(path, methods)| (path.to_owned(), methods)));
    paths.extend(v1::methods(served).map(|(path, methods)| (path.to_owned(), methods)));
    if served.config.docs {
        for (path, methods) in docs::methods(served).into_iter().chain(openapi::methods(served)) {
            paths.entry(path.to_owned()).or_insert(methods);
        }
        if let Some(routes) = paths.remove("/") {
            paths.insert("/".to_owned(), home::before(routes, served));
        }
    }
    let orders = if served.config.model_control { v2::Orders::Accepted } else { v2::Orders::Refused };
    let mut router = Router::new();
    for (path, methods) in paths {
        router = router.route(&path, methods.with_state(()));
    }
    let router = router.merge(v2::router(orders)).merge(v2::inference(served));
    let router = router.method_not_allowed_fallback(method_not_allowed);
    let router = match at_root {
        Some(route) => router.fallback_service(axum::routing::any(application::routed).with_state(route)),
        None => router.fallback(not_found),
    };
    router.with_state(served.clone())
}
