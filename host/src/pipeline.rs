//! The spine: one request through every stage.
//!
//! ```text
//! admit → pre-inference → verify → infer → verify → post-inference → respond
//! ```
//! Place in the flow: `deploy` hands a request to the [`Pipeline`] of the endpoint's current generation.
//! In: a [`Request`], any protocol. Out: a [`Response`] or the [`RequestError`] of the stage that failed; beside
//! it a [`Trace`] of where the time went.
//! Invariants: a request stays with the pipeline it began on, so one generation of handler answers it; each
//! handler function is called at most once; dropping the future at any point gives back permit and session and
//! drops the instance.

pub mod admit;
pub mod debug;
pub mod from_json;
pub mod models;
pub mod respond;
pub mod to_json;
pub mod trace;
pub mod verify;

use std::sync::Arc;
use std::time::Duration;

use self::admit::Door;
use self::models::Models;
use self::trace::Trace;
use crate::blocking;
use crate::error::{Code, RequestError, Stage};
use crate::model::{Lane, ModelError};
use crate::plugin::{self, Lease, Outcome, Plugin};
use crate::request::{Request, Response, until};
use crate::tensor::Tensor;

/// What one endpoint allows. docs/reference.md lists the defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Longest request body, in bytes.
    pub body: usize,
    /// Requests in flight; beyond it they queue.
    pub concurrency: usize,
    /// Requests that may queue; beyond it they are refused with 503.
    pub queue: usize,
    /// From the arrival of a request's head to its answer.
    pub request_timeout: Duration,
    /// What its handler may use.
    pub plugin: plugin::Limits,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            body: 32 << 20,
            concurrency: 64,
            queue: 256,
            request_timeout: Duration::from_secs(30),
            plugin: plugin::Limits::default(),
        }
    }
}

/// Handler and model of one generation of an endpoint, behind the endpoint's door.
pub struct Pipeline {
    /// Shared by all generations: a swap does not let more requests in.
    pub door: Arc<Door>,
    /// The handler; `None` serves the bare model.
    pub plugin: Option<Arc<Plugin>>,
    /// The models; without one, a handler's tensors go straight to its `post-inference`.
    pub models: Models,
}

impl Pipeline {
    /// Serves one request. This is the whole flow; every stage is one line and one file.
    ///
    /// # Errors
    /// What the failing stage says. The caller logs and counts it.
    pub async fn handle(&self, request: &Arc<Request>, trace: &mut Trace) -> Result<Response, RequestError> {
        let _permit = in_time(request, Stage::Admit, self.door.enter()).await??;
        trace.end(Stage::Admit);
        trace.keep("sample", || debug::text(&request.body));

        let model = self.models.of(request)?;
        let mut lease = self.lend(request, model).await?;
        let inputs = match self.pre_inference(lease.as_mut(), model, request).await {
            Ok(Outcome::Next(inputs)) => inputs,
            ended => return finish(lease, ended.map(response_of)),
        };
        trace.end(Stage::PreInference);
        trace.keep("pre_inference", || debug::tensors(&inputs));

        let outputs = infer(model, request, inputs, trace).await?;
        trace.end(Stage::Infer);
        trace.keep("inference", || debug::tensors(&outputs));

        let response = self.post_inference(lease.as_mut(), request, outputs).await;
        trace.end(Stage::PostInference);
        if let Ok(response) = &response {
            trace.keep("post_inference", || format!("{} {}", response.status, debug::text(&response.body)));
        }
        finish(lease, response)
    }

