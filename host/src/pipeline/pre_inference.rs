//! The model's inputs: from the handler, or from the request itself if the handler has no say in it.
//!
//! Flow: `admit → [pre_inference] → infer`.
//! In:   a request and a borrowed instance. Out: tensors that fit the model, bound to its inputs, or the
//!       handler's answer.
//!
//! The first line that applies:
//!
//! | the request has | the handler has | the endpoint has | then |
//! |---|---|---|---|
//! | a body | `pre-inference` | | it gets the body |
//! | a body, JSON | `pre-inference-tensors` | a schema | JSON becomes tensors by the schema, and it gets those |
//! | a body, JSON | `pre-inference-tensors` | a model | JSON becomes tensors by the model's signature, and it gets those |
//! | a body, JSON | neither | a model | JSON becomes tensors by the model's signature |
//! | tensors | `pre-inference-tensors` | | it gets the tensors |
//! | tensors | `pre-inference` | a model, and `bare_tensors` | they go straight to it |
//! | tensors | `pre-inference` | | it gets them as a JSON object, `{"name": value}` |
//! | tensors | neither | a model | they go straight to it |
//! | anything | | no model | the tensors, or nothing, go to `post-inference` |
//!
//! How JSON becomes tensors is the request's [`Form`]: the plain rule of `json/read.rs`, or TensorFlow
//! Serving's.
//!
//! A schema is held against the request first, before a sandbox is taken: against the body, which has to be
//! JSON then, or against the tensors. Only tensors that go past a `pre-inference` straight to the model,
//! where the operator says so, are not what it is about.
//!
//! Invariant: what reaches the model fits its signature; the side that made what does not is to blame.

use crate::blocking;
use crate::error::{Code, RequestError, Stage};
use crate::json::{read, special};
use crate::memory;
use crate::model::DEFAULT_SIGNATURE_KEY;
use crate::model_access::ModelSpec;
use crate::pipeline::{respond, verify};
use crate::plugin::{Lease, Outcome, StagedCall, Stages};
use crate::request::{Form, Input, Request};
use crate::schema::Schema;
use crate::schema::check::{self, ValidationError};
use crate::schema::raw_body::{RawBody, RawBodyError};
use crate::tensor::{Signature, Tensor};

const STAGE: Stage = Stage::PreInference;

/// Whether tensors that a request brings go past the handler, straight to the model; `bare`: they may.
pub(super) fn passes_by(stages: Stages, bare: bool) -> bool {
    bare && stages.pre && !stages.pre_tensors
}

/// Holds the request against the schema. Gives the tensors that its body stands for if that made them.
///
/// # Errors
/// `invalid_input` with every fault, `unsupported_media_type`.
pub(super) fn check(
    schema: &Schema,
    stages: Stages,
    model: Option<ModelSpec<'_>>,
    bare: bool,
    request: &Request,
) -> Result<Option<Vec<Tensor>>, RequestError> {
    let violating = |violations| RequestError::violating(STAGE, violations);
    let (body, form) = match &request.input {
        Input::Exchange(_) | Input::Socket(_) => return Ok(None),
        Input::Tensors(_) if passes_by(stages, bare) => return Ok(None),
        Input::Tensors(input) => {
            return check::tensors(schema, &input.tensors).map(|()| None).map_err(violating);
        }
        Input::Body(body, form) => (body, form),
    };
    json_only(request)?;
    if !stages.pre && matches!(form, Form::Serving(_)) {
        // A form of its own: what comes of it is checked.
        let own = schema.signature();
        let (signature, key) = of(model);
        let tensors = tensors(request, Some(signature.unwrap_or(&own)), key)?;
        return check::tensors(schema, &tensors).map(|()| Some(tensors)).map_err(violating);
    }
    let misfit = |misfit| match misfit {
        ValidationError::Body(text) => RequestError::invalid(STAGE, text),
        ValidationError::Inputs(violations) => violating(violations),
    };
    blocking::if_large(body.len(), || match stages.pre_tensors && !stages.pre {
        true => converted(request, body, || check::body_tensors(schema, body).map_err(misfit)).map(Some),
        false => {
            let copied = request.memory.take(special::most_copied(body));
            let _copied = copied.map_err(|full| full.at(STAGE))?;
            check::body(schema, body).map(|()| None).map_err(misfit)
        }
    })
}

/// The tensors that `convert` makes of the JSON in a body, for which there is memory before they are made.
fn converted(
    request: &Request,
    body: &[u8],
    convert: impl FnOnce() -> Result<Vec<Tensor>, RequestError>,
) -> Result<Vec<Tensor>, RequestError> {
    // What is this short stands for nothing that counts.
    let most = if body.len() < memory::COUNTED / 4 { 0 } else { read::most(body) };
    let charge = request.memory.take(most).map_err(|full| full.at(STAGE))?;
    let mut tensors = convert()?;
    charge.own_tensors(&mut tensors, body).map_err(|full| full.at(STAGE))?;
    Ok(tensors)
}

