//! The spine: one request through every stage.
//!
//! ```text
//! admit → pre-inference → verify → infer → verify → post-inference → respond
//! ```
//! Place in the flow: `deploy` hands a request to the [`Pipeline`] of the endpoint's current generation.
//! In: a [`Request`], any protocol. Out: an [`Output`] or the [`RequestError`] of the stage that failed; beside
//! it a [`Trace`] of where the time went.
//! Invariants: a request stays with the pipeline it began on, so one generation of handler answers it; each
//! handler function is called at most once; dropping the future at any point gives back permit and session and
//! drops the instance.

pub mod admit;
pub mod bypass;
pub mod debug;
pub mod models;
mod post_inference;
mod pre_inference;
pub mod respond;
pub mod trace;
pub mod verify;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use self::admit::Door;
use self::models::Models;
use self::trace::Trace;
use crate::arrivals::Pace;
use crate::error::{Code, RequestError, Stage};
use crate::model::{Lane, ModelError};
use crate::plugin::{self, Keep, Lease, Outcome, Plugin, Stages};
use crate::request::{Input, Output, Request, until};
use crate::schema::Schema;
use crate::tensor::Tensor;

/// What one endpoint allows. The defaults are in `config/settings/rows.rs`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Longest request body, in bytes.
    pub body: usize,
    /// How fast it has to come.
    pub pace: Pace,
    /// Requests in flight; beyond it they queue.
    pub concurrency: usize,
    /// Requests that may queue; beyond it they are refused with 503.
    pub queue: usize,
    /// From the arrival of a request's head to its answer.
    pub request_timeout: Duration,
    /// What its handler may use.
    pub plugin: plugin::Limits,
}

/// Handler and model of one generation of an endpoint, behind the endpoint's door.
#[derive(Clone)]
pub struct Pipeline {
    /// Shared by all generations: a swap does not let more requests in.
    pub door: Arc<Door>,
    /// The handler; `None` serves the bare model.
    pub plugin: Option<Arc<Plugin>>,
    /// The models; without one, a handler's tensors go straight to its `post-inference`.
    pub models: Models,
    /// What the endpoint takes, if the configuration or the handler says so.
    pub schema: Option<Arc<Schema>>,
    /// Whether tensors that a request brings go past a handler that takes bodies only, straight to the model.
    pub bare_tensors: bool,
    /// What becomes of an instance after a request.
    pub keep: Keep,
    /// Whose workers run the model; `None`: whoever serves the request.
    pub model_runtime: Option<Handle>,
}

impl Pipeline {
    /// The same handler and models for what is nobody's request: behind a door of its own, so that it neither waits for
    /// requests nor keeps any waiting, and on instances of its own, so that it leaves nothing behind in theirs.
    #[must_use]
    pub fn aside(&self) -> Pipeline {
        Pipeline { door: Arc::new(Door::new(1, 0)), keep: Keep::No, ..self.clone() }
    }

    /// Serves one request. This is the whole flow; every stage is one line and one file.
    ///
    /// # Errors
    /// What the failing stage says. The caller logs and counts it.
    pub async fn handle(&self, request: &Arc<Request>, trace: &mut Trace) -> Result<Output, RequestError> {
        let _permit = in_time(request, Stage::Admit, pin!(self.door.enter())).await?;
        trace.end(Stage::Admit);
        trace.keep("sample", || match &request.input {
            Input::Body(body, _) => debug::text(body),
            Input::Tensors(input) => debug::tensors(&input.tensors),
        });

        let model = self.models.of(request)?;
        let checked = match &self.schema {
            Some(schema) => pre_inference::check(schema, self.stages(), model, self.bare(model), request)?,
            None => None,
        };
        let (mut lease, made) = self.prepare(request, model, checked, trace).await?;
        let inputs = match made {
            Outcome::Next(inputs) => inputs,
            Outcome::Respond(response) => {
                trace.end(Stage::PreInference);
                settle(lease, None);
                return Ok(Output::Response(response));
            }
        };
        trace.end(Stage::PreInference);
        trace.keep("pre_inference", || debug::tensors(&inputs));

        let sent = trace.sent(&inputs);
        let outputs = match trace.known(&inputs) {
            Some(outputs) => outputs,
            None => infer(model, self.model_runtime.as_ref(), request, inputs, trace).await?,
        };
        trace.crossed(sent, &outputs);
        trace.end(Stage::Infer);
        trace.keep("inference", || debug::tensors(&outputs));

        let signature = model.map(|model| &**model.signature());
        let spare =
            (trace.bypass.is_allowed() && lease.is_some() && model.is_some()).then(|| outputs.clone());
        let output =
            post_inference::post_inference(lease.as_mut(), signature, self.bare(model), request, outputs)
                .await;
        let output = match output {
            Err(failure) if failure.code.is_fault() => {
                // Whatever state the guest was left in is gone.
                lease = None;
                trace.bypass.output(failure, signature, request, spare).await
            }
            output => output,
        };
        trace.end(Stage::PostInference);
        trace.called(lease.as_ref());
        if let Ok(output) = &output {
            trace.keep("post_inference", || match output {
                Output::Response(response) => {
                    format!("{} {}", response.status, debug::text(&response.body))
                }
                Output::Tensors(tensors) => debug::tensors(tensors),
            });
        }
        settle(lease, output.as_ref().err());
        output
    }