    /// The instance that will serve this request, from here to the end.
    async fn lend(
        &self,
        request: &Arc<Request>,
        model: Option<&Lane>,
    ) -> Result<Option<Lease<'_>>, RequestError> {
        match &self.plugin {
            Some(plugin) => plugin.lend(request, model.map(Lane::signature)).await.map(Some),
            None => Ok(None),
        }
    }

    /// The model's inputs, bound and checked: from the handler, or from the JSON body if it has no say in it.
    async fn pre_inference(
        &self,
        lease: Option<&mut Lease<'_>>,
        model: Option<&Lane>,
        request: &Request,
    ) -> Result<Outcome<Vec<Tensor>>, RequestError> {
        const STAGE: Stage = Stage::PreInference;
        let from_handler = match lease {
            Some(lease) => lease.pre_inference(request).await.transpose()?,
            None => None,
        };
        let (tensors, blame) = match (from_handler, model) {
            (Some(Outcome::Respond(response)), _) => {
                return respond::checked(response, STAGE).map(Outcome::Respond);
            }
            (Some(Outcome::Next(tensors)), _) => (tensors, Code::PluginBadOutput),
            (None, None) => (Vec::new(), Code::Internal),
            (None, Some(_)) if !request.is_json() => {
                let message = format!("expected `application/json`, got `{}`", request.content_type());
                return Err(RequestError::new(Code::UnsupportedMediaType, STAGE, message));
            }
            (None, Some(model)) => (
                blocking::if_large(request.body.len(), || {
                    from_json::tensors(&request.body, model.signature())
                })
                .map_err(|message| RequestError::invalid(STAGE, message))?,
                Code::InvalidInput,
            ),
        };
        let Some(model) = model else { return Ok(Outcome::Next(tensors)) };
        verify::inputs(tensors, model.signature())
            .map(Outcome::Next)
            .map_err(|message| RequestError::new(blame, STAGE, message))
    }

    /// The response: from the handler, or the outputs as JSON if it has no say in it.
    async fn post_inference(
        &self,
        lease: Option<&mut Lease<'_>>,
        request: &Request,
        outputs: Vec<Tensor>,
    ) -> Result<Response, RequestError> {
        if let Some(lease) = lease
            && let Some(response) = lease.post_inference(request, &outputs).await
        {
            return respond::checked(response?, Stage::PostInference);
        }
        let bytes = outputs.iter().map(|output| output.data.len()).sum();
        Ok(respond::json(blocking::if_large(bytes, || to_json::outputs(&outputs))))
    }
}

/// The model's outputs, checked.
async fn infer(
    model: Option<&Lane>,
    request: &Request,
    inputs: Vec<Tensor>,
    trace: &mut Trace,
) -> Result<Vec<Tensor>, RequestError> {
    let Some(model) = model else { return Ok(inputs) };
    let prediction = in_time(request, Stage::Infer, model.infer(inputs)).await?.map_err(model_error)?;
    trace.ran(prediction.queued, prediction.shared);
    verify::outputs(&prediction.outputs, model.signature()).map_err(|text| {
        RequestError::new(Code::ModelError, Stage::Infer, "the model failed").with_detail(text)
    })?;
    Ok(prediction.outputs)
}

/// Gives the instance back if the handler itself ended the request, in whatever way its contract allows. After
/// anything else (a trap, a cut call, nonsense) dropping the lease drops the instance.
fn finish(
    lease: Option<Lease<'_>>,
    outcome: Result<Response, RequestError>,
) -> Result<Response, RequestError> {
    let at_rest = match &outcome {
        Ok(_) => true,
        Err(error) => matches!(error.code, Code::InvalidInput | Code::PluginError),
    };
    if let Some(lease) = lease
        && at_rest
    {
        lease.finish();
    }
    outcome
}

/// The response a handler ended its own request with.
fn response_of(outcome: Outcome<Vec<Tensor>>) -> Response {
    match outcome {
        Outcome::Respond(response) => response,
        // Unreachable by construction: `handle` goes on with tensors.
        Outcome::Next(tensors) => respond::json(to_json::outputs(&tensors)),
    }
}

/// Runs a stage that may wait, for as long as the request has.
async fn in_time<F: Future>(request: &Request, stage: Stage, future: F) -> Result<F::Output, RequestError> {
    until(request.deadline, future)
        .await
        .ok_or_else(|| RequestError::new(Code::RequestTimeout, stage, "the request took longer than it may"))
}

fn model_error(error: ModelError) -> RequestError {
    match error {
        ModelError::Input(text) => RequestError::invalid(Stage::Infer, text),
        error => RequestError::new(Code::ModelError, Stage::Infer, "the model failed").with_detail(error),
    }
}
