//! Requests that handlers send, as a capability: `wasi:http/outgoing-handler`, or `wasi:http/client`.
//!
//! Place in the flow: an entry of the list of capabilities. In: the places that `allow_outbound` lists. Out:
//! the way there, which `wasi_http_state.rs` sends by. Its functions are those of `wasi:http`, which
//! applications have without the grant too: `linkers.rs` links them together, and what is sent without it is
//! denied.
//! Invariant: a run that is no client's request sends nothing.

use std::sync::Arc;

use wasmtime::component::Linker;

use crate::outbound::{Outbound as Sender, Rules};
use crate::plugin::bindings::{CLIENT, OUTGOING_HANDLER};
use crate::plugin::capability::{Capability, EndpointView, View};
use crate::plugin::names::is_same;
use crate::request::dependencies::Dependency;

/// Requests that handlers send.
pub struct Outbound;

impl Capability for Outbound {
    /// Where they may go.
    type Settings = Rules;
    type Store = ();
    type Granted = Arc<Sender>;
    /// That of `wasi:http` is with the store, for applications without the grant as well.
    type State = ();
    /// Whether it may send any.
    type Recorded = bool;

    const INTERFACES: &'static [&'static str] = &["wasi:http/outgoing-handler", "wasi:http/types"];
    const HINT: &'static str = "handlers send requests only to where the endpoint says: \
        `allow_outbound = [\"https://hooks.example.com\"]`";
    const DEPENDENCY: Option<Dependency> = Some(Dependency::Outbound);
    const USE: &'static str = "it can send requests, to where `allow_outbound` says";
    /// Requests of `init` are denied, always.
    const ANSWERS_INIT: bool = false;

    fn no_store() {}

    async fn grant(rules: &Rules, _: &EndpointView<'_>, (): &()) -> Result<Option<Arc<Sender>>, String> {
        if rules.0.is_empty() {
            return Ok(None);
        }
        let cannot = |cause| format!("the certificates that this system trusts cannot be read: {cause}");
        Ok(Some(Arc::new(Sender::new(rules.clone()).await.map_err(cannot)?)))
    }

    /// Its types alone are an application's.
    fn is_used_by(import: &str) -> bool {
        is_same(import, OUTGOING_HANDLER) || is_same(import, CLIENT)
    }

    fn link<T: Send + 'static>(
        _: &mut Linker<T>,
        _: fn(&mut T) -> View<'_, Outbound>,
    ) -> wasmtime::Result<()> {
        Ok(())
    }

    fn begin((): &mut ()) {}

    fn recorded(granted: Option<&Arc<Sender>>) -> bool {
        granted.is_some()
    }

    /// The recording answers what it sends.
    fn replayed(is_granted: &bool, (): &()) -> Option<Arc<Sender>> {
        is_granted.then(|| Arc::new(Sender::nowhere()))
    }
}
