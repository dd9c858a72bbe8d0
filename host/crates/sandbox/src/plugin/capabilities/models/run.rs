//! `models`: the endpoint's models, called by the guest.
//!
//! Place in the flow: beside [`nn`](super::nn), whose limits it shares. In: tensors by value, or handles of
//! tensors that the host holds. Out: a model's outputs, likewise.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::task::JoinHandle;
use wasmtime::Result;
use wasmtime::component::Resource;
use wasmtime_wasi::p2::{DynPollable, Pollable, subscribe};

use super::held::{Held, bytes_of};
use super::resident::Resident;
use super::{Models, check_names};
use crate::blocking;
use crate::model_access::{HandlerModels, ModelCallError};
use crate::plugin::bindings::modelhost::handler::models::{self, Error};
use crate::plugin::bindings::modelhost::handler::types;
use crate::plugin::capability::View;
use crate::plugin::convert::{self, is_name, shown};
use crate::request::dependencies::Dependency;
use crate::tensor::{Datatype, Tensor};

/// A run that the guest has started.
pub struct Pending {
    run: Run,
    /// The outputs that are wanted; none means all.
    wanted: Vec<String>,
    _names: Arc<Held>,
}

enum Run {
    Running(JoinHandle<Outputs>),
    Ended(Outputs),
    Consumed,
}

type Outputs = Result<(Vec<Tensor>, Arc<Held>), RunFailure>;

/// Why a run that was started has no outputs.
enum RunFailure {
    Model(ModelCallError),
    Guest(Error),
}
type Named = (String, Resource<Resident>);

#[wasmtime_wasi::async_trait]
impl Pollable for Pending {
    async fn ready(&mut self) {
        if let Run::Running(task) = &mut self.run {
            let outputs = task.await.unwrap_or_else(|error| {
                let failed = Error::Failed(error.to_string());
                Err(RunFailure::Guest(failed))
            });
            self.run = Run::Ended(outputs);
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Run::Running(task) = &self.run {
            task.abort();
        }
    }
}

impl View<'_, Models> {
    /// Keeps a tensor for the guest.
    fn keep(&mut self, tensor: Tensor) -> Result<Result<Resource<Resident>, Error>> {
        let held = self.hold(bytes_of(&tensor));
        self.keep_held(held.map(|held| Resident::new(tensor, held)))
    }

    /// Keeps a tensor whose bytes are held, if they are.
    fn keep_held(&mut self, made: Result<Resident, Error>) -> Result<Result<Resource<Resident>, Error>> {
        match made.and_then(|resident| self.count_tensor().map(|()| resident)) {
            Ok(resident) => Ok(Ok(self.state.table.push(resident)?)),
            Err(error) => Ok(Err(error)),
        }
    }

    fn keep_all(&mut self, outputs: Vec<Tensor>, wanted: &[String]) -> Result<Result<Vec<Named>, Error>> {
        let chosen = match chosen(outputs, wanted) {
            Ok(chosen) => chosen,
            Err(error) => return Ok(Err(error)),
        };
        let mut kept = Vec::with_capacity(chosen.len());
        for tensor in chosen {
            let name = tensor.name.to_string();
            match self.keep(tensor)? {
                Ok(resident) => kept.push((name, resident)),
                Err(error) => {
                    for (_, resident) in kept {
                        models::HostResident::drop(self, resident)?;
                    }
                    return Ok(Err(error));
                }
            }
        }
        Ok(Ok(kept))
    }

    fn tensor(&mut self, resident: &Resource<Resident>) -> Result<&Tensor> {
        Ok(self.state.table.get(resident)?.tensor())
    }

    fn inputs(&mut self, inputs: Vec<Named>) -> Result<Vec<Tensor>> {
        let named = |(name, resident): Named| {
            let tensor = self.tensor(&resident)?.clone();
            Ok(Tensor { name: name.into(), ..tensor })
        };
        inputs.into_iter().map(named).collect()
    }

    /// Begins a run of a model with these names, none of which is too long.
    fn begin_named(
        &mut self,
        model: &str,
        inputs: &[Named],
        wanted: &[String],
    ) -> Result<Arc<dyn HandlerModels>, Error> {
        check_model(model)?;
        check_names(inputs.iter().map(|(name, _)| name))?;
        check_names(wanted)?;
        self.begin_run()?;
        self.models().cloned()
    }
}

