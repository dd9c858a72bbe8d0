//! The program of a run: one request through every stage.
//!
//! ```text
//! pre-inference → verify → infer → verify → post-inference → respond
//! ```
//! Place in the flow: `endpoint` admits a request and runs it on the [`Pipeline`] of the endpoint's current
//! generation; smoke test, gate, shadow, `host run` and `host replay` run theirs.
//! In: a [`Request`], any protocol, and a [`RunPlan`]. Out: an [`Output`] or a [`RunFailure`]; beside it a
//! [`RunReport`].
//! Invariants: a request stays with the pipeline it began on, so one generation of handler answers it; each
//! handler function is called at most once; dropping the future at any point gives back the session and
//! drops the instance.

mod application;
pub mod batches;
pub mod bypass;
pub mod debug;
pub mod ensemble;
mod handler_models;
mod infer;
pub mod models;
pub mod plan;
mod post_inference;
mod pre_inference;
pub mod report;
pub mod respond;
pub mod verify;

use std::sync::Arc;
use std::time::Duration;

use self::batches::Batches;
use self::handler_models::RequestModels;
use self::infer::RunModel;
use self::models::Models;
use self::plan::RunPlan;
use self::report::RunReport;
use crate::arrivals::BodyRate;
use crate::error::{Code, RequestError, Stage};
use crate::model::SequenceLimits;
use crate::model_access::{ModelAccess as _, ModelSpec};
use crate::plugin::{self, Application, Lease, Outcome, Plugin, Stages};
use crate::request::socket::SocketLimits;
use crate::request::{Output, Request};
use crate::schema::Schema;
use crate::schema::raw_body::RawBody;
use crate::tensor::Tensor;

/// The limits of one endpoint. The defaults are in `config/settings/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Longest request body, in bytes.
    pub body: usize,
    /// How fast it has to come.
    pub body_rate: BodyRate,
    /// Requests in flight; beyond it they queue.
    pub concurrency: usize,
    /// Requests that may queue; beyond it they are refused with 503.
    pub queue: usize,
    /// From the arrival of a request's head to its answer.
    pub request_timeout: Duration,
    /// Its WebSockets.
    pub sockets: SocketLimits,
    /// The state that is kept between the requests of a sequence.
    pub sequences: SequenceLimits,
    /// The limits of its handler.
    pub plugin: plugin::Limits,
}

/// Why a run has no output.
#[derive(Debug)]
pub enum RunFailure {
    /// Its client is gone: what the handler made of that does not count.
    ClientGone,
    /// A stage failed.
    Failed(RequestError),
}

impl From<RequestError> for RunFailure {
    fn from(error: RequestError) -> RunFailure {
        RunFailure::Failed(error)
    }
}

impl From<RunFailure> for RequestError {
    /// The error of a request, which its client does not read if it is gone.
    fn from(failure: RunFailure) -> RequestError {
        match failure {
            RunFailure::ClientGone => RequestError::invalid(Stage::PreInference, "the client went away"),
            RunFailure::Failed(error) => error,
        }
    }
}

/// Handler and models of one generation of an endpoint.
#[derive(Clone)]
pub struct Pipeline {
    /// The handler; `None` serves the bare model.
    pub plugin: Option<Arc<Plugin>>,
    /// The models; without one, a handler's tensors go straight to its `post-inference`.
    pub models: Models,
    /// The inputs that the endpoint takes, if the configuration or the handler says so.
    pub schema: Option<Arc<Schema>>,
    /// The files that a body has to be one of; then there is no schema.
    pub raw_body: Option<Arc<RawBody>>,
    /// Whether tensors that a request brings go past a handler that takes bodies only, straight to the model.
    pub bare_tensors: bool,
    /// Requests that wait to be served together, if they are.
    pub batches: Option<Arc<Batches>>,
}

impl Pipeline {
    /// Runs one request. This is the whole flow; every stage is one line and one file.
    ///
    /// # Errors
    /// Those of the failing stage, which the caller logs and counts; or that the client is gone.
    pub async fn run(
        &self,
        request: &Arc<Request>,
        plan: &RunPlan,
        report: &mut RunReport,
    ) -> Result<Output, RunFailure> {
        if request.is_exchange() || request.socket().is_some() || self.is_application() {
            return Box::pin(application::run(self, request, plan, report)).await;
        }
        let mut model = RunModel::new(self.models.of(request)?, request, plan, report, self.plugin.is_none());
        let checked = self.check(request, model.spec(), report)?;
        let (mut lease, made) = self.prepare(request, model.spec(), checked, plan, report).await?;
        report.end(Stage::PreInference);
        let inputs = match made {
            Outcome::Next(inputs) => inputs,
            Outcome::Respond(response) => {
                release(lease, None);
                return Ok(Output::Response(response));
            }
        };

        let outputs = model.infer(inputs).await?;
        if let Some((queued, batch)) = model.ran() {
            report.ran(queued, batch);
        }
        report.end(Stage::Infer);

        let spec = model.spec();
        let spare = (plan.bypass && lease.is_some() && spec.is_some()).then(|| outputs.clone());
        let bare = self.bare(spec);
        let output = post_inference::post_inference(lease.as_mut(), spec, bare, request, outputs).await;
        let output = match output {
            Err(failure) if failure.code.is_fault() => {
                // The state that the guest was left in goes with its instance.
                lease = None;
                bypass::output(failure, spec, request, spare, plan, report).await
            }
            output => output,
        };
        report.end(Stage::PostInference);
        report.called(lease.as_ref());
        release(lease, output.as_ref().err());
        Ok(output?)
    }

