//! An ensemble: models of an endpoint one after another, joined by the names of tensors.
//!
//! Place in the flow: one of the endpoint's [models](super::models), the first. In: tensors that fit its
//! signature. Out: its outputs. A step begins as soon as its inputs are there, so steps that do not need each
//! other run together; each goes through its model's queue, in batches, as a request of its own would.
//! Invariants: a tensor goes from model to model without a copy, and is freed when the last step has taken
//! it; dropping the future at any point gives back every session. What could be wrong with the steps was
//! found when they were [planned](plan).
//!
//! The terms are those of Triton's `ensemble_scheduling`.

mod plan;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::runtime;

use self::plan::{Plan, PlannedStep};
use super::verify;
use crate::model::{ModelError, ModelHandle, Prediction};
use crate::tensor::{Signature, Tensor};

/// The name of the ensemble among its endpoint's models.
pub const ENSEMBLE: &str = "ensemble";

/// The configuration of an ensemble.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnsembleConfig {
    /// Tensors that a request brings.
    pub inputs: Vec<String>,
    /// Tensors that are its answer, in this order.
    pub outputs: Vec<String>,
    /// The runs of models, in any order.
    pub steps: Vec<StepConfig>,
}

/// One run of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepConfig {
    /// The model's name in the endpoint.
    pub model: String,
    /// The tensor that each input takes; an input that is not named takes that of its own name.
    pub input_map: BTreeMap<String, String>,
    /// The tensor that each output becomes; if any is named, those that are not are dropped.
    pub output_map: BTreeMap<String, String>,
}

/// A model of an endpoint, as the steps know it.
#[derive(Debug, Clone)]
pub struct Member {
    /// Its name.
    pub name: Arc<str>,
    /// Its inputs and outputs.
    pub signature: Arc<Signature>,
    /// The way to it; `None` while it is unloaded.
    pub handle: Option<Arc<ModelHandle>>,
}

/// The signature of an ensemble, and the ensemble if all of its models are loaded.
pub type Planned = (Arc<Signature>, Option<Arc<Ensemble>>);

/// An ensemble, all of whose models are loaded.
#[derive(Debug)]
pub struct Ensemble {
    plan: Plan,
    signature: Arc<Signature>,
    /// The handle of each step.
    handles: Vec<(Arc<str>, Arc<ModelHandle>)>,
}

impl Ensemble {
    /// Plans the steps of `config` over these models: the signature, and the ensemble if all of them are
    /// loaded.
    ///
    /// # Errors
    /// Every problem, each on a line with a hint.
    pub fn new(config: &EnsembleConfig, members: &[Member]) -> Result<Planned, Vec<String>> {
        let plan = Plan::new(config, members)?;
        let signature = Arc::new(plan.signature.clone());
        let handle = |step: &PlannedStep| {
            let member = members.get(step.member)?;
            Some((member.name.clone(), member.handle.clone()?))
        };
        let handles: Option<Vec<_>> = plan.steps.iter().map(handle).collect();
        let ensemble =
            handles.map(|handles| Arc::new(Ensemble { plan, signature: signature.clone(), handles }));
        Ok((signature, ensemble))
    }

    /// The inputs and outputs.
    pub fn signature(&self) -> &Arc<Signature> {
        &self.signature
    }

    /// Whether another one runs the same loaded models.
    pub(super) fn runs_those_of(&self, other: &Ensemble) -> bool {
        let models = |ensemble: &Ensemble| -> Vec<_> {
            ensemble.handles.iter().map(|(_, handle)| Arc::as_ptr(handle.model())).collect()
        };
        models(self) == models(other)
    }