/// No model has a longer name, and logs of host calls keep what a guest asks for.
fn check_model(name: &str) -> Result<(), Error> {
    if is_name(name) { Ok(()) } else { Err(Error::NoSuchModel(shown(name))) }
}

/// The outputs of these names; no name means all of them.
fn chosen(outputs: Vec<Tensor>, wanted: &[String]) -> Result<Vec<Tensor>, Error> {
    if wanted.is_empty() {
        return Ok(outputs);
    }
    let named: HashMap<&str, &Tensor> = outputs.iter().map(|output| (&*output.name, output)).collect();
    let output = |name: &String| {
        let none = || Error::InvalidInput(format!("the model has no output `{}`", shown(name)));
        named.get(name.as_str()).map(|output| Tensor::clone(output)).ok_or_else(none)
    };
    wanted.iter().map(output).collect()
}

impl models::Host for View<'_, Models> {
    fn names(&mut self) -> Result<Vec<String>> {
        let names = self.models().map(|models| models.names()).unwrap_or_default();
        Ok(names.iter().map(ToString::to_string).collect())
    }

    fn describe(&mut self, model: String) -> Result<Result<types::Signature, Error>> {
        let models = match self.models() {
            Ok(models) => models,
            Err(error) => return Ok(Err(error)),
        };
        match models.signature(&model) {
            Ok(signature) => Ok(Ok(convert::signature(&signature))),
            Err(error) => self.told(error).map(Err),
        }
    }

    async fn infer(
        &mut self,
        model: String,
        inputs: Vec<types::TensorResult>,
    ) -> Result<Result<Vec<types::TensorResult>, Error>> {
        let begun = check_model(&model).and_then(|()| self.begin_run()).and_then(|()| self.models().cloned());
        let inputs = convert::tensors_from_guest(inputs).map_err(Error::InvalidInput);
        let (models, inputs) = match begun.and_then(|models| Ok((models, inputs?))) {
            Ok(ready) => ready,
            Err(error) => return Ok(Err(error)),
        };
        match models.infer(&model, inputs).await {
            Ok(outputs) => Ok(Ok(blocking::if_much_copied(blocking::weight(&outputs), || {
                convert::owned_tensors_to_guest(&outputs)
            }))),
            Err(error) => self.told(error).map(Err),
        }
    }

    async fn run(
        &mut self,
        model: String,
        inputs: Vec<Named>,
        wanted: Vec<String>,
    ) -> Result<Result<Vec<Named>, Error>> {
        let models = match self.begin_named(&model, &inputs, &wanted) {
            Ok(models) => models,
            Err(error) => return Ok(Err(error)),
        };
        let inputs = self.inputs(inputs)?;
        match models.infer(&model, inputs).await {
            Ok(outputs) => self.keep_all(outputs, &wanted),
            Err(error) => self.told(error).map(Err),
        }
    }

    fn start(
        &mut self,
        model: String,
        inputs: Vec<Named>,
        wanted: Vec<String>,
    ) -> Result<Result<Resource<Pending>, Error>> {
        let begun = self.begin_named(&model, &inputs, &wanted);
        let names = inputs.iter().map(|(name, _)| name).chain(&wanted).chain([&model]);
        let bytes = names.map(|name| name.len() + size_of::<String>()).sum();
        let begun = begun.and_then(|models| Ok((models, self.hold(bytes)?)));
        let (models, named) = match begun {
            Ok(begun) => begun,
            Err(error) => return Ok(Err(error)),
        };
        let held = inputs.iter().map(|(_, resident)| Ok(self.state.table.get(resident)?.held().clone()));
        let held = held.collect::<Result<Vec<_>>>()?;
        let inputs = self.inputs(inputs)?;
        let (all, most) = self.tensor_memory();
        let run = models.infer(&model, inputs);
        let run = tokio::spawn(async move {
            let outputs = run.await;
            drop(held);
            let outputs = outputs.map_err(RunFailure::Model)?;
            let bytes = outputs.iter().map(bytes_of).fold(0, usize::saturating_add);
            Ok((outputs, Held::new(bytes, &all, most).map_err(RunFailure::Guest)?))
        });
        Ok(Ok(self.kernel.table.push(Pending { run: Run::Running(run), wanted, _names: named })?))
    }
}