    /// Whether its handler serves whole requests by itself.
    pub fn is_application(&self) -> bool {
        self.stages().is_application()
    }

    /// Whether its handler serves WebSockets.
    pub fn has_websocket(&self) -> bool {
        self.stages().websocket
    }

    /// Whether its handler is an application that is given bodies whole.
    pub fn reads_whole_bodies(&self) -> bool {
        self.stages().application == Some(Application::Respond)
    }

    /// The schema of tensors: `None` if there is no schema, or if they go past the handler to the model.
    pub fn schema_of_tensors(&self) -> Option<&Arc<Schema>> {
        let bare = self.bare_tensors && !self.models.0.is_empty();
        self.schema.as_ref().filter(|_| !pre_inference::passes_by(self.stages(), bare))
    }

    /// Whether tensors may go past the handler to this model.
    fn bare(&self, model: Option<ModelSpec<'_>>) -> bool {
        self.bare_tensors && model.is_some()
    }

    fn stages(&self) -> Stages {
        self.plugin.as_ref().map(|plugin| plugin.stages()).unwrap_or_default()
    }

    /// Holds the request against the schema; a recorded one has passed. The tensors that its body stands for,
    /// if that made them.
    fn check(
        &self,
        request: &Request,
        model: Option<ModelSpec<'_>>,
        report: &RunReport,
    ) -> Result<Option<Vec<Tensor>>, RequestError> {
        if let Some(recorded) = report.log().and_then(|log| log.answers()) {
            return Ok(recorded.sample.clone());
        }
        if let Some(raw_body) = &self.raw_body {
            return pre_inference::check_raw(raw_body, request).map(|()| None);
        }
        match &self.schema {
            Some(schema) => pre_inference::check(schema, self.stages(), model, self.bare(model), request),
            None => Ok(None),
        }
    }

    /// The instance that will serve this request, from here to the end, and what its `pre-inference` made.
    /// There is none without a handler, and if that is bypassed.
    async fn prepare(
        &self,
        request: &Arc<Request>,
        model: Option<ModelSpec<'_>>,
        checked: Option<Vec<Tensor>>,
        plan: &RunPlan,
        report: &mut RunReport,
    ) -> Result<(Option<Lease<'_>>, Outcome<Vec<Tensor>>), RequestError> {
        let failure = match &plan.refusal {
            Some(refusal) => refusal.clone(),
            None => match self.checkout(request, model, plan, report).await {
                Ok(mut lease) => {
                    report.checked_out();
                    let bare = self.bare(model);
                    let made =
                        pre_inference::pre_inference(lease.as_mut(), model, bare, request, checked).await;
                    report.called(lease.as_ref());
                    match made {
                        Ok(made) => return Ok((lease, made)),
                        Err(failure) => {
                            release(lease, Some(&failure));
                            failure
                        }
                    }
                }
                Err(failure) => failure,
            },
        };
        let inputs = Box::pin(bypass::inputs(failure, model, request, plan, report)).await?;
        Ok((None, Outcome::Next(inputs)))
    }

    async fn checkout(
        &self,
        request: &Arc<Request>,
        model: Option<ModelSpec<'_>>,
        plan: &RunPlan,
        report: &RunReport,
    ) -> Result<Option<Lease<'_>>, RequestError> {
        let Some(plugin) = &self.plugin else { return Ok(None) };
        let signature = model.map(|model| model.signature);
        let mut lease = match report.log().filter(|log| log.is_of_instance()) {
            // Boxed, as what follows from a failure is: they are rare, and every request's future would be as
            // large.
            Some(log) => Box::pin(plugin.checkout_logged(request, signature, log)).await?,
            None => plugin.checkout(request, signature, plan.instance).await?,
        };
        lease.begin_run(plan.calls_out, report.log());
        if plugin.calls_models() {
            lease.give(RequestModels::new(&self.models, request, plan, report.log()));
        }
        Ok(Some(lease))
    }
}

/// Gives the instance back if the handler itself ended the request, in a way its contract allows. After
/// anything else (a trap, a cut call, nonsense) dropping the lease drops the instance.
fn release(lease: Option<Lease<'_>>, failure: Option<&RequestError>) {
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
