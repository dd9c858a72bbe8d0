//! The one wasm engine of the process: compiler settings, instance pool, epoch ticker.
//!
//! Place in the flow: built once at start; every handler is compiled by it and every instance comes from its
//! pool.
//! Invariants: one engine, one ticker thread. Compiled code comes from this process or from its cache
//! (`cache.rs`), never from a caller.

use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::sync::Arc;

use wasmtime::component::Component;
use wasmtime::{
    Config as EngineConfig, Enabled, Engine, InstanceAllocationStrategy, Module, PoolingAllocationConfig,
};

use super::cache::{Cache, CacheError, Entry, Executable, Shelf};
use super::compiled::{self, Compiled};
use super::compiler::{self, Code, Compiler, SharedModule, Split};
use super::grants::Linkers;
use super::loaded::Loaded;
use super::pool::Pool;
use super::{Binary, Config, cache, deadline, project};
use crate::blobs;
use crate::jobs::JobStore;
use crate::kv::Store;

/// Stack of guest code. Deeper recursion traps.
const GUEST_STACK: usize = 512 << 10;
/// Stack a guest call runs on: the guest's own and what host functions need on top.
const CALL_STACK: usize = 2 << 20;
/// Entries of one table. Interpreters compiled to wasm have the largest function tables, about ten thousand.
const TABLE_ELEMENTS: usize = 64 << 10;
/// Fewest and most handles of an instance. Fewer than the fewest, and a language runtime could not open its
/// files.
const HANDLES: RangeInclusive<usize> = 64..=1024;
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

/// The engine and what guests may import. Cheap to clone.
#[derive(Clone)]
pub struct Sandbox {
    pub(super) engine: Engine,
    pub(super) linkers: Arc<Linkers>,
    compiler: Arc<Compiler>,
    cache: Option<Arc<Cache>>,
    components: Arc<Loaded<Compiled>>,
    /// Modules that components have in common.
    modules: Arc<Loaded<Module>>,
    /// Places for instances, of all handlers together.
    pub(super) pool: Arc<Pool>,
    pub(super) scheduler: deadline::Scheduler,
    /// Most handles (files, streams, clocks) one instance may hold.
    pub(super) handles: usize,
    kv: Arc<Store>,
    jobs: Option<Arc<JobStore>>,
    blobs: Arc<blobs::Store>,
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

impl Sandbox {
    /// Sets up the engine for at most `instances` instances alive at the same time; `config.instances` is not
    /// asked.
    ///
    /// # Errors
    /// [`SandboxError`]; all of them are for the operator.
    pub fn new(config: &Config, instances: NonZeroUsize) -> Result<Sandbox, SandboxError> {
        project::remove_leftovers();
        let pool = Pool::new(instances);
        let instances = instances.get();
        let engine = Engine::new(&engine_config(instances)).map_err(SandboxError::Engine)?;
        let linkers = Linkers::new(&engine).map_err(SandboxError::Engine)?;
        let scheduler = deadline::start_ticker(engine.weak()).map_err(SandboxError::Ticker)?;
        let cache = open_cache(config, &engine)?.map(Arc::new);
        Ok(Sandbox {
            engine,
            linkers: Arc::new(linkers),
            // It has no instances.
            compiler: Arc::new(Compiler::new(engine_config(1))),
            cache,
            components: Arc::default(),
            modules: Arc::default(),
            pool,
            scheduler,
            handles: handles(instances),
            kv: Arc::new(Store::empty()),
            jobs: None,
            blobs: Arc::new(blobs::Store::empty()),
        })
    }

    /// With this store for the values of its handlers, in place of one that stays empty.
    #[must_use]
    pub fn with_store(self, store: Store) -> Sandbox {
        Sandbox { kv: Arc::new(store), ..self }
    }

    /// With this store for the jobs that its handlers submit.
    #[must_use]
    pub fn with_jobs(self, jobs: Option<Arc<JobStore>>) -> Sandbox {
        Sandbox { jobs, ..self }
    }

    /// The store of the jobs that its handlers submit.
    pub fn jobs(&self) -> Option<&Arc<JobStore>> {
        self.jobs.as_ref()
    }

    /// The same of their objects.
    #[must_use]
    pub fn with_objects(self, objects: blobs::Store) -> Sandbox {
        Sandbox { blobs: Arc::new(objects), ..self }
    }

    /// The store of their objects.
    pub fn objects(&self) -> &Arc<blobs::Store> {
        &self.blobs
    }

    /// The store of its handlers.
    pub fn store(&self) -> &Arc<Store> {
        &self.kv
    }

    /// Ends the guest calls that run: the process is going away.
    pub fn stop(&self) {
        self.scheduler.stop();
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
        if let Some(split) = compiler::split(bytes) {
            match self.compile_apart(&split, entry) {
                Ok(compiled) => return Ok(compiled),
                // What is wrong with the component as it is, the compiler says below.
                Err(error) => tracing::debug!("a component is compiled as a whole: {error:#}"),
            }
        }
        let component = self.keep(&self.compiler.component(bytes)?, entry)?;
        Ok(Compiled { component, modules: Vec::new() })
    }

    fn compile_apart(&self, split: &Split, entry: Option<&Entry>) -> wasmtime::Result<Compiled> {
        let rest = self.compiler.component(&split.rest)?;
        let modules = split.modules.iter().map(|module| self.module(module));
        let modules = modules.collect::<wasmtime::Result<_>>()?;
        Ok(Compiled { component: self.keep(&rest, entry)?, modules })
    }