    /// What tensors have to fit: `None` if there is no schema, or if they go past the handler to the model.
    pub fn schema_of_tensors(&self) -> Option<&Arc<Schema>> {
        let bare = self.bare_tensors && !self.models.0.is_empty();
        self.schema.as_ref().filter(|_| !pre_inference::passes_by(self.stages(), bare))
    }

    /// Whether tensors may go past the handler to this model.
    fn bare(&self, model: Option<&Lane>) -> bool {
        self.bare_tensors && model.is_some()
    }

    fn stages(&self) -> Stages {
        self.plugin.as_ref().map(|plugin| plugin.stages()).unwrap_or_default()
    }

    /// The instance that will serve this request, from here to the end, and what its `pre-inference` made. There is none
    /// without a handler, and if that is bypassed.
    async fn prepare(
        &self,
        request: &Arc<Request>,
        model: Option<&Lane>,
        checked: Option<Vec<Tensor>>,
        trace: &mut Trace,
    ) -> Result<(Option<Lease<'_>>, Outcome<Vec<Tensor>>), RequestError> {
        let failure = match trace.bypass.unavailable() {
            Some(why) => why,
            None => match self.lend(request, model, trace).await {
                Ok(mut lease) => {
                    trace.lent();
                    let made = pre_inference::pre_inference(
                        lease.as_mut(),
                        model,
                        self.bare(model),
                        request,
                        checked,
                    )
                    .await;
                    trace.called(lease.as_ref());
                    match made {
                        Ok(made) => return Ok((lease, made)),
                        Err(failure) => {
                            settle(lease, Some(&failure));
                            failure
                        }
                    }
                }
                Err(failure) => failure,
            },
        };
        let inputs = Box::pin(trace.bypass.inputs(failure, model, request)).await?;
        Ok((None, Outcome::Next(inputs)))
    }

    async fn lend(
        &self,
        request: &Arc<Request>,
        model: Option<&Lane>,
        trace: &Trace,
    ) -> Result<Option<Lease<'_>>, RequestError> {
        let Some(plugin) = &self.plugin else { return Ok(None) };
        let signature = model.map(Lane::signature);
        match trace.tape() {
            // Boxed, as what follows from a failure is: they are rare, and every request's future would be as large.
            Some(tape) => Box::pin(plugin.lend_taped(request, signature, tape)).await.map(Some),
            None => plugin.lend(request, signature, self.keep).await.map(Some),
        }
    }
}

/// The model's outputs, checked.
async fn infer(
    model: Option<&Lane>,
    runtime: Option<&Handle>,
    request: &Request,
    inputs: Vec<Tensor>,
    trace: &mut Trace,
) -> Result<Vec<Tensor>, RequestError> {
    let Some(model) = model else { return Ok(inputs) };
    let prediction = match runtime {
        None => in_time(request, Stage::Infer, pin!(model.infer(inputs))).await?,
        Some(runtime) => in_time(request, Stage::Infer, Box::pin(model.infer_on(runtime, inputs))).await?,
    };
    let prediction = prediction.map_err(model_error)?;
    trace.ran(prediction.queued, prediction.shared);
    verify::outputs(&prediction.outputs, model.signature()).map_err(|text| {
        RequestError::new(Code::ModelError, Stage::Infer, "the model failed").with_detail(text)
    })?;
    Ok(prediction.outputs)
}

/// Gives the instance back if the handler itself ended the request, in whatever way its contract allows. After
/// anything else (a trap, a cut call, nonsense) dropping the lease drops the instance.
fn settle(lease: Option<Lease<'_>>, failure: Option<&RequestError>) {
    let at_rest = failure.is_none_or(|failure| {
        matches!(
            failure.code,
            // Of the last two no handler knows.
            Code::InvalidInput | Code::PluginError | Code::UnsupportedMediaType | Code::BodyTooLarge
        )
    });
    if let Some(lease) = lease
        && at_rest
    {
        lease.finish();
    }
}

/// Runs a stage that may wait, for as long as the request has.
async fn in_time<F: Future + Unpin>(
    request: &Request,
    stage: Stage,
    future: F,
) -> Result<F::Output, RequestError> {
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
