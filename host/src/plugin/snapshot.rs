//! The memory that `init` leaves, made into a component that begins with it.
//!
//! Place in the flow: [`super::init::prepare`] → here, once for each generation. In: a component with `init`.
//! Out: the same component with other contents of memories and globals, compiled; its instances map that
//! memory and copy what they write to. It is kept in the compile cache under what `init` was given, so `init`
//! runs once for all generations that give it the same. How: wasmtime-wizer adds functions that read memories
//! and globals; an instance of that runs `init` and is then read through them; wizer writes what it read into
//! the component in place of what was there.
//! Invariants: the instance that is read has the limits of any other; nothing it does makes more of this than
//! a refusal; a component is never rewritten while its instance holds a handle, for handles are the host's
//! and would not be there again; what may hold the endpoint's environment variables is written to the disk
//! encrypted, with a key that they are part of; what may hold values, objects or jobs is not written.

use std::sync::Arc;

use wasmtime::component::{Lift, WasmList};
use wasmtime_wizer::{ComponentInstanceState, Wizer};

use super::cache::Entry;
use super::compiled::Compiled;
use super::instance::{Instance, StartError};
use super::state;
use super::{Binary, LoadedComponent, START_TIMEOUT, Source};
use crate::request::dependencies::Dependency;

/// Most pieces that memory may be in, a piece being what lies between zeros. Each takes some tens of bytes
/// while memory is copied: enough for a table of 16 MiB of small numbers, and a bound for who writes every
/// other byte.
const MOST_PIECES: usize = 4 << 20;
/// The pages that the added functions take of each memory, to answer in: one for each of two answers. And one
/// to spare.
const ANSWERS: usize = 3 * (64 << 10);
/// Most memories that a component has.
const MEMORIES: usize = 16;

const HINT: &str =
    "close the files that `init` opens; print nothing in it if the language keeps its streams open";

/// Why there is no snapshot.
pub(super) enum NoSnapshot {
    /// The component did not start, or `init` failed.
    Init(StartError),
    /// It succeeded, and the memory it left cannot be copied: why, for the operator.
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
///
/// # Panics
/// If wizer meets a component of a form that it does not expect.
pub(super) async fn take(source: &Source, entry: Option<&Entry>) -> Result<LoadedComponent, NoSnapshot> {
    let runtime = &source.runtime;
    let mut wizer = Wizer::new();
    // Or it takes an export away that has a certain name.
    wizer.keep_init_func(true);
    let (context, readable) = wizer.instrument_component(source.binary.bytes()).map_err(refused)?;
    let readable = runtime.component(&Binary::new(readable)).map_err(refused)?;
    let readable = Arc::new(checked(source, readable)?);
    let mut instance = Instance::new(&readable, None, None).await.map_err(NoSnapshot::Init)?;
    instance.init(None).await.map_err(NoSnapshot::Init)?;
    let handles = instance.store.data_mut().handles();
    if !handles.is_empty() {
        return Err(NoSnapshot::Refused(format!("it leaves {} open\n  hint: {HINT}", handles.join(", "))));
    }
    // What a store has is the endpoint's, and changes.
    let stores = [Dependency::Kv, Dependency::Jobs].into_iter().collect();
    let entry = entry.filter(|_| !instance.store.data().init_dependencies.has_any(stores));
    let mut reader = Reader::new(&mut instance);
    let written = wizer.snapshot_component(&context, &mut reader).await;
    if let Some(error) = reader.error {
        return Err(refused(error));
    }
    let written = written.map_err(refused)?;
    // Its place in the pool may be the last one.
    drop(instance);
    let written = runtime.compile(&written, entry).map_err(refused)?;
    checked(source, Arc::new(written))
}

/// A rewritten component, held against everything that the original is.
fn checked(source: &Source, compiled: Arc<Compiled>) -> Result<LoadedComponent, NoSnapshot> {
    source.loaded(compiled).map_err(|error| NoSnapshot::Refused(error.to_string()))
}

/// Reads an instance through the functions that wizer added to its component.
struct Reader<'a> {
    instance: &'a mut Instance,
    /// The first error. From then on nothing is asked any more and everything is zero.
    error: Option<wasmtime::Error>,
}

