//! What clients call models: names, versions, metadata, readiness; load and unload. No protocol's types.
//!
//! Place in the flow: between the protocols that have a notion of models (Open Inference Protocol over HTTP
//! and gRPC, TensorFlow Serving's) and the endpoints.
//!
//! A model's name is its endpoint's. An endpoint of several models is also known by `ENDPOINT.MODEL` for each
//! of them; by its own name it is the first. An endpoint without a model, whose handler works alone, is a
//! model too. Versions are the numbers of folders of versions; a model without such a folder has version 1.

use std::sync::Arc;

use crate::endpoint::config::EndpointConfig;
use crate::endpoint::generation::Generation;
use crate::error::{Code, RequestError, Stage};
use crate::keys::Credentials;
use crate::model::location::Format;
use crate::model::sequences::Sequences;
use crate::model::{DEFAULT_SIGNATURE_KEY, Device, PREDICT_METHOD};
use crate::pipeline::models::{Handle, Named, ONLY_VERSION, without_version};
use crate::request::{ModelChoice, Protocol};
use crate::rollout::deploy_request::{DeployOutcome, DeployRequest};
use crate::rollout::deployment::Deployment;
use crate::rollout::error::DeployError;
use crate::rollout::history::Origin;
use crate::schema::check;
use crate::server::classification::Classes;
use crate::server::serve::Destination;
use crate::server::served::Served;
pub use crate::telemetry::metrics::{CacheFigures, Statistics, Timing};
use crate::tensor::{Datatype, Extent, Signature, Tensor, TensorSpec};
use crate::text::{on_one_line, shown};

/// The extensions of the Open Inference Protocol, by the names of its clients.
const EXTENSIONS: [&str; 7] = [
    "binary_tensor_data",
    "classification",
    "model_configuration",
    "model_repository",
    "parameters",
    "sequence",
    "statistics",
];
/// The one that the operator switches on.
const SHARED_MEMORY: &str = "system_shared_memory";

/// A model as clients know it, found by its name.
#[derive(Clone)]
pub struct Entry<'a> {
    /// The endpoint that serves it.
    pub endpoint: &'a Arc<Deployment>,
    /// Which of the endpoint's models; `None` if it has none.
    pub model: Option<Arc<str>>,
    /// The version that it was asked for; `None`: the one that requests go to by themselves.
    wanted: Option<u64>,
    /// The name it was found by.
    pub name: String,
}

/// The inputs and outputs of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    /// As it was asked for.
    pub name: String,
    /// The versions that are served, the lowest first.
    pub versions: Vec<String>,
    /// The field's name for the engine: `onnxruntime_onnx`, `tensorflow_savedmodel`; `wasm_handler` for a
    /// handler alone; empty while it is not loaded.
    pub platform: &'static str,
    /// Inputs, in the model's order.
    pub inputs: Vec<TensorMetadata>,
    /// Outputs, in the model's order.
    pub outputs: Vec<TensorMetadata>,
    /// Most rows of a batch; 0 if requests are not batched.
    pub max_batch: usize,
    /// How long a sequence may be idle, in microseconds, and each state, output and input; `None` if it keeps
    /// none.
    pub sequences: Option<(u64, Vec<(TensorMetadata, TensorMetadata)>)>,
    /// How many runs of it there may be at the same time.
    pub instances: usize,
    /// The CUDA device it runs on; `None` on the CPU.
    pub gpu: Option<u32>,
}

/// One input or output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorMetadata {
    /// Its name.
    pub name: String,
    /// Its element type.
    pub datatype: Datatype,
    /// Extents, outermost first; -1 for any.
    pub shape: Vec<i64>,
    /// Whether it may be left out.
    pub optional: bool,
}

/// A model in the repository's index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexEntry {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Whether requests are served.
    pub ready: bool,
}

