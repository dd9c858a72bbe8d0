//! One wasm engine and all that belongs to it: its pool of memories, its compiler, its code, its linkers.
//!
//! Place in the flow: [`super::Sandbox`] makes one of each [`Kind`]; every component is compiled for one of
//! them, and its instances come from that one's pool. In: a component's bytes. Out: its code, compiled or
//! found, and what it is linked with.
//! Invariants: compiled code comes from this process or from its cache (`cache.rs`), never from a caller;
//! code of one kind is never run by the other's engine, whose cache has other entries.

use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::sync::Arc;

use uuid::Uuid;
use wasmtime::component::Component;
use wasmtime::{
    Config as EngineConfig, Enabled, Engine, InstanceAllocationStrategy, Module, PoolingAllocationConfig,
};

use super::binary::Binary;
use super::cache::{self, Cache, CacheError, Entry, Executable, Shelf};
use super::compiled::{self, Apart, Compiled};
use super::compiler::{self, Code, Compiler, SharedModule, Split, State};
use super::linkers::{Kind, Linkers};
use super::loaded::Loaded;
use super::settings::Config;
use super::versions;

/// Stack of guest code. Deeper recursion traps.
const GUEST_STACK: usize = 512 << 10;
/// Stack a guest call runs on: the guest's own and what host functions need on top.
const CALL_STACK: usize = 2 << 20;
/// Entries of one table. Interpreters compiled to wasm have the largest function tables, about ten thousand.
const TABLE_ELEMENTS: usize = 64 << 10;
/// Core instances one component usually has, Python's with its shared libraries included. More is possible,
/// at the cost of fewer instances in all.
const CORE_INSTANCES: u32 = 16;
/// All a 32-bit guest can address.
const LARGEST_MEMORY: usize = 4 << 30;
/// Memory a freed slot keeps mapped, so that the next instance in it starts without page faults. Covers what
/// handlers in any of the tried languages touch per request: measured, see docs/decisions. Only with a kernel
/// that tells which pages were written: those alone are reset.
const KEEP_RESIDENT: usize = 16 << 20;
/// The same where the kernel cannot tell: all of it is written again whenever an instance ends.
const KEEP_RESIDENT_BLIND: usize = 1 << 20;

/// An engine, what guests may import there, and the code that was compiled for it.
pub(super) struct Runtime {
    kind: Kind,
    pub(super) engine: Engine,
    pub(super) linkers: Linkers,
    compiler: Compiler,
    cache: Option<Arc<Cache>>,
    components: Loaded<Compiled>,
    /// Components without the modules that they have in common and without their states.
    frames: Loaded<Component>,
    /// Modules that components have in common.
    modules: Loaded<Module>,
}

/// Why the sandbox could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The engine refused its settings or the machine cannot give what they need.
    #[error(
        "cannot set up the wasm engine: {0:#}\n  hint: every instance reserves 5 GiB of address space; lower `plugin.instances` if that is too much"
    )]
    Engine(wasmtime::Error),
    /// The compile cache's folder cannot be used.
    #[error(
        "cannot use the compile cache in `{0}`: {1}\n  hint: compiled code runs as it is found; with `--cache-dir`, choose a folder that only this user can write to, or `none`"
    )]
    Cache(String, String),
    /// No thread for the ticker.
    #[error("cannot start the epoch ticker: {0}")]
    Ticker(std::io::Error),
}

impl Runtime {
    /// Sets up an engine for at most `instances` instances alive at the same time.
    ///
    /// # Errors
    /// [`SandboxError`]
    pub(super) fn new(kind: Kind, config: &Config, instances: usize) -> Result<Runtime, SandboxError> {
        let engine = Engine::new(&engine_config(kind, instances)).map_err(SandboxError::Engine)?;
        let linkers = Linkers::new(&engine, kind).map_err(SandboxError::Engine)?;
        let cache = open_cache(config, &engine)?.map(Arc::new);
        // It has no instances.
        let compiler = Compiler::new(engine_config(kind, 1));
        let (components, frames, modules) = Default::default();
        Ok(Runtime { kind, engine, linkers, compiler, cache, components, frames, modules })
    }

    /// Compiles a component, or takes it from the cache. Takes up to seconds of this thread.
    ///
    /// # Errors
    /// The compiler's.
    pub(super) fn component(&self, binary: &Binary) -> wasmtime::Result<Arc<Compiled>> {
        let entry = Entry::of(binary);
        self.components.get(binary.digest(), || match self.find(&entry) {
            Some(compiled) => Ok(compiled),
            None => self.compile(binary.bytes(), Some(&entry)),
        })
    }

