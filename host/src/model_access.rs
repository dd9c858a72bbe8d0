//! How a run reaches its model, which one of three answers: the loaded model, a known answer, or a recording.
//!
//! Place in the flow: vocabulary between the program of a run (`pipeline`), which calls [`ModelAccess`], and
//! what implements it above the sandbox and the models, which do not know each other.

use std::sync::Arc;

use crate::error::RequestError;
use crate::tensor::{Signature, Tensor};

/// What a run knows of its model.
#[derive(Debug, Clone, Copy)]
pub struct ModelSpec<'a> {
    /// What the model takes and returns.
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
