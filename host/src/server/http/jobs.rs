//! Jobs for clients: submitted, looked at, listed, cancelled; their results.
//!
//! | method and path | answer |
//! |---|---|
//! | `POST <endpoint>/jobs`, of an application also below it | 202 and the job, which is stored |
//! | `GET <endpoint>/jobs` | a page of jobs, the last submitted first |
//! | `GET <endpoint>/jobs/<id>` | the job |
//! | `GET <endpoint>/jobs/<id>/result` | the answer to it; 202 and the job until it is finished |
//! | `DELETE <endpoint>/jobs/<id>` | the job, cancelled unless it was finished |
//! | `POST <endpoint>/jobs/<id>/webhook` | the job; its message is sent again |
//! | the paths of the endpoint's [dialect](crate::server::compat::job_dialect), if it has one | as that says |
//!
//! Place in the flow: [`JobRoutes`] is asked for every request of a listener whose endpoints have jobs.
//! [`workers`](crate::workers) run what was submitted, and send webhooks.
//! Invariants: nothing is told or changed without the endpoint's key; the body of a submission takes a
//! place of the endpoint's queue until it is stored.

pub(in crate::server) mod answers;
mod batches;
pub(in crate::server) mod order;
mod room;
pub(in crate::server) mod submission;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::body::Body;
use axum::http::header::{ALLOW, CONTENT_LENGTH, HeaderValue, LOCATION, RETRY_AFTER};
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};

use self::answers::{List, X_JOB_STATE, append, failed, known, no_job, page, valid};
use self::order::JobOrder;
use self::room::{keeping, room_for_list, with_result};
use super::cors;
use super::error::respond;
use super::route::EndpointRoute;
use crate::endpoint::config::EndpointConfig;
use crate::error::{Code, RequestError, Stage};
use crate::jobs::{Job, JobStore, Mode, WebhookState, is_id};
use crate::server::compat::job_dialect::{BatchDialect, JobDialect, Orders};
use crate::server::compat::job_dialects::dialect_of;
use crate::server::head::{Head, X_REQUEST_ID, insert};
use crate::server::serve::Transport as _;
use crate::server::served::Served;
use crate::text::beginning;
use crate::workers::view::JobView;

/// Longest id that an answer repeats.
const LONGEST_ECHO: usize = 128;

/// The paths of jobs.
#[derive(Default)]
pub(super) struct JobRoutes {
    /// By what their paths begin with, without the last slash.
    routes: HashMap<String, JobPath>,
    longest: usize,
}

