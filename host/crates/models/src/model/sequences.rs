//! State that the host keeps for a model between the requests of a sequence (Triton's sequence extension).
//!
//! ```text
//! request ─ inputs ─┐                    ┌─ outputs ─→ answer
//!                   ├─→ [run of a model] ┤
//! sequence ─ state ─┘                    └─ new state ─→ sequence
//! ```
//! Place in the flow: inside [`ModelHandle`](super::ModelHandle), of a model whose configuration says which
//! output is the state that which input takes at the next request.
//! In: a request's inputs and the sequence that it belongs to. Out: the model's inputs; of its outputs those
//! that are no state.
//! Invariants: clients neither see nor give state. Requests of one sequence run one after the other, in the
//! order in which they come here. There are so many sequences at most, and so many bytes of their state, that
//! of first requests that run included: room is taken before memory is. One that is in its time is never
//! ended for another. A run that fails leaves the state as it was. No state is copied or given back while all
//! sequences are locked. Sequences are a handle's: they end with it, when another model takes its place.

use std::collections::HashMap;
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync;

pub use self::call::{LONGEST_ID, SequenceCall, SequenceId};
use super::error::ModelError;
use crate::blocking;
use crate::tensor::{Extent, Role, Signature, Tensor, TensorSpec, element_count};

/// Idle sequences are looked for once in this time at most, or in the time after which one is idle if that is
/// shorter.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// How many sequences there may be, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceLimits {
    /// Sequences that have begun and not ended.
    pub most: usize,
    /// Bytes of their state together.
    pub bytes: usize,
    /// How long one may be without a request.
    pub idle: Duration,
}

/// One state: the places of the output and of the input in the model's signature.
#[derive(Debug, Clone, Copy)]
struct Pair {
    output: usize,
    input: usize,
}

/// The sequences of a handle.
#[derive(Debug)]
pub struct Sequences {
    model: Arc<Signature>,
    /// Without state.
    signature: Arc<Signature>,
    pairs: Vec<Pair>,
    limits: SequenceLimits,
    running: Mutex<Running>,
    bytes: Arc<AtomicUsize>,
}

/// The sequences that have begun and not ended.
#[derive(Debug, Default)]
struct Running {
    entries: HashMap<SequenceId, Entry>,
    /// When idle ones were looked for last.
    swept: Option<Instant>,
}

#[derive(Debug)]
struct Entry {
    sequence: Arc<Sequence>,
    used: Instant,
}

/// One sequence, which its requests lock one after the other, in the order in which they came.
type Sequence = sync::Mutex<Slot>;

/// The state of a sequence: none before its first request has been answered, and none after its end.
#[derive(Debug, Default)]
struct Slot {
    state: Option<State>,
    ended: bool,
}

/// The tensors of a state, in the order of the pairs, and the room that they take.
#[derive(Debug)]
struct State {
    tensors: Vec<Tensor>,
    room: Room,
}

#[derive(Debug)]
struct Room {
    bytes: usize,
    all: Arc<AtomicUsize>,
}

