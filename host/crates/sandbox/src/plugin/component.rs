//! A component that is compiled, checked and linked: what instances are made from.
//!
//! Place in the flow: [`Source`](super::source::Source) makes it,
//! [`Instance::new`](super::instance::Instance::new) instantiates it.

use std::sync::Arc;

use wasmtime::component::InstancePre;

use super::compiled::Compiled;
use super::exports::Indices;
use super::handler_context::HandlerContext;
use super::state::State;

/// A component, ready to be instantiated.
pub(super) struct LoadedComponent {
    pub(super) pre: InstancePre<State>,
    pub(super) exports: Indices,
    /// The things that its instances have in common.
    pub(super) context: Arc<HandlerContext>,
    /// An instance is not ready before it has run `init`: what instances are made from does not begin with
    /// what `init` leaves.
    pub(super) init_in_each: bool,
    /// The code of `pre`: held, so that another load of the same file finds it.
    pub(super) _compiled: Arc<Compiled>,
}
