//! The requests that wait for a model, in one queue per client, that is per
//! [`ModelHandle`](super::ModelHandle).
//!
//! Flow: `handle → [queue] → runner`.
//! In:   verified inputs. Out: to a runner, the [`Job`]s of one run; to the caller, a [`Ticket`] that
//!       resolves to its answer.
//!
//! The per-client queues take turns, so an endpoint that sends much does not delay one that sends little;
//! within a queue the policy of `schedule.rs` decides. A queue is as long as its endpoint's admission lets it
//! be (`limits.concurrency`).
//!
//! # Who is woken
//! A request wakes one runner: of the parked ones the one that worked last, whose session is still in a
//! core's caches. It wakes none if one is about to poll the queue, because it is just answering its last
//! request. A client that asks again at once would otherwise wake a second runner for nothing each time, and
//! that one would wait for a core while the first works.
//!
//! Invariants: a request that is dropped while it waits leaves its queue at once, before it costs model time;
//! every request that a runner takes gets an answer, or its sender is dropped, which the caller sees.

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::batch;
use super::error::ModelError;
use super::prediction::Prediction;
use super::schedule::{self, Batching, Next, Waiting};
use crate::tensor::Tensor;

/// A request that waits.
#[derive(Debug)]
pub struct Job {
    number: u64,
    arrived: Instant,
    rows: Option<usize>,
    /// The most rows of a run, padding among them.
    most: usize,
    /// Verified inputs, in signature order.
    pub inputs: Vec<Tensor>,
    /// Where its answer goes.
    pub answer: oneshot::Sender<Result<Prediction, ModelError>>,
}

impl Job {
    /// How long it waited until `now`.
    pub fn waited(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.arrived)
    }

    /// Its rows, 1 if it has none to share.
    pub fn rows(&self) -> usize {
        self.rows.unwrap_or(1)
    }

    /// The most rows that a run of it may have; none if it is not to be padded.
    pub fn most_rows(&self) -> Option<usize> {
        self.rows.map(|_| self.most).filter(|most| *most > 1)
    }
}

impl Waiting for Job {
    fn arrived(&self) -> Instant {
        self.arrived
    }

    fn rows(&self) -> Option<usize> {
        self.rows
    }

    fn fits(&self, other: &Job) -> bool {
        batch::fit(&self.inputs, &other.inputs)
    }
}

/// Which per-client queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientId(u64);

/// The per-client queues of one model.
#[derive(Debug, Default)]
pub struct Queue {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    clients: BTreeMap<ClientId, ClientQueue>,
    /// The queue that was served last.
    last: Option<ClientId>,
    /// Counts clients and jobs.
    numbers: u64,
    /// Runners that found nothing to do; the last one parked is on top.
    parked: Vec<Thread>,
    /// Runners that will ask for work in a moment.
    about_to_poll: usize,
    closed: bool,
}

#[derive(Debug)]
struct ClientQueue {
    batching: Batching,
    jobs: VecDeque<Job>,
}

impl Queue {
    /// Opens a queue for one client.
    pub fn open(&self, batching: Batching) -> ClientId {
        let mut state = self.lock();
        state.numbers += 1;
        let id = ClientId(state.numbers);
        state.clients.insert(id, ClientQueue { batching, jobs: VecDeque::new() });
        id
    }

    /// Closes a client's queue. Callers who still wait in it, of whom there should be none, see their answer
    /// dropped.
    pub fn close_client(&self, id: ClientId) {
        self.lock().clients.remove(&id);
    }

    /// Puts a request at the end of a client's queue. Dropping the ticket takes it out again.
    pub fn submit(self: &Arc<Self>, client: ClientId, inputs: Vec<Tensor>) -> Ticket {
        let rows = batch::rows(&inputs);
        self.push(client, inputs, rows)
    }

    /// As [`Queue::submit`], for a request that shares its run with no other.
    pub fn submit_alone(self: &Arc<Self>, client: ClientId, inputs: Vec<Tensor>) -> Ticket {
        self.push(client, inputs, None)
    }

    fn push(self: &Arc<Self>, client: ClientId, inputs: Vec<Tensor>, rows: Option<usize>) -> Ticket {
        let (answer, answered) = oneshot::channel();
        let mut state = self.lock();
        state.numbers += 1;
        let number = state.numbers;
        if let Some(client) = state.clients.get_mut(&client) {
            // A row's answer must not depend on padding.
            let most = if client.batching.trust_rows { 1 } else { client.batching.max_batch };
            client.jobs.push_back(Job { number, arrived: Instant::now(), rows, most, inputs, answer });
        }
        let runner = state.next_runner();
        drop(state);
        if let Some(runner) = runner {
            runner.unpark();
        }
        Ticket { queue: Arc::clone(self), client, number, answered }
    }

