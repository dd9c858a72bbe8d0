//! One endpoint's way to a model.
//!
//! Flow: `verify → [lane] → queue or session`.
//! In:   verified inputs of one request. Out: its [`Prediction`].
//!
//! Endpoints that share a model have a lane each: its requests wait in a line of their own and are joined with each
//! other only, so neither load nor settings of one endpoint reach another.

use std::sync::Arc;

use tokio::runtime::Handle;

use super::queue::LineId;
use super::schedule::{Batching, Wait};
use super::{Model, ModelError, Prediction};
use crate::tensor::{Signature, Tensor};

/// A way to a loaded model; keeps it loaded.
#[derive(Debug)]
pub struct Lane {
    pub(super) model: Arc<Model>,
    pub(super) line: LineId,
    pub(super) batching: Batching,
}

impl Lane {
    /// The model.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// What the model takes and returns.
    pub fn signature(&self) -> &Arc<Signature> {
        self.model.signature()
    }

    /// How requests share runs; at most as configured, see [`Model::lane`].
    pub fn batching(&self) -> Batching {
        self.batching
    }

    /// Runs the model on one request and returns one tensor per output, in signature order.
    ///
    /// `inputs` are in signature order and fit it, see `pipeline/verify.rs`. Waits, in the line of this lane, while all
    /// sessions are running. Dropping the future is safe at any moment: a request that waits leaves the line, a run
    /// that has started goes on without its caller.
    ///
    /// # Errors
    /// [`ModelError::Input`] and [`ModelError::Run`].
    pub async fn infer(&self, inputs: Vec<Tensor>) -> Result<Prediction, ModelError> {
        infer(&self.model, self.line, self.batching, inputs).await
    }

    /// The same, on the workers of `runtime`: for a caller whose own thread must not hold a session, because it may be made to
    /// rest at any moment. Keep the lane until this has ended.
    ///
    /// # Errors
    /// As [`Lane::infer`].
    pub async fn infer_on(&self, runtime: &Handle, inputs: Vec<Tensor>) -> Result<Prediction, ModelError> {
        let (model, line, batching) = (self.model.clone(), self.line, self.batching);
        let run = runtime.spawn(async move { infer(&model, line, batching, inputs).await });
        run.await.unwrap_or_else(|error| Err(ModelError::Run(error.to_string())))
    }
}

async fn infer(
    model: &Model,
    line: LineId,
    batching: Batching,
    inputs: Vec<Tensor>,
) -> Result<Prediction, ModelError> {
    let sessions = &model.sessions;
    // An optional input is not one of rows: it concerns the whole run.
    let alone = inputs.len() > model.signature().required().len();
    if !alone && batching.wait == Wait::Always && batching.max_batch > 1 {
        return sessions.queue.submit(line, inputs).await;
    }
    // Also while others wait: a session that is free has no runner yet, and standing in line for it would keep the
    // line for ever once it has formed.
    match sessions.run_in_place(inputs) {
        Ok(outputs) => Ok(Prediction::alone(outputs?)),
        Err(inputs) if alone => sessions.queue.submit_alone(line, inputs).await,
        Err(inputs) => sessions.queue.submit(line, inputs).await,
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.model.sessions.queue.close_line(self.line);
    }
}
