//! What an application says of itself: whether it is ready, as `readiness` of its endpoint asks it.
//!
//! Place in the flow: behind every path that tells readiness. In: an endpoint. Out: whether a `GET` of the
//! application's own path ends in a 2xx.
//! Invariants: the handler may do what it may for a client's request; it counts as none and waits for no
//! place; while all places are taken, what the application said last stands; an endpoint is asked once at a
//! time, for all who want to know then; requests are served all the same.

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use axum::http::header::HOST;
use axum::http::{HeaderValue, Method, Request as HttpRequest, Uri};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Limited};

use super::served::Served;
use crate::endpoint::readiness::Answer;
use crate::pipeline::plan::RunPlan;
use crate::pipeline::report::RunReport;
use crate::request::exchange::{Client, Exchange};
use crate::request::{Caller, Input, PlainHead, Request};
use crate::rollout::deployment::Deployment;

/// The request's id in the log, and in what the handler is told.
const ID: &str = "readiness";
/// Most bytes of an answer, which nothing is read of but its status.
const LONGEST: usize = 64 << 10;

impl Served {
    /// Whether all endpoints say that they are ready.
    pub(super) async fn all_are_ready(&self) -> bool {
        for endpoint in &self.endpoints {
            if !self.application_says_ready(endpoint).await {
                return false;
            }
        }
        true
    }

    /// Whether an endpoint is ready: its application says so, and the values that it keeps can be reached.
    /// The server is ready without them: hosts that share a store would all be taken out at once, with what
    /// needs none.
    pub(super) async fn says_ready(&self, endpoint: &Arc<Deployment>) -> bool {
        self.stores.are_ready(&endpoint.config.capabilities) && self.application_says_ready(endpoint).await
    }

    /// Whether an application says that it is ready; what is not asked is.
    async fn application_says_ready(&self, endpoint: &Arc<Deployment>) -> bool {
        let Some(path) = endpoint.config.readiness.clone() else { return true };
        // Another instance would know nothing of what those of requests have come to.
        if endpoint.free_places() == 0 {
            return endpoint.readiness.last();
        }
        let asked = |answer: Answer| {
            let endpoint = endpoint.clone();
            // Guest code runs on the runtime of requests, for a client of the admin address too.
            self.runtime.spawn(async move {
                let limit = endpoint.config.limits.request_timeout;
                let status = tokio::time::timeout(limit, ask(&endpoint, &path)).await;
                let is_ready = matches!(status, Ok(Some(200..=299)));
                if !is_ready {
                    tracing::debug!(
                        endpoint = %endpoint.config.name,
                        "the application says that it is not ready"
                    );
                }
                answer.tell(&endpoint.readiness, is_ready);
            });
        };
        endpoint.readiness.told(asked).await
    }
}

/// The status of the application's answer; `None` if there is none.
async fn ask(endpoint: &Deployment, path: &str) -> Option<u16> {
    let current = endpoint.current();
    let (exchange, client) = Exchange::new(&Method::GET, false);
    let mut request = HttpRequest::new(Empty::<Bytes>::new().map_err(|never| match never {}).boxed_unsync());
    *request.uri_mut() = path.parse::<Uri>().ok()?;
    request.headers_mut().insert(HOST, HeaderValue::from_static("localhost"));
    exchange.begin(request);
    let arrived = Instant::now();
    let head = PlainHead { method: "GET".to_owned(), path: path.to_owned(), ..PlainHead::default() };
    let request = Arc::new(Request {
        id: ID.into(),
        trace: None,
        caller: Caller::Client,
        head: Box::new(head),
        input: Input::Exchange(Box::new(exchange)),
        model: None,
        arrived,
        deadline: arrived + endpoint.config.limits.request_timeout,
        debug: false,
        body_limit: endpoint.config.limits.body,
        memory: crate::memory::Account::default(),
    });
    // It is served on an instance of requests, which may remember what it has sent and kept: that has to be
    // so.
    let plan = RunPlan { calls_out: true, ..RunPlan::default() };
    let mut report = RunReport::unqueued(arrived, &plan);
    let mut answered = pin!(status(client));
    {
        let mut run = pin!(current.pipeline.run(&request, &plan, &mut report));
        tokio::select! {
            biased;
            status = &mut answered => return status,
            _ = &mut run => {}
        }
    }
    // Its end of the exchange goes with it.
    drop(request);
    answered.await
}

/// The status, once all of the answer is there.
async fn status(client: Client) -> Option<u16> {
    let response = client.response().await?;
    let status = response.head.status.as_u16();
    Limited::new(response.body, LONGEST).collect().await.ok()?;
    Some(status)
}