    /// The calling thread as a runner.
    pub fn runner(&self) -> Runner<'_> {
        Runner { queue: self, thread: thread::current(), is_about_to_poll: false }
    }

    /// Sends the runners home. What still waits is dropped.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.clients.clear();
        let parked = mem::take(&mut state.parked);
        drop(state);
        for runner in parked {
            runner.unpark();
        }
    }

    /// Nothing that can panic runs while the lock is held with the state half changed.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The jobs of the next run, out of the first queue in turn that has one; or when the next one is due.
    fn next(&mut self, now: Instant) -> Result<Vec<Job>, Option<Instant>> {
        let mut due: Option<Instant> = None;
        let split = self.last.map_or(ClientId(0), |ClientId(last)| ClientId(last + 1));
        let turn = self.clients.range(split..).chain(self.clients.range(..split));
        let mut found = None;
        for (id, client) in turn {
            match schedule::next(&client.jobs, &client.batching, now) {
                Next::Run(places) => {
                    found = Some((*id, places));
                    break;
                }
                Next::At(time) => due = Some(due.map_or(time, |due| due.min(time))),
                Next::Nothing => {}
            }
        }
        let Some((id, places)) = found else { return Err(due) };
        self.last = Some(id);
        let client = self.clients.get_mut(&id);
        // From the back, so that the places before stay what they are.
        let take = |client: &mut ClientQueue| {
            places.iter().rev().filter_map(|place| client.jobs.remove(*place)).collect()
        };
        let mut jobs: Vec<Job> = client.map(take).unwrap_or_default();
        jobs.reverse();
        Ok(jobs)
    }

    /// The parked runner to wake for new work, unless one is about to poll.
    fn next_runner(&mut self) -> Option<Thread> {
        if self.about_to_poll == 0 { self.parked.pop() } else { None }
    }
}

/// A thread that runs what waits.
#[derive(Debug)]
pub struct Runner<'a> {
    queue: &'a Queue,
    thread: Thread,
    /// Whether it is one of [`State::about_to_poll`].
    is_about_to_poll: bool,
}

impl Runner<'_> {
    /// Says that it will ask for work in a moment, so that no other is woken for what arrives until then.
    pub fn announce(&mut self) {
        if !mem::replace(&mut self.is_about_to_poll, true) {
            self.queue.lock().about_to_poll += 1;
        }
    }

    /// Waits for work, on behalf of a free session; `None` once the queue is closed. To be called on the
    /// runner's own thread.
    pub fn take(&mut self) -> Option<Vec<Job>> {
        let mut state = self.queue.lock();
        self.arrive(&mut state);
        loop {
            if state.closed {
                return None;
            }
            let now = Instant::now();
            let due = match state.next(now) {
                Ok(jobs) => {
                    // The parked runners may have parked until these were due; now others are.
                    let more = state.clients.values().any(|client| !client.jobs.is_empty());
                    let next = if more { state.next_runner() } else { None };
                    drop(state);
                    if let Some(runner) = next {
                        runner.unpark();
                    }
                    return Some(jobs);
                }
                Err(due) => due,
            };
            state.parked.push(self.thread.clone());
            drop(state);
            match due {
                Some(due) => thread::park_timeout(due.saturating_duration_since(now)),
                None => thread::park(),
            }
            state = self.queue.lock();
            // Unless another thread woke it: then it is out already.
            state.parked.retain(|other| other.id() != self.thread.id());
        }
    }

    fn arrive(&mut self, state: &mut State) {
        if mem::take(&mut self.is_about_to_poll) {
            state.about_to_poll -= 1;
        }
    }
}

impl Drop for Runner<'_> {
    fn drop(&mut self) {
        let queue = self.queue;
        self.arrive(&mut queue.lock());
    }
}

/// The wait for one request's answer.
#[derive(Debug)]
pub struct Ticket {
    queue: Arc<Queue>,
    client: ClientId,
    number: u64,
    answered: oneshot::Receiver<Result<Prediction, ModelError>>,
}

