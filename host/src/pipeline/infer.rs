//! The model's outputs: from the model, or from the run's log where that knows them.
//!
//! Flow: `pre_inference → [infer] → post_inference`.
//! In:   tensors that fit the model. Out: its outputs, checked; without a model, the tensors as they came.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use super::models::Handle;
use super::plan::RunPlan;
use super::report::RunReport;
use super::verify;
use crate::error::{Code, RequestError, Stage};
use crate::model::{DEFAULT_SIGNATURE_KEY, ModelError, Prediction, SequenceCall};
use crate::model_access::{ModelAccess, ModelSpec};
use crate::plugin::host_call_log::HostCallLog;
use crate::request::Request;
use crate::tensor::Tensor;

/// The model of one run, and what its call came to.
pub(super) struct RunModel<'a> {
    loaded: Option<&'a Handle>,
    request: &'a Request,
    plan: &'a RunPlan,
    log: Option<Arc<HostCallLog>>,
    ran: Option<(Duration, Option<usize>)>,
    /// Whether there is no handler to which parameters may mean something.
    is_bare: bool,
}

impl<'a> RunModel<'a> {
    pub(super) fn new(
        loaded: Option<&'a Handle>,
        request: &'a Request,
        plan: &'a RunPlan,
        report: &RunReport,
        is_bare: bool,
    ) -> RunModel<'a> {
        RunModel { loaded, request, plan, log: report.log().cloned(), ran: None, is_bare }
    }

    /// How long the call was queued, and how many requests shared it; `None` if the model did not run.
    pub(super) fn ran(&self) -> Option<(Duration, Option<usize>)> {
        self.ran
    }

    async fn predict(&self, model: &Handle, inputs: Vec<Tensor>) -> Result<Prediction, RequestError> {
        let sequence = match (model.sequences(), self.is_bare) {
            (None, false) => None,
            (None, true) => match sequence(self.request, self.plan)? {
                Some(call) if call.id.is_some() => {
                    let text =
                        "`sequence_id`: this model keeps no state between requests, each is on its own";
                    return Err(RequestError::invalid(Stage::Infer, text));
                }
                _ => None,
            },
            (Some(_), _) => sequence(self.request, self.plan)?,
        };
        let prediction = match &self.plan.model_runtime {
            None => {
                let run = pin!(model.infer(inputs, sequence.as_ref(), None));
                self.request.in_time(Stage::Infer, run).await?
            }
            Some(runtime) => {
                let run = Box::pin(model.infer(inputs, sequence.as_ref(), Some(runtime)));
                self.request.in_time(Stage::Infer, run).await?
            }
        };
        let mut prediction = prediction.map_err(model_error)?;
        verify::outputs(&prediction.outputs, model.signature()).map_err(|text| {
            RequestError::new(Code::ModelError, Stage::Infer, "the model failed").with_detail(text)
        })?;
        // How many there are shows only now.
        self.request.memory.own_tensors(&mut prediction.outputs).map_err(|full| full.at(Stage::Infer))?;
        Ok(prediction)
    }
}

impl ModelAccess for RunModel<'_> {
    fn spec(&self) -> Option<ModelSpec<'_>> {
        if let Some(answers) = self.log.as_ref().and_then(|log| log.answers()) {
            let signature = answers.signature.as_ref()?;
            return Some(ModelSpec { signature, signature_key: DEFAULT_SIGNATURE_KEY });
        }
        let model = self.loaded?;
        Some(ModelSpec { signature: model.signature(), signature_key: model.signature_key() })
    }

    async fn infer(&mut self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, RequestError> {
        if let Some(answer) = self.log.as_ref().and_then(|log| log.model_asked(&inputs)) {
            return answer;
        }
        let outputs = match self.loaded {
            None => inputs,
            Some(model) => {
                let prediction = self.predict(model, inputs).await?;
                self.ran = Some((prediction.queued, prediction.shared));
                prediction.outputs
            }
        };
        if let Some(log) = &self.log {
            log.model_answered(&outputs);
        }
        Ok(outputs)
    }
}

/// The sequence that a request belongs to. What is no client's request (a smoke test, the gate, a shadow, a
/// replay) is none's: it begins with the initial state, and keeps none.
///
/// # Errors
/// `invalid_input`.
pub(super) fn sequence(request: &Request, plan: &RunPlan) -> Result<Option<SequenceCall>, RequestError> {
    if !plan.calls_out {
        return Ok(Some(SequenceCall::ALONE));
    }
    SequenceCall::of(request.parameters()).map_err(|text| RequestError::invalid(Stage::Infer, text))
}

fn model_error(error: ModelError) -> RequestError {
    match error {
        ModelError::Sequences(text) => RequestError::new(Code::Overloaded, Stage::Infer, text),
        ModelError::Input(text) => RequestError::invalid(Stage::Infer, text),
        error => RequestError::new(Code::ModelError, Stage::Infer, "the model failed").with_detail(error),
    }
}
