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

use wasmtime::component::Component;
use wasmtime::{
    Config as EngineConfig, Enabled, Engine, InstanceAllocationStrategy, Module, PoolingAllocationConfig,
};

use super::cache::{Cache, CacheError, Entry, Executable, Shelf};
use super::compiled::{self, Compiled};
use super::compiler::{self, Code, Compiler, SharedModule, Split};
use super::grants::Linkers;
use super::loaded::Loaded;
use super::{Binary, Config, SandboxError, cache, versions};

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

/// The way in which an engine runs guests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// One call at a time: the contract's functions, and `wasi:http` 0.2.
    Sequential,
    /// Tasks that wait for each other, `wasi:http` 0.3: every call costs more.
    Concurrent,
}

/// An engine, what guests may import there, and the code that was compiled for it.
pub(super) struct Runtime {
    kind: Kind,
    pub(super) engine: Engine,
    pub(super) linkers: Linkers,
    compiler: Compiler,
    cache: Option<Arc<Cache>>,
    components: Loaded<Compiled>,
    /// Modules that components have in common.
    modules: Loaded<Module>,
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
        let (components, modules) = Default::default();
        Ok(Runtime { kind, engine, linkers, compiler, cache, components, modules })
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
        let bytes = match self.kind {
            Kind::Sequential => Cow::Borrowed(bytes),
            Kind::Concurrent => versions::released(bytes),
        };
        if let Some(split) = compiler::split(&bytes) {
            match self.compile_apart(&split, entry) {
                Ok(compiled) => return Ok(compiled),
                // What is wrong with the component as it is, the compiler says below.
                Err(error) => tracing::debug!("a component is compiled as a whole: {error:#}"),
            }
        }
        let component = self.keep(&self.compiler.component(&bytes)?, entry)?;
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

    /// The component that was [kept](Runtime::compile) as `entry`, compiled, if it is there, and all that it
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
    use super::*;
    use crate::plugin::compiler::split::tests::{handler, nested_handler, split_small};

    /// The answers of `get` in two calls of an instance.
    fn answers(runtime: &Runtime, compiled: &Compiled) -> [u32; 2] {
        let mut linker = wasmtime::component::Linker::<()>::new(&runtime.engine);
        for (name, module) in &compiled.modules {
            linker.root().module(name, module).unwrap();
        }
        let mut store = wasmtime::Store::new(&runtime.engine, ());
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
        let runtime = || Runtime::new(Kind::Sequential, &config, 4).unwrap();
        let first = runtime();
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

        let second = runtime();
        let found = second.find(&entry).unwrap();
        assert_eq!(answers(&second, &found), [4 + 97, 7 + 97], "from the cache");
        drop(found);
        // Without its interpreter it cannot be used, and is compiled again.
        let cache = second.cache.as_ref().unwrap();
        let (_, digest) = compiled::shared_modules(&one.component, &first.engine).remove(0);
        cache.remove(&Entry::of_module(&digest));
        assert!(runtime().find(&entry).is_none());
    }
}
