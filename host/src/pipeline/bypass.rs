//! Answering without the handler where the operator prefers that to no answer: `on_fault = "bypass"`.
//!
//! Place in the flow: a part of the request's trace. Whoever serves the request allows it; the pipeline asks when the
//! handler has failed, and says what it did.
//! Invariants: only a request that goes to a model is bypassed, from the stage in which the handler failed to the end: what the
//! built-in conversion cannot read gets the handler's own failure. No function of the handler is called after it was bypassed.

use super::{post_inference, pre_inference};
use crate::error::{Code, RequestError};
use crate::model::Lane;
use crate::plugin::Outcome;
use crate::request::{Output, Request};
use crate::tensor::{Signature, Tensor};

/// Whether a request may be answered without the handler, and why it was.
#[derive(Debug, Default)]
pub struct Bypass {
    allowed: bool,
    unavailable: Option<RequestError>,
    why: Option<RequestError>,
}

impl Bypass {
    /// Allows it, should the handler fail.
    pub fn allow(&mut self) {
        self.allowed = true;
    }

    /// The handler is not to be called at all; this is why. Allowed before, the request is answered without it.
    pub fn close_handler(&mut self, why: RequestError) {
        self.unavailable = Some(why);
    }

    /// Why the request was answered without the handler, and from which stage on; `None` if it was not.
    pub fn why(&self) -> Option<&RequestError> {
        self.why.as_ref()
    }

    pub(super) fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// Why the handler is not to be called.
    pub(super) fn unavailable(&mut self) -> Option<RequestError> {
        self.unavailable.take()
    }

    fn forgives(&self, failure: &RequestError) -> bool {
        self.allowed && (failure.code.is_fault() || failure.code == Code::PluginUnavailable)
    }

    /// The model's inputs as the built-in conversion makes them, after a `failure` of `pre-inference`, or of the handler's start.
    ///
    /// # Errors
    /// The failure itself, where there is no way around the handler.
    pub(super) async fn inputs(
        &mut self,
        failure: RequestError,
        model: Option<&Lane>,
        request: &Request,
    ) -> Result<Vec<Tensor>, RequestError> {
        if self.forgives(&failure)
            && model.is_some()
            && let Ok(Outcome::Next(inputs)) =
                pre_inference::pre_inference(None, model, true, request, None).await
        {
            self.why = Some(failure);
            return Ok(inputs);
        }
        Err(failure)
    }

    /// The model's `outputs` as the built-in conversion writes them, after a `failure` of `post-inference`.
    ///
    /// # Errors
    /// The failure itself, where there is no way around the handler.
    pub(super) async fn output(
        &mut self,
        failure: RequestError,
        signature: Option<&Signature>,
        request: &Request,
        outputs: Option<Vec<Tensor>>,
    ) -> Result<Output, RequestError> {
        if self.forgives(&failure)
            && let Some(outputs) = outputs
            && let Ok(output) = post_inference::post_inference(None, signature, true, request, outputs).await
        {
            self.why = Some(failure);
            return Ok(output);
        }
        Err(failure)
    }
}
