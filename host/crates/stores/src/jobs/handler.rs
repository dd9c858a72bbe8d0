//! Jobs that a handler submits to its own endpoint, looks at and cancels.
//!
//! Place in the flow: a handler's `jobs`, see `capabilities/jobs.rs`. One [`HandlerJobs`] for each loaded
//! handler whose endpoint has jobs. In: a [`JobOp`]. Out: a [`JobAnswer`], or why there is none.
//! Invariants: nothing is stored that a client could not have submitted; a job is as deep as the one that
//! submitted it and one more, at most as deep as the endpoint allows; what a run that is no request submits
//! or cancels is seen by itself alone, see [`JobScratch`].

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::record::{new_id, now};
use super::{
    Answer, Config, Job, JobError, JobState, JobStore, LAST_PRIORITY, LONGEST_DELAY, Submission,
    USUAL_PRIORITY, Webhook, is_id, is_kept_header, is_key,
};
use crate::json::base64;
use crate::text::{is_token, shown};

/// Longest path of a job with its query, in bytes.
const LONGEST_PATH: usize = 8192;
/// Most headers of a job, and most bytes of them.
const HEADERS: (usize, usize) = (100, 64 << 10);

/// An operation on the endpoint's jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the fields are those of the contract's functions")]
pub enum JobOp {
    /// Stores a job.
    Submit(Box<JobRequest>),
    /// A job.
    Get { id: String },
    /// The answer to a job.
    GetAnswer { id: String },
    /// Cancels a job.
    Cancel { id: String },
}

/// A request that is to be a job, as the contract has it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are those of the contract's record")]
pub struct JobRequest {
    pub path: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    #[serde(with = "base64")]
    pub body: Vec<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

impl JobOp {
    /// Its name, as metrics have it.
    pub fn name(&self) -> &'static str {
        match self {
            JobOp::Submit(_) => "submit",
            JobOp::Get { .. } => "get",
            JobOp::GetAnswer { .. } => "get-answer",
            JobOp::Cancel { .. } => "cancel",
        }
    }

    /// The path or the id that it names.
    pub fn subject(&self) -> &str {
        match self {
            JobOp::Submit(request) => request.path.split('?').next().unwrap_or_default(),
            JobOp::Get { id } | JobOp::GetAnswer { id } | JobOp::Cancel { id } => id,
        }
    }

    /// Bytes that it brings.
    pub fn size(&self) -> usize {
        match self {
            JobOp::Submit(request) => {
                let JobRequest { path, headers, body, webhook, idempotency_key, .. } = &**request;
                let texts = [webhook, idempotency_key].map(|text| text.as_ref().map_or(0, String::len));
                body.len()
                    + path.len()
                    + texts.iter().sum::<usize>()
                    + size(headers)
                    + size_of_val(headers.as_slice())
            }
            JobOp::Get { id } | JobOp::GetAnswer { id } | JobOp::Cancel { id } => id.len(),
        }
    }
}

fn size(headers: &[(String, String)]) -> usize {
    headers.iter().map(|(name, value)| name.len() + value.len()).sum()
}

/// A job as its handler sees it. Times are milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are those of the contract's record")]
pub struct JobView {
    pub id: String,
    pub state: JobState,
    pub attempt: u32,
    pub attempts: u32,
    pub submitted: u64,
    pub changed: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
}

impl JobView {
    fn new(job: Job) -> JobView {
        JobView {
            status: job.answer.as_ref().map(|answer| answer.status),
            id: job.id,
            state: job.state,
            attempt: job.attempt,
            attempts: job.attempts,
            submitted: job.submitted,
            changed: job.changed,
            error: job.error,
        }
    }
}

/// The answer to an operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the fields are those of the contract's record")]
pub enum JobAnswer {
    /// A job, if there is one.
    Job(Option<JobView>),
    /// The answer to a job.
    Answer {
        status: u16,
        headers: Vec<(String, String)>,
        #[serde(with = "base64")]
        body: Vec<u8>,
    },
    /// There is none.
    NoAnswer,
}

/// Why an operation has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum HandlerJobError {
    /// Something of a submission cannot be used.
    #[error("{0}")]
    Invalid(String),
    /// The idempotency key was used for another request.
    #[error("the idempotency key was used for a job with another body, path or query")]
    Conflict,
    /// Beyond a limit. Says which.
    #[error("{0}")]
    Limit(String),
    /// The store cannot be used now; whether a change was made is not known.
    #[error("the store of the jobs cannot be used: {0}")]
    Unavailable(String),
}

impl From<JobError> for HandlerJobError {
    fn from(error: JobError) -> HandlerJobError {
        match error {
            JobError::Full(text) => HandlerJobError::Limit(text),
            JobError::Conflict => HandlerJobError::Conflict,
            JobError::Unavailable(text) => HandlerJobError::Unavailable(text),
        }
    }
}

/// The outcome of an operation.
pub type JobOutcome = Result<JobAnswer, HandlerJobError>;

/// An operation, and what came of it: vocabulary of those who keep runs and give their answers again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobCall {
    /// The operation.
    #[serde(flatten)]
    pub op: JobOp,
    /// `None` if there was none by the end of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<JobOutcome>,
}

