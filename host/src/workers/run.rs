//! A job as a request of its endpoint, from its head to its result.
//!
//! Place in the flow: a worker has claimed the job and holds a permit for it; the endpoint runs its request
//! as any other. In: the job and its body. Out: an [`Outcome`].
//! Invariants: the request says by its [`Caller`] that it is a job, and to its handler by two headers; its
//! result has the status, the headers and the body that the answer to a client's request would have; an
//! application has ended when its job has.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::headers;
use super::task::{JobContext, PAUSE};
use crate::compression::Coding;
use crate::endpoint::config::EndpointConfig;
use crate::endpoint::response_cache::CacheUse;
use crate::error::{Code, RequestError, Stage};
use crate::jobs::{Answer, Job, Outcome};
use crate::json::special::is_marked;
use crate::json::write;
use crate::memory::Account;
use crate::pipeline::respond;
use crate::request::exchange::{self, BrokenBody, Exchange, WholeResponse};
use crate::request::{
    Caller, Form, Head, Input, JOB_HEADERS, Output, PlainHead, Request, is_job_header, without_mark,
};
use crate::rollout::deployment::Deployment;
use crate::telemetry::failure::{log_failure, shortened};
use crate::text;

/// Headers of an answer that are not part of a result.
const NOT_KEPT: [&str; 6] =
    ["connection", "content-length", "date", "keep-alive", "transfer-encoding", "x-request-id"];
const X_REQUEST_ID: &str = "x-request-id";
/// The part of a request's path that its application does not see.
const X_FORWARDED_PREFIX: &str = "x-forwarded-prefix";

/// Runs a job as a request to its endpoint.
pub(super) async fn outcome(endpoint: &Deployment, context: &JobContext, job: &Job, body: Bytes) -> Outcome {
    let config = &endpoint.config;
    let is_application = endpoint.is_application();
    let Some(head) = JobHead::new(config, job, is_application) else {
        let error = "its path cannot be called any more".to_owned();
        return Outcome::Failed { error, answer: None };
    };
    let longest = config.limits.plugin.output;
    let run = Run { endpoint, context, job, arrived: Instant::now(), longest };
    let answered = match is_application {
        true => run.exchange(head, body).await,
        false => Ok(run.staged(head, body).await),
    };
    match answered {
        Ok(answered) if answered.body.len() > longest => {
            Outcome::Failed { error: too_long(longest), answer: None }
        }
        Ok(answered) => answered.outcome(),
        Err(error) => Outcome::Failed { error, answer: None },
    }
}

/// The head of a job's request.
struct JobHead(PlainHead);

impl JobHead {
    /// As the handler sees it: an application without the endpoint's own path. `None` if it cannot be called.
    fn new(config: &EndpointConfig, job: &Job, is_application: bool) -> Option<JobHead> {
        let prefix = config.path.trim_end_matches('/');
        let path = match job.path.as_str() {
            "/" => config.path.clone(),
            path => format!("{prefix}{path}"),
        };
        let target = if job.query.is_empty() { path } else { format!("{path}?{}", job.query) };
        let uri = target.parse::<http::Uri>().ok()?;
        let path = uri.path();
        let path = match path.strip_prefix(prefix).filter(|_| is_application && !prefix.is_empty()) {
            Some(rest) if rest.starts_with('/') => rest.to_owned(),
            Some(rest) => format!("/{rest}"),
            None => path.to_owned(),
        };
        let is_prefix = |name: &str| text::is_similar(X_FORWARDED_PREFIX, name);
        let is_own = |name: &str| name == X_REQUEST_ID || is_application && is_prefix(name);
        let kept = job.headers.iter().filter(|(name, value)| is_field(name, value) && !is_own(name));
        let mut headers: Vec<(String, String)> =
            kept.filter(|(name, _)| !is_job_header(name)).cloned().collect();
        let [id, attempt] = JOB_HEADERS;
        headers.extend([
            (X_REQUEST_ID.to_owned(), job.id.clone()),
            (id.to_owned(), job.id.clone()),
            (attempt.to_owned(), job.attempt.to_string()),
        ]);
        if is_application && !prefix.is_empty() {
            headers.push((X_FORWARDED_PREFIX.to_owned(), prefix.to_owned()));
        }
        let query = uri.query().unwrap_or_default().to_owned();
        Some(JobHead(PlainHead { method: "POST".to_owned(), path, query, headers }))
    }

    /// Unpacks a body that says how it is packed.
    fn unpack(&mut self, body: Bytes, limit: usize, memory: Account) -> Result<Bytes, RequestError> {
        let values = self.0.headers.iter().filter(|(name, _)| *name == CONTENT_ENCODING.as_str());
        let Some(coding) = Coding::of_values(values.map(|(_, value)| value.as_bytes()))? else {
            return Ok(body);
        };
        // They would be those of the packed body to a handler that reads them.
        let is_packed = |name: &str| name == CONTENT_ENCODING.as_str() || name == CONTENT_LENGTH.as_str();
        self.0.headers.retain(|(name, _)| !is_packed(name));
        coding.decode(&body, limit, memory)
    }

