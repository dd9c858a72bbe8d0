//! `wasi:nn`: the endpoint's models, for components that were made for other hosts.
//!
//! Place in the flow: beside [`run`](super::run), whose limits it shares. In: a model's name, tensors by the
//! names of its inputs. Out: its outputs, by name.
//! Invariants: a graph is a model of the configuration, and none is loaded from a guest's bytes; a call takes
//! the way of `models.infer`, through the model's queue and in batches.
//! Source: <https://github.com/WebAssembly/wasi-nn>, the draft `0.2.0-rc-2024-10-28`.

use std::sync::Arc;

use bytes::Bytes;
use wasmtime::Result;
use wasmtime::component::{Linker, Resource};

use self::wasi::nn::errors::{self, ErrorCode};
use self::wasi::nn::graph::{ExecutionTarget, GraphEncoding};
use self::wasi::nn::tensor::TensorType;
use self::wasi::nn::{graph, inference, tensor};
use super::held::Held;
use super::{Models, check_names};
use crate::blocking;
use crate::plugin::bindings::modelhost::handler::models::Error as ModelsError;
use crate::plugin::capability::{HasView, View};
use crate::plugin::fault::HoldsTooMuch;
use crate::tensor::{Datatype, LARGEST_RANK, ShownShape, Tensor};
use crate::text;

wasmtime::component::bindgen!({
    path: "wit/nn",
    world: "ml",
    imports: {
        "wasi:nn/inference.[method]graph-execution-context.compute": async | trappable,
        default: trappable,
    },
    with: {
        "wasi:nn/tensor.tensor": NnTensor,
        "wasi:nn/graph.graph": Graph,
        "wasi:nn/inference.graph-execution-context": Graph,
        "wasi:nn/errors.error": NnError,
    },
});

/// A tensor as the guest made it: what is wrong with it is said by the run that gets it.
pub struct NnTensor {
    dimensions: Vec<u32>,
    ty: TensorType,
    /// `None` if the server had no memory for them.
    data: Option<Bytes>,
    held: Arc<Held>,
}

/// A model by its name; it has no state, so its execution context is the same.
#[derive(Clone)]
pub struct Graph {
    model: String,
}

/// An error that the guest has a handle of.
pub struct NnError {
    code: ErrorCode,
    data: String,
}

impl NnError {
    fn new(code: ErrorCode, data: impl Into<String>) -> NnError {
        // It may repeat what the guest gave, and is kept for as long as its handle.
        NnError { code, data: text::cut(data.into()) }
    }

    fn overloaded() -> NnError {
        NnError::new(ErrorCode::RuntimeError, "the model is overloaded")
    }
}

impl From<ModelsError> for NnError {
    fn from(error: ModelsError) -> NnError {
        match error {
            ModelsError::NoSuchModel(name) => {
                NnError::new(ErrorCode::NotFound, format!("the endpoint has no model `{name}`"))
            }
            ModelsError::InvalidInput(text) => NnError::new(ErrorCode::InvalidArgument, text),
            ModelsError::Overloaded => NnError::overloaded(),
            ModelsError::TimedOut => NnError::new(ErrorCode::Timeout, "the model did not answer in time"),
            ModelsError::Failed(text) => NnError::new(ErrorCode::RuntimeError, text),
            ModelsError::Limit(text) => NnError::new(ErrorCode::TooLarge, text),
        }
    }
}

/// Links all of its interfaces.
pub(super) fn link<T: Send + 'static>(
    linker: &mut Linker<T>,
    view: fn(&mut T) -> View<'_, Models>,
) -> Result<()> {
    tensor::add_to_linker::<_, HasView<Models>>(linker, view)?;
    graph::add_to_linker::<_, HasView<Models>>(linker, view)?;
    inference::add_to_linker::<_, HasView<Models>>(linker, view)?;
    errors::add_to_linker::<_, HasView<Models>>(linker, view)
}