/// Where the requests of a path go, and how they are read.
struct JobPath {
    route: Arc<EndpointRoute>,
    /// `None`: the server's own paths.
    dialect: Option<(&'static dyn JobDialect, Orders)>,
}

/// A request for jobs.
pub(super) struct JobRequest {
    route: Arc<EndpointRoute>,
    dialect: Option<&'static dyn JobDialect>,
    order: JobOrder,
}

impl JobRoutes {
    /// The paths of these endpoints.
    pub(super) fn new(served: &Arc<Served>) -> JobRoutes {
        let mut routes = HashMap::new();
        for endpoint in served.endpoints.iter().filter(|endpoint| endpoint.config.jobs.mode != Mode::Off) {
            let route = Arc::new(EndpointRoute { endpoint: endpoint.clone(), served: served.clone() });
            let config = &endpoint.config;
            routes.insert(config.jobs_path(), JobPath { route: route.clone(), dialect: None });
            let Some(dialect) = dialect_of(config.jobs.mode) else { continue };
            for (path, orders) in dialect.paths(config, served.endpoints.len() == 1) {
                routes.insert(path, JobPath { route: route.clone(), dialect: Some((dialect, orders)) });
            }
        }
        let longest = routes.keys().map(String::len).max().unwrap_or(0);
        JobRoutes { routes, longest }
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// The request for jobs that this is, if it is one. No more of a path is looked at than can be one of
    /// these.
    pub(super) fn find(&self, method: &Method, uri: &Uri) -> Option<JobRequest> {
        let (path, query) = (uri.path(), uri.query().unwrap_or_default());
        let ends = |end: &usize| *end == path.len() || path.as_bytes().get(*end) == Some(&b'/');
        (0..=self.longest.min(path.len())).rev().filter(ends).find_map(|end| {
            let JobPath { route, dialect } = self.routes.get(path.get(..end)?)?;
            let rest = path.get(end..)?;
            let order = match dialect {
                None => order::own(method, rest, route.endpoint.is_application()),
                Some((_, orders)) => orders(method, rest, query)?,
            };
            Some(JobRequest { route: route.clone(), dialect: dialect.map(|(dialect, _)| dialect), order })
        })
    }
}

/// Answers a request for jobs, which came at `arrived`.
pub(super) async fn answer(request: JobRequest, head: Box<Head>, body: Body, arrived: Instant) -> Response {
    let id = head.id();
    let EndpointRoute { endpoint, served } = &*request.route;
    let answered = match &request.order {
        JobOrder::Methods(methods) => {
            let is_allowed = served.config.cors_allow_origin.is_some();
            Ok(cors::answer(&HeaderValue::from_static(methods), is_allowed, head.headers()))
        }
        _ => match endpoint.authorize(|| head.credentials()) {
            Ok(()) => carry_out(&request, head, body, arrived).await,
            Err(error) => Err(error),
        },
    };
    let mut response =
        answered.unwrap_or_else(|error| respond(error, &id, served, Some(&endpoint.config.name), arrived));
    if let JobOrder::NotAllowed(methods) = request.order {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    }
    insert(response.headers_mut(), X_REQUEST_ID, &id);
    response
}

async fn carry_out(
    JobRequest { route, dialect, order }: &JobRequest,
    head: Box<Head>,
    body: Body,
    arrived: Instant,
) -> Result<Response, RequestError> {
    let config = &route.endpoint.config;
    let store = route
        .served
        .jobs
        .as_ref()
        .ok_or_else(|| RequestError::new(Code::Internal, Stage::Admit, "there is no store for jobs"))?;
    let (drain, memory) = (&route.served.drain, route.endpoint.memory);
    let query = head.parts.uri.query().unwrap_or_default();
    match order {
        JobOrder::Submit(path) => {
            if let Some(refused) = dialect.and_then(|dialect| dialect.refused(&head)) {
                return Ok(refused);
            }
            let envelope = dialect.and_then(JobDialect::envelope);
            let job = submission::submit(route, store, (path, envelope), head, body, arrived).await?;
            Ok(dialect.map_or_else(|| accepted(config, &job), |dialect| dialect.submitted(&job)))
        }
        JobOrder::List => {
            let page = page(query)?;
            let room = room_for_list(store, drain, &config.name, &page, memory).await?;
            let (jobs, next) = store.list(&config.name, page).await.map_err(failed)?;
            let jobs = jobs.iter().map(|job| JobView::new(config, job)).collect();
            Ok(keeping(Json(List { jobs, next }).into_response(), room).await)
        }
        JobOrder::Look(id) => match dialect {
            Some(dialect) => looked(*dialect, route, store, id).await,
            None => {
                let job = known(store.job(&config.name, valid(id)?).await)?;
                Ok(Json(JobView::new(config, &job)).into_response())
            }
        },
        JobOrder::Result(id) => result(route, store, id, head.parts.method == Method::HEAD).await,
        JobOrder::Cancel(id) => match dialect.and_then(JobDialect::cancelled) {
            Some(answer) => Ok(answer(&known(store.cancel_queued(&config.name, valid(id)?).await)?)),
            None => {
                let job = known(store.cancel(&config.name, valid(id)?).await)?;
                Ok(Json(JobView::new(config, &job)).into_response())
            }
        },
        JobOrder::SendAgain(id) => {
            let job = known(store.send_again(&config.name, valid(id)?).await)?;
            let is_sent = job.webhook.as_ref().is_some_and(|it| it.state == WebhookState::Pending);
            let message = "the job has no webhook that could be sent again: it has none, or is not finished";
            match is_sent {
                true => Ok((StatusCode::ACCEPTED, Json(JobView::new(config, &job))).into_response()),
                false => Err(RequestError::invalid(Stage::Admit, message)),
            }
        }
        JobOrder::SubmitBatch => {
            let batches = batches(*dialect)?;
            let batch = batches::submit(route, store, batches, head, body, arrived).await?;
            Ok(batches.submitted(config, &batch))
        }
        JobOrder::LookBatch(id) => {
            let batch = known(store.batch(&config.name, valid(id)?).await)?;
            Ok(batches(*dialect)?.looked(config, &batch))
        }
        JobOrder::StopBatch(id) => {
            let batch = known(store.stop_batch(&config.name, valid(id)?).await)?;
            Ok(batches(*dialect)?.stopped(&batch))
        }
        JobOrder::Unknown => {
            let message = format!("no endpoint at `{}`", head.parts.uri.path());
            Err(RequestError::new(Code::NotFound, Stage::Admit, message))
        }
        JobOrder::Methods(_) | JobOrder::NotAllowed(_) => {
            let message = format!("`{}` does not answer `{}`", head.parts.uri.path(), head.parts.method);
            Err(RequestError::new(Code::MethodNotAllowed, Stage::Admit, message))
        }
    }
}

/// The lists of inputs of a dialect, whose orders name them only if it has some.
fn batches(dialect: Option<&'static dyn JobDialect>) -> Result<&'static dyn BatchDialect, RequestError> {
    dialect.and_then(|dialect| dialect.batches()).ok_or_else(no_job)
}

/// A job as a dialect shows it.
async fn looked(
    dialect: &dyn JobDialect,
    route: &EndpointRoute,
    store: &JobStore,
    id: &str,
) -> Result<Response, RequestError> {
    let (name, drain, memory) = (&route.endpoint.config.name, &route.served.drain, route.endpoint.memory);
    let unknown = || dialect.unknown(beginning(id, LONGEST_ECHO));
    if !is_id(id) {
        return unknown();
    }
    if !dialect.has_result() {
        let found = store.job(name, id).await.map_err(failed)?;
        return found.map_or_else(unknown, |job| Ok(dialect.looked(name, &job, None)));
    }
    match with_result(store, drain, name, id, true, memory).await? {
        Some((job, body, room)) => Ok(keeping(dialect.looked(name, &job, body), room).await),
        None => unknown(),
    }
}

/// The answer to a job, as it would have been to its request; its head alone takes no room of the body.
async fn result(
    route: &EndpointRoute,
    store: &JobStore,
    id: &str,
    is_head: bool,
) -> Result<Response, RequestError> {
    let config = &route.endpoint.config;
    let found =
        with_result(store, &route.served.drain, &config.name, valid(id)?, !is_head, route.endpoint.memory)
            .await?;
    let (job, body, room) = found.ok_or_else(no_job)?;
    let mut response = match (&job.answer, body) {
        (Some(answer), body) if is_head || body.is_some() => {
            let mut response = Response::new(body.map_or_else(Body::empty, Body::from));
            *response.status_mut() =
                StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            append(response.headers_mut(), &answer.headers);
            if is_head && answer.size > 0 {
                response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(answer.size));
            }
            response
        }
        _ if !job.state.is_final() => {
            let mut response = (StatusCode::ACCEPTED, Json(JobView::new(config, &job))).into_response();
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            response
        }
        _ => {
            let why = job.error.as_deref().unwrap_or("no attempt has ended with an answer");
            let message = format!("the job is {} and has no result: {why}", job.state.name());
            return Err(RequestError::new(Code::NotFound, Stage::Admit, message));
        }
    };
    response.headers_mut().insert(X_JOB_STATE, HeaderValue::from_static(job.state.name()));
    Ok(keeping(response, room).await)
}

/// 202: the job is stored.
fn accepted(config: &EndpointConfig, job: &Job) -> Response {
    let mut response = (StatusCode::ACCEPTED, Json(JobView::new(config, job))).into_response();
    insert(response.headers_mut(), LOCATION, &format!("{}/{}", config.jobs_path(), job.id));
    response
}