impl Room {
    /// This and another one of the same sequences.
    fn and(mut self, mut other: Room) -> Room {
        self.bytes += mem::take(&mut other.bytes);
        self
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A request whose turn in its sequence it is.
pub(super) struct Turn<'a> {
    sequences: &'a Sequences,
    call: &'a SequenceCall,
    sequence: Arc<Sequence>,
    slot: sync::OwnedMutexGuard<Slot>,
    /// That of the initial state, if the model was given it.
    room: Option<Room>,
}

impl Sequences {
    /// `state`: outputs and the inputs that take them. `None` if there are none.
    ///
    /// # Errors
    /// Text for the operator.
    pub(super) fn new(
        model: &Arc<Signature>,
        state: &[(String, String)],
        limits: SequenceLimits,
    ) -> Result<Option<Sequences>, String> {
        let find = |kind: &str, specs: &[TensorSpec], name: &str| {
            let found = specs.iter().position(|spec| *spec.name == *name && spec.role == Role::Plain);
            found.ok_or_else(|| format!("state: the model has no {kind} `{name}` that could be state"))
        };
        let mut pairs: Vec<Pair> = Vec::new();
        for (output, input) in state {
            let pair = Pair {
                output: find("output", &model.outputs, output)?,
                input: find("input", &model.inputs, input)?,
            };
            if pairs.iter().any(|other| other.output == pair.output || other.input == pair.input) {
                return Err(format!("state: `{output}` or `{input}` is named twice"));
            }
            let (from, to) = (model.outputs.get(pair.output), model.inputs.get(pair.input));
            if let (Some(from), Some(to)) = (from, to)
                && from.datatype != to.datatype
            {
                return Err(format!("state: output {from} does not fit input {to}"));
            }
            pairs.push(pair);
        }
        if pairs.is_empty() {
            return Ok(None);
        }
        let without = |specs: &[TensorSpec], place: fn(&Pair) -> usize| {
            let is_state = |at: usize| pairs.iter().any(|pair| place(pair) == at);
            let kept = specs.iter().enumerate().filter(|(at, _)| !is_state(*at));
            kept.map(|(_, spec)| spec.clone()).collect()
        };
        let signature = Signature {
            inputs: without(&model.inputs, |pair| pair.input),
            outputs: without(&model.outputs, |pair| pair.output),
        };
        let (signature, model, running) = (Arc::new(signature), model.clone(), Mutex::default());
        Ok(Some(Sequences { model, signature, pairs, limits, running, bytes: Arc::default() }))
    }

    /// The inputs and outputs that clients see.
    pub fn signature(&self) -> &Arc<Signature> {
        &self.signature
    }

    /// The limits.
    pub fn limits(&self) -> SequenceLimits {
        self.limits
    }

    /// Each state: the output, and the input that takes it.
    pub fn states(&self) -> impl Iterator<Item = (&TensorSpec, &TensorSpec)> {
        let pair =
            |pair: &Pair| Some((self.model.outputs.get(pair.output)?, self.model.inputs.get(pair.input)?));
        self.pairs.iter().filter_map(pair)
    }

    /// Waits for the turn of a request.
    ///
    /// # Errors
    /// [`ModelError::Input`] for a request without a sequence, or of one that has not begun;
    /// [`ModelError::Sequences`] if there are too many.
    pub(super) async fn turn<'a>(&'a self, call: Option<&'a SequenceCall>) -> Result<Turn<'a>, ModelError> {
        let call = call.ok_or_else(|| {
            let text = "inference request must specify a non-zero or non-empty correlation ID, `sequence_id`: the model keeps \
                        state between the requests of a sequence";
            ModelError::Input(text.to_owned())
        })?;
        let sequence = match &call.id {
            None => Arc::new(Sequence::default()),
            Some(id) => self.enter(id, call)?,
        };
        let slot = sequence.clone().lock_owned().await;
        if slot.ended {
            return Err(not_begun());
        }
        Ok(Turn { sequences: self, call, sequence, slot, room: None })
    }

