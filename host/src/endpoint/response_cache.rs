//! The response cache of an endpoint: equal requests get the answer that the first of them got.
//!
//! ```text
//! admit → decode → [find] ── hit ──────────────────────────────→ encode
//!                     └─ miss → permit → run → [keep] ──────────→ encode
//! ```
//! Place in the flow: [`AdmittedRequest::serve`](super::AdmittedRequest::serve) has a run looked up here
//! before the run waits for a permit, by every protocol. In: a request and its generation. Out: an
//! answer that is kept, or the run's own.
//! Invariants: an answer is given to requests of the same [key] only, and kept only if it depended on
//! nothing else, or on what the operator allows; of equal requests at the same time one runs, and the others
//! run by themselves where its answer is not kept; kept answers take at most the configured bytes. A lookup
//! locks one shard for reading; only a run that begins or ends writes to it.
//!
//! The model is Triton's response cache, whose key is model, version and inputs; the terms of the header are
//! those of RFC 9211.

pub mod key;
mod shard;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use self::key::Key;
use self::shard::{Place, Shards, StoredAnswer};
use super::config::CacheConfig;
use super::generation::Generation;
use crate::blocking;
use crate::error::{RequestError, Stage};
use crate::memory::Account;
use crate::model::SequenceCall;
use crate::pipeline::plan::{HostCalls, RunPlan};
use crate::pipeline::report::RunReport;
use crate::request::{Output, Request};
use crate::shard as threads;
use crate::telemetry::metrics::{CacheFigures, Timing};

/// How long it is remembered that the answer to a request is not kept: so long equal requests do not wait for
/// each other.
const UNKEPT: Duration = Duration::from_secs(10);
const CACHE_CONTROL: &str = "cache-control";

/// The part that the cache had in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheUse {
    /// It was kept, for so long.
    Hit(Duration),
    /// It is that of an equal request at the same time.
    Collapsed,
    /// A run made it.
    Miss,
    /// A run made it without a lookup, or one whose answers are not kept.
    Bypass,
}

impl CacheUse {
    const COUNT: usize = 4;

    fn index(self) -> usize {
        match self {
            CacheUse::Hit(_) => 0,
            CacheUse::Collapsed => 1,
            CacheUse::Miss => 2,
            CacheUse::Bypass => 3,
        }
    }

    /// The value of `cache-status` (RFC 9211).
    pub fn status(self) -> &'static str {
        match self {
            CacheUse::Hit(_) => "modelhost; hit",
            CacheUse::Collapsed => "modelhost; fwd=miss; collapsed",
            CacheUse::Miss => "modelhost; fwd=miss",
            CacheUse::Bypass => "modelhost; fwd=bypass",
        }
    }

    /// Seconds since the answer was made, if it was kept.
    pub fn age(self) -> Option<u64> {
        match self {
            CacheUse::Hit(age) => Some(age.as_secs()),
            _ => None,
        }
    }
}

/// The answers of one endpoint.
pub struct ResponseCache {
    config: CacheConfig,
    shards: Shards,
    /// By thread.
    counts: Box<[Counts]>,
}

/// Lookups by [`CacheUse`], and their nanoseconds. Aligned so that no two share a cache line.
#[derive(Default)]
#[repr(align(128))]
struct Counts([[AtomicU64; 2]; CacheUse::COUNT]);

/// The outcome of a run that others wait for.
#[derive(Clone)]
enum Flight {
    Running,
    Kept(Arc<StoredAnswer>),
    Unkept,
}

impl Flight {
    fn has_ended(&self) -> bool {
        !matches!(self, Flight::Running)
    }
}

/// The state of a key.
enum Found {
    Hit(Arc<StoredAnswer>),
    /// An equal request runs.
    Flying(watch::Receiver<Flight>),
    /// This request runs, and equal ones wait for it.
    Lead(watch::Sender<Flight>),
    /// The answers to such requests are not kept.
    Unkept,
}

impl ResponseCache {
    /// An empty one.
    pub fn new(config: CacheConfig) -> ResponseCache {
        let counts = (0..threads::count()).map(|_| Counts::default()).collect();
        ResponseCache { shards: Shards::new(config.size), config, counts }
    }

    /// Forgets every answer: those of an older generation are found no more.
    pub fn clear(&self) {
        self.shards.clear();
    }

