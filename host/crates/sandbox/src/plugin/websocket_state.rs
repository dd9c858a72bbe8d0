//! The WebSocket of an instance, as its store holds it.
//!
//! Place in the flow: `websocket` ([`websocket`](super::websocket)) begins it, the functions of its handles
//! go on.

use std::sync::Arc;

use wasmtime::component::Resource;

/// A handshake, as the guest holds it. The store's state has what belongs to it.
pub struct Upgrade;

/// The WebSocket of an instance.
#[derive(Default)]
pub(super) struct Conversation {
    /// Counts the instance's sockets: the handle of one is none of the next.
    pub(super) number: u32,
    /// Whether the guest still has a handle of it.
    pub(super) is_held: bool,
    pub(super) digest: Option<Arc<str>>,
}

impl Conversation {
    /// Whether the guest still has a handle of its socket.
    pub(super) fn is_held(&self) -> bool {
        self.is_held
    }

    pub(super) fn begin(&mut self, digest: Arc<str>) -> Resource<Upgrade> {
        self.number = self.number.wrapping_add(1);
        self.is_held = true;
        self.digest = Some(digest);
        Resource::new_own(self.number)
    }
}