    fn enter(&self, id: &SequenceId, call: &SequenceCall) -> Result<Arc<Sequence>, ModelError> {
        let now = Instant::now();
        // Dropped after the lock is.
        let mut over = Vec::new();
        let mut running = self.running();
        if !call.start {
            if let Some(entry) = running.entries.get_mut(id).filter(|entry| !self.is_over(entry, now)) {
                entry.used = now;
                return Ok(entry.sequence.clone());
            }
            over.extend(running.entries.remove(id));
            return Err(not_begun());
        }
        // Begun anew: requests of the one before end on that.
        over.extend(running.entries.remove(id));
        let sequence = Arc::new(Sequence::default());
        if call.end {
            return Ok(sequence);
        }
        if running.entries.len() >= self.limits.most {
            over.extend(self.take_idle(&mut running, now));
        }
        if running.entries.len() >= self.limits.most {
            let most = self.limits.most;
            return Err(ModelError::Sequences(format!(
                "{most} sequences are running, and there may be no more"
            )));
        }
        running.entries.insert(id.clone(), Entry { sequence: sequence.clone(), used: now });
        Ok(sequence)
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes out those that have been idle for too long, unless they were looked for a moment ago.
    fn take_idle(&self, running: &mut Running, now: Instant) -> Vec<Entry> {
        let interval = SWEEP_INTERVAL.min(self.limits.idle);
        if running.swept.is_some_and(|swept| now.saturating_duration_since(swept) < interval) {
            return Vec::new();
        }
        running.swept = Some(now);
        running.entries.extract_if(|_, entry| self.is_over(entry, now)).map(|(_, entry)| entry).collect()
    }

    /// Whether it has been idle for too long; not while a request of it runs or waits.
    fn is_over(&self, entry: &Entry, now: Instant) -> bool {
        Arc::strong_count(&entry.sequence) == 1
            && now.saturating_duration_since(entry.used) > self.limits.idle
    }

    /// Forgets a sequence, unless another of its name has begun since; or says that it was used now.
    fn leave(&self, id: &SequenceId, sequence: &Arc<Sequence>, ends: bool) {
        let mut running = self.running();
        let own = running.entries.get_mut(id).filter(|entry| Arc::ptr_eq(&entry.sequence, sequence));
        let Some(entry) = own else { return };
        if ends {
            // Its caller has the sequence still: no state is dropped here.
            running.entries.remove(id);
        } else {
            entry.used = Instant::now();
        }
    }

    /// Room for so many bytes; that of idle sequences is had back if there is none.
    ///
    /// # Errors
    /// [`ModelError::Sequences`]: there is none.
    fn room(&self, bytes: usize) -> Result<Room, ModelError> {
        let room = self.reserve(bytes).or_else(|| {
            let idle = self.take_idle(&mut self.running(), Instant::now());
            if !idle.is_empty() {
                let most = self.bytes.load(Ordering::Relaxed);
                blocking::if_much_copied(most, || drop(idle));
            }
            self.reserve(bytes)
        });
        room.ok_or_else(|| self.full())
    }

    fn reserve(&self, bytes: usize) -> Option<Room> {
        let more = |all: usize| all.checked_add(bytes).filter(|all| *all <= self.limits.bytes);
        self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Room { bytes, all: self.bytes.clone() })
    }

    /// Makes a room one for so many bytes.
    ///
    /// # Errors
    /// As [`Sequences::room`].
    fn resize(&self, mut room: Room, bytes: usize) -> Result<Room, ModelError> {
        if let Some(more) = bytes.checked_sub(room.bytes) {
            return Ok(room.and(self.room(more)?));
        }
        room.all.fetch_sub(room.bytes - bytes, Ordering::Relaxed);
        room.bytes = bytes;
        Ok(room)
    }

    /// Zeros, in the shape of the input: a free extent is that of the same name in `inputs`, else one if it
    /// is the first, of rows, and none where the state grows.
    fn initial(&self, inputs: &[Tensor], to: &TensorSpec) -> Result<(Tensor, Room), ModelError> {
        let named = |name: &Arc<str>| {
            inputs.iter().find_map(|tensor| {
                let spec = self.model.inputs.iter().find(|spec| spec.name == tensor.name)?;
                let mut extents = spec.shape.iter().zip(&tensor.shape);
                let is_it =
                    |(extent, _): &(&Extent, &u64)| matches!(extent, Extent::Free(Some(own)) if own == name);
                extents.find(is_it).map(|(_, extent)| *extent)
            })
        };
        let extent = |(place, extent): (usize, &Extent)| match extent {
            Extent::Fixed(fixed) => *fixed,
            Extent::Free(name) => name.as_ref().and_then(&named).unwrap_or_else(|| u64::from(place == 0)),
        };
        let shape: Vec<u64> = to.shape.iter().enumerate().map(extent).collect();
        // Of BYTES each element is its length.
        let bytes =
            element_count(&shape).and_then(|count| count.checked_mul(to.datatype.size().unwrap_or(4)));
        let bytes = bytes.ok_or_else(|| self.full())?;
        let room = self.room(bytes)?;
        let zeros = || Tensor::new(to.name.clone(), to.datatype, shape, vec![0; bytes].into());
        let tensor = blocking::if_much_copied(bytes, zeros);
        Ok((tensor.map_err(|error| ModelError::Run(error.to_string()))?, room))
    }

