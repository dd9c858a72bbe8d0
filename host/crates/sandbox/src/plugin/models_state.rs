//! The models that the request of an instance may use, as its store holds them.
//!
//! Place in the flow: a request gives them, `models` and `wasi:nn` use them ([`models`](super::models)).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::settings::Limits;
use crate::model_access::HandlerModels;

/// The models that the request of an instance may use, and its use of them. Tensors that a guest keeps
/// beyond its request count for the next one.
#[derive(Default)]
pub(super) struct ModelUse {
    pub(super) models: Option<Arc<dyn HandlerModels>>,
    pub(super) tensors: usize,
    pub(super) bytes: Arc<AtomicUsize>,
    pub(super) runs: u32,
}

impl ModelUse {
    /// A request begins with these models, or the last one has ended.
    pub(super) fn begin(&mut self, models: Option<Arc<dyn HandlerModels>>) {
        (self.models, self.runs) = (models, 0);
    }

    /// Whether a guest that is at rest has kept so much that the next request may not have enough.
    pub(super) fn is_nearly_full(&self, limits: &Limits) -> bool {
        self.tensors > limits.tensors / 2 || self.bytes.load(Ordering::Relaxed) > limits.tensor_memory / 2
    }
}
