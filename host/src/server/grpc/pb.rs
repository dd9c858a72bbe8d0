//! The Open Inference Protocol's messages, as `build.rs` made them of `host/proto/open_inference.proto`.

#![allow(missing_docs, clippy::all, clippy::allow_attributes_without_reason, reason = "generated")]

tonic::include_proto!("inference");

use super::bounds::{Bounds, MOST_FIELDS, Parts};
use super::codec::RequestMessage;

/// The fields of an inference request that unfold, see `host/proto/open_inference.proto`. No other request
/// has fields of these numbers.
const BOUNDS: Bounds = Bounds {
    fields: MOST_FIELDS,
    fields_are: "inputs, outputs, parameters and extents",
    texts_are: "elements of `bytes_contents`",
    unfolding: &[
        // `inputs`, of which `shape` and `contents`, of which `bytes_contents`.
        (5, Parts::Fields(&[(3, Parts::Packed), (5, Parts::Values(&[(8, Parts::Text)]))])),
        // `outputs`.
        (6, Parts::Fields(&[])),
    ],
};

/// The same of the settings of tracing, of which each has any number of values.
const BOUNDS_OF_SETTINGS: Bounds =
    Bounds { unfolding: &[(1, Parts::Fields(&[(2, Parts::Fields(&[]))]))], ..BOUNDS };

macro_rules! requests {
    ($bounds:ident: $($request:ident),+ $(,)?) => {
        $(impl RequestMessage for $request {
            const BOUNDS: Bounds = $bounds;
        })+
    };
}

requests!(BOUNDS_OF_SETTINGS: TraceSettingRequest, LogSettingsRequest);
requests!(
    BOUNDS:
    ServerLiveRequest,
    ServerReadyRequest,
    ModelReadyRequest,
    ServerMetadataRequest,
    ModelMetadataRequest,
    ModelInferRequest,
    ModelConfigRequest,
    ModelStatisticsRequest,
    RepositoryIndexRequest,
    RepositoryModelLoadRequest,
    RepositoryModelUnloadRequest,
    SystemSharedMemoryStatusRequest,
    SystemSharedMemoryRegisterRequest,
    SystemSharedMemoryUnregisterRequest,
    CudaSharedMemoryStatusRequest,
    CudaSharedMemoryRegisterRequest,
    CudaSharedMemoryUnregisterRequest,
);
