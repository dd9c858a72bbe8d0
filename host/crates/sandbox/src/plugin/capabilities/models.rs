//! The endpoint's models as a capability: the contract's `models`, and `wasi:nn`.
//!
//! Place in the flow: an entry of the list of capabilities, which every handler has; called while any
//! function of a handler runs, for the request that its instance serves. In: the models of the run. Out: what
//! an instance holds of tensors, and how often its request has run a model.
//! Invariants: a request holds at most `limits.tensors` handles of at most `limits.tensor_memory` bytes
//! together, names and shapes, those of runs that it has started and those that earlier ones left in its
//! instance among them, and runs models at most `limits.model_runs` times. A call names at most
//! [`MOST_TENSORS`] tensors. Outside of a request there is no model.

mod held;
mod nn;
mod resident;
mod run;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use wasmtime::Result;
use wasmtime::component::{Linker, ResourceTable};

use self::held::Held;
pub use self::resident::Resident;
pub use self::run::Pending;
use crate::model_access::{HandlerModels, ModelCallError};
use crate::plugin::bindings::MODELS;
use crate::plugin::bindings::modelhost::handler::models::{self, Error};
use crate::plugin::capability::{Capability, EndpointView, HasView, View};
use crate::plugin::convert::{MOST_TENSORS, is_name, shown};
use crate::plugin::deadline::DeadlineExceeded;
use crate::plugin::limits::Limits;
use crate::plugin::names::is_same;
use crate::request::dependencies::Dependency;

/// The endpoint's models.
pub struct Models;

/// The tensors that an instance holds, and the runs of its request. Tensors that a guest keeps beyond its
/// request count for the next one.
#[derive(Default)]
pub struct State {
    /// Tensors that the host holds for the guest: no descriptors, and bounded by a limit of their own.
    table: ResourceTable,
    tensors: usize,
    bytes: Arc<AtomicUsize>,
    runs: u32,
}

impl Capability for Models {
    /// Its limits are with all others of a handler.
    type Settings = ();
    /// The models of a run come with it.
    type Store = ();
    type Granted = ();
    type State = State;
    /// A recording has the models and their answers.
    type Recorded = ();

    const INTERFACES: &'static [&'static str] = &[
        "modelhost:handler/models",
        "wasi:nn/errors",
        "wasi:nn/graph",
        "wasi:nn/inference",
        "wasi:nn/tensor",
    ];
    const HINT: &'static str = "every handler may call its endpoint's models";
    const DEPENDENCY: Option<Dependency> = None;
    const USE: &'static str = "it calls its endpoint's models";
    const OF_EVERY: bool = true;
    const BRINGS_OUTPUT: bool = true;

    fn no_store() {}

    async fn grant((): &(), _: &EndpointView<'_>, (): &()) -> Result<Option<()>, String> {
        Ok(Some(()))
    }

    fn is_used_by(import: &str) -> bool {
        is_same(import, MODELS) || import.starts_with("wasi:nn/")
    }

    fn link<T: Send + 'static>(linker: &mut Linker<T>, view: fn(&mut T) -> View<'_, Models>) -> Result<()> {
        models::add_to_linker::<_, HasView<Models>>(linker, view)?;
        nn::link(linker, view)
    }

    fn begin(state: &mut State) {
        state.runs = 0;
    }

    /// A guest may have kept so much that the next request does not have enough.
    fn is_at_rest(state: &State, limits: &Limits) -> bool {
        state.tensors <= limits.tensors / 2 && state.bytes.load(Ordering::Relaxed) <= limits.tensor_memory / 2
    }

    fn table(state: &mut State) -> Option<&mut ResourceTable> {
        Some(&mut state.table)
    }

    fn recorded(_: Option<&()>) {}

    fn replayed((): &(), (): &()) -> Option<()> {
        Some(())
    }
}

impl View<'_, Models> {
    /// The guest's error for a failure of a model.
    ///
    /// # Errors
    /// A replay goes on no further.
    fn told(&mut self, error: ModelCallError) -> Result<Error> {
        if !matches!(error, ModelCallError::NoSuchModel(_) | ModelCallError::InvalidInput(_)) {
            self.kernel.run.dependencies.add(Dependency::Failure);
        }
        told(error)
    }

    /// The models of the request that the instance serves.
    fn models(&self) -> Result<&Arc<dyn HandlerModels>, Error> {
        let none = || Error::Failed("there is no request, so there are no models".to_owned());
        self.kernel.run.models.as_ref().ok_or_else(none)
    }

    /// Counts a run.
    fn begin_run(&mut self) -> Result<(), Error> {
        let most = self.kernel.limits.model_runs;
        if self.state.runs >= most {
            return Err(Error::Limit(format!("more than {most} runs, `limits.model_runs`")));
        }
        self.state.runs += 1;
        Ok(())
    }

    /// The data of a tensor that the guest has made, charged to the process's budget.
    fn charged(&self, data: Vec<u8>) -> Result<Bytes, Error> {
        let memory = self.kernel.request.map(|request| request.memory).unwrap_or_default();
        memory.own(data.into()).map_err(|_| Error::Overloaded)
    }

    /// Holds so many bytes for a tensor.
    fn hold(&self, bytes: usize) -> Result<Arc<Held>, Error> {
        Held::new(bytes, &self.state.bytes, self.kernel.limits.tensor_memory)
    }

    /// The bytes that are held, and the most of them.
    fn tensor_memory(&self) -> (Arc<AtomicUsize>, usize) {
        (self.state.bytes.clone(), self.kernel.limits.tensor_memory)
    }

    /// Counts a handle of a tensor.
    fn count_tensor(&mut self) -> Result<(), Error> {
        let most = self.kernel.limits.tensors;
        if self.state.tensors >= most {
            return Err(Error::Limit(format!("more than {most} tensors, `limits.tensors`")));
        }
        self.state.table.set_max_capacity(most);
        self.state.tensors += 1;
        Ok(())
    }

    /// A counted handle is gone.
    fn uncount_tensor(&mut self) {
        self.state.tensors = self.state.tensors.saturating_sub(1);
    }
}

fn told(error: ModelCallError) -> Result<Error> {
    Ok(match error {
        ModelCallError::NoSuchModel(name) => Error::NoSuchModel(shown(&name)),
        ModelCallError::InvalidInput(text) => Error::InvalidInput(text),
        ModelCallError::Unloaded => Error::Overloaded,
        ModelCallError::TimedOut => Error::TimedOut,
        ModelCallError::Failed(text) => Error::Failed(text),
        ModelCallError::CutOff => return Err(DeadlineExceeded::Cpu.into()),
        ModelCallError::Diverged => {
            return Err(wasmtime::Error::msg("the handler has left its recording"));
        }
    })
}

/// Of the tensors that one call names.
fn check_names<'a>(
    names: impl IntoIterator<IntoIter: ExactSizeIterator<Item = &'a String>>,
) -> Result<(), Error> {
    let mut names = names.into_iter();
    let count = names.len();
    if count > MOST_TENSORS {
        return Err(Error::InvalidInput(format!("{count} tensors, expected at most {MOST_TENSORS}")));
    }
    match names.find(|name| !is_name(name)) {
        Some(name) => {
            let text = format!("tensor name `{}` is too long or not text", shown(name));
            Err(Error::InvalidInput(text))
        }
        None => Ok(()),
    }
}