impl View<'_, Models> {
    fn nn_error(&mut self, error: impl Into<NnError>) -> Result<Resource<NnError>> {
        Ok(self.kernel.table.push(error.into())?)
    }

    /// The guest's handle is gone in any case.
    fn take_input(&mut self, handle: Resource<NnTensor>) -> Result<NnTensor> {
        let taken = self.state.table.delete(handle)?;
        self.uncount_tensor();
        Ok(taken)
    }

    fn give_output(&mut self, output: Tensor) -> Result<Result<(String, Resource<NnTensor>), NnError>> {
        let Tensor { name, datatype, shape, data, .. } = output;
        let dimensions = shape.iter().map(|&extent| u32::try_from(extent).ok()).collect();
        let (Some(ty), Some(dimensions)) = (tensor_type(datatype), dimensions) else {
            let shape = ShownShape(&shape);
            let text = format!("output `{name}` is {datatype} {shape}, which `wasi:nn` cannot express");
            return Ok(Err(NnError::new(ErrorCode::UnsupportedOperation, text)));
        };
        Ok(match self.keep_nn(dimensions, ty, Some(data))? {
            Ok(handle) => Ok((name.to_string(), handle)),
            Err(limit) => Err(limit),
        })
    }

    fn keep_nn(
        &mut self,
        dimensions: Vec<u32>,
        ty: TensorType,
        data: Option<Bytes>,
    ) -> Result<Result<Resource<NnTensor>, NnError>> {
        let rank = dimensions.len();
        if rank > LARGEST_RANK {
            let text = format!("a tensor of {rank} dimensions, more than {LARGEST_RANK}");
            return Ok(Err(NnError::new(ErrorCode::TooLarge, text)));
        }
        let length = data.as_ref().map_or(0, Bytes::len);
        let bytes = length.saturating_add(size_of_val(dimensions.as_slice()));
        match self.hold(bytes).and_then(|held| self.count_tensor().map(|()| held)) {
            Ok(held) => Ok(Ok(self.state.table.push(NnTensor { dimensions, ty, data, held })?)),
            Err(limit) => Ok(Err(limit.into())),
        }
    }

    async fn run_graph(
        &mut self,
        context: &Resource<Graph>,
        inputs: Vec<(String, Resource<NnTensor>)>,
    ) -> Result<Result<Vec<(String, Resource<NnTensor>)>, NnError>> {
        let Graph { model } = self.kernel.table.get(context)?.clone();
        let checked = check_names(inputs.iter().map(|(name, _)| name));
        let mut taken = Vec::with_capacity(inputs.len());
        for (name, handle) in inputs {
            taken.push((name, self.take_input(handle)?));
        }
        if let Err(error) = checked {
            return Ok(Err(error.into()));
        }
        // Held until the run has ended.
        let (given, _held): (Vec<_>, Vec<_>) = taken.into_iter().map(given).unzip();
        let given = match given.into_iter().collect::<Result<Vec<Tensor>, NnError>>() {
            Ok(given) => given,
            Err(error) => return Ok(Err(error)),
        };
        let models = match self.begin_run().and_then(|()| self.models().cloned()) {
            Ok(models) => models,
            Err(error) => return Ok(Err(error.into())),
        };
        let outputs = match models.infer(&model, given).await {
            Ok(outputs) => outputs,
            Err(error) => return Ok(Err(self.told(error)?.into())),
        };
        let mut made = Vec::with_capacity(outputs.len());
        for output in outputs {
            match self.give_output(output)? {
                Ok(named) => made.push(named),
                Err(error) => {
                    for (_, handle) in made {
                        tensor::HostTensor::drop(self, handle)?;
                    }
                    return Ok(Err(error));
                }
            }
        }
        Ok(Ok(made))
    }
}

impl tensor::Host for View<'_, Models> {}

impl tensor::HostTensor for View<'_, Models> {
    fn new(&mut self, dimensions: Vec<u32>, ty: TensorType, data: Vec<u8>) -> Result<Resource<NnTensor>> {
        // The interface has no error for this: beyond the limit the call ends, as one beyond its memory does;
        // that the server is full is no fault of the handler, and is said by the run.
        let data = self.charged(data).ok();
        self.keep_nn(dimensions, ty, data)?.map_err(|limit| HoldsTooMuch(limit.data).into())
    }

    fn dimensions(&mut self, handle: Resource<NnTensor>) -> Result<Vec<u32>> {
        Ok(self.state.table.get(&handle)?.dimensions.clone())
    }

    fn ty(&mut self, handle: Resource<NnTensor>) -> Result<TensorType> {
        Ok(self.state.table.get(&handle)?.ty)
    }

    fn data(&mut self, handle: Resource<NnTensor>) -> Result<Vec<u8>> {
        let none = || HoldsTooMuch("a tensor for whose data the server has no memory".to_owned());
        let data = self.state.table.get(&handle)?.data.clone().ok_or_else(none)?;
        Ok(blocking::if_much_copied(data.len(), || data.to_vec()))
    }

    fn drop(&mut self, handle: Resource<NnTensor>) -> Result<()> {
        self.state.table.delete(handle)?;
        self.uncount_tensor();
        Ok(())
    }
}