impl<'a> Reader<'a> {
    fn new(instance: &'a mut Instance) -> Reader<'a> {
        // What `init` may return and use is behind it; this is for the answers of the added functions.
        instance.store.data_mut().output = usize::MAX;
        instance.store.set_hostcall_fuel(usize::MAX);
        instance.store.data_mut().allow_memory(ANSWERS * MEMORIES);
        Reader { instance, error: None }
    }

    /// Calls one of the functions; `None` if that fails, now or before.
    async fn call<R: Lift + Send + Sync + 'static>(&mut self, interface: &str, name: &str) -> Option<R> {
        if self.error.is_some() {
            return None;
        }
        match self.try_call(interface, name).await {
            Ok(answer) => Some(answer),
            Err(error) => {
                self.error = Some(error);
                None
            }
        }
    }

    async fn try_call<R: Lift + Send + Sync + 'static>(
        &mut self,
        interface: &str,
        name: &str,
    ) -> wasmtime::Result<R> {
        let Instance { store, handle, .. } = &mut *self.instance;
        let missing = || wasmtime::format_err!("`{interface}` has no `{name}`");
        let (_, interface) = handle.get_export(&mut *store, None, interface).ok_or_else(missing)?;
        let (_, function) = handle.get_export(&mut *store, Some(&interface), name).ok_or_else(missing)?;
        let function = handle.get_typed_func::<(), (R,)>(&mut *store, function)?;
        state::arm_until(store, START_TIMEOUT, None, 0);
        let (answer,) = function.call_async(&mut *store, ()).await?;
        Ok(answer)
    }
}

impl ComponentInstanceState for Reader<'_> {
    async fn call_func_ret_list_u8(
        &mut self,
        interface: &str,
        name: &str,
        contents: impl FnOnce(&[u8]) + Send,
    ) {
        let list: Option<WasmList<u8>> = self.call(interface, name).await;
        let memory = list.as_ref().map(|list| list.as_le_slice(&self.instance.store)).unwrap_or_default();
        if pieces(memory) > MOST_PIECES {
            self.error = Some(wasmtime::format_err!("the memory is in too many pieces"));
            return contents(&[]);
        }
        contents(memory);
    }

    async fn call_func_ret_s32(&mut self, interface: &str, name: &str) -> i32 {
        self.call(interface, name).await.unwrap_or_default()
    }

    async fn call_func_ret_s64(&mut self, interface: &str, name: &str) -> i64 {
        self.call(interface, name).await.unwrap_or_default()
    }

    async fn call_func_ret_f32(&mut self, interface: &str, name: &str) -> u32 {
        self.call(interface, name).await.map(f32::to_bits).unwrap_or_default()
    }

    async fn call_func_ret_f64(&mut self, interface: &str, name: &str) -> u64 {
        self.call(interface, name).await.map(f64::to_bits).unwrap_or_default()
    }
}

/// How many runs of bytes that are not zero there are.
fn pieces(memory: &[u8]) -> usize {
    let begins = |pair: &[u8; 2]| pair[0] == 0 && pair[1] != 0;
    let first = memory.first().is_some_and(|byte| *byte != 0);
    usize::from(first) + memory.array_windows().filter(|pair| begins(pair)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_what_lies_between_zeros() {
        for (memory, expected) in [
            ([].as_slice(), 0),
            (&[0], 0),
            (&[0, 0, 0], 0),
            (&[1], 1),
            (&[1, 2, 3], 1),
            (&[0, 1, 1, 0], 1),
            (&[1, 0, 1], 2),
            (&[1, 0, 0, 0, 2, 0, 3, 0], 3),
        ] {
            assert_eq!(pieces(memory), expected, "{memory:?}");
        }
    }
}
