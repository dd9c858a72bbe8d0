//! One change of a job, done to the tables of a transaction.
//!
//! Place in the flow: `embedded.rs` calls it for every change of a transaction. In: the tables, the change.
//! Out: its answer.
//! Invariants: a change that is refused has changed nothing; a queued job is in one of `waiting` and
//! `delayed`, a running one in `running`, any other in none; a body is stored until its job is finished; the
//! numbers of an endpoint are the sums of what is stored.

mod batches;
mod deliveries;
mod submission;
mod upkeep;

use std::collections::HashMap;

use bytes::Bytes;
use redb::{ReadableTable as _, StorageError, Table, TableDefinition, WriteTransaction};

use super::queue::EndedJob;
use super::record::{self, now};
use super::{Answer, Job, JobError, JobState, Outcome, Pauses, Quota, Submission};
use crate::time::milliseconds;

/// Jobs as JSON, by their [`place`].
pub(super) const JOBS: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("jobs");
/// Bodies of jobs that are not finished, by place.
const BODIES: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("bodies");
/// Bodies of answers, by place.
pub(super) const RESULTS: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("results");
/// Jobs that wait for a place: endpoint, NUL, priority, number; the value is when the job was submitted and
/// its id.
pub(super) const WAITING: TableDefinition<'static, &[u8], (u64, &str)> = TableDefinition::new("waiting");
/// Jobs that wait for their time: endpoint, NUL, time, number; the value is the id.
pub(super) const DELAYED: TableDefinition<'static, &[u8], &str> = TableDefinition::new("delayed");
/// The places of jobs that run.
const RUNNING: TableDefinition<'static, &[u8], ()> = TableDefinition::new("running");
/// Webhooks that are pending: endpoint, NUL, origin, NUL, time, number; the value is the job's id.
pub(super) const DELIVERIES: TableDefinition<'static, &[u8], &str> = TableDefinition::new("deliveries");
/// Batches as JSON, by place.
pub(super) const BATCHES: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("batches");
/// The jobs of batches, in the order of their parts: endpoint, NUL, batch, NUL, number; the value is the id.
pub(super) const PARTS: TableDefinition<'static, &[u8], &str> = TableDefinition::new("parts");
/// Ids by endpoint, NUL, idempotency key.
const KEYS: TableDefinition<'static, &[u8], &str> = TableDefinition::new("keys");
/// The places of jobs with which something is to be done at a time, each behind the eight bytes of it.
const TIMES: TableDefinition<'static, &[u8], ()> = TableDefinition::new("times");
/// Of each endpoint: jobs queued, jobs running, bytes.
const NUMBERS: TableDefinition<'static, &str, (u64, u64, u64)> = TableDefinition::new("numbers");
/// The number of the job that comes next.
const NEXT: TableDefinition<'static, (), u64> = TableDefinition::new("next");

/// Most entries of one table that one change looks through.
const MOST: usize = 1000;
/// Text for a job that came to no attempt.
const TOO_LATE: &str = "the job waited longer than it may";
/// The pauses between attempts at a job that says nothing of them.
const USUAL_PAUSES: Pauses = Pauses { first: 1000, longest: 60_000 };

/// The tables of one transaction.
pub(super) struct Tables<'t> {
    jobs: Table<'t, &'static [u8], &'static [u8]>,
    bodies: Table<'t, &'static [u8], &'static [u8]>,
    results: Table<'t, &'static [u8], &'static [u8]>,
    waiting: Table<'t, &'static [u8], (u64, &'static str)>,
    delayed: Table<'t, &'static [u8], &'static str>,
    running: Table<'t, &'static [u8], ()>,
    deliveries: Table<'t, &'static [u8], &'static str>,
    batches: Table<'t, &'static [u8], &'static [u8]>,
    parts: Table<'t, &'static [u8], &'static str>,
    keys: Table<'t, &'static [u8], &'static str>,
    times: Table<'t, &'static [u8], ()>,
    numbers: Table<'t, &'static str, (u64, u64, u64)>,
    next: Table<'t, (), u64>,
    /// The numbers of the endpoints that this transaction has changed.
    touched: HashMap<String, Numbers>,
    /// The jobs that this transaction has claimed.
    pub(super) claims: Vec<Claim>,
    /// Whether anything has changed.
    pub(super) is_changed: bool,
}

/// An attempt that has begun, if it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Claim {
    endpoint: String,
    id: String,
    number: u64,
}

/// The sums of what is stored of one endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Numbers {
    pub(super) queued: u64,
    pub(super) running: u64,
    pub(super) bytes: u64,
    /// When the oldest job that waits for a place was submitted.
    pub(super) oldest: Option<u64>,
    /// Whether a job was queued.
    pub(super) has_ready: bool,
    /// Whether a webhook has become pending.
    pub(super) has_delivery: bool,
    /// How many more webhooks are pending than before.
    pub(super) webhooks: i64,
    /// Jobs that ran and are to run no more.
    pub(super) stopped: Vec<String>,
    /// Jobs that have ended.
    pub(super) ended: Vec<EndedJob>,
}

