//! What every endpoint that is used did in the last fifteen minutes.
//!
//! Place in the flow: beside it, on the admin thread, which reads the counters of all endpoints every
//! [`PERIOD`]; the routes of endpoints show it.
//! Invariants: no request pays for it; an endpoint that was never used has nothing here, one that is not used
//! any more its totals only; bounded, [`MOST`] timelines of [`Timeline::LARGEST`] bytes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use serde_json::{Value, json};
use tokio::time::MissedTickBehavior;

use crate::rollout::deployment::Deployment;
use crate::server::served::Served;
use crate::telemetry::metrics::timeline::{PERIOD, Recent, Timeline};
use crate::time::unix_seconds;

/// Endpoints that are followed at the same time: 16 MB at most. Further ones have no pictures.
const MOST: usize = 1000;

/// The timelines of all endpoints.
#[derive(Default)]
pub struct Timelines {
    served: Mutex<Option<Arc<Served>>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    by_endpoint: HashMap<String, Timeline>,
    /// When the last samples were taken: Unix time in seconds.
    at: u64,
}

impl Timelines {
    /// Follows the endpoints of `served` from now on.
    pub(super) fn set_served(&self, served: &Arc<Served>) {
        *self.served.lock().unwrap_or_else(PoisonError::into_inner) = Some(served.clone());
    }

    /// Takes samples for ever.
    pub(super) async fn follow(&self) {
        let mut ticks = tokio::time::interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let served = self.served.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(served) = served {
                self.sample(&served);
            }
        }
    }

    fn sample(&self, served: &Served) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.at = unix_seconds(SystemTime::now());
        let timelines = &mut state.by_endpoint;
        timelines.retain(|name, _| served.endpoints.named(name).is_some());
        let mut places = MOST.saturating_sub(timelines.values().filter(|line| !line.is_empty()).count());
        for endpoint in &served.endpoints {
            let name = &endpoint.config.name;
            let ended = endpoint.metrics.ended();
            let known = timelines.get(name).map(|timeline| (timeline.requests(), timeline.is_empty()));
            let (requests, is_empty) = known.unwrap_or((0, true));
            if is_empty && ended == requests {
                continue;
            }
            let timeline = timelines.entry(name.clone()).or_default();
            if is_empty && places == 0 {
                timeline.skip(endpoint.metrics.totals());
                continue;
            }
            places = places.saturating_sub(usize::from(is_empty));
            add(timeline, endpoint);
        }
    }

    /// The last minute of an endpoint; `None` if it had no request.
    pub(super) fn recent(&self, endpoint: &str) -> Option<Recent> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.by_endpoint.get(endpoint).and_then(Timeline::recent)
    }

    /// All samples of an endpoint.
    pub(super) fn of(&self, endpoint: &str) -> Value {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let columns = state.by_endpoint.get(endpoint).map(Timeline::columns).unwrap_or_default();
        json!({ "at": state.at, "period_seconds": PERIOD.as_secs(), "samples": columns })
    }
}

fn add(timeline: &mut Timeline, endpoint: &Deployment) {
    endpoint.refresh_metrics();
    let gauge = |n: i64| u32::try_from(n).unwrap_or_default();
    let metrics = &endpoint.metrics;
    timeline.add(metrics.totals(), gauge(metrics.in_flight.get()), gauge(metrics.queued.get()));
}
