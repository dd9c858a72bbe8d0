//! One endpoint's handle of a model.
//!
//! Flow: `verify → [handle] → queue or session`.
//! In:   verified inputs of one request. Out: its [`Prediction`].
//!
//! Endpoints that share a model have a handle each: its requests wait in a queue of their own and are joined
//! with each other only, so neither load nor settings of one endpoint reach another.

use std::sync::Arc;

use tokio::runtime;
use tracing::info;

use super::error::ModelError;
use super::loaded::Model;
use super::prediction::Prediction;
use super::queue::ClientId;
use super::schedule::{Batching, Wait};
use super::sequences::{SequenceCall, SequenceLimits, Sequences};
use super::warm_up;
use crate::tensor::{Signature, Tensor};

/// A handle of a loaded model; keeps it loaded.
#[derive(Debug)]
pub struct ModelHandle {
    pub(super) model: Arc<Model>,
    pub(super) client: ClientId,
    pub(super) batching: Batching,
    pub(super) sequences: Option<Sequences>,
}

impl Model {
    /// Opens a way to the model for one endpoint. With batching this runs the model, so it blocks.
    ///
    /// # Errors
    /// [`ModelError::Batching`] if requests to this model cannot be joined, with the reason.
    pub fn handle(self: &Arc<Self>, mut batching: Batching) -> Result<ModelHandle, ModelError> {
        if batching.max_batch > 1 {
            let best = warm_up::can_batch(self.signature())
                .and_then(|()| self.sessions.best_batch(&batching))
                .map_err(|reason| ModelError::Batching { path: self.location.path.clone(), reason })?;
            // Who wants to wait for full batches knows why.
            if batching.wait == Wait::Busy && best < batching.max_batch {
                info!(
                    model.path = %self.location.path.display(),
                    max_batch = batching.max_batch,
                    batch = best,
                    "larger batches gain nothing on this model and device"
                );
                batching.max_batch = best;
            }
        }
        let client = self.sessions.queue.open(batching);
        Ok(ModelHandle { model: Arc::clone(self), client, batching, sequences: None })
    }
}

impl ModelHandle {
    /// The model.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// The inputs and outputs of the model, without its state.
    pub fn signature(&self) -> &Arc<Signature> {
        self.sequences.as_ref().map_or(self.model.signature(), Sequences::signature)
    }

    /// The handle with state that is kept between the requests of a sequence: outputs, each with the input
    /// that takes it.
    ///
    /// # Errors
    /// [`ModelError::Load`]: the model has no such outputs and inputs.
    pub fn with_state(
        mut self,
        state: &[(String, String)],
        limits: SequenceLimits,
    ) -> Result<ModelHandle, ModelError> {
        let sequences = Sequences::new(self.model.signature(), state, limits);
        let path = &self.model.location().path;
        self.sequences = sequences.map_err(|reason| ModelError::Load { path: path.clone(), reason })?;
        Ok(self)
    }

    /// The sequences, if it keeps state.
    pub fn sequences(&self) -> Option<&Sequences> {
        self.sequences.as_ref()
    }

    /// How requests share runs; at most as configured, see [`Model::handle`].
    pub fn batching(&self) -> Batching {
        self.batching
    }

    /// Runs the model on one request and returns one tensor per output, in signature order.
    ///
    /// `inputs` are in signature order and fit it, see `pipeline/verify.rs`. Waits, in the queue of this
    /// handle, while all sessions are running. Dropping the future is safe at any moment: a request that
    /// waits leaves the queue, a run that has started goes on without its caller.
    ///
    /// # Errors
    /// [`ModelError::Input`] and [`ModelError::Run`].
    pub async fn infer(&self, inputs: Vec<Tensor>) -> Result<Prediction, ModelError> {
        match &self.sequences {
            None => infer(&self.model, self.client, self.batching, inputs).await,
            Some(_) => Box::pin(self.infer_in(None, inputs, None)).await,
        }
    }

    /// The same of a request that may belong to a sequence: after those of it that came before. On the
    /// workers of `runtime`, if there is one.
    ///
    /// # Errors
    /// As [`ModelHandle::infer`]; [`ModelError::Input`] and [`ModelError::Sequences`] for the sequence.
    pub async fn infer_in(
        &self,
        sequence: Option<&SequenceCall>,
        inputs: Vec<Tensor>,
        runtime: Option<&runtime::Handle>,
    ) -> Result<Prediction, ModelError> {
        let Some(sequences) = &self.sequences else { return self.run(inputs, runtime).await };
        let mut turn = sequences.turn(sequence).await?;
        let prediction = self.run(turn.inputs(inputs)?, runtime).await?;
        Ok(Prediction { outputs: turn.outputs(prediction.outputs)?, ..prediction })
    }

    /// The same, on the workers of `runtime`: for a caller whose own thread must not hold a session, because
    /// it may be made to rest at any moment. Keep the handle until this has ended.
    ///
    /// # Errors
    /// As [`ModelHandle::infer`].
    pub async fn infer_on(
        &self,
        runtime: &runtime::Handle,
        inputs: Vec<Tensor>,
    ) -> Result<Prediction, ModelError> {
        self.infer_in(None, inputs, Some(runtime)).await
    }

    /// The model alone.
    async fn run(
        &self,
        inputs: Vec<Tensor>,
        runtime: Option<&runtime::Handle>,
    ) -> Result<Prediction, ModelError> {
        let Some(runtime) = runtime else {
            return infer(&self.model, self.client, self.batching, inputs).await;
        };
        let (model, client, batching) = (self.model.clone(), self.client, self.batching);
        let run = runtime.spawn(async move { infer(&model, client, batching, inputs).await });
        run.await.unwrap_or_else(|error| Err(ModelError::Run(error.to_string())))
    }
}

async fn infer(
    model: &Model,
    client: ClientId,
    batching: Batching,
    inputs: Vec<Tensor>,
) -> Result<Prediction, ModelError> {
    let sessions = &model.sessions;
    // An optional input is not one of rows: it concerns the whole run.
    let alone = inputs.len() > model.signature().required().len();
    if !alone && batching.wait == Wait::Always && batching.max_batch > 1 {
        return sessions.queue.submit(client, inputs).await;
    }
    // Also while others wait: a session that is free has no runner yet, and waiting for it would keep the
    // queue for ever once it has formed.
    match sessions.run_in_place(inputs) {
        Ok(outputs) => Ok(Prediction::alone(outputs?)),
        Err(inputs) if alone => sessions.queue.submit_alone(client, inputs).await,
        Err(inputs) => sessions.queue.submit(client, inputs).await,
    }
}

impl Drop for ModelHandle {
    fn drop(&mut self) {
        self.model.sessions.queue.close_client(self.client);
    }
}