    /// Runs all steps; on the workers of `runtime`, if there is one.
    ///
    /// # Errors
    /// Those of the first step that fails; the others are given up.
    pub(super) async fn infer(
        &self,
        inputs: Vec<Tensor>,
        runtime: Option<&runtime::Handle>,
    ) -> Result<Prediction, ModelError> {
        let mut tensors = Tensors::new(&self.plan);
        for input in inputs {
            let slot = self.plan.inputs.iter().find(|(name, _)| *name == input.name).map(|(_, slot)| *slot);
            tensors.put(slot, input);
        }
        let mut waiting: Vec<(usize, &PlannedStep)> = self.plan.steps.iter().enumerate().collect();
        let mut running: Vec<(usize, Run<'_>)> = Vec::new();
        loop {
            let (ready, others): (Vec<_>, Vec<_>) =
                waiting.into_iter().partition(|(_, step)| tensors.has_all_of(step));
            waiting = others;
            for (at, step) in ready {
                if let Some((name, handle)) = self.handles.get(at) {
                    running.push((at, Box::pin(run(name, handle, tensors.take(step), runtime))));
                }
            }
            if running.is_empty() {
                break;
            }
            let (at, outputs) = next(&mut running).await;
            let outputs = outputs?;
            let Some(step) = self.plan.steps.get(at) else { continue };
            for (position, output) in outputs.into_iter().enumerate() {
                let slot = step.outputs.iter().find(|(from, _)| *from == position).map(|(_, slot)| *slot);
                tensors.put(slot, output);
            }
        }
        let outputs = self.plan.outputs.iter().zip(&self.signature.outputs).map(|(slot, spec)| {
            let output = tensors.get(*slot).ok_or_else(|| format!("output `{}` was not made", spec.name));
            output.map(|tensor| Tensor { name: spec.name.clone(), ..tensor })
        });
        let outputs = outputs.collect::<Result<_, _>>().map_err(ModelError::Run)?;
        Ok(Prediction { outputs, queued: Duration::ZERO, shared: Some(1) })
    }
}

type Run<'a> = Pin<Box<dyn Future<Output = Result<Vec<Tensor>, ModelError>> + Send + 'a>>;

/// The first run that ends.
async fn next(running: &mut Vec<(usize, Run<'_>)>) -> (usize, Result<Vec<Tensor>, ModelError>) {
    std::future::poll_fn(|context| {
        for place in 0..running.len() {
            let Some((at, run)) = running.get_mut(place) else { continue };
            let at = *at;
            if let Poll::Ready(outputs) = run.as_mut().poll(context) {
                drop(running.swap_remove(place));
                return Poll::Ready((at, outputs));
            }
        }
        Poll::Pending
    })
    .await
}

/// One step.
async fn run(
    name: &str,
    handle: &ModelHandle,
    inputs: Vec<Tensor>,
    runtime: Option<&runtime::Handle>,
) -> Result<Vec<Tensor>, ModelError> {
    let of_step = |text: String| format!("step `{name}`: {text}");
    let inputs =
        verify::inputs(inputs, handle.signature()).map_err(|text| ModelError::Input(of_step(text)))?;
    let prediction = match runtime {
        None => handle.infer(inputs).await,
        Some(runtime) => handle.infer_on(runtime, inputs).await,
    };
    let outputs = match prediction {
        Ok(prediction) => prediction.outputs,
        Err(ModelError::Input(text)) => return Err(ModelError::Input(of_step(text))),
        Err(ModelError::Run(text)) => return Err(ModelError::Run(of_step(text))),
        Err(error) => return Err(error),
    };
    verify::outputs(&outputs, handle.signature()).map_err(|text| ModelError::Run(of_step(text)))?;
    Ok(outputs)
}

/// The tensors that there are, by slot, each with the number of those that will yet take it.
struct Tensors {
    slots: Vec<(Option<Tensor>, usize)>,
}

impl Tensors {
    fn new(plan: &Plan) -> Tensors {
        Tensors { slots: plan.uses.iter().map(|uses| (None, *uses)).collect() }
    }

    /// Keeps a tensor, if any step or the answer takes it.
    fn put(&mut self, slot: Option<usize>, tensor: Tensor) {
        if let Some((place, uses)) = slot.and_then(|slot| self.slots.get_mut(slot))
            && *uses > 0
        {
            *place = Some(tensor);
        }
    }

    fn has_all_of(&self, step: &PlannedStep) -> bool {
        let is_there = |slot: usize| self.slots.get(slot).is_some_and(|(tensor, _)| tensor.is_some());
        // An optional input of the ensemble may have been left out.
        step.inputs.iter().all(|input| input.is_optional || is_there(input.slot))
    }

    /// The inputs of a step, by the names that its model has for them.
    fn take(&mut self, step: &PlannedStep) -> Vec<Tensor> {
        let inputs = step.inputs.iter().filter_map(|input| {
            let tensor = self.get(input.slot)?;
            Some(Tensor { name: input.name.clone(), ..tensor })
        });
        inputs.collect()
    }

    /// A tensor; the last time, it is given away.
    fn get(&mut self, slot: usize) -> Option<Tensor> {
        let (tensor, uses) = self.slots.get_mut(slot)?;
        *uses = uses.saturating_sub(1);
        if *uses == 0 { tensor.take() } else { tensor.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Datatype;

    #[test]
    fn a_tensor_is_shared_until_the_last_taker_has_it() {
        let tensor = Tensor::new("x".into(), Datatype::Uint8, vec![3], vec![1, 2, 3].into()).unwrap();
        let data = tensor.data.clone();
        let mut tensors = Tensors { slots: vec![(None, 2), (None, 0)] };
        tensors.put(Some(0), tensor.clone());
        tensors.put(Some(1), tensor);
        assert!(tensors.slots[1].0.is_none(), "it is taken by none");
        let first = tensors.get(0).unwrap();
        assert_eq!(first.data.as_ptr(), data.as_ptr());
        assert!(tensors.slots[0].0.is_some());
        assert_eq!(tensors.get(0).unwrap().data.as_ptr(), data.as_ptr());
        assert!(tensors.slots[0].0.is_none());
    }
}
