//! Connections that send one request after the other, and the count of what came of them.
//!
//! In: a request, and for how long to send it. Out: a [`Tally`].
//! Invariants: a latency is that of the whole answer, to its last byte. In an open loop it begins when the
//! request was due, also if no connection was free then, so that a slow answer does not hide those behind it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::{sleep_until, timeout};

use super::Plan;
use super::histogram::Histogram;

/// The request that is sent again and again.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    /// `HOST:PORT`
    pub(super) address: String,
    pub(super) request: Request<Full<Bytes>>,
}

/// The outcome of some requests.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    /// From the first request to the last answer.
    pub(super) took: Duration,
    /// Of the answers that are successes.
    pub(super) latencies: Histogram,
    /// Answers by their status.
    pub(super) statuses: BTreeMap<u16, u64>,
    /// Requests without an answer, by the cause.
    pub(super) failures: BTreeMap<&'static str, u64>,
    /// Requests of an open loop that were due and not sent, for want of a free connection.
    pub(super) unsent: u64,
}

impl Tally {
    fn count(&mut self, outcome: Result<u16, &'static str>, latency: Duration) {
        match outcome {
            Ok(status) => {
                *self.statuses.entry(status).or_default() += 1;
                if is_success(status) {
                    self.latencies.record(latency);
                }
            }
            Err(cause) => *self.failures.entry(cause).or_default() += 1,
        }
    }

    /// This and the other.
    pub(super) fn and(mut self, other: &Tally) -> Tally {
        self.took += other.took;
        self.unsent += other.unsent;
        self.latencies.add(&other.latencies);
        other.statuses.iter().for_each(|(status, count)| *self.statuses.entry(*status).or_default() += count);
        other.failures.iter().for_each(|(cause, count)| *self.failures.entry(cause).or_default() += count);
        self
    }

    /// Every request that was sent.
    pub(super) fn sent(&self) -> u64 {
        self.statuses.values().chain(self.failures.values()).sum()
    }

    /// The requests that were answered with success.
    pub(super) fn succeeded(&self) -> u64 {
        self.latencies.len()
    }

    /// Those of them in a second.
    pub(super) fn rate(&self) -> f64 {
        self.succeeded() as f64 / self.took.as_secs_f64().max(1e-9)
    }
}

/// Whether a status is one of success.
pub(super) fn is_success(status: u16) -> bool {
    (200..300).contains(&status)
}

/// The connections to one target, which are kept between two rounds.
pub(super) struct Load {
    sample: Arc<Sample>,
    plan: Plan,
    connections: Vec<Connection>,
}

impl Load {
    pub(super) fn new(sample: Sample, plan: Plan) -> Load {
        let connections = (0..plan.connections).map(|_| Connection(None)).collect();
        Load { sample: Arc::new(sample), plan, connections }
    }

    /// Sends requests for so long, and waits for their answers.
    pub(super) async fn run(&mut self, duration: Duration) -> Tally {
        let begun = Instant::now();
        let schedule = Arc::new(Schedule {
            begun,
            end: begun + duration,
            interval: self.plan.rate.map(|rate| Duration::from_secs_f64(1.0 / rate)),
            next: AtomicU64::new(0),
        });
        let timeout = self.plan.timeout;
        let workers: Vec<_> = std::mem::take(&mut self.connections)
            .into_iter()
            .map(|mut connection| {
                let (sample, schedule) = (self.sample.clone(), schedule.clone());
                tokio::spawn(async move {
                    let tally = send(&mut connection, &sample, &schedule, timeout).await;
                    (connection, tally)
                })
            })
            .collect();
        let mut total = Tally::default();
        for worker in workers {
            // A task that panicked has no connection to give back.
            if let Ok((connection, tally)) = worker.await {
                total = total.and(&tally);
                self.connections.push(connection);
            }
        }
        total.took = begun.elapsed();
        total.unsent = schedule.due().saturating_sub(total.sent());
        total
    }
}

/// When requests are due.
struct Schedule {
    begun: Instant,
    end: Instant,
    /// Between two requests of an open loop.
    interval: Option<Duration>,
    /// The number of the next request of an open loop.
    next: AtomicU64,
}

impl Schedule {
    /// Waits until the next request is due, and gives the time that its latency begins at; `None` when there
    /// are no more.
    async fn next(&self) -> Option<Instant> {
        let due = match self.interval {
            None => Instant::now(),
            Some(interval) => {
                let number = self.next.fetch_add(1, Ordering::Relaxed);
                self.begun + interval.mul_f64(number as f64)
            }
        };
        if due >= self.end {
            return None;
        }
        if due <= Instant::now() {
            return (Instant::now() < self.end).then_some(due);
        }
        sleep_until(due.into()).await;
        // What the timer was late is not the server's time.
        Some(Instant::now())
    }

