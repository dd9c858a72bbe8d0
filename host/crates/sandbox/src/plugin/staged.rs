//! A call of a handler around a model, and what it comes to.
//!
//! Place in the flow: the stages before and after the model make a [`StagedCall`] and go on with its
//! [`Outcome`]; [`Lease::call`](super::Lease::call) has an instance run it.

use super::stages::Stages;
use crate::error::Stage;
use crate::request::Response;
use crate::tensor::Tensor;

/// A function of a handler around a model, with its argument.
#[derive(Debug, Clone, Copy)]
pub enum StagedCall<'a> {
    /// `pre-inference`, of the request's body.
    Pre,
    /// `pre-inference-tensors`, of the request's tensors.
    PreTensors(&'a [Tensor]),
    /// `post-inference`, of the model's outputs. Its outcome is a response.
    Post(&'a [Tensor]),
    /// `post-inference-tensors`, of the model's outputs.
    PostTensors(&'a [Tensor]),
}

impl<'a> StagedCall<'a> {
    /// The stage that it belongs to.
    pub(super) fn stage(self) -> Stage {
        match self {
            StagedCall::Pre | StagedCall::PreTensors(_) => Stage::PreInference,
            StagedCall::Post(_) | StagedCall::PostTensors(_) => Stage::PostInference,
        }
    }

    /// The function's name.
    pub(super) fn function(self) -> &'static str {
        match self {
            StagedCall::Pre => "pre-inference",
            StagedCall::PreTensors(_) => "pre-inference-tensors",
            StagedCall::Post(_) => "post-inference",
            StagedCall::PostTensors(_) => "post-inference-tensors",
        }
    }

    /// Whether a handler of these stages has the function.
    pub(super) fn is_among(self, stages: Stages) -> bool {
        match self {
            StagedCall::Pre => stages.pre,
            StagedCall::PreTensors(_) => stages.pre_tensors,
            StagedCall::Post(_) => stages.post,
            StagedCall::PostTensors(_) => stages.post_tensors,
        }
    }

    /// The tensors that the request's body stands for; `None` if they are the body or the model's outputs.
    pub(super) fn sample(self) -> Option<&'a [Tensor]> {
        match self {
            StagedCall::PreTensors(sample) => Some(sample),
            StagedCall::Pre | StagedCall::Post(_) | StagedCall::PostTensors(_) => None,
        }
    }
}

/// The outcome of a stage.
#[derive(Debug)]
pub enum Outcome<T> {
    /// Go on with this.
    Next(T),
    /// The handler answers the caller at once.
    Respond(Response),
}