impl Served {
    /// The model of this name, and of this version if one is given, for a request by this protocol that shows
    /// this.
    ///
    /// # Errors
    /// `not_found` that names what there is instead; `unauthorized`.
    pub fn model(
        &self,
        name: &str,
        version: Option<&str>,
        credentials: Credentials<'_>,
        protocol: Option<Protocol>,
    ) -> Result<Entry<'_>, RequestError> {
        // An endpoint's name, or `ENDPOINT.MODEL`: either part may have dots.
        let dots = name.match_indices('.').filter_map(|(dot, _)| name.get(..dot));
        let mut found =
            std::iter::once(name).chain(dots).filter_map(|endpoint| self.endpoints.named(endpoint));
        let entry = found.find_map(|endpoint| Entry::of(endpoint, name));
        let Some(mut entry) = entry.filter(|entry| entry.endpoint.config.speaks(protocol)) else {
            let message = format!("there is no model `{}`", shown(name));
            return Err(RequestError::new(Code::NotFound, Stage::Admit, message));
        };
        entry.endpoint.authorize(|| credentials)?;
        if let Some(wanted) = version.filter(|wanted| !wanted.is_empty()) {
            entry.choose(wanted)?;
        }
        Ok(entry)
    }

    /// Every name that a model can be called by in this protocol.
    pub fn entries(&self, protocol: Option<Protocol>) -> impl Iterator<Item = Entry<'_>> {
        let speaking = self.endpoints.iter().filter(move |endpoint| endpoint.config.speaks(protocol));
        speaking.flat_map(|endpoint| {
            let models = endpoint.config.model_names();
            let entry = |name: String, model: Option<&&str>| Entry {
                endpoint,
                model: model.map(|it| (*it).into()),
                wanted: None,
                name,
            };
            let own = entry(endpoint.config.name.clone(), models.first());
            let several = if models.len() > 1 { models } else { Vec::new() };
            let named = several
                .into_iter()
                .map(move |model| entry(format!("{}.{model}", endpoint.config.name), Some(&model)));
            std::iter::once(own).chain(named)
        })
    }

    /// Every endpoint's model by its endpoint's name: each once.
    pub fn models(&self, protocol: Option<Protocol>) -> impl Iterator<Item = Entry<'_>> {
        let speaking = self.endpoints.iter().filter(move |endpoint| endpoint.config.speaks(protocol));
        speaking.filter_map(|endpoint| Entry::of(endpoint, &endpoint.config.name))
    }

    /// The extensions of the Open Inference Protocol that clients can use.
    pub fn extensions(&self) -> impl Iterator<Item = &'static str> {
        EXTENSIONS.into_iter().chain(self.shared_memory.is_on().then_some(SHARED_MEMORY))
    }

    /// All models and whether they are served.
    pub fn index(&self, protocol: Option<Protocol>) -> Vec<IndexEntry> {
        let indexed = |entry: Entry<'_>| {
            let ready = entry.is_ready();
            let versions = entry.versions().into_iter();
            versions
                .map(|version| IndexEntry { name: entry.name.clone(), version, ready })
                .collect::<Vec<_>>()
        };
        self.entries(protocol).flat_map(indexed).collect()
    }
}

impl<'a> Entry<'a> {
    /// The names of an endpoint's models.
    pub(super) fn names(config: &EndpointConfig) -> impl Iterator<Item = String> + use<> {
        let models = config.model_names();
        let several = if models.len() > 1 { models.as_slice() } else { &[] };
        let named = several.iter().map(|model| format!("{}.{model}", config.name));
        std::iter::once(config.name.clone()).chain(named).collect::<Vec<_>>().into_iter()
    }

    /// The endpoint's model that is called `name`, if it has one.
    fn of(endpoint: &'a Arc<Deployment>, name: &str) -> Option<Entry<'a>> {
        let models = endpoint.config.model_names();
        let model = match name.strip_prefix(endpoint.config.name.as_str())? {
            "" => models.first(),
            _ if models.len() < 2 => return None,
            rest => {
                let wanted = rest.strip_prefix('.')?;
                Some(models.iter().find(|model| **model == wanted)?)
            }
        };
        let model = model.map(|model| (*model).into());
        Some(Entry { endpoint, model, wanted: None, name: name.to_owned() })
    }
}

impl<'a> Entry<'a> {
    /// Where a request for it goes.
    pub(super) fn destination(&self) -> Destination<'a> {
        let choice = |name: &Arc<str>| ModelChoice { name: name.clone(), version: self.wanted };
        Destination { endpoint: self.endpoint, model: self.model.as_ref().map(choice) }
    }

    /// Makes it the one of this version.
    ///
    /// # Errors
    /// `not_found` that names the versions there are.
    fn choose(&mut self, wanted: &str) -> Result<(), RequestError> {
        let named = self.named(&self.endpoint.current());
        self.wanted = wanted.parse().ok().filter(|number| match &named {
            Some(named) if named.handle.is_some() => named.version(Some(*number)).is_some(),
            // What is not loaded says so later.
            _ => *number == ONLY_VERSION,
        });
        match self.wanted {
            Some(_) => Ok(()),
            None => Err(without_version(&self.name, named.as_ref(), wanted)),
        }
    }
}

