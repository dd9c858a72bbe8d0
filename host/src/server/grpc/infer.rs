//! `ModelInfer`: message → [`Request`] → pipeline → message.
//!
//! Place in the flow: as `http/call.rs` for the other listener. The message is there already when this begins; nothing of it
//! is converted before the request has a place at its endpoint.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use tonic::{Response, Status};

use super::call::Call;
use super::{GRPC, contents, failure, pb};
use crate::deploy::Answer;
use crate::error::{Code, RequestError, Stage};
use crate::request::{Output, Request};
use crate::server::Served;
use crate::tensor::Tensor;

/// What a handler sees as the path.
const PATH: &str = "/inference.GRPCInferenceService/ModelInfer";

/// Serves one request.
///
/// # Errors
/// Its failure, logged already; or what its handler answered, if that was no success.
pub(super) async fn infer(
    served: &Served,
    call: &Call,
    mut message: pb::ModelInferRequest,
) -> Result<Response<pb::ModelInferResponse>, Status> {
    let entry = served
        .model(&message.model_name, Some(&message.model_version), call.credentials(), GRPC)
        .map_err(|error| failure::status(error, call, served, None))?;
    let endpoint = entry.endpoint;
    let failed = |error| failure::status(error, call, served, Some(&endpoint.config.name));
    let limits = &endpoint.config.limits;
    let visit = endpoint.knock(|| call.credentials()).map_err(failed)?;
    let wanted = std::mem::take(&mut message.outputs);
    let id = std::mem::take(&mut message.id);
    let input = match contents::input(message, &wanted, limits.body) {
        Ok(input) => input,
        Err(error) => {
            visit.refuse(&error);
            return Err(failed(error));
        }
    };
    let request = Request {
        id: call.id.clone(),
        head: call.head(PATH),
        input,
        model: entry.model.clone(),
        arrived: call.arrived,
        deadline: call.deadline(limits.request_timeout),
        debug: false,
        body_limit: limits.body,
    };
    let Answer { outcome, generation, bypassed } = visit.serve(Arc::new(request)).await;
    let digest = generation.digest.clone();
    let model_version = entry.version_in(&generation);
    drop(generation);
    let signed = |mut status: Status| {
        failure::sign(status.metadata_mut(), digest.as_deref(), bypassed);
        status
    };
    let failed = |error| signed(failed(error));
    let tensors = match outcome.map_err(failed)? {
        Output::Tensors(tensors) => tensors,
        Output::Response(response) if !(200..300).contains(&response.status) => {
            return Err(signed(failure::answered(&response)));
        }
        Output::Response(response) => contents::of_response(response).map_err(failed)?,
    };
    let tensors = selected(tensors, &wanted).map_err(failed)?;
    let (outputs, raw_output_contents) = contents::outputs(tensors);
    let model_name = entry.name;
    let parameters = BTreeMap::new();
    let response =
        pb::ModelInferResponse { model_name, model_version, id, parameters, outputs, raw_output_contents };
    let mut response = Response::new(response);
    failure::sign(response.metadata_mut(), digest.as_deref(), bypassed);
    Ok(response)
}

/// The outputs that are wanted, in the order in which they are; all of them if none is named.
fn selected(
    tensors: Vec<Tensor>,
    wanted: &[pb::model_infer_request::InferRequestedOutputTensor],
) -> Result<Vec<Tensor>, RequestError> {
    if wanted.is_empty() {
        return Ok(tensors);
    }
    let mut names = HashSet::with_capacity(wanted.len());
    if let Some(twice) = wanted.iter().find(|output| !names.insert(&*output.name)) {
        let message = format!("output `{}` is asked for twice", twice.name);
        return Err(RequestError::new(Code::InvalidInput, Stage::PostInference, message));
    }
    let find = |name: &str| {
        tensors.iter().find(|tensor| *tensor.name == *name).cloned().ok_or_else(|| {
            let names: Vec<String> = tensors.iter().map(|tensor| format!("`{}`", tensor.name)).collect();
            let message = format!("there is no output `{name}`, but {}", names.join(", "));
            RequestError::new(Code::InvalidInput, Stage::PostInference, message)
        })
    };
    wanted.iter().map(|output| find(&output.name)).collect()
}