    /// Compiles a component, but for what is compiled already that it has in common with others, and keeps it
    /// as `entry` for those who come to make the same.
    ///
    /// # Errors
    /// The compiler's.
    pub(super) fn compile(&self, bytes: &[u8], entry: Option<&Entry>) -> wasmtime::Result<Compiled> {
        let bytes = self.runnable(bytes);
        if let Some(split) = compiler::split(&bytes) {
            match self.apart(&split).and_then(|apart| self.with(&apart, &split.states, entry)) {
                Ok(compiled) => return Ok(compiled),
                // What is wrong with the component as it is, the compiler says below.
                Err(error) => tracing::debug!("a component is compiled as a whole: {error:#}"),
            }
        }
        self.compile_whole(&bytes, entry)
    }

    /// The same in one piece.
    ///
    /// # Errors
    /// The compiler's.
    pub(super) fn compile_whole(&self, bytes: &[u8], entry: Option<&Entry>) -> wasmtime::Result<Compiled> {
        Ok(Compiled::whole(self.keep(&self.compiler.component(bytes)?, entry)?))
    }

    /// A component in the form that this engine takes.
    pub(super) fn runnable<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        match self.kind {
            Kind::Sequential => Cow::Borrowed(bytes),
            Kind::Concurrent => versions::released(bytes),
        }
    }

    /// Compiles all of a component but its states, or takes it from the cache.
    ///
    /// # Errors
    /// The compiler's, or that the code changes tables.
    pub(super) fn apart(&self, split: &Split<'_>) -> wasmtime::Result<Apart> {
        let digest = compiler::digest(&split.frame);
        let frame = self.frames.get(&digest.as_str().into(), || {
            self.found_or(&Entry::of_frame(&digest), || {
                without_more(&split.frame)?;
                self.compiler.component(&split.frame)
            })
        })?;
        let modules = split.modules.iter().map(|module| self.module(module));
        Ok(Apart { digest, frame, shared: modules.collect::<wasmtime::Result<_>>()? })
    }

    /// A component that begins with these states, which are kept as `entry`.
    ///
    /// # Errors
    /// The compiler's.
    pub(super) fn with(
        &self,
        apart: &Apart,
        states: &[State<'_>],
        entry: Option<&Entry>,
    ) -> wasmtime::Result<Compiled> {
        // Others may keep theirs as the same entry at this time.
        let run = Uuid::new_v4().as_u128();
        let states = states.iter().enumerate().map(|(number, state)| {
            let code = self.compiler.module(&state.module(&apart.digest, run))?;
            self.keep(&code, entry.map(|entry| entry.state(number)).as_ref())
        });
        Ok(apart.with(states.collect::<wasmtime::Result<_>>()?))
    }

    /// A module that components have in common, and its digest.
    fn module(&self, module: &SharedModule<'_>) -> wasmtime::Result<(String, Arc<Module>)> {
        let digest = &module.digest;
        let compiled = self.modules.get(&digest.as_str().into(), || {
            self.found_or(&Entry::of_module(digest), || {
                without_more(&module.bytes)?;
                self.compiler.module(&module.bytes)
            })
        });
        Ok((digest.clone(), compiled?))
    }

    /// The code that is kept as `entry`, or else the code that `compile` gives, which is kept.
    fn found_or<T: Executable>(
        &self,
        entry: &Entry,
        compile: impl FnOnce() -> wasmtime::Result<Code>,
    ) -> wasmtime::Result<T> {
        match self.kept(entry) {
            Some(found) => Ok(found),
            None => self.keep(&compile()?, Some(entry)),
        }
    }

    /// The code that is kept as `entry`.
    fn kept<T: Executable>(&self, entry: &Entry) -> Option<T> {
        self.cache.as_ref()?.find(&self.engine, entry)
    }

    /// Keeps code as `entry`, if it is one that can be kept.
    fn keep<T: Executable>(&self, code: &Code, entry: Option<&Entry>) -> wasmtime::Result<T> {
        match (&self.cache, entry) {
            (Some(cache), Some(entry)) => cache.keep(&self.engine, entry, code),
            _ => cache::load(&self.engine, code),
        }
    }

    /// The component that was kept as `entry`, compiled, if it is there, and all that it has in common with
    /// others.
    pub(super) fn find(&self, entry: &Entry) -> Option<Compiled> {
        let Some(first) = self.kept(&entry.state(0)) else {
            return self.kept(entry).map(Compiled::whole);
        };
        let missing = || wasmtime::format_err!("it is not in the cache");
        let of_first = compiled::frame_of(&first)?;
        let state = |number| {
            let state = self.kept(&entry.state(number))?;
            (compiled::frame_of(&state).as_ref() == Some(&of_first)).then_some(state)
        };
        let digest = of_first.0.clone();
        let find = || self.kept(&Entry::of_frame(&digest)).ok_or_else(missing);
        let frame = self.frames.get(&digest.as_str().into(), find).ok()?;
        let (shared, states) = compiled::parts(&frame, &self.engine);
        let shared = shared.into_iter().map(|digest| {
            let find = || self.kept(&Entry::of_module(&digest)).ok_or_else(missing);
            let module = self.modules.get(&digest.as_str().into(), find).ok()?;
            Some((digest, module))
        });
        let shared = shared.collect::<Option<_>>()?;
        let states = [Some(first)].into_iter().chain((1..states).map(state)).collect::<Option<_>>()?;
        Some(Apart { digest, frame, shared }.with(states))
    }

    /// Where files are kept for later starts, if any are.
    pub fn shelf(&self) -> Option<Shelf> {
        self.cache.clone().filter(|cache| cache.can_keep()).map(Shelf::new)
    }
}

