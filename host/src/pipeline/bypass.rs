//! Answering without the handler where the operator prefers that to no answer: `on_fault = "bypass"`.
//!
//! Place in the flow: asked by the run when its handler has failed, or may not be called. The plan allows it,
//! the report says what came of it.
//! Invariants: only a request that goes to a model is bypassed, from the stage in which the handler failed to
//! the end: what the built-in conversion cannot read gets the handler's own failure. No function of the
//! handler is called after it was bypassed.

use super::plan::RunPlan;
use super::report::RunReport;
use super::{post_inference, pre_inference};
use crate::error::{Code, RequestError};
use crate::model_access::ModelSpec;
use crate::plugin::Outcome;
use crate::request::{Output, Request};
use crate::tensor::Tensor;

fn allows(plan: &RunPlan, failure: &RequestError) -> bool {
    plan.bypass && (failure.code.is_fault() || failure.code == Code::PluginUnavailable)
}

/// The model's inputs as the built-in conversion makes them, after a `failure` of `pre-inference`, or of the
/// handler's start.
///
/// # Errors
/// The failure itself, where there is no way around the handler.
pub(super) async fn inputs(
    failure: RequestError,
    model: Option<ModelSpec<'_>>,
    request: &Request,
    plan: &RunPlan,
    report: &mut RunReport,
) -> Result<Vec<Tensor>, RequestError> {
    if allows(plan, &failure)
        && model.is_some()
        && let Ok(Outcome::Next(inputs)) =
            pre_inference::pre_inference(None, model, true, request, None).await
    {
        report.bypass(failure);
        return Ok(inputs);
    }
    Err(failure)
}

/// The model's `outputs` as the built-in conversion writes them, after a `failure` of `post-inference`.
///
/// # Errors
/// The failure itself, where there is no way around the handler.
pub(super) async fn output(
    failure: RequestError,
    model: Option<ModelSpec<'_>>,
    request: &Request,
    outputs: Option<Vec<Tensor>>,
    plan: &RunPlan,
    report: &mut RunReport,
) -> Result<Output, RequestError> {
    if allows(plan, &failure)
        && let Some(outputs) = outputs
        && let Ok(output) = post_inference::post_inference(None, model, true, request, outputs).await
    {
        report.bypass(failure);
        return Ok(output);
    }
    Err(failure)
}