impl Entry<'_> {
    /// The current generation: how often a model is asked about does not matter, that the answer is of one
    /// generation does.
    fn named(&self, current: &Generation) -> Option<Named> {
        current.models().get(self.model.as_deref()?).cloned()
    }

    fn handle_in(&self, generation: &Generation) -> Option<Handle> {
        self.named(generation)?.version(self.wanted).cloned()
    }

    fn handle(&self) -> Option<Handle> {
        self.handle_in(&self.endpoint.current())
    }

    /// The version that is asked for, else that which requests go to by themselves now.
    pub fn version(&self) -> String {
        self.version_in(&self.endpoint.current())
    }

    /// The versions that are served now, the lowest first; of one that was asked for by its version, that.
    pub fn versions(&self) -> Vec<String> {
        let named = self.named(&self.endpoint.current());
        let mut numbers: Vec<u64> = match (self.wanted, &named) {
            (None, Some(named)) => named.handles().map(Handle::version).collect(),
            (wanted, _) => wanted.into_iter().collect(),
        };
        if numbers.is_empty() {
            numbers.push(ONLY_VERSION);
        }
        numbers.sort_unstable();
        numbers.iter().map(u64::to_string).collect()
    }

    /// The version in a generation: of an answer, that of the model that gave it.
    pub fn version_in(&self, generation: &Generation) -> String {
        self.handle_in(generation).as_ref().map_or(ONLY_VERSION, Handle::version).to_string()
    }

    /// The inputs and outputs of the model; none for a handler alone.
    pub fn signature(&self) -> Arc<Signature> {
        self.signature_in(&self.endpoint.current())
    }

    fn signature_in(&self, generation: &Generation) -> Arc<Signature> {
        let Some(named) = self.named(generation) else { return Arc::default() };
        // The one that is not loaded has that which the handler knows.
        named.version(self.wanted).map_or(named.signature.clone(), |handle| handle.signature().clone())
    }

    /// The outcomes of its requests. They are counted by endpoint, so models of one endpoint have the same
    /// figures.
    pub fn statistics(&self) -> Statistics {
        let statistics = self.endpoint.metrics.statistics();
        // Kept answers took no time of a stage, and are not among its requests either.
        let CacheFigures { hits, collapsed, .. } = self.cache();
        let run = |count: u64| count.saturating_sub(hits.count + collapsed.count);
        let of_runs = |stage: Timing| Timing { count: run(stage.count), ..stage };
        let execution_count = match self.model {
            Some(_) => statistics.execution_count,
            None => run(statistics.inference_count),
        };
        Statistics {
            execution_count,
            compute_input: of_runs(statistics.compute_input),
            compute_infer: of_runs(statistics.compute_infer),
            compute_output: of_runs(statistics.compute_output),
            ..statistics
        }
    }

    /// The figures of its endpoint's response cache; zeroes without one.
    pub fn cache(&self) -> CacheFigures {
        self.endpoint.response_cache().unwrap_or_default()
    }

    /// Takes the axis of a batch of one from inputs whose declared shape has none.
    pub fn strip_batch_axis(&self, inputs: &mut [Tensor]) {
        self.endpoint.read_current(|current| {
            if let Some(schema) = current.schema_of_tensors() {
                check::strip_batch_axis(schema, inputs);
            }
        });
    }

    /// The name of the signature it is served by.
    pub fn signature_key(&self) -> String {
        self.signature_key_in(&self.endpoint.current())
    }

    /// The same in a generation.
    pub fn signature_key_in(&self, generation: &Generation) -> String {
        let handle = self.handle_in(generation);
        handle.as_ref().map_or(DEFAULT_SIGNATURE_KEY, Handle::signature_key).to_owned()
    }

    /// The call by which TensorFlow Serving's clients reach that signature.
    pub fn method_name(&self) -> String {
        self.handle().as_ref().map_or(PREDICT_METHOD, Handle::method_name).to_owned()
    }

    /// The inputs of a request: those that the handler declares, else those of the model; none where neither
    /// is known.
    pub fn inputs(&self) -> Vec<TensorSpec> {
        self.inputs_in(&self.endpoint.current())
    }

    fn inputs_in(&self, generation: &Generation) -> Vec<TensorSpec> {
        match generation.schema_of_tensors() {
            Some(schema) => schema.signature().inputs.clone(),
            None => self.signature_in(generation).inputs.clone(),
        }
    }

    /// Whether its endpoint is an application, which serves no tensors.
    pub fn is_application(&self) -> bool {
        self.endpoint.is_application()
    }

    /// Whether its handler is given the body of a request as it is.
    pub fn reads_bodies(&self) -> bool {
        self.endpoint.read_current(|it| it.pipeline.plugin.is_some() && !it.pipeline.is_application())
    }

    /// Whether it is loaded.
    pub fn is_ready(&self) -> bool {
        self.model.is_none() || self.handle().is_some()
    }

    /// Whether it is loaded, as a refusal: what another one will take is unknown until it is loaded again.
    ///
    /// # Errors
    /// `model_unloaded`.
    pub fn check_loaded(&self) -> Result<(), RequestError> {
        if self.is_ready() {
            return Ok(());
        }
        let message = format!("model `{}` is not loaded", self.name);
        Err(RequestError::new(Code::ModelUnloaded, Stage::Admit, message))
    }

    /// The classes of its outputs in a generation, as far as they are known.
    pub(super) fn classes_in(&self, generation: &Generation) -> Classes {
        let handle = self.handle_in(generation);
        let labels = handle.as_ref().and_then(Handle::model).map(|model| model.labels().clone());
        let is_batched = max_batch(handle.as_ref(), generation) > 1;
        Classes { is_batched, labels: labels.unwrap_or_default() }
    }

    /// The description of its inputs and outputs.
    pub fn metadata(&self) -> Metadata {
        let current = self.endpoint.current();
        let handle = self.handle_in(&current);
        let handle = handle.as_ref();
        let model = handle.and_then(Handle::model);
        let platform = match model.map(|model| model.location().format) {
            Some(Format::Onnx) => "onnxruntime_onnx",
            Some(Format::SavedModel) => "tensorflow_savedmodel",
            None if handle.is_some() => "ensemble",
            None if self.model.is_some() => "",
            None => "wasm_handler",
        };
        let specs = |specs: &[TensorSpec]| specs.iter().map(TensorMetadata::of).collect();
        let batching = max_batch(handle, &current);
        Metadata {
            name: self.name.clone(),
            versions: self.versions(),
            platform,
            inputs: specs(&self.inputs_in(&current)),
            outputs: specs(&self.signature_in(&current).outputs),
            max_batch: if batching > 1 { batching } else { 0 },
            sequences: handle.and_then(Handle::sequences).map(sequences),
            instances: model.map_or(1, |model| model.sessions()),
            gpu: model.and_then(|model| match model.device() {
                Device::Cuda(index) => Some(index),
                Device::Auto | Device::Cpu => None,
            }),
        }
    }

    /// Whether it keeps state between the requests of a sequence.
    pub fn keeps_state(&self, current: &Generation) -> bool {
        self.handle_in(current).is_some_and(|handle| handle.sequences().is_some())
    }

    /// Loads it as its files are now, and publishes it.
    ///
    /// # Errors
    /// `invalid_input` with the reason; what was served before is served on.
    pub async fn load(&self, served: &Served) -> Result<(), RequestError> {
        let Some(model) = self.model.clone() else { return Ok(()) };
        let endpoint = self.endpoint.clone();
        let order =
            async move { endpoint.load_model(&model, None, &DeployRequest::by(Origin::Client)).await };
        carry_out(served, order).await
    }

    /// Takes it out of service.
    ///
    /// # Errors
    /// `invalid_input` for what is no model but a handler alone.
    pub async fn unload(&self, served: &Served) -> Result<(), RequestError> {
        let Some(model) = self.model.clone() else {
            let message = format!("`{}` has no model that could be unloaded", self.name);
            return Err(RequestError::invalid(Stage::Admit, message));
        };
        let endpoint = self.endpoint.clone();
        let order = async move { endpoint.unload_model(&model, &DeployRequest::by(Origin::Client)).await };
        carry_out(served, order).await
    }
}

