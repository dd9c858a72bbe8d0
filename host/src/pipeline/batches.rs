//! The requests of an application that are served together: a queue, and a call of `respond-all` for each
//! batch.
//!
//! Flow: `application → [batches] → plugin`, for `POST`s to the paths that the handler serves together.
//! In: a request whose body is there. Out: its own response.
//!
//! Which requests run together, and when, is decided by the policy of model batches, `model/schedule.rs`. A
//! batch runs in a task of its own, so that no request's end is that of another.
//!
//! Invariants: a request that is dropped while it waits leaves the queue at once; a batch of which all have
//! left is dropped, with its instance; every other one has an answer or an error for each of its requests. A
//! batch is of one generation, and so are its requests. Only an endpoint with `batching.max_requests` has a
//! queue.

use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::handler_models::checkout;
use super::models::Models;
use super::plan::RunPlan;
use crate::error::{Code, RequestError, Stage};
use crate::model::schedule::{self, Batching, Next, Waiting};
use crate::plugin::{Answers, Plugin};
use crate::request::exchange::Progress;
use crate::request::{Request, Response};
use crate::telemetry::metrics::BatchSizes;

/// The requests of one generation that wait for others, and all that a batch needs.
pub struct Batches {
    plugin: Arc<Plugin>,
    models: Models,
    batching: Batching,
    sizes: BatchSizes,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Member>,
    /// Counts requests.
    numbers: u64,
    /// Whether a task sleeps until the oldest has waited long enough.
    is_timed: bool,
}

struct Member {
    number: u64,
    arrived: Instant,
    request: Arc<Request>,
    answer: oneshot::Sender<Answer>,
}

/// How long a request waited for others, and what came of it.
type Answer = (Duration, Result<Response, RequestError>);

impl Waiting for Member {
    fn arrived(&self) -> Instant {
        self.arrived
    }

    fn rows(&self) -> Option<usize> {
        Some(1)
    }

    fn fits(&self, other: &Member) -> bool {
        self.request.head.path() == other.request.head.path()
    }
}

impl Batches {
    /// The queue of a generation whose handler serves requests together, if the configuration wants that.
    pub fn new(
        plugin: Option<&Arc<Plugin>>,
        models: &Models,
        batching: Batching,
        sizes: &BatchSizes,
    ) -> Option<Arc<Batches>> {
        let plugin = plugin.filter(|_| batching.max_batch > 1)?.clone();
        if !plugin.stages().respond_all {
            tracing::warn!(endpoint = %plugin.config().endpoint,
                "`batching.max_requests` does nothing here: the handler does not export `respond-all`");
            return None;
        }
        let (models, sizes) = (models.clone(), sizes.clone());
        Some(Arc::new(Batches { plugin, models, batching, sizes, state: Mutex::default() }))
    }

    /// Puts a request at the end of the queue. Dropping the ticket takes it out again.
    pub(super) fn join(self: &Arc<Self>, request: &Arc<Request>) -> Ticket {
        let (answer, answered) = oneshot::channel();
        let mut state = self.lock();
        state.numbers += 1;
        let number = state.numbers;
        let arrived = Instant::now();
        state.waiting.push_back(Member { number, arrived, request: request.clone(), answer });
        drop(state);
        if let Some(due) = self.look(false) {
            tokio::spawn(self.clone().keep_time(due));
        }
        Ticket { batches: self.clone(), number, answered }
    }

    /// Begins the batches that are due. When the next one is, if that is for the caller to wait for.
    fn look(self: &Arc<Self>, is_timer: bool) -> Option<Instant> {
        loop {
            let mut state = self.lock();
            match schedule::next(&state.waiting, &self.batching, Instant::now()) {
                Next::Run(places) => {
                    // From the back, so that the places before stay what they are.
                    let members = places.iter().rev().filter_map(|place| state.waiting.remove(*place));
                    let mut members: Vec<Member> = members.collect();
                    drop(state);
                    members.reverse();
                    tokio::spawn(self.clone().run(members));
                }
                Next::At(due) => {
                    return (is_timer || !std::mem::replace(&mut state.is_timed, true)).then_some(due);
                }
                Next::Nothing => {
                    state.is_timed &= !is_timer;
                    return None;
                }
            }
        }
    }

    /// Looks again when the next batch is due, until none waits.
    async fn keep_time(self: Arc<Self>, mut due: Instant) {
        loop {
            tokio::time::sleep_until(due.into()).await;
            match self.look(true) {
                Some(next) => due = next,
                None => return,
            }
        }
    }

    /// Runs a batch, unless all of its requests have left.
    async fn run(self: Arc<Self>, members: Vec<Member>) {
        let begun = Instant::now();
        self.sizes.record(members.len());
        let requests: Vec<Arc<Request>> = members.iter().map(|member| member.request.clone()).collect();
        let (waited, mut answers): (Vec<Duration>, Vec<oneshot::Sender<Answer>>) = members
            .into_iter()
            .map(|member| (begun.saturating_duration_since(member.arrived), member.answer))
            .unzip();
        let ended = {
            let call = pin!(self.call(&requests));
            let all_left = async {
                for answer in &mut answers {
                    answer.closed().await;
                }
            };
            tokio::select! {
                biased;
                ended = call => ended,
                () = all_left => return,
            }
        };
        let ended = ended.unwrap_or_else(|error| requests.iter().map(|_| Err(error.clone())).collect());
        for ((waited, answer), ended) in waited.into_iter().zip(answers).zip(ended) {
            // It may have left.
            let _ = answer.send((waited, ended));
        }
    }

    /// Has an instance serve them.
    async fn call(&self, requests: &[Arc<Request>]) -> Result<Answers, RequestError> {
        let last = requests.iter().max_by_key(|request| request.deadline).ok_or_else(unserved)?;
        let plan = RunPlan { calls_out: true, ..RunPlan::default() };
        let mut lease = checkout(&self.models, &self.plugin, last, &plan, None).await?;
        let ended = lease.respond_all(requests, &Arc::new(Progress::new())).await;
        if matches!(ended, Some(Ok(_))) {
            lease.finish();
        }
        ended.ok_or_else(unserved)?
    }

    /// Nothing that can panic runs while the lock is held with the state half changed.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unserved() -> RequestError {
    RequestError::new(Code::Internal, Stage::PreInference, "the batch was not served")
}

/// The wait for one request's answer.
pub(super) struct Ticket {
    batches: Arc<Batches>,
    number: u64,
    answered: oneshot::Receiver<Answer>,
}

impl Future for Ticket {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        let answer = ready!(Pin::new(&mut self.answered).poll(context));
        Poll::Ready(answer.unwrap_or_else(|_| (Duration::ZERO, Err(unserved()))))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // Answered, or on its way: a batch has it.
        if self.answered.is_terminated() {
            return;
        }
        let mut state = self.batches.lock();
        if let Ok(place) = state.waiting.binary_search_by_key(&self.number, |member| member.number) {
            let member = state.waiting.remove(place);
            // Its body may be large: it is freed without the lock.
            drop(state);
            drop(member);
        }
    }
}