    /// How many requests of an open loop were due in all.
    fn due(&self) -> u64 {
        let time = self.end - self.begun;
        self.interval.map_or(0, |interval| (time.as_secs_f64() / interval.as_secs_f64()).ceil() as u64)
    }
}

/// Sends requests on one connection, each when the one before it was answered.
async fn send(connection: &mut Connection, sample: &Sample, schedule: &Schedule, longest: Duration) -> Tally {
    let mut tally = Tally::default();
    while let Some(due) = schedule.next().await {
        let outcome = timeout(longest, connection.ask(sample)).await.unwrap_or_else(|_| {
            // Its answer may still come.
            connection.0 = None;
            Err("timeout")
        });
        let is_refused = outcome == Err(REFUSED);
        tally.count(outcome, due.elapsed());
        if is_refused {
            // A server that is not there is not asked a hundred thousand times a second.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    tally
}

const REFUSED: &str = "connection refused";
const BROKEN: &str = "connection broken";

/// A connection that is made when it is needed.
struct Connection(Option<SendRequest<Full<Bytes>>>);

impl Connection {
    /// Sends the request and reads its answer to the end.
    async fn ask(&mut self, sample: &Sample) -> Result<u16, &'static str> {
        loop {
            let (mut sender, is_kept) = match self.0.take().filter(|sender| !sender.is_closed()) {
                Some(sender) => (sender, true),
                None => (connect(&sample.address).await?, false),
            };
            let answered = async {
                sender.ready().await?;
                sender.send_request(sample.request.clone()).await
            };
            let mut response = match answered.await {
                Ok(response) => response,
                // The server has closed what it kept: nothing was sent.
                Err(error) if is_kept && (error.is_canceled() || error.is_closed()) => continue,
                Err(_) => return Err(BROKEN),
            };
            while let Some(frame) = response.body_mut().frame().await {
                frame.map_err(|_| BROKEN)?;
            }
            self.0 = Some(sender);
            return Ok(response.status().as_u16());
        }
    }
}

async fn connect(address: &str) -> Result<SendRequest<Full<Bytes>>, &'static str> {
    let stream = TcpStream::connect(address).await.map_err(|_| REFUSED)?;
    stream.set_nodelay(true).map_err(|_| BROKEN)?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|_| BROKEN)?;
    // It ends with its sender.
    tokio::spawn(connection);
    Ok(sender)
}

/// One request on a connection of its own: its status, and the beginning of the answer.
///
/// # Errors
/// Why there is no answer.
pub(super) async fn once(sample: &Sample) -> anyhow::Result<(u16, Vec<u8>)> {
    let stream = TcpStream::connect(&sample.address).await?;
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let mut response = sender.send_request(sample.request.clone()).await?;
    let mut body = Vec::new();
    while let Some(frame) = response.body_mut().frame().await {
        let room = 4096_usize.saturating_sub(body.len());
        body.extend(frame?.into_data().into_iter().flatten().take(room));
    }
    Ok((response.status().as_u16(), body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_was_sent_is_counted_and_only_successes_have_a_latency() {
        let mut tally = Tally::default();
        for outcome in [Ok(200), Ok(204), Ok(503), Err(REFUSED)] {
            tally.count(outcome, Duration::from_millis(1));
        }
        let twice = Tally::default().and(&tally).and(&tally);
        assert_eq!((twice.sent(), twice.succeeded()), (8, 4));
        assert_eq!((twice.statuses[&503], twice.failures[REFUSED]), (2, 2));
    }

    #[tokio::test]
    async fn what_is_due_while_no_connection_is_free_waits_from_then_on() {
        let begun = Instant::now();
        let schedule = |begun: Instant| Schedule {
            begun,
            end: begun + Duration::from_millis(100),
            interval: Some(Duration::from_millis(10)),
            next: AtomicU64::new(0),
        };
        let late = schedule(begun);
        assert_eq!(late.next().await, Some(begun));
        tokio::time::sleep(Duration::from_millis(40)).await;
        assert_eq!(late.next().await, Some(begun + Duration::from_millis(10)));
        assert_eq!(late.due(), 10);
        // Its end is over, and so is what is due.
        let over = schedule(begun - Duration::from_millis(200));
        assert_eq!(over.next().await, None);
    }
}
