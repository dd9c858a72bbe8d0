//! The webhooks of an endpoint's jobs: one task sends those that are due.
//!
//! Place in the flow: beside the workers, from the moment that the endpoint is served until it is served no
//! more or the server stops. In: the store's pending webhooks. Out: messages, and what came of each.
//! Invariants: a message is sent at least once, again only after an attempt that has failed or that the end
//! of the process cut off, and never twice at a time; it goes only where `allow_outbound` lets it, and no
//! redirect is followed. Of messages to one place `LIMITS.1` are under way at most, so that a
//! receiver that takes its time holds no other up. Of an answer nothing but its status and `retry-after` is
//! believed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, USER_AGENT};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use tokio::task::JoinSet;

use super::message::{self, MessageForm};
use super::task::{JobContext, JobTask, LONGEST_REST, PAUSE};
use crate::endpoint::config::EndpointConfig;
use crate::jobs::{Delivered, Delivery, DeliveryLimits, Job, SendGuard, Webhook, WebhookState};
use crate::outbound::{AGENT, Body, Outbound, OutboundError, Patience, retry_after};
use crate::rollout::deployment::Deployment;
use crate::telemetry::metrics::DeliveryOutcome;
use crate::trace::{TRACEPARENT, TRACESTATE};

/// Messages that are under way at a time: all, and to one place.
const LIMITS: (usize, usize) = (32, 4);
/// Most bytes of an answer that are read, for the connection to be used again, and for how long.
const ANSWER: (usize, Duration) = (16 << 10, Duration::from_secs(1));
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Sends the webhooks of one endpoint.
pub(super) struct Deliverer {
    pub(super) task: JobTask,
}

impl Deliverer {
    /// Until the endpoint is served no more, or the server stops; what is under way then is waited for.
    pub(super) async fn run(mut self) {
        let mut sends = JoinSet::new();
        let mut outbound = None;
        let config = &self.task.endpoint.clone().config;
        let (concurrency, by_origin) = LIMITS;
        let limits =
            DeliveryLimits { concurrency, by_origin, timeout: config.jobs.webhooks.timeout + ANSWER.1 };
        while self.task.goes_on() {
            while sends.try_join_next().is_some() {}
            let rest = match self.task.context.store.due_deliveries(&config.name, limits).await {
                Ok((due, rest)) if due.is_empty() => rest,
                Ok((due, rest)) => match self.outbound(&mut outbound).await {
                    Some(outbound) => {
                        self.start(&mut sends, &outbound, due);
                        rest
                    }
                    None => Some(LONGEST_REST),
                },
                Err(_) => Some(PAUSE),
            };
            let queue = self.task.queue.clone();
            self.task.rest(rest, queue.wait_for_delivery()).await;
        }
        tokio::select! {
            () = self.task.context.drain.over() => {}
            () = async { while sends.join_next().await.is_some() {} } => {}
        }
    }

    /// The way to the receivers, made when the first message is due.
    async fn outbound(&self, made: &mut Option<Arc<Outbound>>) -> Option<Arc<Outbound>> {
        if made.is_none() {
            match Outbound::new(self.task.endpoint.config.capabilities.outbound.clone()).await {
                Ok(outbound) => *made = Some(Arc::new(outbound)),
                Err(error) => tracing::error!(
                    endpoint = %self.task.endpoint.config.name,
                    "webhooks wait: the certificates that this system trusts cannot be read: {error}"
                ),
            }
        }
        made.clone()
    }

    fn start(&self, sends: &mut JoinSet<()>, outbound: &Arc<Outbound>, due: Vec<Delivery>) {
        for delivery in due {
            if let Some(guard) = self.task.queue.send(&delivery) {
                let attempt = Attempt {
                    endpoint: self.task.endpoint.clone(),
                    context: self.task.context.clone(),
                    outbound: outbound.clone(),
                    delivery,
                };
                sends.spawn(attempt.run(guard));
            }
        }
    }
}

/// Headers of a job's request that its webhook has as well.
const TRACE_HEADERS: [&str; 2] = [TRACEPARENT, TRACESTATE];

/// One attempt to deliver.
struct Attempt {
    endpoint: Arc<Deployment>,
    context: Arc<JobContext>,
    outbound: Arc<Outbound>,
    delivery: Delivery,
}