    /// A module that components have in common, and the name that they import it by.
    fn module(&self, module: &SharedModule) -> wasmtime::Result<(String, Arc<Module>)> {
        let entry = Entry::of_module(&module.digest);
        let compiled = self.modules.get(&module.digest.as_str().into(), || {
            match self.cache.as_ref().and_then(|cache| cache.find(&self.engine, &entry)) {
                Some(compiled) => Ok(compiled),
                None => self.keep(&self.compiler.module(&module.bytes)?, Some(&entry)),
            }
        });
        Ok((compiler::import_name(&module.digest), compiled?))
    }

    /// Keeps code as `entry`, if it is one that can be kept.
    fn keep<T: Executable>(&self, code: &Code, entry: Option<&Entry>) -> wasmtime::Result<T> {
        match (&self.cache, entry) {
            (Some(cache), Some(entry)) => cache.keep(&self.engine, entry, code),
            _ => cache::load(&self.engine, code),
        }
    }

    /// The component that was [kept](Sandbox::compile) as `entry`, compiled, if it is there, and all that it
    /// has in common with others.
    pub(super) fn find(&self, entry: &Entry) -> Option<Compiled> {
        let cache = self.cache.as_ref()?;
        let component: Component = cache.find(&self.engine, entry)?;
        let names = compiled::shared_modules(&component, &self.engine);
        let modules = names.into_iter().map(|(name, digest)| {
            let find = || cache.find(&self.engine, &Entry::of_module(&digest));
            let module = self.modules.get(&digest.as_str().into(), || {
                find().ok_or_else(|| wasmtime::format_err!("it is not in the cache"))
            });
            Some((name, module.ok()?))
        });
        let modules = modules.collect::<Option<_>>()?;
        Some(Compiled { component, modules })
    }

    /// Where files are kept for later starts, if any are.
    pub fn shelf(&self) -> Option<Shelf> {
        self.cache.clone().filter(|cache| cache.can_keep()).map(Shelf::new)
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

/// How many handles an instance may hold if there may be so many of them.
fn handles(instances: usize) -> usize {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let files = files.and_then(|files| usize::try_from(files).ok()).unwrap_or(usize::MAX);
    affordable_handles(files, instances)
}

/// So many that all instances together leave half of the process's files to connections, within [`HANDLES`].
fn affordable_handles(files: usize, instances: usize) -> usize {
    (files / 2 / instances.max(1)).clamp(*HANDLES.start(), *HANDLES.end())
}

fn engine_config(instances: usize) -> EngineConfig {
    let mut config = EngineConfig::new();
    // The handler contract is synchronous; WASI 0.3's concurrency would make every call three times dearer.
    config.concurrency_support(false);
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
        .total_stacks(count)
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
    use super::*;
    use crate::plugin::compiler::split::tests::{handler, nested_handler, split_small};

    /// The answers of `get` in two calls of an instance.
    fn answers(sandbox: &Sandbox, compiled: &Compiled) -> [u32; 2] {
        let mut linker = wasmtime::component::Linker::<()>::new(&sandbox.engine);
        for (name, module) in &compiled.modules {
            linker.root().module(name, module).unwrap();
        }
        let mut store = wasmtime::Store::new(&sandbox.engine, ());
        store.set_epoch_deadline(u64::MAX / 2);
        let instance = linker.instantiate(&mut store, &compiled.component).unwrap();
        let get = instance.get_typed_func::<(), (u32,)>(&mut store, "get").unwrap();
        [(); 2].map(|()| get.call(&mut store, ()).unwrap().0)
    }

    #[test]
    fn handlers_share_their_interpreter_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let cache_dir = Some(folder.path().join("cache"));
        let config = Config { cache_dir, cache_size: 1 << 30, instances: None };
        let sandbox = || Sandbox::new(&config, NonZeroUsize::new(4).unwrap()).unwrap();
        let first = sandbox();
        let load = |bytes: Vec<u8>| {
            let entry = Entry::of(&Binary::new(bytes.clone()));
            (first.compile_apart(&split_small(&bytes).unwrap(), Some(&entry)).unwrap(), entry)
        };
        let ((one, entry), (other, _)) = (load(handler("a", 1)), load(handler("bc", 20)));
        assert_eq!(one.modules.len(), 2);
        for (own, others) in one.modules.iter().zip(&other.modules) {
            assert!(Arc::ptr_eq(&own.1, &others.1));
        }
        assert_eq!(answers(&first, &one), [4 + 97, 7 + 97]);
        assert_eq!(answers(&first, &other), [23 + 98, 26 + 98]);
        assert_eq!(answers(&first, &one), [4 + 97, 7 + 97], "a new instance begins anew");
        let (with_library, _) = load(nested_handler("d", 30));
        assert!(Arc::ptr_eq(&one.modules[0].1, &with_library.modules[0].1), "inside another as well");
        assert_eq!(answers(&first, &with_library), [33 + 100, 36 + 100]);

        let second = sandbox();
        let found = second.find(&entry).unwrap();
        assert_eq!(answers(&second, &found), [4 + 97, 7 + 97], "from the cache");
        drop(found);
        // Without its interpreter it cannot be used, and is compiled again.
        let cache = second.cache.as_ref().unwrap();
        let (_, digest) = compiled::shared_modules(&one.component, &first.engine).remove(0);
        cache.remove(&Entry::of_module(&digest));
        assert!(sandbox().find(&entry).is_none());
    }

    #[test]
    fn handles_leave_files_to_connections() {
        for (files, instances, expected) in
            [(20_000, 130, 76), (1_048_576, 130, 1024), (1024, 130, 64), (usize::MAX, 0, 1024)]
        {
            assert_eq!(
                affordable_handles(files, instances),
                expected,
                "{files} files, {instances} instances"
            );
        }
    }
}
