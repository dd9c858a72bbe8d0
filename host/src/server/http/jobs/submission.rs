//! A request that becomes a job.
//!
//! Place in the flow: `POST` on the paths of [`super`]. In: its head and body. Out: the job, stored.
//! Invariants: what is stored has no credentials, and nothing that looks like one by its name; a submission
//! is counted once.

use std::pin::pin;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::HOST;

use bytes::Bytes;

use super::super::route::EndpointRoute;
use super::answers::failed;
use crate::blocking;
use crate::endpoint::AdmittedRequest;
use crate::endpoint::config::EndpointConfig;
use crate::error::{RequestError, Stage};
use crate::jobs::{
    IDEMPOTENCY_KEY, Job, JobStore, LAST_PRIORITY, LONGEST_DELAY, LONGEST_URL, Submission, USUAL_PRIORITY,
    Webhook, WebhookForm, is_kept_header, is_key,
};
use crate::json::special;
use crate::memory::Charge;
use crate::outbound::UrlError;
use crate::server::body::Bounds;
use crate::server::compat::job_dialect::Envelope;
use crate::server::field_text::OpaqueFields;
use crate::server::head::Head;
use crate::server::serve::Transport as _;
use crate::telemetry::metrics::Submitted;

const PRIORITY: &str = "x-modelhost-job-priority";
const ATTEMPTS: &str = "x-modelhost-job-attempts";
const DELAY: &str = "x-modelhost-job-delay";
const WAIT: &str = "x-modelhost-job-wait";
const WEBHOOK: &str = "x-modelhost-job-webhook";

/// Stores the job that this request is: for a path below the endpoint's own, and out of what stands around
/// its body.
///
/// # Errors
/// Why it is none, counted already.
pub(super) async fn submit(
    route: &EndpointRoute,
    store: &JobStore,
    form: (&str, Option<Envelope>),
    head: Box<Head>,
    body: Body,
    arrived: Instant,
) -> Result<Job, RequestError> {
    let counts = &route.endpoint.metrics.jobs;
    match stored(route, store, form, head, body, arrived).await {
        Ok((job, is_new)) => {
            counts.submitted(if is_new { Submitted::Stored } else { Submitted::Repeated });
            Ok(job)
        }
        Err(error) => {
            counts.submitted(Submitted::Refused);
            route.endpoint.metrics.error(error.code);
            Err(error)
        }
    }
}

async fn stored(
    route: &EndpointRoute,
    store: &JobStore,
    form: (&str, Option<Envelope>),
    mut head: Box<Head>,
    body: Body,
    arrived: Instant,
) -> Result<(Job, bool), RequestError> {
    let EndpointRoute { endpoint, .. } = route;
    let config = &endpoint.config;
    let (path, envelope) = form;
    let mut submission = options(config, head.headers())?;
    // It holds the place of the body until that is stored.
    let (_admitted, received) = receive(route, &mut head, body, arrived).await?;
    submission.body = received;
    path.clone_into(&mut submission.path);
    head.parts.uri.query().unwrap_or_default().clone_into(&mut submission.query);
    submission.headers = kept(head.headers());
    if !head.headers().contains_key(HOST)
        && let Some(authority) = head.parts.uri.authority()
    {
        submission.headers.push((HOST.as_str().to_owned(), authority.to_string()));
    }
    if let Some(envelope) = envelope {
        let length = submission.body.len();
        blocking::if_large(length, || {
            let _copied = copied(route, &submission.body)?;
            envelope(config, &mut submission)
        })?;
    }
    store.submit(&config.name, submission, config.jobs.quota).await.map_err(failed)
}

/// Receives the body of a submission, which takes a place of the endpoint's queue until the first of these is
/// dropped.
///
/// # Errors
/// There is no place, or no whole body.
pub(super) async fn receive<'r>(
    route: &'r EndpointRoute,
    head: &mut Box<Head>,
    body: Body,
    arrived: Instant,
) -> Result<(AdmittedRequest<'r>, Bytes), RequestError> {
    let mut admitted = route.endpoint.admit_submission()?;
    let limits = &route.endpoint.config.limits;
    let deadline = arrived + limits.request_timeout;
    let bounds = Bounds {
        longest: limits.body,
        body_rate: limits.body_rate,
        arrived,
        deadline,
        memory: route.endpoint.memory,
    };
    let origin = head.origin;
    let received = {
        let receive = pin!(head.receive(body, bounds));
        admitted.arrive(origin, receive).await
    };
    let broke_off = || RequestError::invalid(Stage::Admit, "the body broke off");
    let body = received??.ok_or_else(broke_off)?;
    Ok((admitted, body))
}