impl Attempt {
    /// Sends the message, and notes what came of it. `guard` keeps others from sending it meanwhile.
    async fn run(self, guard: SendGuard) {
        let Attempt { endpoint, context, delivery, .. } = &self;
        let store = &context.store;
        let name = &endpoint.config.name;
        let Ok(found) = store.result(name, &delivery.id, message::LONGEST_RESULT).await else {
            tokio::time::sleep(PAUSE).await;
            return;
        };
        let webhook = found.as_ref().and_then(|(job, result)| Some((job, job.webhook.as_ref()?, result)));
        let outcome = match webhook {
            Some((job, webhook, result)) => {
                let form = message::form(context.message_forms, &webhook.form);
                let body = message::body(&endpoint.config, job, form, result.as_deref());
                self.send(webhook, form, job, body).await
            }
            // Gone with its job: there is nothing to be told.
            None => Delivered::Accepted,
        };
        let most = endpoint.config.jobs.webhooks.attempts;
        // Until it is stored. What the end of the process cuts off here is sent again by the next.
        let state = loop {
            match store.delivered(name, delivery, outcome.clone(), most).await {
                Ok(state) => break state,
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        };
        drop(guard);
        if let (Some(state), Some((job, _))) = (state, &found) {
            self.tell(state, job, &outcome);
        }
    }

    /// Counts an attempt, and says in the log when it was the last one in vain.
    fn tell(&self, state: WebhookState, job: &Job, outcome: &Delivered) {
        let counts = &self.endpoint.metrics.jobs;
        match (state, outcome) {
            (WebhookState::Failed, Delivered::Failed { error, .. }) => {
                counts.delivered(DeliveryOutcome::Dead);
                tracing::warn!(
                    endpoint = %self.endpoint.config.name,
                    job = job.id,
                    url = job.webhook.as_ref().map(Webhook::shown),
                    "a webhook was not delivered, and is a dead letter now: {error}"
                );
            }
            (_, Delivered::Failed { .. }) => counts.delivered(DeliveryOutcome::Failed),
            (_, Delivered::Accepted) => counts.delivered(DeliveryOutcome::Delivered),
        }
    }

    async fn send(
        &self,
        webhook: &Webhook,
        form: Option<&dyn MessageForm>,
        job: &Job,
        body: Vec<u8>,
    ) -> Delivered {
        let EndpointConfig { jobs, .. } = &self.endpoint.config;
        let mut request = Request::post(&webhook.url).header(CONTENT_TYPE, JSON).header(USER_AGENT, AGENT);
        for (name, value) in message::signed(&jobs.webhooks.secrets, &self.delivery.id, form, &body) {
            request = request.header(name, value);
        }
        // Of the request that has made the job.
        for (name, value) in job.headers.iter().filter(|(name, _)| TRACE_HEADERS.contains(&name.as_str())) {
            if let Ok(value) = HeaderValue::from_str(value) {
                request = request.header(name, value);
            }
        }
        let failed = |error: String, is_final| Delivered::Failed { error, is_final, after: Duration::ZERO };
        let body = Full::<Bytes>::from(body).map_err(|never| match never {}).boxed_unsync();
        let Ok(request) = request.body(body) else {
            return failed("its URL cannot be called any more".to_owned(), true);
        };
        let sent = self.outbound.send(request, Patience::default());
        let response = match tokio::time::timeout(jobs.webhooks.timeout, sent).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return failed(error.to_string(), error == OutboundError::Denied),
            Err(_) => return failed(OutboundError::TimedOut.to_string(), false),
        };
        let (parts, body) = response.into_parts();
        // Whether the rest comes makes no difference.
        let _ = tokio::time::timeout(ANSWER.1, read(body)).await;
        if parts.status.is_success() {
            return Delivered::Accepted;
        }
        let after = retry_after(&parts.headers);
        Delivered::Failed {
            error: format!("the receiver answered {}", parts.status.as_u16()),
            // It says that nothing is wanted here any more.
            is_final: parts.status == StatusCode::GONE,
            after: after.unwrap_or_default(),
        }
    }
}

/// Reads an answer to its end, if that is not far.
async fn read(mut body: Body) {
    let mut left = ANSWER.0;
    while let Some(Ok(frame)) = body.frame().await {
        match left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
            Some(rest) => left = rest,
            None => return,
        }
    }
}
