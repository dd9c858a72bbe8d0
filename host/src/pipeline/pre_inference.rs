//! The model's inputs: from the handler, or from the request itself if the handler has no say in it.
//!
//! Flow: `admit → [pre_inference] → infer`.
//! In:   a request and a borrowed instance. Out: tensors that fit the model, bound to its inputs, or the handler's answer.
//!
//! The first line that applies:
//!
//! | the request has | the handler has | the endpoint has | then |
//! |---|---|---|---|
//! | a body | `pre-inference` | | it gets the body |
//! | a body, JSON | `pre-inference-tensors` | a model | JSON becomes tensors by the model's signature, and it gets those |
//! | a body, JSON | neither | a model | JSON becomes tensors by the model's signature |
//! | tensors | `pre-inference-tensors` | | it gets the tensors |
//! | tensors | | a model | they go straight to it: a handler that reads bodies made for people is not for them |
//! | tensors | `pre-inference` | no model | it gets them as a JSON object, `{"name": value}` |
//! | anything | | no model | the tensors, or nothing, go to `post-inference` |
//!
//! Invariant: what reaches the model fits its signature; whoever made what does not is to blame.

use crate::blocking;
use crate::error::{Code, RequestError, Stage};
use crate::json::read;
use crate::model::Lane;
use crate::pipeline::{respond, verify};
use crate::plugin::{Lease, Outcome};
use crate::request::{Input, Request};
use crate::tensor::{Signature, Tensor};

const STAGE: Stage = Stage::PreInference;

/// Runs the stage.
///
/// # Errors
/// `invalid_input`, `unsupported_media_type`, or what the handler's call ended in.
pub(super) async fn pre_inference(
    lease: Option<&mut Lease<'_>>,
    model: Option<&Lane>,
    request: &Request,
) -> Result<Outcome<Vec<Tensor>>, RequestError> {
    let signature = model.map(|model| &**model.signature());
    let (tensors, blame) = match made(lease, signature, request).await? {
        (Outcome::Respond(response), _) => return respond::checked(response, STAGE).map(Outcome::Respond),
        (Outcome::Next(tensors), blame) => (tensors, blame),
    };
    let Some(signature) = signature else { return Ok(Outcome::Next(tensors)) };
    verify::inputs(tensors, signature)
        .map(Outcome::Next)
        .map_err(|message| RequestError::new(blame, STAGE, message))
}

/// The tensors as they were made, and whose fault it is if they do not fit.
async fn made(
    lease: Option<&mut Lease<'_>>,
    signature: Option<&Signature>,
    request: &Request,
) -> Result<(Outcome<Vec<Tensor>>, Code), RequestError> {
    const CALLER: Code = Code::InvalidInput;
    const HANDLER: Code = Code::PluginBadOutput;
    let stages = lease.as_ref().map(|lease| lease.stages()).unwrap_or_default();
    let takes_body = match &request.input {
        Input::Body(..) => stages.pre,
        Input::Tensors(_) => stages.pre && !stages.pre_tensors && signature.is_none(),
    };
    if let Some(lease) = lease {
        if takes_body && let Some(outcome) = lease.pre_inference(request).await {
            return Ok((outcome?, HANDLER));
        }
        if stages.pre_tensors {
            let sample = tensors(request, signature)?;
            if let Some(outcome) = lease.pre_inference_tensors(request, &sample).await {
                return Ok((outcome?, HANDLER));
            }
        }
    }
    Ok((Outcome::Next(tensors(request, signature)?), CALLER))
}

/// The tensors that the request brings, or that its JSON body stands for.
fn tensors(request: &Request, signature: Option<&Signature>) -> Result<Vec<Tensor>, RequestError> {
    let body = match &request.input {
        Input::Tensors(input) => return Ok(input.tensors.clone()),
        Input::Body(body, _) => body,
    };
    let Some(signature) = signature else { return Ok(Vec::new()) };
    if !request.is_json() {
        let message = format!("expected `application/json`, got `{}`", request.content_type());
        return Err(RequestError::new(Code::UnsupportedMediaType, STAGE, message));
    }
    blocking::if_large(body.len(), || read::tensors(body, signature))
        .map_err(|message| RequestError::invalid(STAGE, message))
}

#[cfg(test)]
mod tests;