/// Holds the request against what its body has to be.
///
/// # Errors
/// `unsupported_media_type`, `invalid_input`.
pub(super) fn check_raw(raw_body: &RawBody, request: &Request) -> Result<(), RequestError> {
    let body = match &request.input {
        Input::Exchange(_) | Input::Socket(_) => return Ok(()),
        Input::Tensors(_) => {
            return Err(RequestError::invalid(STAGE, "the endpoint takes a file as body, no tensors"));
        }
        Input::Body(body, _) => body,
    };
    raw_body.check(request.content_type(), body).map_err(|error| match error {
        RawBodyError::MediaType(text) => RequestError::new(Code::UnsupportedMediaType, STAGE, text),
        RawBodyError::Empty(text) => RequestError::invalid(STAGE, text),
    })
}

/// Runs the stage; `checked` is what [`check()`] made.
///
/// # Errors
/// `invalid_input`, `unsupported_media_type`, or what the handler's call ended in.
pub(super) async fn pre_inference(
    lease: Option<&mut Lease<'_>>,
    model: Option<ModelSpec<'_>>,
    bare: bool,
    request: &Request,
    checked: Option<Vec<Tensor>>,
) -> Result<Outcome<Vec<Tensor>>, RequestError> {
    let (signature, _) = of(model);
    let (tensors, blame) = match made(lease, model, bare, request, checked).await? {
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
    model: Option<ModelSpec<'_>>,
    bare: bool,
    request: &Request,
    checked: Option<Vec<Tensor>>,
) -> Result<(Outcome<Vec<Tensor>>, Code), RequestError> {
    const CALLER: Code = Code::InvalidInput;
    const HANDLER: Code = Code::PluginBadOutput;
    let stages = lease.as_ref().map(|lease| lease.stages()).unwrap_or_default();
    let takes_body = match &request.input {
        Input::Body(..) => stages.pre,
        Input::Tensors(_) => stages.pre && !stages.pre_tensors && !passes_by(stages, bare),
        Input::Exchange(_) | Input::Socket(_) => false,
    };
    let (signature, key) = of(model);
    let sample = || checked.map_or_else(|| tensors(request, signature, key), Ok);
    if takes_body && !request.body_fits().map_err(|full| full.at(STAGE))? {
        let message = format!("as JSON the inputs are longer than {} bytes", request.body_limit);
        return Err(RequestError::new(Code::BodyTooLarge, STAGE, message));
    }
    if takes_body
        && let Input::Body(_, Form::Serving(serving)) = &request.input
        && serving.has_special()
    {
        let message = "malformed json: it has NaN or an infinity, and a handler gets JSON; hint: send `null`";
        return Err(RequestError::invalid(STAGE, message));
    }
    if let Some(lease) = lease {
        if takes_body && let Some(outcome) = lease.call(request, StagedCall::Pre).await {
            return Ok((outcome?, HANDLER));
        }
        if stages.pre_tensors {
            let sample = sample()?;
            return match lease.call(request, StagedCall::PreTensors(&sample)).await {
                Some(outcome) => Ok((outcome?, HANDLER)),
                None => Ok((Outcome::Next(sample), CALLER)),
            };
        }
    }
    Ok((Outcome::Next(sample()?), CALLER))
}

/// The tensors that the request brings, or that its JSON body stands for.
fn tensors(request: &Request, signature: Option<&Signature>, key: &str) -> Result<Vec<Tensor>, RequestError> {
    let (body, form) = match &request.input {
        Input::Tensors(input) => return Ok(input.tensors.clone()),
        Input::Exchange(_) | Input::Socket(_) => return Ok(Vec::new()),
        Input::Body(body, form) => (body, form),
    };
    let Some(signature) = signature else { return Ok(Vec::new()) };
    json_only(request)?;
    let read = || {
        let read = match form {
            Form::Plain => read::tensors(body, signature),
            Form::Serving(serving) => serving.tensors(body, signature, key),
        };
        read.map_err(|message| RequestError::invalid(STAGE, message))
    };
    blocking::if_large(body.len(), || converted(request, body, read))
}

/// The inputs and outputs of the model, and the name by which the signature is known.
fn of(model: Option<ModelSpec<'_>>) -> (Option<&Signature>, &str) {
    match model {
        Some(ModelSpec { signature, signature_key }) => (Some(signature), signature_key),
        None => (None, DEFAULT_SIGNATURE_KEY),
    }
}

fn json_only(request: &Request) -> Result<(), RequestError> {
    if request.is_json() {
        return Ok(());
    }
    let message = format!(
        "expected `application/json`, got `{}`; say it in the header `content-type`",
        request.content_type()
    );
    Err(RequestError::new(Code::UnsupportedMediaType, STAGE, message))
}

#[cfg(test)]
mod tests;
