//! What a run of a model comes to for one request.
//!
//! Place in the flow: `queue` and `sessions` make it, the pipeline reads it.

use std::time::Duration;

use crate::tensor::Tensor;

/// The model's answer to one request.
#[derive(Debug)]
pub struct Prediction {
    /// One tensor per output, in signature order.
    pub outputs: Vec<Tensor>,
    /// How long the request waited for its run.
    pub queued: Duration,
    /// How many requests shared the run; `None` for all but one of them, so that a sum over requests counts
    /// runs.
    pub shared: Option<usize>,
}

impl Prediction {
    /// Of a request that ran at once, by itself.
    pub(super) fn alone(outputs: Vec<Tensor>) -> Prediction {
        Prediction { outputs, queued: Duration::ZERO, shared: Some(1) }
    }
}