    fn full(&self) -> ModelError {
        let bytes = self.limits.bytes;
        ModelError::Sequences(format!(
            "the state of all sequences may take {bytes} bytes; this one has ended"
        ))
    }
}

/// The error of a request whose sequence there is not.
fn not_begun() -> ModelError {
    let text = "inference request must specify the START flag, `sequence_start`, on the first request of the sequence: there \
                is no such sequence, or it has ended, was idle for too long, or had another model";
    ModelError::Input(text.to_owned())
}

impl Turn<'_> {
    /// The model's inputs: those of the request, and the state.
    ///
    /// # Errors
    /// [`ModelError::Sequences`]: there is no room for the initial state, and the sequence has ended.
    pub(super) fn inputs(&mut self, mut given: Vec<Tensor>) -> Result<Vec<Tensor>, ModelError> {
        let state = match &self.slot.state {
            Some(state) => self.kept(state),
            None => self.initial(&given).inspect_err(|_| self.go_on(None))?,
        };
        given.extend(state);
        let place =
            |tensor: &Tensor| self.sequences.model.inputs.iter().position(|spec| spec.name == tensor.name);
        given.sort_by_key(place);
        Ok(given)
    }

    fn kept(&self, state: &State) -> Vec<Tensor> {
        let states = self.sequences.states().zip(&state.tensors);
        states.map(|((_, to), kept)| Tensor { name: to.name.clone(), ..kept.clone() }).collect()
    }

    fn initial(&mut self, given: &[Tensor]) -> Result<Vec<Tensor>, ModelError> {
        let mut tensors = Vec::with_capacity(self.sequences.pairs.len());
        for (_, to) in self.sequences.states() {
            let (tensor, room) = self.sequences.initial(given, to)?;
            let before = self.room.take();
            self.room = Some(if let Some(before) = before { before.and(room) } else { room });
            tensors.push(tensor);
        }
        Ok(tensors)
    }

    /// The sequence has this state from now on; without one it has ended.
    fn go_on(&mut self, state: Option<State>) {
        self.slot.ended = state.is_none();
        self.slot.state = state;
        if let Some(id) = &self.call.id {
            self.sequences.leave(id, &self.sequence, self.slot.ended);
        }
    }

    /// The outputs that are no state, of a run's; the state is kept, or the sequence has ended.
    ///
    /// # Errors
    /// [`ModelError::Sequences`]: there is no room for the state; [`ModelError::Run`]: it does not fit the
    /// input that is to take it. Either ends the sequence.
    pub(super) fn outputs(mut self, outputs: Vec<Tensor>) -> Result<Vec<Tensor>, ModelError> {
        let kept = if self.call.end { Ok(None) } else { self.state_of(&outputs).map(Some) };
        let state = kept.inspect_err(|_| self.go_on(None))?;
        self.go_on(state);
        let pairs = &self.sequences.pairs;
        let is_state = |at: usize| pairs.iter().any(|pair| pair.output == at);
        let answer = outputs.into_iter().enumerate().filter(|(at, _)| !is_state(*at));
        Ok(answer.map(|(_, tensor)| tensor).collect())
    }

    fn state_of(&mut self, outputs: &[Tensor]) -> Result<State, ModelError> {
        let mut found = Vec::with_capacity(self.sequences.pairs.len());
        for (pair, (_, to)) in self.sequences.pairs.iter().zip(self.sequences.states()) {
            let tensor = outputs.get(pair.output).filter(|tensor| tensor.datatype == to.datatype);
            let tensor = tensor.filter(|tensor| to.accepts(&tensor.shape));
            found.push(tensor.ok_or_else(|| {
                ModelError::Run(format!("the state for input `{}` does not have its shape, {to}", to.name))
            })?);
        }
        let bytes = found.iter().map(|tensor| tensor.data.len()).sum();
        // The room of the state before it is free for this one.
        let before = self.slot.state.take().map(|state| state.room).or_else(|| self.room.take());
        let room = match before {
            Some(room) => self.sequences.resize(room, bytes)?,
            None => self.sequences.room(bytes)?,
        };
        // Bytes of its own: what it is a part of, such as a batch, is not kept with it.
        let own = |tensor: &Tensor| Tensor { data: tensor.data.to_vec().into(), ..tensor.clone() };
        let copy = || found.into_iter().map(own).collect();
        Ok(State { tensors: blocking::if_much_copied(bytes, copy), room })
    }
}

mod call;
mod figures;
#[cfg(test)]
mod tests;
