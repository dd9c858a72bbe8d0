//! Objects that handlers keep, as a capability: `wasi:blobstore`.
//!
//! Place in the flow: an entry of the list of capabilities. In: an endpoint's containers and quota. Out: the
//! grant of its handler, and the state of an instance.
//! Invariant: what a run writes that is no client's request is seen by itself alone, and gone with it.

mod blobstore;

use std::sync::Arc;

use tokio::sync::Semaphore;
use wasmtime::component::Linker;

use crate::blobs::{EndpointBlobs, MOST_OPEN, Quota, Store};
use crate::plugin::capability::{Capability, EndpointView, View};
use crate::plugin::limits::Limits;
use crate::request::dependencies::Dependency;
use crate::telemetry::metrics::BlobCalls;

/// The quota of a replay, which has no objects.
const NO_OBJECT: Quota = Quota { bytes: 0, objects: 0, size: 0 };

/// Objects that handlers keep.
pub struct Blobs;

/// The settings of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The containers that its handler may open.
    pub containers: Vec<String>,
    /// The most that they hold.
    pub quota: Quota,
}

/// The grant of a handler.
#[derive(Clone)]
pub struct Granted {
    /// Its containers.
    blobs: EndpointBlobs,
    /// Counts what it asks of them.
    calls: Option<BlobCalls>,
}

/// The state of an instance.
#[derive(Default)]
pub struct State {
    /// The objects of a run that must not write.
    scratch: Option<EndpointBlobs>,
    /// Places for the objects that are open, once one has been.
    places: Option<Arc<Semaphore>>,
}

impl Capability for Blobs {
    type Settings = Settings;
    type Store = Arc<Store>;
    type Granted = Granted;
    type State = State;
    /// A run that asks for objects is not recorded.
    type Recorded = ();

    const INTERFACES: &'static [&'static str] =
        &["wasi:blobstore/blobstore", "wasi:blobstore/container", "wasi:blobstore/types"];
    const HINT: &'static str = "handlers keep objects only in the containers that their endpoint grants: \
        `blobs = [\"default\"]`, and once for the host `[blobs]` with `store = \"objects\"`";
    const DEPENDENCY: Option<Dependency> = Some(Dependency::Kv);
    const USE: &'static str = "it keeps objects, in the containers that the endpoint's `blobs` grants";

    fn no_store() -> Arc<Store> {
        Arc::new(Store::empty())
    }

    async fn grant(
        settings: &Settings,
        endpoint: &EndpointView<'_>,
        store: &Arc<Store>,
    ) -> Result<Option<Granted>, String> {
        let Settings { containers, quota } = settings;
        let grant = || Granted {
            blobs: EndpointBlobs::new(store.clone(), endpoint.name, containers, *quota),
            calls: Some(endpoint.metrics.blobs.clone()),
        };
        Ok((!containers.is_empty()).then(grant))
    }

    fn is_used_by(import: &str) -> bool {
        import.starts_with("wasi:blobstore/")
    }

    fn link<T: Send + 'static>(
        linker: &mut Linker<T>,
        view: fn(&mut T) -> View<'_, Blobs>,
    ) -> wasmtime::Result<()> {
        blobstore::link(linker, view)
    }

    fn begin(state: &mut State) {
        state.scratch = None;
    }

    /// An object that the guest has left open would keep its place among those of the store.
    fn is_at_rest(state: &State, _: &Limits) -> bool {
        state.places.as_ref().is_none_or(|places| places.available_permits() == MOST_OPEN)
    }

    fn recorded(_: Option<&Granted>) {}

    /// A recorded run has asked for none; a handler that could have is linked.
    fn replayed((): &(), store: &Arc<Store>) -> Option<Granted> {
        let blobs = EndpointBlobs::new(store.clone(), "replay", &[], NO_OBJECT);
        Some(Granted { blobs, calls: None })
    }

    fn refresh_metrics(settings: &Settings, endpoint: &EndpointView<'_>, store: &Arc<Store>) {
        if let Some(is_up) = store.is_reachable().filter(|_| !settings.containers.is_empty()) {
            endpoint.metrics.blobs.set_up(is_up);
        }
    }
}