    /// The figures so far.
    pub fn figures(&self) -> CacheFigures {
        let sum = |index: usize, of: usize| {
            let counts = self.counts.iter().filter_map(|counts| counts.0.get(index)?.get(of));
            counts.map(|count| count.load(Ordering::Relaxed)).sum()
        };
        let timing = |index| Timing { count: sum(index, 0), ns: sum(index, 1) };
        let (bytes, evictions) = self.shards.figures();
        CacheFigures {
            hits: timing(0),
            collapsed: timing(1),
            misses: timing(2),
            bypassed: timing(3),
            bytes,
            evictions,
        }
    }

    /// Whether the run of this plan may be spared, and its answer kept: nothing else looks at it.
    fn concerns(plan: &RunPlan, request: &Request) -> bool {
        let is_plain = matches!(plan.calls, HostCalls::Live) && plan.refusal.is_none();
        let is_alone = matches!(SequenceCall::of(request.parameters()), Ok(None));
        is_plain && is_alone && !plan.measures && !request.is_exchange() && !wants_a_run(request)
    }

    fn count(&self, used: CacheUse, lookup: Duration) {
        let counts = self.counts.get(threads::current(self.counts.len()));
        if let Some([count, nanoseconds]) = counts.and_then(|counts| counts.0.get(used.index())) {
            count.fetch_add(1, Ordering::Relaxed);
            nanoseconds.fetch_add(u64::try_from(lookup.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }

    /// Looks a key up; of equal requests without an answer the first becomes the leader, and only for that is
    /// there a channel.
    fn find(&self, key: &Key) -> Found {
        let now = Instant::now();
        let found = |place: &Place| match place {
            Place::Kept(kept) if kept.is_fresh(now) => Some(Found::Hit(kept.used())),
            Place::Flying(flight) if flight.has_changed().is_ok() => Some(Found::Flying(flight.clone())),
            Place::Unkept(until) if now < *until => Some(Found::Unkept),
            _ => None,
        };
        let mut lead = None;
        let new = || {
            let (sender, flight) = watch::channel(Flight::Running);
            lead = Some(sender);
            Place::Flying(flight)
        };
        let found = self.shards.find(key, found, new);
        found.unwrap_or_else(|| lead.map_or(Found::Unkept, Found::Lead))
    }

    /// An answer, or the word to run; the part that the cache had in that is written to `used`. A request
    /// that runs with a lead [ends](ResponseCache::end) it.
    ///
    /// # Errors
    /// `request_timeout`, while an equal request runs.
    pub(super) async fn look(
        &self,
        request: &Request,
        generation: &Generation,
        plan: &RunPlan,
        used: &mut Option<CacheUse>,
    ) -> Result<Looked<'_>, RequestError> {
        if !ResponseCache::concerns(plan, request) {
            self.count(CacheUse::Bypass, Duration::ZERO);
            *used = Some(CacheUse::Bypass);
            return Ok(Looked::Run(None));
        }
        let begun = Instant::now();
        let key = Key::of(request, generation, &self.config.headers);
        let mut found = self.find(&key);
        let lookup = begun.elapsed();
        let mut collapsed = false;
        // Once more, if the leader went away: one of those that waited is the next.
        for _ in 0..2 {
            let Found::Flying(mut other) = found else { break };
            let ended = pin!(async { other.wait_for(Flight::has_ended).await.map(|flight| flight.clone()) });
            found = match request.in_time(Stage::Admit, ended).await? {
                Ok(Flight::Kept(kept)) => {
                    collapsed = true;
                    Found::Hit(kept)
                }
                Ok(Flight::Unkept | Flight::Running) => Found::Unkept,
                Err(_) => self.find(&key),
            };
        }
        let (found, was) = match found {
            Found::Hit(kept) if collapsed => (Looked::Answer(kept.output().clone()), CacheUse::Collapsed),
            Found::Hit(kept) => (Looked::Answer(kept.output().clone()), CacheUse::Hit(kept.age())),
            Found::Lead(flight) => {
                (Looked::Run(Some(Lead { cache: self, key, flight, ended: false })), CacheUse::Miss)
            }
            Found::Flying(_) | Found::Unkept => (Looked::Run(None), CacheUse::Bypass),
        };
        self.count(was, lookup);
        *used = Some(was);
        Ok(found)
    }

    /// Keeps the outcome of a run, if it may be kept. In any case those that wait are told.
    pub(super) fn end(&self, lead: Lead<'_>, output: Option<&Output>, report: &RunReport, memory: Account) {
        let Some(output) = output else { return lead.end(None, Flight::Unkept) };
        let may_be_kept = report.bypassed().is_none()
            && report.dependencies().are_within(self.config.allowed)
            && allows(output);
        let made = may_be_kept.then(|| self.kept(output, memory)).flatten();
        match made {
            Some(kept) => lead.end(Some(Place::Kept(kept.clone())), Flight::Kept(kept)),
            None => lead.end(Some(Place::Unkept(Instant::now() + UNKEPT)), Flight::Unkept),
        }
    }

    /// An answer with bytes of its own: what it is a part of, such as a batch, is not kept with it.
    fn kept(&self, output: &Output, memory: Account) -> Option<Arc<StoredAnswer>> {
        let bytes = shard::bytes_of(output);
        if bytes > self.shards.largest() || !memory.may_keep(bytes) {
            return None;
        }
        let mut output = blocking::if_much_copied(bytes, || shard::copied(output));
        match &mut output {
            Output::Response(response) => {
                response.body = memory.own(std::mem::take(&mut response.body)).ok()?
            }
            Output::Streamed { .. } => {}
            Output::Tensors(tensors) => memory.own_tensors(tensors).ok()?,
        }
        Some(Arc::new(StoredAnswer::new(output, bytes, self.config.ttl)))
    }
}

/// The outcome of a lookup, for a request.
pub(super) enum Looked<'a> {
    /// An answer.
    Answer(Output),
    /// A run by itself; with a lead, equal requests wait for it.
    Run(Option<Lead<'a>>),
}

/// The run that equal requests wait for. Dropped before its end, as the client went away, it leaves no trace.
pub(super) struct Lead<'a> {
    cache: &'a ResponseCache,
    key: Key,
    flight: watch::Sender<Flight>,
    ended: bool,
}

impl Lead<'_> {
    fn end(mut self, place: Option<Place>, flight: Flight) {
        self.ended = true;
        match place {
            Some(place) => self.cache.shards.put(&self.key, place),
            None => self.cache.shards.take_off(&self.key),
        }
        // Requests that come from here on find the place, those that wait get this.
        self.flight.send_replace(flight);
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.cache.shards.take_off(&self.key);
        }
    }
}