/// A part of a component that is kept apart from its states may change nothing that they do not have.
fn without_more(part: &[u8]) -> wasmtime::Result<()> {
    match compiler::changes_more(part)? {
        true => Err(wasmtime::format_err!("its code changes tables")),
        false => Ok(()),
    }
}

/// The cache that is asked for, unless its folder cannot be had: what it saves is time only.
fn open_cache(config: &Config, engine: &Engine) -> Result<Option<Cache>, SandboxError> {
    let Some(folder) = &config.cache_dir else { return Ok(None) };
    match Cache::open(folder, config.cache_size, engine) {
        Ok(cache) => Ok(Some(cache)),
        Err(CacheError::NotPrivate(why)) => Err(SandboxError::Cache(folder.display().to_string(), why)),
        Err(CacheError::Io(error)) => {
            tracing::warn!(folder = %folder.display(),
                "no compile cache, handlers are compiled at every start: {error}");
            Ok(None)
        }
    }
}

fn engine_config(kind: Kind, instances: usize) -> EngineConfig {
    let mut config = EngineConfig::new();
    // The handler contract is synchronous; concurrency would make every call up to three times dearer.
    config.concurrency_support(kind == Kind::Concurrent);
    config.epoch_interruption(true);
    config.max_wasm_stack(GUEST_STACK);
    config.async_stack_size(CALL_STACK);
    // Enough frames to find a bug by, few enough for a log line.
    config.wasm_backtrace_max_frames(NonZeroUsize::new(20));
    // What a debugger of native code would read, and wasmtime does not: every load would have to register it.
    config.native_unwind_info(false);

    let count = u32::try_from(instances).unwrap_or(u32::MAX).max(1);
    let keep_resident = match PoolingAllocationConfig::is_pagemap_scan_available() {
        true => KEEP_RESIDENT,
        false => KEEP_RESIDENT_BLIND,
    };
    let mut pool = PoolingAllocationConfig::default();
    pool.total_component_instances(count)
        // One component holds many core instances: its own modules, its libraries, and the glue between them.
        .total_core_instances(count.saturating_mul(CORE_INSTANCES))
        // Components have one memory; a few may have more.
        .total_memories(count.saturating_add(count / 4 + 4))
        .total_tables(count.saturating_mul(4))
        .total_stacks(match kind {
            Kind::Sequential => count,
            // One for each call that waits inside of the guest, where components are made of others.
            Kind::Concurrent => count.saturating_mul(CORE_INSTANCES),
        })
        .max_core_instances_per_component(256)
        .max_memories_per_component(16)
        .max_tables_per_component(64)
        .max_component_instance_size(4 << 20)
        .max_core_instance_size(4 << 20)
        .table_elements(TABLE_ELEMENTS)
        // What an instance may use is its endpoint's limit, see `instance.rs`; here is only the address
        // space.
        .max_memory_size(LARGEST_MEMORY)
        .linear_memory_keep_resident(keep_resident)
        .table_keep_resident(256 << 10)
        // Asks the kernel which pages were written and resets only those; older kernels cannot tell.
        .pagemap_scan(Enabled::Auto);
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    config
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use wasmtime::Store;
    use wasmtime::component::{Instance, WasmList};

    use super::*;
    use crate::plugin::compiler::reader_name;
    use crate::plugin::compiler::split::tests::{handler, nested_handler, split_small};

    /// The answers of `get` in two calls of an instance, and the instance.
    fn called(runtime: &Runtime, compiled: &Compiled) -> ([u32; 2], Store<()>, Instance) {
        let mut linker = wasmtime::component::Linker::<()>::new(&runtime.engine);
        for (name, module) in compiled.modules() {
            linker.root().module(&name, module).unwrap();
        }
        let mut store = Store::new(&runtime.engine, ());
        store.set_epoch_deadline(u64::MAX / 2);
        let instance = linker.instantiate(&mut store, &compiled.component).unwrap();
        let get = instance.get_typed_func::<(), (u32,)>(&mut store, "get").unwrap();
        let answers = [(); 2].map(|()| get.call(&mut store, ()).unwrap().0);
        (answers, store, instance)
    }

    fn answers(runtime: &Runtime, compiled: &Compiled) -> [u32; 2] {
        called(runtime, compiled).0
    }

    /// A runtime with a cache in a folder.
    fn runtime(folder: &Path) -> Runtime {
        let cache_dir = Some(folder.join("cache"));
        Runtime::new(Kind::Sequential, &Config { cache_dir, cache_size: 1 << 30, instances: None }, 4)
            .unwrap()
    }

    #[test]
    fn handlers_share_their_interpreter_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let first = runtime(folder.path());
        let load = |bytes: Vec<u8>| {
            let entry = Entry::of(&Binary::new(bytes.clone()));
            let split = split_small(&bytes).unwrap();
            let apart = first.apart(&split).unwrap();
            let compiled = first.with(&apart, &split.states, Some(&entry)).unwrap();
            (compiled, apart, entry)
        };
        let ((one, apart, entry), (other, of_other, _)) = (load(handler("a", 1)), load(handler("bc", 20)));
        assert_eq!((apart.shared.len(), &apart.digest), (2, &of_other.digest));
        assert!(Arc::ptr_eq(&one.component, &other.component), "the frame");
        for (own, others) in apart.shared.iter().zip(&of_other.shared) {
            assert!(Arc::ptr_eq(&own.1, &others.1));
        }
        let (own, common) = one.sizes();
        assert!(own > 0 && common > 0, "{own} {common}");
        assert_eq!(answers(&first, &one), [4 + 97, 7 + 97]);
        assert_eq!(answers(&first, &other), [23 + 98, 26 + 98]);
        assert_eq!(answers(&first, &one), [4 + 97, 7 + 97], "a new instance begins anew");
        let (with_library, inside, _) = load(nested_handler("d", 30));
        assert!(Arc::ptr_eq(&apart.shared[0].1, &inside.shared[0].1), "inside another as well");
        assert_eq!(answers(&first, &with_library), [33 + 100, 36 + 100]);

        let second = runtime(folder.path());
        let found = second.find(&entry).unwrap();
        assert_eq!(answers(&second, &found), [4 + 97, 7 + 97], "from the cache");
        drop(found);
        // Without a part of it, it cannot be used, and is compiled again.
        let parts = [Entry::of_frame(&apart.digest), Entry::of_module(&apart.shared[0].0), entry.state(0)];
        for part in parts {
            assert!(runtime(folder.path()).find(&entry).is_some());
            second.cache.as_ref().unwrap().remove(&part);
            assert!(runtime(folder.path()).find(&entry).is_none());
            let (third, bytes) = (runtime(folder.path()), handler("a", 1));
            let split = split_small(&bytes).unwrap();
            third.with(&third.apart(&split).unwrap(), &split.states, Some(&entry)).unwrap();
        }
    }

    #[test]
    fn what_an_instance_left_is_what_others_begin_with() {
        let folder = tempfile::tempdir().unwrap();
        let runtime = runtime(folder.path());
        for bytes in [handler("a", 1), nested_handler("a", 1)] {
            let split = split_small(&bytes).unwrap();
            let apart = runtime.apart(&split).unwrap();
            let compiled = runtime.with(&apart, &split.states, None).unwrap();
            let (_, mut store, instance) = called(&runtime, &compiled);
            let read = |number: usize, store: &mut Store<()>| {
                type Both = (WasmList<u8>, WasmList<u64>);
                let reader = reader_name(number);
                let reader = instance.get_typed_func::<(), (Both,)>(&mut *store, &reader).unwrap();
                let ((memory, variables),) = reader.call(&mut *store, ()).unwrap();
                let (memory, variables) = (memory.as_le_slice(&*store), variables.as_le_slice(&*store));
                assert_eq!(memory.len() % (64 << 10), 0);
                split.states[number].after(memory, variables).unwrap()
            };
            let after: Vec<_> = (0..split.states.len()).map(|number| read(number, &mut store)).collect();
            let whole = compiler::written(&bytes, &after).unwrap();
            let whole = runtime.compile_whole(&whole, None).unwrap();
            for compiled in [runtime.with(&apart, &after, None).unwrap(), whole] {
                assert_eq!(answers(&runtime, &compiled), [10 + 97, 13 + 97], "it has been called twice");
            }
            assert!(compiler::written(&bytes, &[]).is_err());
            assert_eq!(answers(&runtime, &compiled), [4 + 97, 7 + 97]);
        }
    }
}
