//! A steady stream of requests beside a test, every answer of which is kept.
//!
//! In: a [`Pattern`]. Out: one [`Answer`] a request, whatever became of it.
//! Invariant: every body and request id is sent once only, so an answer that belongs to another request shows.

use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::wire::{self, Wire};
use crate::{Reply, wait_until};

/// Held by tests that keep every core busy or measure time, so that they do not measure each other.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is sent, and how.
#[derive(Clone)]
pub struct Pattern {
    /// `http://HOST:PORT`
    pub url: String,
    /// Path of the endpoint.
    pub path: &'static str,
    /// Clients, each with one request at a time.
    pub clients: usize,
    /// Between an answer and the same client's next request.
    pub pause: Duration,
    /// Whether a client keeps its connection for the next request.
    pub keep: bool,
    /// Makes the body from the request's unique name.
    pub body: fn(&str) -> String,
}

impl Pattern {
    /// Two clients on kept connections whose bodies are the requests' names.
    pub fn new(url: &str, path: &'static str) -> Pattern {
        let pause = Duration::from_millis(3);
        Pattern { url: url.to_owned(), path, clients: 2, pause, keep: true, body: str::to_owned }
    }

    /// Starts the clients.
    pub fn start(self) -> Load {
        let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let clients = (0..self.clients)
            .map(|client| {
                let (pattern, stop, count) = (self.clone(), stop.clone(), count.clone());
                thread::spawn(move || pattern.run(client, &stop, &count))
            })
            .collect();
        Load { stop, count, clients }
    }

    /// One client: sends until it is told to stop or its connection fails.
    fn run(&self, client: usize, stop: &AtomicBool, count: &AtomicUsize) -> Vec<Answer> {
        let mut answers = Vec::new();
        let mut kept: Option<Wire> = None;
        for n in 0.. {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let id = format!("{}-{client}-{n}", self.path.trim_start_matches('/'));
            let body = (self.body)(&id);
            let started = Instant::now();
            let is_first = kept.is_none();
            let mut attempt = || -> io::Result<(Wire, Reply)> {
                let mut wire = kept.take().map_or_else(|| Wire::connect(&self.url), Ok)?;
                wire.send(&wire::post(self.path, &[("x-request-id", &id)], &body))?;
                let reply = wire.read()?;
                Ok((wire, reply))
            };
            let outcome = attempt().map(|(wire, reply)| {
                kept = Some(wire).filter(|_| self.keep && reply.header("connection") != Some("close"));
                reply
            });
            let failed = outcome.is_err();
            answers.push(Answer { id, body, is_first, latency: started.elapsed(), outcome });
            count.fetch_add(1, Ordering::Relaxed);
            if failed {
                break;
            }
            thread::sleep(self.pause);
        }
        answers
    }
}

/// Clients at work.
pub struct Load {
    stop: Arc<AtomicBool>,
    count: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<Vec<Answer>>>,
}

impl Load {
    /// Waits until `n` more requests have been answered.
    pub fn wait_for_more(&self, n: usize) {
        let wanted = self.count.load(Ordering::Relaxed) + n;
        wait_until("more answers under load", || self.count.load(Ordering::Relaxed) >= wanted);
    }

    /// Waits until every client's connection has failed, as it does when the host ends, and gives all answers.
    pub fn until_broken(self) -> Vec<Answer> {
        wait_until("every client to meet the end", || self.clients.iter().all(JoinHandle::is_finished));
        self.stop()
    }

    /// Lets every client finish its request and gives all answers.
    pub fn stop(self) -> Vec<Answer> {
        self.stop.store(true, Ordering::Relaxed);
        self.clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    }
}

/// One request and what became of it.
pub struct Answer {
    /// Its request id.
    pub id: String,
    /// What was sent.
    pub body: String,
    /// Whether no other request had been sent on its connection.
    pub is_first: bool,
    /// From before the connection was made to the last byte of the answer.
    pub latency: Duration,
    /// An error is one of the connection, never a status.
    pub outcome: io::Result<Reply>,
}

impl Answer {
    /// The reply; panics if the connection failed or the status is not 200.
    pub fn ok(&self) -> &Reply {
        match &self.outcome {
            Ok(reply) if reply.status == 200 => reply,
            Ok(reply) => panic!("request {}: {} {}", self.id, reply.status, reply.text()),
            Err(error) => {
                let place = if self.is_first { "the first" } else { "a later one" };
                panic!("request {}, {place} of its connection, after {:?}: {error}", self.id, self.latency)
            }
        }
    }

    /// Whether nobody was listening any more, so that the request never reached a host.
    pub fn was_refused(&self) -> bool {
        self.outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    }
}

/// Asserts that the guest `echo` answered every request with its own body and id, all but one in a thousand within `limit`, and
/// none in four times as long: other tests compile meanwhile, and the kernel lets a client wait now and then.
pub fn assert_echoed(answers: &[Answer], limit: Duration) {
    for answer in answers {
        let echo = answer.ok().json();
        let found = (echo["body"].as_str(), echo["request_id"].as_str());
        assert_eq!(found, (Some(&*answer.body), Some(&*answer.id)), "another request's answer");
        assert!(answer.latency < limit * 4, "request {} took {:?}", answer.id, answer.latency);
    }
    let late = answers.iter().filter(|answer| answer.latency >= limit).count();
    assert!(late <= answers.len() / 1000, "{late} of {} requests took {limit:?} or longer", answers.len());
}
