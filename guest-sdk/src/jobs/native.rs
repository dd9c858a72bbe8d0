//! Jobs in the memory of a thread, for unit tests.

use std::cell::RefCell;
use std::time::{Duration, SystemTime};

use super::{JobError, Result, State};

pub use super::{Answer, Job};

pub struct Submission {
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub priority: Option<u8>,
    pub delay_ms: Option<u64>,
    pub wait_ms: Option<u64>,
    pub attempts: Option<u32>,
    pub webhook: Option<String>,
    pub idempotency_key: Option<String>,
}

struct Stored {
    job: Job,
    submission: super::Submission,
    answer: Option<Answer>,
}

thread_local! {
    static JOBS: RefCell<Vec<Stored>> = RefCell::default();
}

fn with<T>(id: &str, look: impl FnOnce(&mut Stored) -> T) -> Option<T> {
    JOBS.with_borrow_mut(|jobs| jobs.iter_mut().find(|it| it.job.id == id).map(look))
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// For unit tests: the jobs that this thread has submitted, each with its id.
pub fn submitted() -> Vec<(String, super::Submission)> {
    JOBS.with_borrow(|jobs| jobs.iter().map(|it| (it.job.id.clone(), it.submission.clone())).collect())
}

/// For unit tests: finishes a job with this answer, which fails if it is an error.
pub fn finish(id: &str, answer: Answer) {
    with(id, |it| {
        it.job.state = if answer.status < 400 { State::Completed } else { State::Failed };
        (it.job.attempt, it.job.status, it.job.changed_ms) = (1, Some(answer.status), now());
        it.answer = Some(answer);
    });
}

pub fn submit(wanted: &Submission) -> Result<Job> {
    if !wanted.path.starts_with('/') {
        return Err(JobError::Invalid("the path is none: it begins with `/`".to_owned()));
    }
    let submission = super::Submission {
        path: wanted.path.clone(),
        headers: wanted.headers.clone(),
        body: wanted.body.clone(),
        priority: wanted.priority,
        delay: wanted.delay_ms.map(Duration::from_millis),
        wait: wanted.wait_ms.map(Duration::from_millis),
        attempts: wanted.attempts,
        webhook: wanted.webhook.clone(),
        idempotency_key: wanted.idempotency_key.clone(),
    };
    JOBS.with_borrow_mut(|jobs| {
        let has_key = |it: &&Stored| {
            wanted.idempotency_key.is_some() && it.submission.idempotency_key == wanted.idempotency_key
        };
        if let Some(known) = jobs.iter().find(has_key) {
            let is_same = (&known.submission.path, &known.submission.body) == (&wanted.path, &wanted.body);
            return if is_same { Ok(known.job.clone()) } else { Err(JobError::Conflict) };
        }
        let time = now();
        let job = Job {
            id: format!("00000000-0000-7000-8000-{:012}", jobs.len() + 1),
            state: State::Queued,
            attempt: 0,
            attempts: wanted.attempts.unwrap_or(3),
            submitted_ms: time,
            changed_ms: time,
            error: None,
            status: None,
        };
        jobs.push(Stored { job: job.clone(), submission, answer: None });
        Ok(job)
    })
}

pub fn get(id: &str) -> Result<Option<Job>> {
    Ok(with(id, |it| it.job.clone()))
}

pub fn get_answer(id: &str) -> Result<Option<Answer>> {
    Ok(with(id, |it| it.answer.clone()).flatten())
}

pub fn cancel(id: &str) -> Result<Option<Job>> {
    Ok(with(id, |it| {
        if matches!(it.job.state, State::Queued | State::Running) {
            (it.job.state, it.job.changed_ms) = (State::Cancelled, now());
        }
        it.job.clone()
    }))
}