impl graph::Host for View<'_, Models> {
    fn load(
        &mut self,
        _builder: Vec<Vec<u8>>,
        _encoding: GraphEncoding,
        _target: ExecutionTarget,
    ) -> Result<Result<Resource<Graph>, Resource<NnError>>> {
        let text = "handlers bring no models: name one of the endpoint's with `load-by-name`";
        Ok(Err(self.nn_error(NnError::new(ErrorCode::UnsupportedOperation, text))?))
    }

    fn load_by_name(&mut self, name: String) -> Result<Result<Resource<Graph>, Resource<NnError>>> {
        let found = match self.models().cloned() {
            Ok(models) => models.signature(&name).map_err(|error| self.told(error)),
            Err(error) => Err(Ok(error)),
        };
        match found {
            Ok(_) => Ok(Ok(self.kernel.table.push(Graph { model: name })?)),
            Err(error) => Ok(Err(self.nn_error(error?)?)),
        }
    }
}

impl graph::HostGraph for View<'_, Models> {
    fn init_execution_context(
        &mut self,
        handle: Resource<Graph>,
    ) -> Result<Result<Resource<Graph>, Resource<NnError>>> {
        let graph = self.kernel.table.get(&handle)?.clone();
        Ok(Ok(self.kernel.table.push(graph)?))
    }

    fn drop(&mut self, handle: Resource<Graph>) -> Result<()> {
        self.kernel.table.delete(handle)?;
        Ok(())
    }
}

impl inference::Host for View<'_, Models> {}

impl inference::HostGraphExecutionContext for View<'_, Models> {
    async fn compute(
        &mut self,
        handle: Resource<Graph>,
        inputs: Vec<(String, Resource<NnTensor>)>,
    ) -> Result<Result<Vec<(String, Resource<NnTensor>)>, Resource<NnError>>> {
        match self.run_graph(&handle, inputs).await? {
            Ok(outputs) => Ok(Ok(outputs)),
            Err(error) => Ok(Err(self.nn_error(error)?)),
        }
    }

    fn drop(&mut self, handle: Resource<Graph>) -> Result<()> {
        graph::HostGraph::drop(self, handle)
    }
}

impl errors::Host for View<'_, Models> {}

impl errors::HostError for View<'_, Models> {
    fn code(&mut self, handle: Resource<NnError>) -> Result<ErrorCode> {
        Ok(self.kernel.table.get(&handle)?.code)
    }

    fn data(&mut self, handle: Resource<NnError>) -> Result<String> {
        Ok(self.kernel.table.get(&handle)?.data.clone())
    }

    fn drop(&mut self, handle: Resource<NnError>) -> Result<()> {
        self.kernel.table.delete(handle)?;
        Ok(())
    }
}

/// A tensor as an input of this name, and what is held for it.
fn given((name, tensor): (String, NnTensor)) -> (Result<Tensor, NnError>, Arc<Held>) {
    let NnTensor { dimensions, ty, data, held } = tensor;
    let Some(data) = data else { return (Err(NnError::overloaded()), held) };
    let shape = dimensions.into_iter().map(u64::from).collect();
    let made = Tensor::new(name.as_str().into(), datatype(ty), shape, data);
    let wrong = |wrong| NnError::new(ErrorCode::InvalidArgument, format!("input `{name}`: {wrong}"));
    (made.map_err(wrong), held)
}

fn datatype(ty: TensorType) -> Datatype {
    match ty {
        TensorType::Fp16 => Datatype::Fp16,
        TensorType::Fp32 => Datatype::Fp32,
        TensorType::Fp64 => Datatype::Fp64,
        TensorType::Bf16 => Datatype::Bf16,
        TensorType::U8 => Datatype::Uint8,
        TensorType::I32 => Datatype::Int32,
        TensorType::I64 => Datatype::Int64,
    }
}

fn tensor_type(datatype: Datatype) -> Option<TensorType> {
    Some(match datatype {
        Datatype::Fp16 => TensorType::Fp16,
        Datatype::Fp32 => TensorType::Fp32,
        Datatype::Fp64 => TensorType::Fp64,
        Datatype::Bf16 => TensorType::Bf16,
        Datatype::Uint8 => TensorType::U8,
        Datatype::Int32 => TensorType::I32,
        Datatype::Int64 => TensorType::I64,
        _ => return None,
    })
}
