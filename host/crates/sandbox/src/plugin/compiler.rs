//! Compiles components, within bounds of memory.
//!
//! Place in the flow: for what is not in the compile cache. In: a component's bytes. Out: its code, in the
//! form that is kept, or what of it would take too much memory to compile.
//! The compiler's memory cannot be limited, and can grow with the square of a function's length. So it is
//! estimated first; a component that needs too much is refused, and those that are compiled at the same time
//! wait for each other.
//! Invariants: of estimated memory no more than [`MOST`] is in use at any time; when nothing is compiled any
//! more, the compiler's memory is the system's again.

mod estimate;
mod instances;
pub(super) mod split;

use std::convert::Infallible;
use std::ops::Deref;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

// For `mi_collect`.
use libmimalloc_sys as _;
use rayon::ThreadPool;
use wasmtime::{Config as EngineConfig, Engine};

pub(super) use self::estimate::TooCostly;
pub(super) use self::split::{
    ModuleImport, SharedModule, Split, State, changes_more, digest, frame_in, import_name, reader_name,
    split, split_readable, state_name, written,
};

/// Estimated bytes that all compilations may take together, and so one of them.
const MOST: u64 = 3 << 30;
/// Functions that are compiled at the same time, in the whole process.
const THREADS: usize = 8;
/// A compilation that takes longer than this is worth a line of the log.
const ANNOUNCED: Duration = Duration::from_secs(1);

/// The memory that all compilations of the process take.
static TAKEN: Mutex<u64> = Mutex::new(0);
static GIVEN_BACK: Condvar = Condvar::new();

/// So much of [`MOST`] for one of them.
struct Reserved(u64);

impl Reserved {
    /// Waits until there is as much left.
    fn take(bytes: u64) -> Reserved {
        let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let is_too_much = |taken: &mut u64| taken.saturating_add(bytes) > MOST;
        let mut taken = GIVEN_BACK.wait_while(taken, is_too_much).unwrap_or_else(PoisonError::into_inner);
        *taken += bytes;
        Reserved(bytes)
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) -= self.0;
        GIVEN_BACK.notify_all();
    }
}

/// Compiles for one engine.
pub(super) struct Compiler {
    config: EngineConfig,
    /// The threads that all compilations at this time use.
    at_work: Mutex<Weak<AtWork>>,
}

impl Compiler {
    /// For an engine of this configuration.
    pub(super) fn new(config: EngineConfig) -> Compiler {
        Compiler { config, at_work: Mutex::default() }
    }

    /// Compiles a component. Takes up to seconds of this thread, and of others.
    ///
    /// # Errors
    /// [`TooCostly`], or the compiler's.
    pub(super) fn component(&self, bytes: &[u8]) -> wasmtime::Result<Code> {
        self.compile(bytes, Engine::precompile_component)
    }

    /// Compiles a core module.
    ///
    /// # Errors
    /// As of [`Compiler::component`].
    pub(super) fn module(&self, bytes: &[u8]) -> wasmtime::Result<Code> {
        self.compile(bytes, Engine::precompile_module)
    }

    fn compile(
        &self,
        bytes: &[u8],
        compile: fn(&Engine, &[u8]) -> wasmtime::Result<Vec<u8>>,
    ) -> wasmtime::Result<Code> {
        let _taken = Reserved::take(estimate::estimate(bytes)?);
        let at_work = self.at_work()?;
        let Some(engine) = &at_work.engine else { wasmtime::bail!("the compiler has ended") };
        let bytes = announced(bytes.len(), || at_work.pool.install(|| compile(engine, bytes)))?;
        Ok(Code { bytes, _at_work: at_work })
    }

    fn at_work(&self) -> wasmtime::Result<Arc<AtWork>> {
        let mut current = self.at_work.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at_work) = current.upgrade() {
            return Ok(at_work);
        }
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        let pool = pool.thread_name(|n| format!("compiler-{n}")).build()?;
        let new = Arc::new(AtWork { engine: Some(Engine::new(&self.config)?), pool });
        *current = Arc::downgrade(&new);
        Ok(new)
    }
}

/// An engine that only compiles, and its threads. wasmtime's compiler keeps the memory that its largest
/// functions took, so it lives no longer than something is compiled.
struct AtWork {
    /// `None` once it has ended.
    engine: Option<Engine>,
    /// No more threads than functions were estimated to be compiled at the same time.
    pool: ThreadPool,
}

impl Drop for AtWork {
    fn drop(&mut self) {
        drop(self.engine.take());
        self.pool.broadcast(|_| give_memory_back());
        give_memory_back();
    }
}

/// Gives the memory back to the system that this thread has freed: the allocator keeps it for what the
/// thread may need next.
pub(super) fn give_memory_back() {
    #[allow(unsafe_code, reason = "a function of the allocator's")]
    unsafe extern "C" {
        safe fn mi_collect(force: bool);
    }
    mi_collect(true);
}

/// Machine code, in the form that is kept. The compiler ends when the last of it is dropped.
pub(super) struct Code {
    bytes: Vec<u8>,
    // Dropped after the bytes, so that their memory is given back too.
    _at_work: Arc<AtWork>,
}

impl Deref for Code {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Logs that a compilation takes long, so that a person who waits for a start knows for what.
fn announced<T>(bytes: usize, compile: impl FnOnce() -> T) -> T {
    let (compiling, ended) = mpsc::channel::<Infallible>();
    let tell = move || {
        if let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(ANNOUNCED) {
            let megabytes = bytes as f64 / 1e6;
            tracing::info!("compiling a handler of {megabytes:.1} MB, once for this and later starts");
        }
    };
    thread::scope(|scope| {
        // Without a thread for it there is no line.
        let _ = thread::Builder::new().name("compiling".to_owned()).spawn_scoped(scope, tell);
        let compiled = compile();
        drop(compiling);
        compiled
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compilations_wait_for_each_other() {
        let first = Reserved::take(MOST);
        std::thread::scope(|scope| {
            let second = scope.spawn(|| drop(Reserved::take(1)));
            assert!(!second.is_finished());
            drop(first);
            second.join().unwrap();
        });
    }
}
