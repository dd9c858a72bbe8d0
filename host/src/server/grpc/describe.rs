//! What is known of models, as messages.
//!
//! Place in the flow: beside it; [`crate::server::models`] knows, this writes it down in the protocol's and
//! Triton's words.

use super::pb;
use super::pb::log_settings_response::SettingValue;
use super::pb::log_settings_response::setting_value::ParameterChoice;
use super::pb::model_config::SchedulingChoice;
use super::pb::model_instance_group::Kind;
use crate::server::models::{Entry, IndexEntry, Metadata, TensorMetadata, Timing};
use crate::server::served::Served;
use crate::server::triton_settings::{self, LogSetting};
use crate::tensor::Datatype;

/// The server.
pub(super) fn server(served: &Served) -> pb::ServerMetadataResponse {
    pb::ServerMetadataResponse {
        name: "modelhost".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        extensions: served.extensions().map(str::to_owned).collect(),
    }
}

/// The settings of tracing.
pub(super) fn trace() -> pb::TraceSettingResponse {
    let value = |text: &str| pb::trace_setting_response::SettingValue { value: vec![text.to_owned()] };
    let settings = triton_settings::trace().map(|(name, text)| (name.to_owned(), value(text)));
    pb::TraceSettingResponse { settings: settings.into() }
}

/// The settings of the log.
pub(super) fn log() -> pb::LogSettingsResponse {
    let value = |setting: LogSetting| SettingValue {
        parameter_choice: Some(match setting {
            LogSetting::Is(is) => ParameterChoice::BoolParam(is),
            LogSetting::Level(level) => ParameterChoice::Uint32Param(level),
            LogSetting::Text(text) => ParameterChoice::StringParam(text.to_owned()),
        }),
    };
    let settings = triton_settings::log().map(|(name, setting)| (name.to_owned(), value(setting)));
    pb::LogSettingsResponse { settings: settings.into() }
}

/// A model's inputs and outputs.
pub(super) fn metadata(metadata: Metadata) -> pb::ModelMetadataResponse {
    let tensor = |tensor: TensorMetadata| pb::model_metadata_response::TensorMetadata {
        name: tensor.name,
        datatype: tensor.datatype.name().to_owned(),
        shape: tensor.shape,
    };
    pb::ModelMetadataResponse {
        name: metadata.name,
        versions: metadata.versions,
        platform: metadata.platform.to_owned(),
        inputs: metadata.inputs.into_iter().map(tensor).collect(),
        outputs: metadata.outputs.into_iter().map(tensor).collect(),
    }
}

/// A model as Triton's clients expect it to be configured: if it is batched, the first extent is left out.
pub(super) fn config(metadata: Metadata) -> pb::ModelConfig {
    let batched = metadata.max_batch > 0;
    let dims = |shape: Vec<i64>| shape.into_iter().skip(usize::from(batched)).collect();
    let input = |tensor: TensorMetadata| pb::ModelInput {
        name: tensor.name,
        data_type: data_type(tensor.datatype).into(),
        dims: dims(tensor.shape),
        optional: tensor.optional,
    };
    let output = |tensor: TensorMetadata| pb::ModelOutput {
        name: tensor.name,
        data_type: data_type(tensor.datatype).into(),
        dims: dims(tensor.shape),
    };
    let state = |(from, to): (TensorMetadata, TensorMetadata)| pb::model_sequence_batching::State {
        input_name: to.name,
        output_name: from.name,
        data_type: data_type(to.datatype).into(),
        dims: dims(to.shape),
    };
    let scheduling = match metadata.sequences {
        Some((max_sequence_idle_microseconds, states)) => {
            let state = states.into_iter().map(state).collect();
            let batching = pb::ModelSequenceBatching { max_sequence_idle_microseconds, state };
            Some(SchedulingChoice::SequenceBatching(batching))
        }
        None => batched.then_some(SchedulingChoice::DynamicBatching(pb::ModelDynamicBatching {})),
    };
    let backend = metadata.platform.split_once('_').map_or(metadata.platform, |(engine, _)| engine);
    let gpus: Vec<i32> = metadata.gpu.and_then(|gpu| i32::try_from(gpu).ok()).into_iter().collect();
    let kind = if gpus.is_empty() { Kind::Cpu } else { Kind::Gpu };
    let name = metadata.name.clone();
    let group = pb::ModelInstanceGroup { name, count: count(metadata.instances), gpus, kind: kind.into() };
    pb::ModelConfig {
        name: metadata.name,
        platform: metadata.platform.to_owned(),
        max_batch_size: count(metadata.max_batch),
        input: metadata.inputs.into_iter().map(input).collect(),
        output: metadata.outputs.into_iter().map(output).collect(),
        instance_group: vec![group],
        scheduling_choice: scheduling,
        backend: backend.to_owned(),
    }
}

fn count(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn data_type(datatype: Datatype) -> pb::DataType {
    match datatype {
        Datatype::Bool => pb::DataType::TypeBool,
        Datatype::Uint8 => pb::DataType::TypeUint8,
        Datatype::Uint16 => pb::DataType::TypeUint16,
        Datatype::Uint32 => pb::DataType::TypeUint32,
        Datatype::Uint64 => pb::DataType::TypeUint64,
        Datatype::Int8 => pb::DataType::TypeInt8,
        Datatype::Int16 => pb::DataType::TypeInt16,
        Datatype::Int32 => pb::DataType::TypeInt32,
        Datatype::Int64 => pb::DataType::TypeInt64,
        Datatype::Fp16 => pb::DataType::TypeFp16,
        Datatype::Bf16 => pb::DataType::TypeBf16,
        Datatype::Fp32 => pb::DataType::TypeFp32,
        Datatype::Fp64 => pb::DataType::TypeFp64,
        Datatype::Bytes => pb::DataType::TypeString,
    }
}

/// The outcomes of a model's requests.
pub(super) fn statistics(entry: &Entry<'_>) -> pb::ModelStatistics {
    let (statistics, cache) = (entry.statistics(), entry.cache());
    let timing = |timing: Timing| Some(pb::StatisticDuration { count: timing.count, ns: timing.ns });
    pb::ModelStatistics {
        name: entry.name.clone(),
        version: entry.version(),
        last_inference: statistics.last_inference,
        inference_count: statistics.inference_count,
        execution_count: statistics.execution_count,
        inference_stats: Some(pb::InferStatistics {
            success: timing(statistics.success),
            fail: timing(statistics.fail),
            queue: timing(statistics.queue),
            compute_input: timing(statistics.compute_input),
            compute_infer: timing(statistics.compute_infer),
            compute_output: timing(statistics.compute_output),
            cache_hit: timing(cache.hits),
            cache_miss: timing(cache.misses),
        }),
    }
}

/// All models, or those that take requests.
pub(super) fn index(entries: Vec<IndexEntry>, only_ready: bool) -> pb::RepositoryIndexResponse {
    let listed = entries.into_iter().filter(|entry| entry.ready || !only_ready);
    let model = |entry: IndexEntry| pb::repository_index_response::ModelIndex {
        name: entry.name,
        version: entry.version,
        state: if entry.ready { "READY" } else { "UNAVAILABLE" }.to_owned(),
        reason: if entry.ready { "" } else { "unloaded" }.to_owned(),
    };
    pb::RepositoryIndexResponse { models: listed.map(model).collect() }
}
