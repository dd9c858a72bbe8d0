//! Where one request's time went, and, if somebody asked, what each stage made.
//!
//! Place in the flow: carried beside the request; read by the metrics, by `?debug=true`, by `host run`, and by whoever
//! compares two handlers on one answer of the model.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::bypass::Bypass;
use crate::error::Stage;
use crate::plugin::Lease;
use crate::plugin::tape::Tape;
use crate::tensor::Tensor;

/// What crossed between handler and model. Their data are counted references: keeping them copies none.
#[derive(Debug, Clone, Default)]
pub struct Crossing {
    /// What the model got, bound to its inputs; without a model, what `pre-inference` made.
    pub inputs: Vec<Tensor>,
    /// What `post-inference` got.
    pub outputs: Vec<Tensor>,
}

/// What a handler took for one request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time of its stages, without the making of an instance and the model.
    pub time: Duration,
    /// Memory of its instance, in bytes; a guest's memory never shrinks.
    pub memory: usize,
}

/// A record of one request's stages.
#[derive(Debug)]
pub struct Trace {
    started: Instant,
    last: Instant,
    durations: [Option<Duration>; Stage::ALL.len()],
    batch: Option<usize>,
    /// Whether the handler may be, or was, bypassed.
    pub bypass: Bypass,
    /// Behind a pointer: of most requests nobody wants to know more than times.
    kept: Option<Box<Kept>>,
}

/// What else is to be known of a request.
#[derive(Debug, Default)]
struct Kept {
    objects: Option<Vec<(&'static str, String)>>,
    keeps_crossing: bool,
    crossing: Option<Crossing>,
    /// The model's answer is known for these inputs.
    known: Option<Arc<Crossing>>,
    assumed: bool,
    tape: Option<Arc<Tape>>,
    /// What the handler takes, and how long its instance was waited for.
    usage: Option<(Usage, Duration)>,
}

impl Trace {
    /// A record of a request that arrived at `started`. `objects`: also keep what each stage made, as text.
    pub fn start(started: Instant, objects: bool) -> Trace {
        let kept = objects.then(|| Box::new(Kept { objects: Some(Vec::new()), ..Kept::default() }));
        let durations = [None; Stage::ALL.len()];
        Trace { started, last: started, durations, batch: None, bypass: Bypass::default(), kept }
    }

    fn kept(&mut self) -> &mut Kept {
        self.kept.get_or_insert_default()
    }

    /// The same, that keeps what crosses between handler and model.
    #[must_use]
    pub fn keeping_crossing(mut self) -> Trace {
        self.kept().keeps_crossing = true;
        self
    }

    /// The same, which takes for granted what the model answers to the inputs of `known`: to those it is not asked again.
    #[must_use]
    pub fn assuming(mut self, known: Arc<Crossing>) -> Trace {
        self.kept().known = Some(known);
        self
    }

    /// The same, of a request that is recorded: its handler gets a fresh instance, and what it gets from outside is noted.
    #[must_use]
    pub fn on_tape(mut self, tape: Arc<Tape>) -> Trace {
        self.kept().tape = Some(tape);
        self
    }

    /// The tape of a request that is recorded.
    pub fn tape(&self) -> Option<&Arc<Tape>> {
        self.kept.as_ref()?.tape.as_ref()
    }

    /// The same, that notes what the handler takes.
    #[must_use]
    pub fn measuring(mut self) -> Trace {
        self.kept().usage = Some(Default::default());
        self
    }

    /// What the handler took, if that was noted.
    pub fn usage(&self) -> Option<Usage> {
        let (usage, lending) = self.kept.as_ref()?.usage?;
        let stages = [Stage::PreInference, Stage::PostInference];
        let time: Duration =
            stages.iter().filter_map(|stage| self.durations.get(*stage as usize).copied().flatten()).sum();
        Some(Usage { time: time.saturating_sub(lending), ..usage })
    }

    fn usage_mut(&mut self) -> Option<&mut (Usage, Duration)> {
        self.kept.as_mut()?.usage.as_mut()
    }

    /// The request has its instance.
    pub(super) fn lent(&mut self) {
        let last = self.last;
        if let Some((_, lending)) = self.usage_mut() {
            *lending = last.elapsed();
        }
    }

    /// The handler has been called.
    pub(super) fn called(&mut self, lease: Option<&Lease<'_>>) {
        if let Some((usage, _)) = self.usage_mut() {
            usage.memory = lease.map_or(0, Lease::memory);
        }
    }

    /// What crossed between handler and model, if it is kept and the request got as far.
    pub fn crossing(&self) -> Option<&Crossing> {
        self.kept.as_ref()?.crossing.as_ref()
    }

    /// Takes that.
    pub fn take_crossing(&mut self) -> Option<Crossing> {
        self.kept.as_mut()?.crossing.take()
    }

    /// Whether the model's answer was taken for granted.
    pub fn assumed(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.assumed)
    }

    /// The model's answer to `inputs`, if it is known.
    pub(super) fn known(&mut self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let kept = self.kept.as_mut()?;
        let outputs = kept.known.as_ref().filter(|known| known.inputs == inputs)?.outputs.clone();
        kept.assumed = true;
        Some(outputs)
    }

    /// What the model will get, if that is to be kept.
    pub(super) fn sent(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let kept = self.kept.as_ref()?;
        if let Some(tape) = &kept.tape {
            tape.note_sent(inputs);
        }
        kept.keeps_crossing.then(|| inputs.to_vec())
    }

    /// The model has answered what was [`Trace::sent`].
    pub(super) fn crossed(&mut self, inputs: Option<Vec<Tensor>>, outputs: &[Tensor]) {
        let Some(kept) = &mut self.kept else { return };
        if let Some(tape) = &kept.tape {
            tape.note_received(outputs);
        }
        kept.crossing = inputs.map(|inputs| Crossing { inputs, outputs: outputs.to_vec() });
    }

    /// The stage that has begun and not ended.
    pub fn stage(&self) -> Stage {
        let stages = [Stage::Admit, Stage::PreInference, Stage::Infer];
        let has_ended = |stage: Stage| self.durations.get(stage as usize).is_some_and(Option::is_some);
        stages.into_iter().find(|stage| !has_ended(*stage)).unwrap_or(Stage::PostInference)
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
        self.kept.as_ref().and_then(|kept| kept.objects.as_deref()).unwrap_or_default()
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
        if let Some(objects) = self.kept.as_mut().and_then(|kept| kept.objects.as_mut()) {
            objects.push((name, object()));
        }
    }
}
