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
//! | `POST <endpoint>`, `GET <endpoint>/<id>` if `jobs = "async"` | as [`cortex`] says |
//! | `POST`, `GET` and `DELETE <endpoint>` if `jobs = "batch"` | as [`cortex_batch`] says |
//! | `POST <endpoint>/async_predict`, `GET` and `DELETE <endpoint>/async_request/<id>` if `jobs = "truss"` | as [`truss_async`] says |
//!
//! Place in the flow: [`JobRoutes`] is asked for every request of a listener whose endpoints have jobs.
//! [`workers`](crate::workers) run what was submitted, and send webhooks.
//! Invariants: nothing is told or changed without the endpoint's key; the body of a submission takes a
//! place of the endpoint's queue until it is stored.

mod answers;
mod batches;
mod room;
mod submission;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::body::Body;
use axum::http::header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, LOCATION, RETRY_AFTER};
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};

use self::answers::{List, X_JOB_STATE, append, failed, known, no_job, page, valid};
use self::room::{keeping, room_for_list, with_result};
use self::submission::SubmissionForm;
use super::cors;
use super::error::respond;
use super::route::EndpointRoute;
use crate::endpoint::config::EndpointConfig;
use crate::error::{Code, RequestError, Stage};
use crate::jobs::{Job, JobStore, Mode, WebhookState, is_id};
use crate::server::compat::{cortex, cortex_batch, truss_async};
use crate::server::head::{Head, X_REQUEST_ID, insert};
use crate::server::serve::Transport as _;
use crate::server::served::Served;
use crate::text::beginning;
use crate::workers::view::JobView;

/// Where clients of Truss call the only endpoint: as they do at its makers', and by the name of every
/// model.
const ONLY_PREDICT: [&str; 5] = [
    "/async_predict",
    "/production/async_predict",
    "/development/async_predict",
    "/environments/production/async_predict",
    "/v1/models/model:async_predict",
];
/// Longest id that an answer repeats.
const LONGEST_ECHO: usize = 128;

/// The paths of jobs.
#[derive(Default)]
pub(super) struct JobRoutes {
    /// By what their paths begin with, without the last slash.
    routes: HashMap<String, (Arc<EndpointRoute>, Form)>,
    longest: usize,
}

/// The words of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Own,
    Cortex,
    /// Of Truss, where requests come in.
    TrussPredict,
    /// Of Truss, where they are looked at.
    TrussRequest,
    /// Of Cortex, for lists of inputs.
    Batch,
}

