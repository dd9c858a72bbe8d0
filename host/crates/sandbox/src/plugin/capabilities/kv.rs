//! Values that handlers keep, as a capability: `kv` and `wasi:keyvalue`.
//!
//! Place in the flow: an entry of the list of capabilities. In: an endpoint's buckets and quota. Out: the
//! grant of its handler, the state of an instance, and the grant in a recording.
//! Invariant: what a run writes that is no client's request is seen by itself alone, and gone with it.

mod buckets;
mod call;
mod keyvalue;

use std::any::Any;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use wasmtime::component::Linker;

use crate::json::short_list::short_list;
use crate::kv::scratch::Scratch;
use crate::kv::{Bucket, EndpointKv, Quota, Store};
use crate::plugin::bindings;
use crate::plugin::capability::{Capability, EndpointView, HasView, RecordedGrant, View};
use crate::plugin::names::is_same;
use crate::request::dependencies::Dependency;
use crate::telemetry::metrics::KvCalls;

/// Full name of the contract's interface.
const KV: &str = "modelhost:handler/kv@0.1.0";

/// The quota of a handler whose calls of a store are answered by the recording.
const NO_QUOTA: Quota = Quota { bytes: u64::MAX, entries: u64::MAX, value: 4 << 30 };

/// Values that handlers keep.
pub struct Kv;

/// The settings of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The buckets that its handler may open.
    pub buckets: Vec<String>,
    /// The most that they hold.
    pub quota: Quota,
}

/// The grant of a handler.
#[derive(Clone)]
pub struct Granted {
    /// Its buckets.
    kv: EndpointKv,
    /// Counts what it asks of them.
    calls: Option<KvCalls>,
}

/// The state of an instance.
#[derive(Default)]
pub struct State {
    /// The values of a run that must not write.
    scratch: Option<Box<Scratch>>,
    /// Places for the values that are held to be replaced, once one has been.
    cas_places: Option<Arc<Semaphore>>,
}

/// The buckets of a recorded handler.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Buckets(#[serde(deserialize_with = "short_list")] Vec<String>);

impl RecordedGrant for Buckets {
    fn is_left_out(&self) -> bool {
        self.0.is_empty()
    }
}

impl Capability for Kv {
    type Settings = Settings;
    type Store = Arc<Store>;
    type Granted = Granted;
    type State = State;
    type Recorded = Buckets;

    const INTERFACES: &'static [&'static str] =
        &["modelhost:handler/kv", "wasi:keyvalue/atomics", "wasi:keyvalue/batch", "wasi:keyvalue/store"];
    const HINT: &'static str = "handlers keep values only in the buckets that their endpoint grants: \
        `kv = [\"default\"]`, and once for the host `[kv]` with `store = \"values.redb\"`";
    const DEPENDENCY: Option<Dependency> = Some(Dependency::Kv);
    const USE: &'static str = "it keeps values, in the buckets that the endpoint's `kv` grants";

    fn no_store() -> Arc<Store> {
        Arc::new(Store::empty())
    }

    async fn grant(
        settings: &Settings,
        endpoint: &EndpointView<'_>,
        store: &Arc<Store>,
    ) -> Result<Option<Granted>, String> {
        let Settings { buckets, quota } = settings;
        let grant = || Granted {
            kv: EndpointKv::new(store.clone(), endpoint.name, buckets, *quota),
            calls: Some(endpoint.metrics.kv.clone()),
        };
        Ok((!buckets.is_empty()).then(grant))
    }

    fn is_used_by(import: &str) -> bool {
        is_same(import, KV) || import.starts_with("wasi:keyvalue/")
    }

    fn link<T: Send + 'static>(
        linker: &mut Linker<T>,
        view: fn(&mut T) -> View<'_, Kv>,
    ) -> wasmtime::Result<()> {
        bindings::modelhost::handler::kv::add_to_linker::<_, HasView<Kv>>(linker, view)?;
        keyvalue::link(linker, view)
    }

    fn begin(state: &mut State) {
        state.scratch = None;
    }

    fn most_bytes(granted: &Granted) -> usize {
        granted.kv.most_value()
    }

    fn handle(entry: &(dyn Any + Send)) -> Option<&'static str> {
        entry.is::<Bucket>().then_some("a bucket")
    }

    fn recorded(granted: Option<&Granted>) -> Buckets {
        Buckets(granted.map(|granted| granted.kv.granted().to_vec()).unwrap_or_default())
    }

    fn replayed(Buckets(buckets): &Buckets, store: &Arc<Store>) -> Option<Granted> {
        let kv = || EndpointKv::new(store.clone(), "replay", buckets, NO_QUOTA);
        (!buckets.is_empty()).then(|| Granted { kv: kv(), calls: None })
    }

    fn is_like(one: &Granted, other: &Granted) -> bool {
        one.kv.granted() == other.kv.granted()
    }

    fn begin_metrics(settings: &Settings, endpoint: &EndpointView<'_>) {
        if !settings.buckets.is_empty() {
            endpoint.metrics.kv.begin();
        }
    }

    fn refresh_metrics(settings: &Settings, endpoint: &EndpointView<'_>, store: &Arc<Store>) {
        if let Some(is_up) = reaches(settings, store) {
            endpoint.metrics.kv.set_up(is_up);
        }
    }

    fn is_ready(settings: &Settings, store: &Arc<Store>) -> bool {
        reaches(settings, store) != Some(false)
    }

    fn close(store: &Arc<Store>) {
        store.close();
    }
}

/// Whether the values that an endpoint keeps can be reached now; `None` if it keeps none, or in a file.
fn reaches(settings: &Settings, store: &Store) -> Option<bool> {
    if settings.buckets.is_empty() { None } else { store.is_reachable() }
}