impl JobCall {
    /// Bytes of what it brings and of its answer.
    pub fn size(&self) -> usize {
        let answer = match &self.answer {
            Some(Ok(JobAnswer::Answer { headers, body, .. })) => {
                size(headers) + size_of_val(headers.as_slice()) + body.len()
            }
            _ => 0,
        };
        self.op.size() + answer + 256
    }
}

/// The request on whose behalf a handler submits a job.
#[derive(Debug, Clone, Copy)]
pub struct Submitter {
    /// How deep it is if it is a job itself.
    pub job_depth: Option<u32>,
    /// How many jobs it has submitted.
    pub submitted: u32,
    /// Whether the handler has paths below the endpoint's own.
    pub has_paths: bool,
}

/// The jobs of one endpoint, for its handler.
#[derive(Clone)]
pub struct HandlerJobs {
    /// `None` where nothing is stored.
    store: Option<Arc<JobStore>>,
    endpoint: Arc<str>,
    config: Config,
    /// Most bytes of a body.
    body: usize,
    /// Most bytes of an answer.
    output: usize,
}

impl HandlerJobs {
    /// Of this endpoint. Without a store there are no jobs, and none is taken.
    pub fn new(
        store: Option<Arc<JobStore>>,
        endpoint: &str,
        config: Config,
        body: usize,
        output: usize,
    ) -> HandlerJobs {
        HandlerJobs { store, endpoint: endpoint.into(), config, body, output }
    }

    /// Of no endpoint, where each call is answered by a recording; a submission brings at most so many bytes.
    pub fn nowhere(body: usize) -> HandlerJobs {
        HandlerJobs { store: None, endpoint: "".into(), config: Config::none(), body, output: 0 }
    }

    /// Most bytes that a submission brings.
    pub fn most_bytes(&self) -> usize {
        self.body.saturating_add(HEADERS.1).saturating_add(LONGEST_PATH)
    }

    /// The job that a request would be.
    ///
    /// # Errors
    /// It cannot be one, or this submitter may not submit it.
    pub fn check(&self, wanted: JobRequest, by: Submitter) -> Result<Submission, HandlerJobError> {
        let invalid = |text: String| Err(HandlerJobError::Invalid(text));
        let limit = |text: String| Err(HandlerJobError::Limit(text));
        let Config { submissions, depth, attempts: most, .. } = self.config;
        if by.submitted >= submissions {
            return limit(format!("a request submits at most {submissions} jobs, `limits.job_submissions`"));
        }
        let next = by.job_depth.map_or(0, |depth| depth.saturating_add(1));
        if next > depth {
            return limit(format!("{depth} jobs follow each other at most, `limits.job_depth`"));
        }
        let (path, query) = wanted.path.split_once('?').unwrap_or((&wanted.path, ""));
        let is_path = wanted.path.starts_with('/')
            && wanted.path.len() <= LONGEST_PATH
            && wanted.path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#')
            && !path.split('/').any(|part| part == "." || part == "..");
        if !is_path {
            return invalid(format!("the path is none: it begins with `/`, at most {LONGEST_PATH} bytes"));
        }
        if path != "/" && !by.has_paths {
            return invalid("the path is not `/`, and only an application has others".to_owned());
        }
        if wanted.body.len() > self.body {
            return limit(format!("the body has more than {} bytes, `limits.body`", self.body));
        }
        if wanted.headers.len() > HEADERS.0 || size(&wanted.headers) > HEADERS.1 {
            let (most, bytes) = HEADERS;
            return limit(format!("more than {most} headers, or {bytes} bytes of them"));
        }
        let mut headers = Vec::with_capacity(wanted.headers.len());
        for (name, value) in wanted.headers {
            let name = name.to_ascii_lowercase();
            let is_text = value.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte));
            let shown = shown(&name);
            if !is_token(&name) || !is_text {
                return invalid(format!("`{shown}` is no header of visible ASCII"));
            }
            if !is_kept_header(&name) {
                return invalid(format!(
                    "the header `{shown}` is not stored: it is a secret's or a connection's"
                ));
            }
            headers.push((name, value));
        }
        let priority = wanted.priority.unwrap_or(USUAL_PRIORITY);
        if priority > LAST_PRIORITY {
            return invalid(format!("the priority is not 0 to {LAST_PRIORITY}"));
        }
        let attempts = wanted.attempts.unwrap_or(most);
        if !(1..=most).contains(&attempts) {
            return invalid(format!("the attempts are not 1 to {most}, `limits.job_attempts`"));
        }
        let [delay, wait] = [wanted.delay, wanted.wait].map(|time| time.map(Duration::from_millis));
        if [delay, wait].into_iter().flatten().any(|time| time > LONGEST_DELAY) {
            return invalid("a delay or a wait of more than 30 days".to_owned());
        }
        if let Some(Err(expected)) = wanted.idempotency_key.as_deref().map(is_key) {
            return invalid(format!("the idempotency key is not {expected}"));
        }
        Ok(Submission {
            path: path.to_owned(),
            query: query.to_owned(),
            headers,
            body: wanted.body.into(),
            priority,
            attempts,
            delay: delay.unwrap_or_default(),
            wait,
            keep: self.config.keep,
            idempotency_key: wanted.idempotency_key,
            webhook: None,
            pauses: None,
            depth: next,
        })
    }

    fn store(&self) -> Result<&JobStore, HandlerJobError> {
        self.store.as_deref().ok_or_else(|| HandlerJobError::Unavailable("nothing is stored here".to_owned()))
    }

    /// Stores a job, and gives it; or the one that has its idempotency key, and `false`.
    ///
    /// # Errors
    /// [`HandlerJobError`].
    pub async fn submit(&self, job: Submission) -> Result<(JobView, bool), HandlerJobError> {
        let (job, is_new) = self.store()?.submit(&self.endpoint, job, self.config.quota).await?;
        Ok((JobView::new(job), is_new))
    }

    /// A job.
    async fn get(&self, id: &str) -> Result<Option<JobView>, HandlerJobError> {
        let Some(store) = self.store.as_deref().filter(|_| is_id(id)) else { return Ok(None) };
        Ok(store.job(&self.endpoint, id).await?.map(JobView::new))
    }

    /// The operation on a job that there is.
    ///
    /// # Errors
    /// [`HandlerJobError`].
    pub async fn look(&self, op: &JobOp) -> JobOutcome {
        match op {
            JobOp::Submit(_) => Err(HandlerJobError::Invalid("it is no question".to_owned())),
            JobOp::Get { id } => Ok(JobAnswer::Job(self.get(id).await?)),
            JobOp::Cancel { id } if !is_id(id) => Ok(JobAnswer::Job(None)),
            JobOp::Cancel { id } => {
                Ok(JobAnswer::Job(self.store()?.cancel(&self.endpoint, id).await?.map(JobView::new)))
            }
            JobOp::GetAnswer { id } => {
                let Some(store) = self.store.as_deref().filter(|_| is_id(id)) else {
                    return Ok(JobAnswer::NoAnswer);
                };
                match store.result(&self.endpoint, id, self.output).await? {
                    Some((Job { answer: Some(answer), .. }, Some(body))) => {
                        let Answer { status, headers, .. } = answer;
                        Ok(JobAnswer::Answer { status, headers, body: body.into() })
                    }
                    Some((Job { answer: Some(answer), .. }, None)) if answer.size > self.output as u64 => {
                        let most = self.output;
                        let text = format!("the answer is longer than {most} bytes, `limits.output`");
                        Err(HandlerJobError::Limit(text))
                    }
                    _ => Ok(JobAnswer::NoAnswer),
                }
            }
        }
    }
}