fn sequences(sequences: &Sequences) -> (u64, Vec<(TensorMetadata, TensorMetadata)>) {
    let idle = u64::try_from(sequences.limits().idle.as_micros()).unwrap_or(u64::MAX);
    let states = sequences.states().map(|(from, to)| (TensorMetadata::of(from), TensorMetadata::of(to)));
    (idle, states.collect())
}

/// Most rows of a batch: a declared shape is one request's, also if the model behind it takes batches.
fn max_batch(handle: Option<&Handle>, generation: &Generation) -> usize {
    match generation.schema_of_tensors() {
        Some(_) => 1,
        None => handle.map_or(1, Handle::max_batch),
    }
}

/// Carries an order out on the requests' runtime, to its end, also if its request is dropped.
async fn carry_out(
    served: &Served,
    order: impl Future<Output = Result<DeployOutcome, DeployError>> + Send + 'static,
) -> Result<(), RequestError> {
    let ending = || RequestError::shutting_down(Stage::Admit);
    match served.orders.spawn(&served.runtime, order).ok_or_else(ending)?.await {
        Ok(outcome) => outcome.map(drop).map_err(|error| refused(&error)),
        Err(error) => {
            let text = "the order came to no end";
            Err(RequestError::new(Code::Internal, Stage::Admit, text).with_detail(error))
        }
    }
}

impl TensorMetadata {
    fn of(spec: &TensorSpec) -> TensorMetadata {
        TensorMetadata {
            name: spec.name.to_string(),
            datatype: spec.datatype,
            shape: spec.shape.iter().map(Extent::as_i64).collect(),
            optional: spec.is_optional(),
        }
    }
}

/// The operator's texts name paths, which are not for clients.
fn refused(error: &DeployError) -> RequestError {
    tracing::error!("order to load or unload a model refused: {}", on_one_line(error));
    RequestError::invalid(Stage::Admit, "the model cannot be loaded; the log says why").with_detail(error)
}