    fn is_debug(&self) -> bool {
        self.0.query.split('&').any(|part| part == "debug=true")
    }
}

impl Head for JobHead {
    fn method(&self) -> &str {
        self.0.method()
    }

    fn path(&self) -> &str {
        self.0.path()
    }

    fn query(&self) -> &str {
        self.0.query()
    }

    fn header(&self, name: &str) -> Option<&str> {
        if name == ":scheme" { Some("http") } else { self.0.header(name) }
    }

    fn headers(&self) -> Vec<(&str, &str)> {
        self.0.headers()
    }

    fn as_exchange(&self) -> Option<exchange::Head> {
        self.0.as_exchange()
    }
}

/// Whether a header can be one of HTTP.
fn is_field(name: &str, value: &str) -> bool {
    let value = text::latin1(value).is_some_and(|value| HeaderValue::from_bytes(&value).is_ok());
    value && HeaderName::try_from(name).is_ok()
}

/// The answer to a job's request.
struct Answered {
    status: u16,
    /// The server's own error.
    code: Option<Code>,
    headers: HeaderMap,
    body: Bytes,
}

/// The signature of an answer.
#[derive(Default)]
struct Signature {
    digest: Option<Arc<str>>,
    bypassed: Option<Stage>,
    cached: Option<CacheUse>,
}

impl Signature {
    fn sign(&self, headers: &mut HeaderMap) {
        headers::sign(headers, self.digest.as_deref(), self.bypassed, self.cached);
    }
}

/// The run of one attempt.
struct Run<'a> {
    endpoint: &'a Deployment,
    context: &'a JobContext,
    job: &'a Job,
    arrived: Instant,
    /// Most bytes of a result.
    longest: usize,
}

impl Run<'_> {
    /// Of an endpoint whose handler has stages, or none.
    async fn staged(&self, mut head: JobHead, body: Bytes) -> Answered {
        let (served, signature) = self
            .serve(|limit, memory| {
                let body = head.unpack(received(body, limit, memory)?, limit, memory)?;
                let is_marked = is_marked(&body) && head.is_json();
                let body = if is_marked { without_mark(body) } else { body };
                Ok((head, Input::Body(body, Form::Plain)))
            })
            .await;
        let answered = served.and_then(|output| self.whole(output)).map(|(mut head, body)| {
            signature.sign(&mut head.headers);
            Answered { status: head.status.as_u16(), code: None, headers: head.headers, body }
        });
        answered.unwrap_or_else(|error| self.refused(error, signature))
    }

    /// Of an application: until its run has ended, work after the response included.
    async fn exchange(&self, mut head: JobHead, body: Bytes) -> Result<Answered, String> {
        let is_whole = self.endpoint.read_current(|it| it.pipeline.reads_whole_bodies());
        let (exchange, client) = Exchange::new(&Method::POST, self.context.is_secure);
        let exchange = exchange.charged_to(self.endpoint.memory);
        let progress = client.progress().clone();
        let serve = pin!(self.serve(|limit, memory| {
            match is_whole {
                true => {
                    let body = received(body, limit, memory)?;
                    exchange.begin_whole(head.unpack(body, limit, memory)?);
                }
                false if body.len() > limit => return Err(too_large(limit)),
                false => exchange.begin_with(&head, body),
            }
            Ok((head, Input::Exchange(Box::new(exchange))))
        }));
        let run = async {
            tokio::select! {
                biased;
                served = serve => Some(served),
                // Of its response no more is wanted.
                () = progress.abandoned() => None,
            }
        };
        match tokio::join!(run, client.collect(self.longest)) {
            (_, Some(collected)) => self.streamed(collected),
            (Some((Err(error), signature)), None) => Ok(self.refused(error, signature)),
            (Some((Ok(_), _)) | None, None) => {
                let error = RequestError::new(Code::Internal, Stage::Admit, "the request was not answered");
                Ok(self.refused(error, Signature::default()))
            }
        }
    }

    /// Admits the request that `receive` makes, and runs it.
    async fn serve(
        &self,
        receive: impl FnOnce(usize, Account) -> Result<(JobHead, Input), RequestError>,
    ) -> (Result<Output, RequestError>, Signature) {
        let Run { endpoint, job, arrived, .. } = *self;
        let (config, memory) = (&endpoint.config, endpoint.memory);
        let refused = |error: RequestError| {
            let signature = Signature { digest: error.digest.clone(), ..Signature::default() };
            (Err(error), signature)
        };
        let admitted = match endpoint.admit_job(|| endpoint.has_candidate()) {
            Ok(admitted) => admitted,
            Err(error) => return refused(error),
        };
        let (head, input) = match receive(config.limits.body, memory) {
            Ok(received) => received,
            Err(error) => {
                admitted.refuse(&error);
                return refused(error);
            }
        };
        let request = Request {
            id: job.id.as_str().into(),
            trace: None,
            caller: Caller::Job { depth: job.depth },
            debug: head.is_debug(),
            head: Box::new(head),
            input,
            model: None,
            arrived,
            deadline: arrived + config.jobs.timeout,
            body_limit: config.limits.body,
            memory,
        };
        match admitted.serve(Arc::new(request), endpoint.observers()).await {
            Ok(answer) => {
                let digest = answer.generation.digest.clone();
                (answer.outcome, Signature { digest, bypassed: answer.bypassed, cached: answer.cached })
            }
            Err(failure) => refused(failure.into()),
        }
    }

    /// An output as an answer, for which there is memory before it is made.
    fn whole(&self, output: Output) -> Result<(http::response::Parts, Bytes), RequestError> {
        let most = if let Output::Tensors(tensors) = &output { write::most(tensors) } else { 0 };
        let charge = self.endpoint.memory.take(most).map_err(|full| full.at(Stage::PostInference))?;
        let mut response = respond::of_output(output);
        let body = std::mem::take(&mut response.body);
        Ok((exchange::parts(&response), if charge.bytes() > 0 { charge.own(body) } else { body }))
    }

    /// A response that an application has sent.
    fn streamed(&self, collected: Result<WholeResponse, BrokenBody>) -> Result<Answered, String> {
        let WholeResponse { head, body, digest } = collected.map_err(|broken| match broken {
            BrokenBody::TooLong(_) => too_long(self.longest),
            BrokenBody::Incomplete => "the answer broke off".to_owned(),
        })?;
        let mut headers = head.headers;
        Signature { digest: Some(digest), ..Signature::default() }.sign(&mut headers);
        Ok(Answered { status: head.status.as_u16(), code: None, headers, body })
    }

    /// The answer of a failure, which it logs.
    fn refused(&self, error: RequestError, signature: Signature) -> Answered {
        let error = shortened(error);
        log_failure(&error, &self.job.id, Some(&self.endpoint.config.name), None, self.arrived, false);
        let mut headers = HeaderMap::new();
        headers::explain(&mut headers, &error);
        signature.sign(&mut headers);
        let body = error.to_json(&self.job.id, self.context.is_debug).into();
        Answered { status: error.code.http(), code: Some(error.code), headers, body }
    }
}

