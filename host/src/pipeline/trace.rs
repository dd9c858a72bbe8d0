//! Where one request's time went, and, if somebody asked, what each stage made.
//!
//! Place in the flow: carried beside the request; read by the metrics, by `?debug=true` and by `host run`.

use std::time::{Duration, Instant};

use crate::error::Stage;

/// A record of one request's stages.
#[derive(Debug)]
pub struct Trace {
    started: Instant,
    last: Instant,
    durations: [Option<Duration>; Stage::ALL.len()],
    batch: Option<usize>,
    objects: Option<Vec<(&'static str, String)>>,
}

impl Trace {
    /// A record of a request that arrived at `started`. `objects`: also keep what each stage made, as text.
    pub fn start(started: Instant, objects: bool) -> Trace {
        Trace {
            started,
            last: started,
            durations: [None; Stage::ALL.len()],
            batch: None,
            objects: objects.then(Vec::new),
        }
    }

    /// Time since the request's arrival.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// How long each stage that ended took, in the order of the flow.
    pub fn durations(&self) -> impl Iterator<Item = (Stage, Duration)> {
        Stage::ALL.into_iter().zip(self.durations).filter_map(|(stage, duration)| Some((stage, duration?)))
    }

    /// What the stages made, readable: `sample`, `pre_inference`, `inference`, `post_inference`. Empty unless asked for.
    pub fn objects(&self) -> &[(&'static str, String)] {
        self.objects.as_deref().unwrap_or_default()
    }

    /// How many requests shared the run of the model; `None` if there was none, or another of them says.
    pub fn batch(&self) -> Option<usize> {
        self.batch
    }

    /// The model ran, after the request had waited for it.
    pub(super) fn ran(&mut self, queued: Duration, batch: Option<usize>) {
        self.batch = batch;
        // Most requests never wait; those pay for no measurement.
        if !queued.is_zero()
            && let Some(slot) = self.durations.get_mut(Stage::Queue as usize)
        {
            *slot = Some(queued);
            self.last += queued;
        }
    }

    pub(super) fn end(&mut self, stage: Stage) {
        let now = Instant::now();
        if let Some(duration) = self.durations.get_mut(stage as usize) {
            *duration = Some(now.saturating_duration_since(self.last));
        }
        self.last = now;
    }

    /// Keeps an object, if somebody asked for them; it is made readable only then.
    pub(super) fn keep(&mut self, name: &'static str, object: impl FnOnce() -> String) {
        if let Some(objects) = &mut self.objects {
            objects.push((name, object()));
        }
    }
}
