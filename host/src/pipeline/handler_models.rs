//! The endpoint's models as its handler calls them.
//!
//! Place in the flow: given to the handler's instance for one request, and called from there, through
//! `plugin/capabilities/models/`.
//! In: tensors by the names of a model's inputs. Out: its outputs, checked; of a call whose answer the run's
//! log knows, that answer. Any other takes the way of every request's: through the model's queue, in batches,
//! in the request's time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime;

use super::infer::sequence;
use super::models::{Handle, Models, Named};
use super::plan::RunPlan;
use super::verify;
use crate::error::RequestError;
use crate::memory::Account;
use crate::model::{ModelError, SequenceCall};
use crate::model_access::{HandlerModels, ModelCallError, ModelRun};
use crate::plugin::host_call_log::{AnswerSource, Answers, HostCallLog};
use crate::plugin::{Lease, Plugin};
use crate::request::{Request, until};
use crate::tensor::{Signature, Tensor};

/// The models of one request.
pub(super) struct RequestModels {
    models: Models,
    /// When the request's time is up; of an exchange every call has as much as the whole request.
    deadline: Deadline,
    /// The workers that run them, if not those of the handler.
    runtime: Option<runtime::Handle>,
    /// The sequence that the request belongs to.
    sequence: Option<SequenceCall>,
    /// Of a run whose calls are logged, known or recorded.
    log: Option<Arc<HostCallLog>>,
    /// The account that outputs are charged to.
    memory: Account,
}

#[derive(Clone, Copy)]
enum Deadline {
    At(Instant),
    After(Duration),
}

impl RequestModels {
    pub(super) fn new(
        models: &Models,
        request: &Request,
        plan: &RunPlan,
        log: Option<&Arc<HostCallLog>>,
    ) -> Arc<RequestModels> {
        let deadline = match request.is_exchange() || request.socket().is_some() {
            true => Deadline::After(request.deadline.duration_since(request.arrived)),
            false => Deadline::At(request.deadline),
        };
        // What is wrong with it is told where a model needs one.
        let sequence = sequence(request, plan).unwrap_or_default();
        let (models, runtime, log) = (models.clone(), plan.model_runtime.clone(), log.cloned());
        let memory = request.memory;
        Arc::new(RequestModels { models, deadline, runtime, sequence, log, memory })
    }

    fn find(&self, model: &str) -> Result<&Named, ModelCallError> {
        let found = if model.is_empty() { self.models.0.first() } else { self.models.get(model) };
        found.ok_or_else(|| ModelCallError::NoSuchModel(model.to_owned()))
    }

    /// The recording that answers, in a replay.
    fn answers(&self) -> Option<&Answers> {
        self.log.as_ref()?.answers()
    }

    /// Runs the model.
    fn live(&self, model: &str, inputs: Vec<Tensor>) -> ModelRun {
        let handle = self.find(model).and_then(|named| named.handle.clone().ok_or(ModelCallError::Unloaded));
        let deadline = match self.deadline {
            Deadline::At(deadline) => deadline,
            Deadline::After(time) => Instant::now() + time,
        };
        let (runtime, sequence, memory) = (self.runtime.clone(), self.sequence.clone(), self.memory);
        Box::pin(async move {
            let handle = handle?;
            let run = std::pin::pin!(run(&handle, inputs, sequence.as_ref(), runtime.as_ref()));
            let mut outputs = until(deadline, run).await.unwrap_or(Err(ModelCallError::TimedOut))?;
            // For the handler it is as if the model had no place.
            memory.own_tensors(&mut outputs).map_err(|_| ModelCallError::Unloaded)?;
            Ok(outputs)
        })
    }
}

impl HandlerModels for RequestModels {
    fn names(&self) -> Vec<Arc<str>> {
        if let Some(answers) = self.answers() {
            return answers.models.iter().map(|(name, _)| name.clone()).collect();
        }
        self.models.0.iter().map(|named| named.name.clone()).collect()
    }

    fn signature(&self, model: &str) -> Result<Arc<Signature>, ModelCallError> {
        if let Some(answers) = self.answers() {
            let mut models = answers.models.iter();
            let found = models.find(|(name, _)| model.is_empty() || **name == *model);
            let missing = || ModelCallError::NoSuchModel(model.to_owned());
            return found.map(|(_, signature)| signature.clone()).ok_or_else(missing);
        }
        self.find(model).map(|named| named.signature.clone())
    }

    fn infer(&self, model: &str, inputs: Vec<Tensor>) -> ModelRun {
        let Some(log) = &self.log else { return self.live(model, inputs) };
        match log.model_called(model, &inputs) {
            AnswerSource::Known(outcome) => Box::pin(std::future::ready(outcome)),
            AnswerSource::Live(number) => {
                let (run, log) = (self.live(model, inputs), log.clone());
                Box::pin(async move {
                    let outcome = run.await;
                    log.model_call_ended(number, &outcome);
                    outcome
                })
            }
        }
    }
}

async fn run(
    handle: &Handle,
    inputs: Vec<Tensor>,
    sequence: Option<&SequenceCall>,
    runtime: Option<&runtime::Handle>,
) -> Result<Vec<Tensor>, ModelCallError> {
    let signature = handle.signature();
    let inputs = verify::inputs(inputs, signature).map_err(ModelCallError::InvalidInput)?;
    let outputs = handle.infer(inputs, sequence, runtime).await.map_err(failed)?.outputs;
    verify::outputs(&outputs, signature).map_err(ModelCallError::Failed)?;
    Ok(outputs)
}

fn failed(error: ModelError) -> ModelCallError {
    match error {
        ModelError::Input(text) => ModelCallError::InvalidInput(text),
        error => ModelCallError::Failed(error.to_string()),
    }
}

/// An instance with all that it may use for the request.
pub(super) async fn checkout<'a>(
    models: &Models,
    plugin: &'a Plugin,
    request: &Arc<Request>,
    plan: &RunPlan,
    log: Option<&Arc<HostCallLog>>,
) -> Result<Lease<'a>, RequestError> {
    let mut lease = match log.filter(|log| log.is_of_instance()) {
        Some(log) => plugin.checkout_logged(request, None, log).await?,
        None => plugin.checkout(request, None, plan.instance).await?,
    };
    lease.begin_run(plan.calls_out, log);
    if plugin.calls_models() {
        lease.give(RequestModels::new(models, request, plan, log));
    }
    Ok(lease)
}