/// A body that is within its limit, charged.
fn received(body: Bytes, limit: usize, memory: Account) -> Result<Bytes, RequestError> {
    if body.len() > limit {
        return Err(too_large(limit));
    }
    memory.own(body).map_err(|full| full.at(Stage::Admit))
}

fn too_large(limit: usize) -> RequestError {
    RequestError::new(Code::BodyTooLarge, Stage::Admit, format!("the body is longer than {limit} bytes"))
}

fn too_long(longest: usize) -> String {
    format!("the answer is longer than {longest} bytes, `limits.output`")
}

impl Answered {
    /// The meaning of an answer for the job: it stands, is tried again, or was never tried.
    fn outcome(self) -> Outcome {
        let Answered { status, code, headers, body } = self;
        if code == Some(Code::PluginUnavailable) {
            // This host takes no other one meanwhile, and another one may run it.
            return Outcome::NotTried { delay: Duration::ZERO };
        }
        if let Some(Code::Overloaded | Code::ShuttingDown | Code::NotReady | Code::ModelUnloaded) = code {
            let after = headers.get(RETRY_AFTER).and_then(|after| after.to_str().ok()?.parse().ok());
            return Outcome::NotTried { delay: after.map_or(PAUSE, Duration::from_secs).max(PAUSE) };
        }
        let text = headers.iter().filter(|(name, _)| !NOT_KEPT.contains(&name.as_str()));
        let text = text.filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())));
        let answer = Answer { status, headers: text.collect(), size: body.len() as u64 };
        if status >= 500 || status == 408 || status == 429 {
            let error = match code {
                Some(code) => format!("{}: {}", code.name(), code.summary()),
                None => format!("the handler answered {status}"),
            };
            return Outcome::Failed { error, answer: Some((answer, body)) };
        }
        Outcome::Answered { is_ok: status < 400, answer, body }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_stands_or_is_tried_again_or_was_never_tried() {
        let of = |status: u16, code: Option<Code>| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static("30"))]);
            match (Answered { status, code, headers, body: Bytes::new() }).outcome() {
                Outcome::Answered { is_ok: true, .. } => "completed".to_owned(),
                Outcome::Answered { .. } => "failed".to_owned(),
                Outcome::Failed { error, .. } => error,
                Outcome::NotTried { delay } => format!("after {delay:?}"),
                Outcome::CutOff => "cut off".to_owned(),
            }
        };
        for (status, code, expected) in [
            (200, None, "completed"),
            (302, None, "completed"),
            (400, Some(Code::InvalidInput), "failed"),
            (404, None, "failed"),
            (408, None, "the handler answered 408"),
            (429, None, "the handler answered 429"),
            (503, None, "the handler answered 503"),
            (500, Some(Code::PluginTrap), "plugin_trap: the handler crashed"),
            (504, Some(Code::RequestTimeout), "request_timeout: the request took longer than it may"),
            (503, Some(Code::Overloaded), "after 30s"),
            (503, Some(Code::PluginUnavailable), "after 0ns"),
            (503, Some(Code::ShuttingDown), "after 30s"),
        ] {
            assert_eq!(of(status, code), expected, "{status} {code:?}");
        }
    }
}