impl Future for Ticket {
    type Output = Result<Prediction, ModelError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready!(Pin::new(&mut self.answered).poll(context));
        Poll::Ready(answer.unwrap_or_else(|_| Err(ModelError::Run("the model was unloaded".to_owned()))))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // Answered, or on its way: a runner has it.
        if self.answered.is_terminated() {
            return;
        }
        let mut state = self.queue.lock();
        let Some(client) = state.clients.get_mut(&self.client) else { return };
        if let Ok(place) = client.jobs.binary_search_by_key(&self.number, |job| job.number) {
            let job = client.jobs.remove(place);
            // Its inputs may be large: they are freed without the lock.
            drop(state);
            drop(job);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Wait;
    use crate::model::testing::UNBATCHED;
    use crate::tensor::Datatype;

    fn inputs(value: u8) -> Vec<Tensor> {
        vec![Tensor::new("x".into(), Datatype::Uint8, vec![1], vec![value].into()).unwrap()]
    }

    fn values(jobs: Option<Vec<Job>>) -> Vec<u8> {
        jobs.unwrap_or_default().iter().map(|job| job.inputs[0].data[0]).collect()
    }

    fn batching(max_batch: usize) -> Batching {
        Batching { max_batch, max_delay: Duration::from_millis(20), wait: Wait::Always, ..UNBATCHED }
    }

    #[test]
    fn lines_take_turns() {
        let queue = Arc::new(Queue::default());
        let (busy, quiet) = (queue.open(batching(2)), queue.open(batching(1)));
        let _tickets = [10, 11, 12, 13, 14].map(|value| queue.submit(busy, inputs(value)));
        let _ticket = queue.submit(quiet, inputs(20));
        assert_eq!(values(queue.runner().take()), [10, 11]);
        assert_eq!(values(queue.runner().take()), [20]);
        assert_eq!(values(queue.runner().take()), [12, 13]);
        // The last one waits for company, but not for ever.
        assert_eq!(values(queue.runner().take()), [14]);
    }

    #[test]
    fn who_leaves_costs_nothing() {
        let queue = Arc::new(Queue::default());
        let client = queue.open(batching(8));
        let mut tickets: Vec<_> = (0..5).map(|value| Some(queue.submit(client, inputs(value)))).collect();
        tickets[0] = None;
        tickets[3] = None;
        assert_eq!(values(queue.runner().take()), [1, 2, 4]);
        drop(tickets);
        // A closed client's queue, and a closed model's, tell those who wait.
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let waiting = queue.submit(client, inputs(0));
        queue.close_client(client);
        assert!(runtime.block_on(waiting).is_err());
        let client = queue.open(batching(8));
        let waiting = queue.submit(client, inputs(0));
        queue.close();
        assert!(runtime.block_on(waiting).is_err());
        assert!(runtime.block_on(queue.submit(client, inputs(0))).is_err());
        assert!(queue.runner().take().is_none());
    }

    #[test]
    fn a_runner_that_waits_is_woken_by_the_batch_that_fills() {
        let queue = Arc::new(Queue::default());
        let client = queue.open(Batching { max_delay: Duration::from_secs(3600), ..batching(2) });
        let runner = std::thread::spawn({
            let queue = Arc::clone(&queue);
            move || values(queue.runner().take())
        });
        let _second = queue.submit(client, inputs(2));
        let _third = queue.submit(client, inputs(3));
        assert_eq!(runner.join().unwrap(), [2, 3]);
    }

    #[test]
    fn nobody_is_woken_for_what_a_runner_comes_for() {
        let queue = Arc::new(Queue::default());
        let client = queue.open(batching(1));
        let parked = || queue.lock().parked.len();
        let mut runner = queue.runner();
        runner.announce();
        let _first = queue.submit(client, inputs(1));
        let other = thread::spawn({
            let queue = Arc::clone(&queue);
            move || [values(queue.runner().take()), values(queue.runner().take())]
        });
        // It takes the first, for it asks before the one that was announced, and parks.
        while parked() == 0 {
            thread::yield_now();
        }
        let _second = queue.submit(client, inputs(2));
        assert_eq!(parked(), 1, "the runner that is_about_to_poll will take it");
        let _third = queue.submit(client, inputs(3));
        // It takes one and wakes the other for the rest.
        assert_eq!(values(runner.take()), [2]);
        assert_eq!(other.join().unwrap(), [[1], [3]]);
        // One that never came is not waited for.
        runner.announce();
        drop(runner);
        assert_eq!(queue.lock().about_to_poll, 0);
    }

    #[test]
    fn the_runner_that_worked_last_works_next() {
        let queue = Arc::new(Queue::default());
        let client = queue.open(batching(1));
        let (say, said) = std::sync::mpsc::channel();
        let runners: Vec<_> = (0..3)
            .map(|index| {
                let (queue, say) = (Arc::clone(&queue), say.clone());
                thread::spawn(move || {
                    let mut runner = queue.runner();
                    while runner.take().is_some() {
                        say.send(index).unwrap();
                    }
                })
            })
            .collect();
        let rest = || {
            while queue.lock().parked.len() < runners.len() {
                thread::yield_now();
            }
        };
        rest();
        let turns = [(); 20].map(|()| {
            let _ticket = queue.submit(client, inputs(0));
            let index: usize = said.recv().unwrap();
            rest();
            index
        });
        assert!(turns.iter().all(|index| *index == turns[0]), "{turns:?}");
        queue.close();
        for runner in runners {
            runner.join().unwrap();
        }
    }
}
