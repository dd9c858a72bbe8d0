//! The answer: from the handler, or the outputs themselves if the handler has no say in it.
//!
//! Flow: `infer → [post_inference] → server`.
//! In:   verified outputs and the instance that prepared the inputs. Out: a response, or tensors for who
//!       brought tensors.
//!
//! The first line that applies:
//!
//! | the request had | the handler has | the endpoint has | then |
//! |---|---|---|---|
//! | a body | `post-inference` | | its response |
//! | a body | `post-inference-tensors` | | its tensors as a JSON object, `{"name": value}` |
//! | a body | neither | | the outputs as a JSON list, in the model's order |
//! | tensors | `post-inference-tensors` | | its tensors |
//! | tensors | `post-inference` | a model, and `bare_tensors` | the outputs |
//! | tensors | `post-inference` | | its response, of which the server makes tensors |
//! | tensors | neither | | the outputs, or the handler's tensors from before |
//!
//! Where a body in TensorFlow Serving's form became tensors, JSON is in that form too.

use crate::blocking;
use crate::error::{RequestError, Stage};
use crate::json::{outputs, serving, write};
use crate::model_access::ModelSpec;
use crate::pipeline::respond;
use crate::plugin::{Lease, Outcome, StagedCall};
use crate::request::{Form, Input, Output, Request};
use crate::tensor::{Tensor, TensorSpec};

const STAGE: Stage = Stage::PostInference;

/// Runs the stage; `bare`: tensors may go past a handler that has no say in tensors.
///
/// # Errors
/// The outcome of the handler's call, `plugin_bad_output` for a response whose content is not of its declared
/// type.
pub(super) async fn post_inference(
    lease: Option<&mut Lease<'_>>,
    model: Option<ModelSpec<'_>>,
    bare: bool,
    request: &Request,
    outputs: Vec<Tensor>,
) -> Result<Output, RequestError> {
    let wants_tensors = matches!(request.input, Input::Tensors(_));
    if let Some(lease) = lease {
        let stages = lease.stages();
        let response_wanted = !wants_tensors || !stages.post_tensors && !bare;
        let mut outcome = None;
        if response_wanted {
            outcome = lease.call(request, StagedCall::Post(&outputs)).await;
        }
        if outcome.is_none() {
            outcome = lease.call(request, StagedCall::PostTensors(&outputs)).await;
        }
        if let Some(outcome) = outcome {
            return match outcome? {
                Outcome::Respond(response) => respond::checked(response, STAGE).map(Output::Response),
                Outcome::Next(tensors) if wants_tensors => Ok(Output::Tensors(tensors)),
                Outcome::Next(tensors) => {
                    as_json(request, &tensors, &[], |tensors, _| write::object(tensors))
                }
            };
        }
    }
    if wants_tensors {
        return Ok(Output::Tensors(outputs));
    }
    let specs = model.map_or(&[][..], |model| &model.signature.outputs);
    as_json(request, &outputs, specs, outputs::list)
}

fn as_json(
    request: &Request,
    tensors: &[Tensor],
    specs: &[TensorSpec],
    plain: fn(&[Tensor], &[TensorSpec]) -> Vec<u8>,
) -> Result<Output, RequestError> {
    let layout = match &request.input {
        Input::Body(_, Form::Serving(serving)) => serving.layout(),
        _ => None,
    };
    let write = || match layout {
        Some(layout) => serving::outputs(tensors, specs, layout),
        None => Ok(plain(tensors, specs)),
    };
    let bytes = tensors.iter().map(|tensor| tensor.data.len()).sum();
    let json = blocking::if_large(bytes, write).map_err(|message| RequestError::invalid(STAGE, message))?;
    Ok(Output::Response(respond::json(json)))
}