/// The charge of the copy that is made to read a body which has special numbers.
///
/// # Errors
/// There is no memory for it.
pub(super) fn copied(route: &EndpointRoute, body: &[u8]) -> Result<Charge, RequestError> {
    let copied = route.endpoint.memory.take(special::most_copied(body));
    copied.map_err(|full| full.at(Stage::Admit))
}

/// The webhook to a URL, which `what` has named.
pub(in crate::server) fn webhook(
    config: &EndpointConfig,
    what: &str,
    url: &str,
    form: WebhookForm,
) -> Result<Webhook, RequestError> {
    let refused = |why: &str| RequestError::invalid(Stage::Admit, format!("{what} {why}"));
    if url.len() > LONGEST_URL {
        return Err(refused(&format!("is longer than {LONGEST_URL} bytes")));
    }
    match config.capabilities.outbound.origin(url) {
        Ok(origin) => Ok(Webhook::new(url, origin, form)),
        Err(error @ UrlError::NotUrl) => Err(refused(&error.to_string())),
        Err(error @ UrlError::Denied) => {
            Err(refused(&format!("{error}; hint: the operator adds scheme, host and port to it")))
        }
    }
}

/// A submission with all that the headers say about the job itself.
fn options(config: &EndpointConfig, headers: &HeaderMap) -> Result<Submission, RequestError> {
    let mut submission = Submission {
        priority: USUAL_PRIORITY,
        attempts: config.jobs.attempts,
        keep: config.jobs.keep,
        ..Submission::default()
    };
    if let Some(key) = text(headers, IDEMPOTENCY_KEY)? {
        is_key(key).map_err(|expected| wrong(IDEMPOTENCY_KEY, &expected))?;
        submission.idempotency_key = Some(key.to_owned());
    }
    if let Some(priority) = number(headers, PRIORITY, 0, u32::from(LAST_PRIORITY))? {
        submission.priority = u8::try_from(priority).unwrap_or(LAST_PRIORITY);
    }
    if let Some(attempts) = number(headers, ATTEMPTS, 1, config.jobs.attempts)? {
        submission.attempts = attempts;
    }
    submission.delay = duration(headers, DELAY)?.unwrap_or_default();
    submission.wait = duration(headers, WAIT)?;
    if let Some(url) = text(headers, WEBHOOK)? {
        let what = format!("the header `{WEBHOOK}`");
        submission.webhook = Some(webhook(config, &what, url, WebhookForm::OWN)?);
    }
    Ok(submission)
}

fn wrong(name: &str, expected: &str) -> RequestError {
    RequestError::invalid(Stage::Admit, format!("the header `{name}` is not {expected}"))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, RequestError> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    value.to_str().map(|text| Some(text.trim())).map_err(|_| wrong(name, "text"))
}

fn number(headers: &HeaderMap, name: &str, least: u32, most: u32) -> Result<Option<u32>, RequestError> {
    let Some(text) = text(headers, name)? else { return Ok(None) };
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.map(Some).ok_or_else(|| wrong(name, &format!("a number from {least} to {most}")))
}

fn duration(headers: &HeaderMap, name: &str) -> Result<Option<Duration>, RequestError> {
    let Some(text) = text(headers, name)? else { return Ok(None) };
    // Not `0`, which would be a number without a unit.
    let has_unit = text.ends_with(|last: char| last.is_ascii_alphabetic());
    let duration = humantime::parse_duration(text).ok().filter(|it| has_unit && *it <= LONGEST_DELAY);
    duration.map(Some).ok_or_else(|| wrong(name, "a duration of at most 30 days, such as `90s` or `2h`"))
}

/// The headers that the job's own request will have.
fn kept(headers: &HeaderMap) -> Vec<(String, String)> {
    let opaque = OpaqueFields::default();
    let pairs = opaque.all(headers).into_iter().filter(|(name, _)| is_kept_header(name));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn secrets_and_what_is_about_the_connection_are_not_kept() {
        let mut headers = HeaderMap::new();
        for name in [
            "content-type",
            "host",
            "x-mine",
            "authorization",
            "x-banana-api-key",
            "x-api-key",
            "cookie",
            "idempotency-key",
            "x-modelhost-job",
            "x-modelhost-job-priority",
            "transfer-encoding",
            "x-request-id",
        ] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static("x"));
        }
        let mut names: Vec<String> = kept(&headers).into_iter().map(|(name, _)| name).collect();
        names.sort();
        assert_eq!(names, ["content-type", "host", "x-mine"]);
    }
}
