//! The memory that `init` leaves, made into a component that begins with it.
//!
//! Place in the flow: [`super::init::prepare`] → here, once for each generation. In: a component with `init`.
//! Out: the same component with other contents of memories and globals, compiled; its instances map that
//! memory and copy what they write to. It is kept in the compile cache under what `init` was given, so `init`
//! runs once for all generations that give it the same. How: the component is split from its state; an
//! instance runs `init`, and tells its state. Of a component that is compiled in parts anyway that is all
//! that has to be compiled; one that is compiled as a whole is written anew.
//! Invariants: the instance that is read has the limits of any other; nothing it does makes more of this than
//! a refusal; no snapshot is taken while an instance holds a handle, for handles are the host's and would not
//! be there again; what may hold the endpoint's environment variables is written to the disk encrypted, with
//! a key that they are part of; what may hold values, objects or jobs is not written.

use std::sync::Arc;

use wasmtime::component::WasmList;

use super::cache::Entry;
use super::capabilities;
use super::compiled::Compiled;
use super::compiler::{self, State};
use super::component::LoadedComponent;
use super::instance::Instance;
use super::settings::START_TIMEOUT;
use super::source::Source;
use super::start_error::StartError;
use super::state::{self, Handle};

/// Bytes that the function which tells a state takes of its memory, to answer in.
const ANSWERS: usize = 64 << 10;
/// Most states that a component has.
const STATES: usize = 8;

/// Why there is no snapshot.
pub(super) enum NoSnapshot {
    /// The component did not start, or `init` failed.
    Init(StartError),
    /// It succeeded, and the handler's own code has left these open: the author can close them.
    Open(String),
    /// It succeeded, and the memory it left cannot be copied, for a reason that is not the author's.
    Refused(String),
}

fn refused(error: wasmtime::Error) -> NoSnapshot {
    NoSnapshot::Refused(format!("{error:#}"))
}

/// Where the cache has what `init` leaves; `None` if it cannot be said what `init` is given.
pub(super) fn entry(source: &Source) -> Option<Entry> {
    let project = match &source.project {
        Some(project) => Some(project.digest()?),
        None => None,
    };
    Some(Entry::after_init(&source.binary, &source.config, project))
}

/// The snapshot that `init` left when it was given the same before.
pub(super) fn find(source: &Source, entry: &Entry) -> Option<LoadedComponent> {
    source.loaded(Arc::new(source.runtime.find(entry)?)).ok()
}

/// Runs `init` and gives what instances that begin where it ended are made from. Takes up to seconds of this
/// thread.
///
/// # Errors
/// [`NoSnapshot`]
pub(super) async fn take(source: &Source, entry: Option<&Entry>) -> Result<LoadedComponent, NoSnapshot> {
    let runtime = &source.runtime;
    let bytes = runtime.runnable(source.binary.bytes());
    let unusual = |why: &str| NoSnapshot::Refused(why.to_owned());
    let split = compiler::split_readable(&bytes).map_err(unusual)?;
    let apart = runtime.apart(&split).map_err(refused)?;
    // Not kept: to make it anew takes less than `init` does.
    let before = Arc::new(runtime.with(&apart, &split.states, None).map_err(refused)?);
    let mut instance = initialised(checked(source, before)?).await?;
    // What a store has is the endpoint's, and changes.
    let of_stores = capabilities::dependencies_of_init();
    let entry = entry.filter(|_| !instance.store.data().init_dependencies.has_any(of_stores));
    let mut after = Vec::new();
    for (number, state) in split.states.iter().enumerate() {
        after.push(read(&mut instance, number, state).await.map_err(refused)?);
    }
    // Its place in the pool may be the last one.
    drop(instance);
    let compiled = match split.can_begin_otherwise() {
        true => runtime.with(&apart, &after, entry),
        false => {
            let written = compiler::written(&bytes, &after).map_err(unusual)?;
            drop(after);
            runtime.compile_whole(&written, entry)
        }
    };
    checked(source, Arc::new(compiled.map_err(refused)?))
}

/// The state with this number as it is by now.
async fn read(
    instance: &mut Instance,
    number: usize,
    before: &State<'_>,
) -> wasmtime::Result<State<'static>> {
    let Instance { store, handle, .. } = instance;
    let function = handle
        .get_typed_func::<(), ((WasmList<u8>, WasmList<u64>),)>(&mut *store, compiler::reader_name(number))?;
    state::arm_until(store, START_TIMEOUT, None, 0);
    let ((memory, variables),) = function.call_async(&mut *store, ()).await?;
    let after = before.after(memory.as_le_slice(&*store), variables.as_le_slice(&*store));
    after.ok_or_else(|| wasmtime::format_err!("its memory cannot be written down"))
}

/// An instance whose `init` has run, and whose functions for reading may be called.
async fn initialised(component: LoadedComponent) -> Result<Box<Instance>, NoSnapshot> {
    let mut instance = Instance::new(&component, None, None).await.map_err(NoSnapshot::Init)?;
    let held = instance.handles();
    instance.init(None).await.map_err(NoSnapshot::Init)?;
    let handles = instance.store.data_mut().handles();
    if !handles.is_empty() {
        return Err(left_open(&handles));
    }
    if instance.handles() > held {
        return Err(NoSnapshot::Refused("it leaves streams or tasks of its own".to_owned()));
    }
    let state = instance.store.data_mut();
    // What `init` may return and use is behind it; this is for the answers.
    state.output = usize::MAX;
    state.allow_memory(ANSWERS * STATES);
    instance.store.set_hostcall_fuel(usize::MAX);
    Ok(instance)
}

/// Says what is open. Streams and pollables alone are those that a language's runtime keeps for its standard
/// output and its event loop, with any code.
fn left_open(handles: &[Handle]) -> NoSnapshot {
    let of_runtime = |handle: &Handle| matches!(handle, Handle::Stream | Handle::Pollable);
    if handles.iter().all(of_runtime) {
        return NoSnapshot::Refused("the language's runtime keeps its output open".to_owned());
    }
    let mut names: Vec<&str> = handles.iter().filter(|it| !of_runtime(it)).map(|it| it.name()).collect();
    names.sort_unstable();
    names.dedup();
    NoSnapshot::Open(names.join(", "))
}

/// Another form of the component, held against everything that the original is.
fn checked(source: &Source, compiled: Arc<Compiled>) -> Result<LoadedComponent, NoSnapshot> {
    source.loaded(compiled).map_err(|error| NoSnapshot::Refused(error.to_string()))
}