/// The webhook of a submission, whose place the caller has found to be allowed.
pub fn webhook(url: &str, origin: String) -> Webhook {
    Webhook::new(url, origin, super::WebhookForm::OWN)
}

/// The jobs that a run has submitted or cancelled which must not write: seen by itself alone, and gone with
/// it.
#[derive(Debug, Default)]
pub struct JobScratch {
    jobs: BTreeMap<String, JobView>,
    /// Ids by idempotency key.
    keys: BTreeMap<String, String>,
}

impl JobScratch {
    /// Keeps a job, as if it had been stored.
    pub fn submit(&mut self, job: Submission) -> JobView {
        let known = job.idempotency_key.as_ref().and_then(|key| self.keys.get(key));
        if let Some(known) = known.and_then(|id| self.jobs.get(id)) {
            return known.clone();
        }
        let time = now();
        let view = JobView {
            id: new_id(time),
            state: JobState::Queued,
            attempt: 0,
            attempts: job.attempts,
            submitted: time,
            changed: time,
            error: None,
            status: None,
        };
        if let Some(key) = job.idempotency_key {
            self.keys.insert(key, view.id.clone());
        }
        self.jobs.insert(view.id.clone(), view.clone());
        view
    }

    /// The operation on a job of this run, or of the store, which is only read.
    ///
    /// # Errors
    /// [`HandlerJobError`].
    pub async fn look(&mut self, jobs: &HandlerJobs, op: &JobOp) -> JobOutcome {
        let own = match op {
            JobOp::Submit(_) => None,
            JobOp::Get { id } | JobOp::GetAnswer { id } | JobOp::Cancel { id } => self.jobs.get_mut(id),
        };
        match (op, own) {
            (JobOp::Get { .. }, Some(own)) => Ok(JobAnswer::Job(Some(own.clone()))),
            (JobOp::GetAnswer { .. }, Some(own)) if own.status.is_none() => Ok(JobAnswer::NoAnswer),
            (JobOp::Cancel { id }, own) => {
                let found = match own {
                    Some(own) => Some(own.clone()),
                    None => jobs.get(id).await?,
                };
                let cancelled = found.map(|job| match job.state.is_final() {
                    true => job,
                    false => JobView { state: JobState::Cancelled, changed: now(), ..job },
                });
                if let Some(job) = &cancelled {
                    self.jobs.insert(id.clone(), job.clone());
                }
                Ok(JobAnswer::Job(cancelled))
            }
            _ => jobs.look(op).await,
        }
    }
}