/// Whether the client asks for an answer that is made for it (RFC 9111, section 5.2.1).
fn wants_a_run(request: &Request) -> bool {
    let head = &request.head;
    // All of its lines are one list; most requests have none.
    head.header(CACHE_CONTROL).is_some()
        && head.headers().iter().any(|(name, value)| {
            name.eq_ignore_ascii_case(CACHE_CONTROL) && has_directive(value, &["no-cache", "no-store"])
        })
}

/// Whether this may be given to others: a success, which its handler does not keep to one caller (RFC 9111,
/// section 5.2.2).
fn allows(output: &Output) -> bool {
    let response = match output {
        Output::Response(response) => response,
        Output::Streamed { .. } => return false,
        Output::Tensors(_) => return true,
    };
    let is_private = response.headers.iter().any(|(name, value)| {
        name.eq_ignore_ascii_case("set-cookie")
            || name.eq_ignore_ascii_case(CACHE_CONTROL)
                && has_directive(value, &["no-cache", "no-store", "private"])
    });
    (200..300).contains(&response.status) && !is_private
}

fn has_directive(value: &str, names: &[&str]) -> bool {
    value.split(',').any(|directive| {
        let name = directive.split('=').next().unwrap_or_default().trim();
        names.iter().any(|wanted| name.eq_ignore_ascii_case(wanted))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::respond;

    #[test]
    fn directives_are_found() {
        let found = |value| has_directive(value, &["no-store", "private"]);
        assert!(found("no-store"));
        assert!(found("max-age=3, Private=\"x\""));
        assert!(!found(""));
        assert!(!found("no-storey, public"));
    }

    #[test]
    fn only_a_success_for_all_is_kept() {
        let with = |status, headers: &[(&str, &str)]| {
            let mut response = respond::json(b"1".to_vec());
            response.status = status;
            response.headers =
                headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            allows(&Output::Response(response))
        };
        assert!(with(200, &[]));
        assert!(with(204, &[("cache-control", "max-age=5")]));
        assert!(!with(404, &[]));
        assert!(!with(200, &[("Set-Cookie", "a=b")]));
        assert!(!with(200, &[("cache-control", "max-age=5, no-store")]));
    }
}