/// A request's wish.
#[derive(Debug, PartialEq, Eq)]
enum JobOrder {
    /// A job for this path below the endpoint's.
    Submit(String),
    List,
    Look(String),
    Result(String),
    Cancel(String),
    /// A message is sent again.
    SendAgain(String),
    /// A list of inputs.
    SubmitBatch,
    LookBatch(String),
    StopBatch(String),
    /// The methods of the path.
    Methods(&'static str),
    /// Another method than these.
    NotAllowed(&'static str),
    /// No such path.
    Unknown,
}

/// A request for jobs.
pub(super) struct JobRequest {
    route: Arc<EndpointRoute>,
    form: Form,
    order: JobOrder,
}

impl JobRoutes {
    /// The paths of these endpoints.
    pub(super) fn new(served: &Arc<Served>) -> JobRoutes {
        let mut routes = HashMap::new();
        for endpoint in served.endpoints.iter().filter(|endpoint| endpoint.config.jobs.mode != Mode::Off) {
            let route = Arc::new(EndpointRoute { endpoint: endpoint.clone(), served: served.clone() });
            let config = &endpoint.config;
            routes.insert(config.jobs_path(), (route.clone(), Form::Own));
            let path = config.path.trim_end_matches('/');
            match config.jobs.mode {
                Mode::Off | Mode::On => {}
                Mode::Batch => drop(routes.insert(path.to_owned(), (route, Form::Batch))),
                Mode::Async => drop(routes.insert(path.to_owned(), (route, Form::Cortex))),
                Mode::Truss => {
                    let is_only = served.endpoints.len() == 1;
                    let mut add = |path: String, form| drop(routes.insert(path, (route.clone(), form)));
                    add(format!("{path}/async_predict"), Form::TrussPredict);
                    add(format!("{path}/async_request"), Form::TrussRequest);
                    add(format!("/v1/models/{}:async_predict", config.name), Form::TrussPredict);
                    if is_only {
                        ONLY_PREDICT.iter().for_each(|path| add((*path).to_owned(), Form::TrussPredict));
                        add("/async_request".to_owned(), Form::TrussRequest);
                    }
                }
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
            let (route, form) = self.routes.get(path.get(..end)?)?;
            let has_paths = route.endpoint.is_application();
            let order = form.order(method, path.get(end..)?, query, has_paths)?;
            Some(JobRequest { route: route.clone(), form: *form, order })
        })
    }
}

impl Form {
    /// The wish that a path below the one of the jobs stands for; `None` if it is not theirs. `has_paths`: of
    /// an endpoint that has jobs for paths of its own.
    fn order(self, method: &Method, rest: &str, query: &str, has_paths: bool) -> Option<JobOrder> {
        let own = rest.trim_end_matches('/');
        let mut names = own.split('/').skip(1);
        let (id, what, more) = (names.next(), names.next(), names.next());
        let is_read = *method == Method::GET || *method == Method::HEAD;
        let other = |methods| match *method == Method::OPTIONS {
            true => JobOrder::Methods(methods),
            false => JobOrder::NotAllowed(methods),
        };
        match (self, id, what) {
            (Form::Own, ..) => {}
            (Form::Cortex, None, _) if *method == Method::POST => {
                return Some(JobOrder::Submit("/".to_owned()));
            }
            (Form::Cortex, Some(id), None) if is_read => return Some(JobOrder::Look(id.to_owned())),
            (Form::TrussPredict, None, _) if *method == Method::POST => {
                return Some(JobOrder::Submit("/".to_owned()));
            }
            (Form::TrussPredict, None, _) => return Some(other("OPTIONS, POST")),
            (Form::TrussRequest, Some(id), None) if is_read => return Some(JobOrder::Look(id.to_owned())),
            (Form::TrussRequest, Some(id), None) if *method == Method::DELETE => {
                return Some(JobOrder::Cancel(id.to_owned()));
            }
            (Form::TrussRequest, Some(_), None) => return Some(other("DELETE, GET, HEAD, OPTIONS")),
            (Form::Batch, None, _) if *method == Method::POST => return Some(JobOrder::SubmitBatch),
            (Form::Batch, None, _) => {
                let id = query.split('&').find_map(|pair| pair.strip_prefix("jobID="))?.to_owned();
                let is_stop = *method == Method::DELETE;
                return is_read
                    .then(|| JobOrder::LookBatch(id.clone()))
                    .or(is_stop.then_some(JobOrder::StopBatch(id)));
            }
            (Form::Cortex | Form::TrussPredict | Form::TrussRequest | Form::Batch, ..) => return None,
        }
        if *method == Method::POST {
            return Some(match (id, what, more) {
                (Some(id), Some("webhook"), None) if is_id(id) => JobOrder::SendAgain(id.to_owned()),
                _ if own.is_empty() => JobOrder::Submit("/".to_owned()),
                _ if has_paths => JobOrder::Submit(rest.to_owned()),
                (Some(_), None, _) => JobOrder::NotAllowed("DELETE, GET, HEAD, OPTIONS"),
                (Some(_), Some("result"), None) => JobOrder::NotAllowed("GET, HEAD, OPTIONS"),
                _ => JobOrder::Unknown,
            });
        }
        Some(match (id, what, more) {
            (None, ..) if is_read => JobOrder::List,
            (Some(id), None, _) if is_read => JobOrder::Look(id.to_owned()),
            (Some(id), Some("result"), None) if is_read => JobOrder::Result(id.to_owned()),
            (Some(id), None, _) if *method == Method::DELETE => JobOrder::Cancel(id.to_owned()),
            (Some(id), Some("webhook"), None) if is_id(id) => other("OPTIONS, POST"),
            (Some(_), Some(_), _) if is_read => JobOrder::Unknown,
            _ => {
                let methods = match (id, what, has_paths) {
                    (None, ..) | (Some(_), Some(_), true) => "GET, HEAD, OPTIONS, POST",
                    (Some(_), None, true) => "DELETE, GET, HEAD, OPTIONS, POST",
                    (Some(_), None, false) => "DELETE, GET, HEAD, OPTIONS",
                    (Some(_), Some(_), false) => "GET, HEAD, OPTIONS",
                };
                other(methods)
            }
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
    JobRequest { route, form, order }: &JobRequest,
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
        JobOrder::Submit(_) if *form == Form::Cortex && !head.headers().contains_key(CONTENT_TYPE) => {
            Ok(cortex::no_content_type())
        }
        JobOrder::Submit(path) => {
            let submission_form = if *form == Form::TrussPredict {
                SubmissionForm::Truss
            } else {
                SubmissionForm::Request(path)
            };
            let job = submission::submit(route, store, submission_form, head, body, arrived).await?;
            Ok(match form {
                Form::Own | Form::TrussRequest | Form::Batch => accepted(config, &job),
                Form::Cortex => cortex::submitted(&job),
                Form::TrussPredict => truss_async::enqueued(&job),
            })
        }
        JobOrder::List => {
            let page = page(query)?;
            let room = room_for_list(store, drain, &config.name, &page, memory).await?;
            let (jobs, next) = store.list(&config.name, page).await.map_err(failed)?;
            let jobs = jobs.iter().map(|job| JobView::new(config, job)).collect();
            Ok(keeping(Json(List { jobs, next }).into_response(), room).await)
        }
        JobOrder::Look(id) if *form == Form::Cortex => {
            let found = match is_id(id) {
                true => with_result(store, drain, &config.name, id, true, memory).await?,
                false => None,
            };
            match found {
                Some((job, body, room)) => Ok(keeping(cortex::looked(&job, body), room).await),
                None => Ok(cortex::unknown(beginning(id, LONGEST_ECHO))),
            }
        }
        JobOrder::Look(id) if *form == Form::TrussRequest => {
            let job = known(store.job(&config.name, valid(id)?).await)?;
            Ok(truss_async::looked(&config.name, &job))
        }
        JobOrder::Cancel(id) if *form == Form::TrussRequest => {
            let job = known(store.cancel_queued(&config.name, valid(id)?).await)?;
            Ok(truss_async::cancelled(&job))
        }
        JobOrder::Look(id) => {
            let job = known(store.job(&config.name, valid(id)?).await)?;
            Ok(Json(JobView::new(config, &job)).into_response())
        }
        JobOrder::Result(id) => result(route, store, id, head.parts.method == Method::HEAD).await,
        JobOrder::Cancel(id) => {
            let job = known(store.cancel(&config.name, valid(id)?).await)?;
            Ok(Json(JobView::new(config, &job)).into_response())
        }
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
            let batch = batches::submit(route, store, head, body, arrived).await?;
            Ok(cortex_batch::submitted(&config.name, &batch))
        }
        JobOrder::LookBatch(id) => {
            let batch = known(store.batch(&config.name, valid(id)?).await)?;
            Ok(cortex_batch::looked(&config.name, &config.path, &batch))
        }
        JobOrder::StopBatch(id) => {
            let batch = known(store.stop_batch(&config.name, valid(id)?).await)?;
            Ok(cortex_batch::stopped(&batch))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_says_what_is_wanted_of_the_jobs() {
        let (id, uuid) = ("0193".to_owned(), "01936c1e-2f6b-7abc-8def-0123456789ab");
        let submit = |path: &str| Some(JobOrder::Submit(path.to_owned()));
        for (form, method, rest, expected) in [
            (Form::Own, Method::POST, "", submit("/")),
            (Form::Own, Method::POST, "/", submit("/")),
            (Form::Own, Method::POST, "/train/all", submit("/train/all")),
            (Form::Own, Method::GET, "", Some(JobOrder::List)),
            (Form::Own, Method::GET, "/0193", Some(JobOrder::Look(id.clone()))),
            (Form::Own, Method::HEAD, "/0193/result", Some(JobOrder::Result(id.clone()))),
            (Form::Own, Method::GET, "/0193/result/x", Some(JobOrder::Unknown)),
            (Form::Own, Method::GET, "/0193/other", Some(JobOrder::Unknown)),
            (Form::Own, Method::DELETE, "/0193", Some(JobOrder::Cancel(id.clone()))),
            (Form::Own, Method::DELETE, "", Some(JobOrder::NotAllowed("GET, HEAD, OPTIONS, POST"))),
            (
                Form::Own,
                Method::OPTIONS,
                "/0193",
                Some(JobOrder::Methods("DELETE, GET, HEAD, OPTIONS, POST")),
            ),
            (Form::Cortex, Method::POST, "", submit("/")),
            (Form::Cortex, Method::GET, "/0193", Some(JobOrder::Look(id.clone()))),
            (Form::Own, Method::POST, "/0193/webhook", submit("/0193/webhook")),
            (
                Form::Own,
                Method::POST,
                &format!("/{uuid}/webhook"),
                Some(JobOrder::SendAgain(uuid.to_owned())),
            ),
            (Form::TrussPredict, Method::POST, "", submit("/")),
            (Form::TrussPredict, Method::GET, "", Some(JobOrder::NotAllowed("OPTIONS, POST"))),
            (Form::TrussPredict, Method::POST, "/x", None),
            (Form::TrussRequest, Method::GET, "/0193", Some(JobOrder::Look(id.clone()))),
            (Form::TrussRequest, Method::DELETE, "/0193", Some(JobOrder::Cancel(id.clone()))),
            (
                Form::TrussRequest,
                Method::POST,
                "/0193",
                Some(JobOrder::NotAllowed("DELETE, GET, HEAD, OPTIONS")),
            ),
            (Form::TrussRequest, Method::GET, "", None),
            (Form::Cortex, Method::GET, "", None),
            (Form::Cortex, Method::GET, "/0193/x", None),
            (Form::Cortex, Method::POST, "/x", None),
            (Form::Cortex, Method::DELETE, "/0193", None),
        ] {
            assert_eq!(form.order(&method, rest, "", true), expected, "{form:?} {method} {rest}");
        }
        let of = |method: Method, query: &str| Form::Batch.order(&method, "", query, true);
        assert_eq!(of(Method::POST, ""), Some(JobOrder::SubmitBatch));
        assert_eq!(of(Method::GET, "a=b&jobID=0193"), Some(JobOrder::LookBatch(id.clone())));
        assert_eq!(of(Method::DELETE, "jobID=0193"), Some(JobOrder::StopBatch(id)));
        assert_eq!((of(Method::GET, ""), of(Method::PUT, "jobID=0193")), (None, None));
        for (method, rest, expected) in [
            (Method::POST, "/train", Some(JobOrder::NotAllowed("DELETE, GET, HEAD, OPTIONS"))),
            (Method::POST, "/0193/result", Some(JobOrder::NotAllowed("GET, HEAD, OPTIONS"))),
            (Method::POST, "/train/all", Some(JobOrder::Unknown)),
            (Method::POST, "/", Some(JobOrder::Submit("/".to_owned()))),
            (Method::OPTIONS, "/0193", Some(JobOrder::Methods("DELETE, GET, HEAD, OPTIONS"))),
        ] {
            assert_eq!(Form::Own.order(&method, rest, "", false), expected, "{method} {rest}");
        }
    }
}
