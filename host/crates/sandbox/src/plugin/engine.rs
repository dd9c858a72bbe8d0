//! The wasm engines of the process, and what their guests have in common: places, ticker, stores.
//!
//! Place in the flow: built once at start; every handler is compiled for one of its two runtimes, and every
//! instance takes one of its places. In: a component's exports. Out: its runtime.
//! Invariants: one ticker thread, and as many instances at a time as there are places, whichever runtime they
//! are of. The runtime for `wasi:http` 0.3 is made when the first such component comes, and not before.

use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};

use super::cache::Shelf;
use super::capabilities::Stores;
use super::linkers::Kind;
use super::outline::Outline;
use super::pool::Pool;
use super::runtime::{Runtime, SandboxError};
use super::settings::Config;
use super::{deadline, project};

/// Fewest and most handles of an instance. Fewer than the fewest, and a language runtime could not open its
/// files.
const HANDLES: RangeInclusive<usize> = 64..=1024;

/// The engines and what their guests have in common. Cheap to clone.
#[derive(Clone)]
pub struct Sandbox {
    sequential: Arc<Runtime>,
    concurrent: Arc<Concurrent>,
    /// Places for instances, of all handlers together.
    pub(super) pool: Arc<Pool>,
    pub(super) scheduler: deadline::Scheduler,
    /// Most handles (files, streams, clocks) one instance may hold.
    pub(super) handles: usize,
    stores: Stores,
}

/// The runtime of [`Kind::Concurrent`], and what it is made of.
struct Concurrent {
    config: Config,
    instances: usize,
    made: Mutex<Option<Arc<Runtime>>>,
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
        let sequential = Runtime::new(Kind::Sequential, config, instances)?;
        let scheduler = deadline::start_ticker(sequential.engine.weak()).map_err(SandboxError::Ticker)?;
        Ok(Sandbox {
            sequential: Arc::new(sequential),
            concurrent: Arc::new(Concurrent { config: config.clone(), instances, made: Mutex::default() }),
            pool,
            scheduler,
            handles: handles(instances),
            stores: Stores::default(),
        })
    }

    /// With these stores for its handlers, in place of those that stay empty.
    #[must_use]
    pub fn with_stores(self, stores: Stores) -> Sandbox {
        Sandbox { stores, ..self }
    }

    /// The stores of its handlers.
    pub fn stores(&self) -> &Stores {
        &self.stores
    }

    /// Ends the guest calls that run: the process is going away.
    pub fn stop(&self) {
        self.scheduler.stop();
    }

    /// The runtime of components with these exports. That of [`Kind::Concurrent`] is made when it is first
    /// asked for.
    ///
    /// # Errors
    /// It could not be made.
    pub(super) fn runtime(&self, outline: &Outline) -> Result<Arc<Runtime>, SandboxError> {
        if !outline.is_concurrent() {
            return Ok(self.sequential.clone());
        }
        let mut made = self.concurrent.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = &*made {
            return Ok(made.clone());
        }
        let runtime = Runtime::new(Kind::Concurrent, &self.concurrent.config, self.concurrent.instances)?;
        self.scheduler.tick(runtime.engine.weak());
        Ok(made.insert(Arc::new(runtime)).clone())
    }

    /// Where files are kept for later starts, if any are.
    pub fn shelf(&self) -> Option<Shelf> {
        self.sequential.shelf()
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

#[cfg(test)]
mod tests {
    use super::*;

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