/// A change that was not made, or a store that has failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The rest of the transaction goes on.
    Refused(JobError),
    /// The transaction is lost.
    Store(StorageError),
}

impl From<StorageError> for Failure {
    fn from(error: StorageError) -> Failure {
        Failure::Store(error)
    }
}

impl From<JobError> for Failure {
    fn from(error: JobError) -> Failure {
        Failure::Refused(error)
    }
}

/// A place behind an endpoint's name, which has no NUL.
pub(super) fn place(endpoint: &str, rest: &[u8]) -> Vec<u8> {
    [endpoint.as_bytes(), &[0], rest].concat()
}

/// The end of all places of an endpoint.
pub(super) fn after(endpoint: &str) -> Vec<u8> {
    [endpoint.as_bytes(), &[1]].concat()
}

/// The endpoint of a place.
fn endpoint_of(place: &[u8]) -> String {
    String::from_utf8_lossy(place.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
}

fn waiting(endpoint: &str, job: &Job) -> Vec<u8> {
    place(endpoint, &[&[job.priority], &job.number.to_be_bytes()[..]].concat())
}

fn delayed(endpoint: &str, job: &Job) -> Vec<u8> {
    place(endpoint, &[job.due.to_be_bytes(), job.number.to_be_bytes()].concat())
}

fn timed(time: u64, place: &[u8]) -> Vec<u8> {
    [&time.to_be_bytes(), place].concat()
}

/// The time that a place in `delayed` is behind, and the endpoint before it.
pub(super) fn time_of(endpoint: &str, place: &[u8]) -> Option<u64> {
    let rest = place.strip_prefix(endpoint.as_bytes())?.strip_prefix(&[0])?;
    rest.first_chunk().copied().map(u64::from_be_bytes)
}

pub(super) use self::batches::decoded as batch_of;

/// A job of a table; one that cannot be read is none, as the log says.
pub(super) fn decoded(stored: &[u8]) -> Option<Job> {
    let said = |error: &serde_json::Error| {
        tracing::error!(
            "the record of a job cannot be read: {error}; hint: a later version may have written it"
        );
    };
    serde_json::from_slice(stored).inspect_err(said).ok()
}

impl<'t> Tables<'t> {
    pub(super) fn open(transaction: &'t WriteTransaction) -> Result<Tables<'t>, redb::TableError> {
        Ok(Tables {
            jobs: transaction.open_table(JOBS)?,
            bodies: transaction.open_table(BODIES)?,
            results: transaction.open_table(RESULTS)?,
            waiting: transaction.open_table(WAITING)?,
            delayed: transaction.open_table(DELAYED)?,
            running: transaction.open_table(RUNNING)?,
            deliveries: transaction.open_table(DELIVERIES)?,
            batches: transaction.open_table(BATCHES)?,
            parts: transaction.open_table(PARTS)?,
            keys: transaction.open_table(KEYS)?,
            times: transaction.open_table(TIMES)?,
            numbers: transaction.open_table(NUMBERS)?,
            next: transaction.open_table(NEXT)?,
            touched: HashMap::new(),
            claims: Vec::new(),
            is_changed: false,
        })
    }

    fn job(&self, endpoint: &str, id: &str) -> Result<Option<Job>, StorageError> {
        Ok(self.jobs.get(place(endpoint, id.as_bytes()).as_slice())?.and_then(|it| decoded(it.value())))
    }

    /// The numbers of an endpoint, to be changed.
    fn numbers(&mut self, endpoint: &str) -> Result<&mut Numbers, StorageError> {
        self.is_changed = true;
        if !self.touched.contains_key(endpoint) {
            let stored = self.numbers.get(endpoint)?.map_or((0, 0, 0), |numbers| numbers.value());
            let (queued, running, bytes) = stored;
            let numbers = Numbers { queued, running, bytes, ..Numbers::default() };
            self.touched.insert(endpoint.to_owned(), numbers);
        }
        Ok(self.touched.entry(endpoint.to_owned()).or_default())
    }

    /// Stores a job, and counts its record.
    fn put(&mut self, endpoint: &str, job: &Job) -> Result<(), StorageError> {
        let record = serde_json::to_vec(job).unwrap_or_default();
        let place = place(endpoint, job.id.as_bytes());
        let before = self.jobs.insert(place.as_slice(), record.as_slice())?.map_or(0, |it| it.value().len());
        let numbers = self.numbers(endpoint)?;
        numbers.bytes = (numbers.bytes + record.len() as u64).saturating_sub(before as u64);
        Ok(())
    }

    /// Puts a queued job to the others.
    fn enqueue(&mut self, endpoint: &str, job: &Job) -> Result<(), StorageError> {
        if job.due > now() {
            self.delayed.insert(delayed(endpoint, job).as_slice(), job.id.as_str())?;
        } else {
            let value = (job.submitted, job.id.as_str());
            self.waiting.insert(waiting(endpoint, job).as_slice(), value)?;
        }
        let numbers = self.numbers(endpoint)?;
        numbers.queued += 1;
        numbers.has_ready = true;
        Ok(())
    }

    /// Takes a queued job from the others.
    fn dequeue(&mut self, endpoint: &str, job: &Job) -> Result<(), StorageError> {
        self.waiting.remove(waiting(endpoint, job).as_slice())?;
        self.delayed.remove(delayed(endpoint, job).as_slice())?;
        let numbers = self.numbers(endpoint)?;
        numbers.queued = numbers.queued.saturating_sub(1);
        Ok(())
    }

    /// Puts those jobs whose time has come to those that wait for a place.
    fn promote(&mut self, endpoint: &str) -> Result<(), StorageError> {
        let now = now();
        let (from, to) = (place(endpoint, &[]), place(endpoint, &now.saturating_add(1).to_be_bytes()));
        let mut due = Vec::new();
        for entry in self.delayed.range(from.as_slice()..to.as_slice())?.take(MOST) {
            let (place, id) = entry?;
            due.push((place.value().to_vec(), id.value().to_owned()));
        }
        for (place, id) in due {
            self.delayed.remove(place.as_slice())?;
            self.is_changed = true;
            if let Some(job) = self.job(endpoint, &id)? {
                let value = (job.submitted, job.id.as_str());
                self.waiting.insert(waiting(endpoint, &job).as_slice(), value)?;
            }
        }
        Ok(())
    }

    pub(super) fn claim(&mut self, endpoint: &str) -> Result<Option<(Job, Bytes)>, Failure> {
        self.promote(endpoint)?;
        for _ in 0..MOST {
            let (from, to) = (place(endpoint, &[]), after(endpoint));
            let first = self.waiting.range(from.as_slice()..to.as_slice())?.next().transpose()?;
            let Some(found) =
                first.map(|(place, value)| (place.value().to_vec(), value.value().1.to_owned()))
            else {
                return Ok(None);
            };
            let Some(mut job) = self.job(endpoint, &found.1)? else {
                self.waiting.remove(found.0.as_slice())?;
                self.is_changed = true;
                continue;
            };
            self.dequeue(endpoint, &job)?;
            let now = now();
            if job.is_late(now) {
                self.finish(endpoint, job, JobState::Failed, Some(TOO_LATE.to_owned()), None)?;
                continue;
            }
            job.state = JobState::Running;
            job.attempt += 1;
            job.claims += 1;
            job.changed = now;
            self.put(endpoint, &job)?;
            let place = place(endpoint, job.id.as_bytes());
            self.running.insert(place.as_slice(), ())?;
            self.numbers(endpoint)?.running += 1;
            let (id, number) = (job.id.clone(), job.claims);
            self.claims.push(Claim { endpoint: endpoint.to_owned(), id, number });
            let body = self.bodies.get(place.as_slice())?.map(|body| Bytes::copy_from_slice(body.value()));
            return Ok(Some((job, body.unwrap_or_default())));
        }
        // The rest of those that waited too long comes with the next claim.
        Ok(None)
    }

    /// Takes a job from those that run.
    fn stop(&mut self, endpoint: &str, job: &Job) -> Result<(), StorageError> {
        self.running.remove(place(endpoint, job.id.as_bytes()).as_slice())?;
        let numbers = self.numbers(endpoint)?;
        numbers.running = numbers.running.saturating_sub(1);
        Ok(())
    }

    /// Ends the attempt of a claim; of one that has ended already, nothing.
    pub(super) fn end(
        &mut self,
        endpoint: &str,
        id: &str,
        claim: u64,
        outcome: Outcome,
    ) -> Result<(), Failure> {
        let current = self.job(endpoint, id)?;
        let is_it = |job: &Job| job.state == JobState::Running && job.claims == claim;
        let Some(mut job) = current.filter(is_it) else { return Ok(()) };
        self.stop(endpoint, &job)?;
        match outcome {
            Outcome::Answered { is_ok, answer, body } => {
                let state = if is_ok { JobState::Completed } else { JobState::Failed };
                self.finish(endpoint, job, state, None, Some((answer, body)))?;
            }
            Outcome::Failed { error, answer } if job.attempt >= job.attempts => {
                self.finish(endpoint, job, JobState::Failed, Some(error), answer)?;
            }
            Outcome::Failed { error, .. } => {
                let Pauses { first, longest } = job.pauses.unwrap_or(USUAL_PAUSES);
                let pause = record::pause(job.attempt, job.number.wrapping_mul(7919), first, longest);
                job.error = Some(error);
                self.again(endpoint, job, pause)?;
            }
            Outcome::NotTried { delay } => {
                job.attempt = job.attempt.saturating_sub(1);
                self.again(endpoint, job, milliseconds(delay))?;
            }
            Outcome::CutOff => {
                job.attempt = job.attempt.saturating_sub(1);
                job.start_by = None;
                self.again(endpoint, job, 0)?;
            }
        }
        Ok(())
    }

    /// Queues a job again that has run.
    fn again(&mut self, endpoint: &str, mut job: Job, pause: u64) -> Result<(), StorageError> {
        job.state = JobState::Queued;
        job.changed = now();
        job.due = job.changed.saturating_add(pause);
        self.put(endpoint, &job)?;
        self.enqueue(endpoint, &job)
    }

    /// Finishes a job that is in no table of those that are not.
    fn finish(
        &mut self,
        endpoint: &str,
        mut job: Job,
        state: JobState,
        error: Option<String>,
        answer: Option<(Answer, Bytes)>,
    ) -> Result<(), StorageError> {
        let place = place(endpoint, job.id.as_bytes());
        let before = self.bodies.remove(place.as_slice())?.map_or(0, |body| body.value().len());
        let mut size = 0;
        job.answer = None;
        if let Some((answer, body)) = answer {
            self.results.insert(place.as_slice(), &*body)?;
            size = body.len() as u64;
            job.answer = Some(answer);
        }
        let numbers = self.numbers(endpoint)?;
        numbers.bytes = (numbers.bytes + size).saturating_sub(before as u64);
        job.state = state;
        let took = now().saturating_sub(job.changed);
        job.changed = now();
        job.error = error;
        let ended = EndedJob { id: job.id.clone(), state, error: job.failure() };
        self.numbers(endpoint)?.ended.push(ended);
        self.deliver(endpoint, &mut job)?;
        self.put(endpoint, &job)?;
        self.times.insert(timed(job.changed.saturating_add(job.keep), &place).as_slice(), ())?;
        self.part_ended(endpoint, &job, took)
    }

    pub(super) fn cancel(
        &mut self,
        endpoint: &str,
        id: &str,
        is_queued_only: bool,
    ) -> Result<Option<Job>, Failure> {
        let Some(job) = self.job(endpoint, id)? else { return Ok(None) };
        match job.state {
            JobState::Queued => self.dequeue(endpoint, &job)?,
            JobState::Running if !is_queued_only => {
                self.stop(endpoint, &job)?;
                self.numbers(endpoint)?.stopped.push(job.id.clone());
            }
            _ => return Ok(Some(job)),
        }
        self.finish(endpoint, job, JobState::Cancelled, None, None)?;
        Ok(self.job(endpoint, id)?)
    }

    /// Writes the numbers of the endpoints that were changed, and gives them.
    pub(super) fn settle(&mut self) -> Result<Vec<(String, Numbers)>, StorageError> {
        let mut all = Vec::new();
        for (endpoint, mut numbers) in std::mem::take(&mut self.touched) {
            self.numbers.insert(endpoint.as_str(), (numbers.queued, numbers.running, numbers.bytes))?;
            numbers.oldest = self.oldest(&endpoint)?;
            all.push((endpoint, numbers));
        }
        Ok(all)
    }

    /// The numbers of all endpoints, all webhooks that are pending among them.
    pub(super) fn all_numbers(&self) -> Result<Vec<(String, Numbers)>, StorageError> {
        let mut all = Vec::new();
        for entry in self.numbers.iter()? {
            let (endpoint, numbers) = entry?;
            let (queued, running, bytes) = numbers.value();
            let oldest = self.oldest(endpoint.value())?;
            let webhooks = self.pending(endpoint.value())?;
            let numbers = Numbers { queued, running, bytes, oldest, webhooks, ..Numbers::default() };
            all.push((endpoint.value().to_owned(), numbers));
        }
        Ok(all)
    }

    /// When the oldest of those was submitted that wait for a place.
    fn oldest(&self, endpoint: &str) -> Result<Option<u64>, StorageError> {
        let mut oldest: Option<u64> = None;
        for priority in 0..=super::LAST_PRIORITY {
            let (from, to) = (place(endpoint, &[priority]), place(endpoint, &[priority + 1]));
            if let Some(first) = self.waiting.range(from.as_slice()..to.as_slice())?.next() {
                let submitted = first?.1.value().0;
                oldest = Some(oldest.map_or(submitted, |oldest| oldest.min(submitted)));
            }
        }
        Ok(oldest)
    }
}
