//! How a run reaches its model, which one of three answers: the loaded model, a known answer, or a recording.
//!
//! Place in the flow: vocabulary between the program of a run (`pipeline`), which calls [`ModelAccess`], and
//! what implements it above the sandbox and the models, which do not know each other.

use std::pin::Pin;
use std::sync::Arc;

use crate::error::RequestError;
use crate::tensor::{Signature, Tensor};

/// The description of a run's model.
#[derive(Debug, Clone, Copy)]
pub struct ModelSpec<'a> {
    /// The inputs and outputs of the model.
    pub signature: &'a Arc<Signature>,
    /// The name by which TensorFlow Serving's form knows that signature.
    pub signature_key: &'a str,
}

/// The model of one run.
pub trait ModelAccess {
    /// Its description; `None` if the run has no model.
    fn spec(&self) -> Option<ModelSpec<'_>>;

    /// Runs the model. `inputs` fit its signature; the outputs do too. Without a model the tensors come back
    /// as they are.
    ///
    /// # Errors
    /// `invalid_input` for values that the model refuses, `model_error`, `request_timeout`.
    fn infer(
        &mut self,
        inputs: Vec<Tensor>,
    ) -> impl Future<Output = Result<Vec<Tensor>, RequestError>> + Send;
}

/// One call of a model. The data of tensors are counted references: keeping a call copies none.
#[derive(Debug, Clone)]
pub struct ModelCall {
    /// As the model got them; without a model, as `pre-inference` made them.
    pub inputs: Vec<Tensor>,
    /// As `post-inference` got them; `None` if the model failed.
    pub outputs: Option<Vec<Tensor>>,
}

/// The models of an endpoint, as a handler calls them by itself.
pub trait HandlerModels: Send + Sync {
    /// Their names, in the order of the configuration.
    fn names(&self) -> Vec<Arc<str>>;

    /// The inputs and outputs of a model; an empty name is the first one's.
    ///
    /// # Errors
    /// [`ModelCallError::NoSuchModel`].
    fn signature(&self, model: &str) -> Result<Arc<Signature>, ModelCallError>;

    /// Runs a model: one tensor for each of its outputs, in its order. The future stands for itself.
    fn infer(&self, model: &str, inputs: Vec<Tensor>) -> ModelRun;
}

/// A run of a model that a handler has called.
pub type ModelRun = Pin<Box<dyn Future<Output = Result<Vec<Tensor>, ModelCallError>> + Send>>;

/// One call that a handler has made by itself.
#[derive(Debug, Clone)]
pub struct HandlerModelCall {
    /// The model's name, as the handler gave it.
    pub model: String,
    /// As the handler gave them.
    pub inputs: Vec<Tensor>,
    /// `None` if there was none by the end of the run.
    pub outcome: Option<Result<Vec<Tensor>, ModelCallError>>,
}

/// Why a handler's call of a model has no outputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelCallError {
    /// No model of the endpoint has this name.
    NoSuchModel(String),
    /// The inputs do not fit it.
    InvalidInput(String),
    /// It is not loaded.
    Unloaded,
    /// It was not done in time.
    TimedOut,
    /// It failed.
    Failed(String),
    /// In a replay: the recorded handler was stopped while it waited.
    CutOff,
    /// In a replay: the recorded handler asked for something else.
    Diverged,
}
