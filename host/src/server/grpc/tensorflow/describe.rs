//! What is known of a model, in TensorFlow Serving's messages: its signature, its state.
//!
//! Place in the flow: beside it; [`crate::server::models`] knows, this writes it down.

use std::collections::BTreeMap;

use tonic_prost::prost::Message as _;

use super::pb::serving::model_version_status::State;
use super::pb::serving::{
    GetModelMetadataRequest, GetModelMetadataResponse, GetModelStatusRequest, GetModelStatusResponse,
    ModelVersionStatus, SignatureDefMap, StatusProto,
};
use super::pb::{SignatureDef, TensorInfo};
use super::{spec, tensor};
use crate::error::{RequestError, Stage};
use crate::server::grpc::call::Call;
use crate::server::models::{Entry, TensorMetadata};
use crate::server::served::Served;

/// The only field of metadata that there is.
const SIGNATURE_DEF: &str = "signature_def";
/// The type of its value.
const SIGNATURE_DEF_MAP: &str = "type.googleapis.com/tensorflow.serving.SignatureDefMap";

/// The signature that a model is served by.
///
/// # Errors
/// `invalid_input` for another field of metadata, or none; `model_unloaded`; as [`spec::entry`].
pub(super) fn metadata(
    served: &Served,
    call: &Call,
    message: &GetModelMetadataRequest,
) -> Result<GetModelMetadataResponse, RequestError> {
    let entry = spec::entry(served, message.model_spec.as_ref(), call)?;
    if message.metadata_field.is_empty() {
        let text = format!("`metadata_field` is empty; it is `{SIGNATURE_DEF}`");
        return Err(RequestError::invalid(Stage::Admit, text));
    }
    if let Some(other) = message.metadata_field.iter().find(|field| *field != SIGNATURE_DEF) {
        let text = format!("there is no field `{other}` of metadata, but `{SIGNATURE_DEF}`");
        return Err(RequestError::invalid(Stage::Admit, text));
    }
    entry.check_loaded()?;
    let signatures =
        SignatureDefMap { signature_def: BTreeMap::from([(entry.signature_key(), signature(&entry))]) };
    let value =
        prost_types::Any { type_url: SIGNATURE_DEF_MAP.to_owned(), value: signatures.encode_to_vec() };
    let mut model_spec = spec::answered(&entry, &entry.endpoint.current());
    model_spec.signature_name = String::new();
    Ok(GetModelMetadataResponse {
        model_spec: Some(model_spec),
        metadata: BTreeMap::from([(SIGNATURE_DEF.to_owned(), value)]),
    })
}

fn signature(entry: &Entry<'_>) -> SignatureDef {
    let metadata = entry.metadata();
    let tensors = |tensors: Vec<TensorMetadata>| tensors.into_iter().map(info).collect();
    SignatureDef {
        inputs: tensors(metadata.inputs),
        outputs: tensors(metadata.outputs),
        method_name: entry.method_name(),
    }
}

fn info(tensor: TensorMetadata) -> (String, TensorInfo) {
    let info = TensorInfo {
        name: tensor.name.clone(),
        dtype: tensor::data_type(tensor.datatype).into(),
        tensor_shape: tensor::shape_of(tensor.shape),
    };
    (tensor.name, info)
}

/// The state of the version that is served.
///
/// # Errors
/// As [`spec::entry`].
pub(super) async fn status(
    served: &Served,
    call: &Call,
    message: &GetModelStatusRequest,
) -> Result<GetModelStatusResponse, RequestError> {
    let entry = spec::entry(served, message.model_spec.as_ref(), call)?;
    let state = if !entry.is_ready() {
        State::End
    } else if served.drain.has_begun() {
        State::Unloading
    } else if served.says_ready(entry.endpoint).await {
        State::Available
    } else {
        State::Loading
    };
    let status = |version: String| ModelVersionStatus {
        version: version.parse().unwrap_or_default(),
        state: state.into(),
        status: Some(StatusProto::default()),
    };
    let model_version_status = entry.versions().into_iter().rev().map(status).collect();
    Ok(GetModelStatusResponse { model_version_status })
}