impl models::HostResident for View<'_, Models> {
    fn make(
        &mut self,
        datatype: types::Datatype,
        shape: Vec<u64>,
        data: Vec<u8>,
    ) -> Result<Result<Resource<Resident>, Error>> {
        let datatype = convert::datatype_from_guest(datatype);
        let data = match self.charged(data) {
            Ok(data) => data,
            Err(full) => return Ok(Err(full)),
        };
        // Of texts each is looked at, and of truth values each byte.
        let looked_at = if matches!(datatype, Datatype::Bytes | Datatype::Bool) { data.len() } else { 0 };
        let made = blocking::if_large(looked_at, || Tensor::new("".into(), datatype, shape, data));
        match made {
            Ok(tensor) => self.keep(tensor),
            Err(error) => Ok(Err(Error::InvalidInput(error.to_string()))),
        }
    }

    fn datatype(&mut self, resident: Resource<Resident>) -> Result<types::Datatype> {
        Ok(convert::datatype_to_guest(self.tensor(&resident)?.datatype))
    }

    fn shape(&mut self, resident: Resource<Resident>) -> Result<Vec<u64>> {
        Ok(self.tensor(&resident)?.shape.clone())
    }

    fn size(&mut self, resident: Resource<Resident>) -> Result<u64> {
        Ok(self.tensor(&resident)?.data.len() as u64)
    }

    fn read(&mut self, resident: Resource<Resident>) -> Result<Result<Vec<u8>, Error>> {
        let data = self.tensor(&resident)?.data.clone();
        Ok(Ok(blocking::if_much_copied(data.len(), || data.to_vec())))
    }

    fn read_range(
        &mut self,
        resident: Resource<Resident>,
        offset: u64,
        length: u64,
    ) -> Result<Result<Vec<u8>, Error>> {
        let data = self.tensor(&resident)?.data.clone();
        let start = usize::try_from(offset).ok();
        let end = usize::try_from(offset.saturating_add(length)).ok();
        let range = start.zip(end).and_then(|(start, end)| data.get(start..end));
        let outside = || Error::InvalidInput(format!("bytes {offset}+{length} of {}", data.len()));
        Ok(range.map(|range| blocking::if_much_copied(range.len(), || range.to_vec())).ok_or_else(outside))
    }

    fn reshape(
        &mut self,
        resident: Resource<Resident>,
        shape: Vec<u64>,
    ) -> Result<Result<Resource<Resident>, Error>> {
        let (all, most) = self.tensor_memory();
        let hold = |bytes: usize| Held::new(bytes, &all, most);
        let made = self.state.table.get(&resident)?.reshape(shape, &hold);
        self.keep_held(made)
    }

    fn rows(
        &mut self,
        resident: Resource<Resident>,
        start: u64,
        count: u64,
    ) -> Result<Result<Resource<Resident>, Error>> {
        let (all, most) = self.tensor_memory();
        let hold = |bytes: usize| Held::new(bytes, &all, most);
        let made = self.state.table.get(&resident)?.rows(start, count, &hold);
        self.keep_held(made)
    }

    fn drop(&mut self, resident: Resource<Resident>) -> Result<()> {
        self.state.table.delete(resident)?;
        self.uncount_tensor();
        Ok(())
    }
}

impl models::HostPending for View<'_, Models> {
    async fn wait(&mut self, pending: Resource<Pending>) -> Result<Result<Vec<Named>, Error>> {
        let run = self.kernel.table.get_mut(&pending)?;
        run.ready().await;
        let wanted = run.wanted.clone();
        match std::mem::replace(&mut run.run, Run::Consumed) {
            Run::Ended(Ok((outputs, held))) => {
                // Held one by one from here.
                drop(held);
                self.keep_all(outputs, &wanted)
            }
            Run::Ended(Err(RunFailure::Guest(error))) => Ok(Err(error)),
            Run::Ended(Err(RunFailure::Model(error))) => self.told(error).map(Err),
            Run::Running(_) | Run::Consumed => {
                Ok(Err(Error::Failed("its outputs were taken before".to_owned())))
            }
        }
    }

    fn subscribe(&mut self, pending: Resource<Pending>) -> Result<Resource<DynPollable>> {
        // Which of several runs ends first is a matter of time.
        self.kernel.run.dependencies.add(Dependency::Clock);
        let ready = subscribe(&mut *self.kernel.table, pending)?;
        Ok(self.kernel.timer(ready))
    }

    fn drop(&mut self, pending: Resource<Pending>) -> Result<()> {
        self.kernel.table.delete(pending)?;
        Ok(())
    }
}
