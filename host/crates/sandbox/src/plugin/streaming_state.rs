//! How far the response of an instance's request has come, as its store holds it.
//!
//! Place in the flow: `respond` ([`streaming`](super::streaming)) begins it, the functions of its handle go
//! on.

use std::sync::Arc;

use wasmtime::component::Resource;

use crate::request::exchange::Pieces;

/// The response of the request that an instance serves, as the guest holds it. The store's state has what
/// belongs to it.
pub struct Output;

/// How far the response of an instance's request has come.
#[derive(Default)]
pub(super) struct Streaming {
    /// Counts the instance's requests: the handle of one is none of the next.
    pub(super) number: u32,
    /// Whether the guest still has the handle.
    pub(super) is_held: bool,
    pub(super) sent: Sent,
    pub(super) digest: Option<Arc<str>>,
}

#[derive(Default)]
pub(super) enum Sent {
    #[default]
    Nothing,
    /// The head; pieces go here.
    Head(Pieces),
    /// All of it, or what the guest wanted to send of it.
    All,
}

impl Streaming {
    /// Whether the guest still has the handle of a response.
    pub(super) fn is_held(&self) -> bool {
        self.is_held
    }

    pub(super) fn begin(&mut self, digest: &Arc<str>) -> Resource<Output> {
        self.number = self.number.wrapping_add(1);
        self.is_held = true;
        self.sent = Sent::Nothing;
        self.digest = Some(digest.clone());
        Resource::new_own(self.number)
    }
}
