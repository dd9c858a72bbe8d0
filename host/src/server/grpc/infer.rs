//! `ModelInfer`: a message becomes tensors, tensors become a message.
//!
//! Place in the flow: the [`Protocol`] of gRPC. The message is there already when this begins; nothing of it
//! is converted before the request has a place at its endpoint.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use tonic::{Response, Status};

use super::call::{Call, GRPC, GrpcHead};
use super::pb::model_infer_request::InferRequestedOutputTensor;
use super::{contents, pb};
use crate::endpoint::generation::Generation;
use crate::error::{Code, RequestError, Stage};
use crate::request::{Input, Output};
use crate::server::models::Entry;
use crate::server::serve::{Protocol, Room, Transport, serve};
use crate::server::served::Served;
use crate::server::shared_memory::{Place, SharedMemory};
use crate::tensor::Tensor;
use crate::text;

/// The path that a handler sees.
const PATH: &str = "/inference.GRPCInferenceService/ModelInfer";

type InferHead = GrpcHead<pb::ModelInferRequest, pb::ModelInferResponse>;

struct GrpcInference<'a> {
    entry: Entry<'a>,
    memory: &'a SharedMemory,
    /// The client's name of the request.
    id: String,
    outputs: Vec<InferRequestedOutputTensor>,
    /// How many classes of each, 0 for its values.
    classes: Vec<usize>,
    /// Where each is written to, if it does not go into the answer.
    places: Vec<Option<Place>>,
}

impl Protocol for GrpcInference<'_> {
    type Transport = InferHead;

    fn decode(
        &mut self,
        _: &InferHead,
        mut message: pb::ModelInferRequest,
        room: Room,
    ) -> Result<Input, RequestError> {
        self.id = std::mem::take(&mut message.id);
        self.outputs = std::mem::take(&mut message.outputs);
        self.classes = self.outputs.iter().map(contents::classes).collect::<Result<_, _>>()?;
        let place = |output: &InferRequestedOutputTensor| {
            contents::place(&output.parameters, self.memory).map_err(|text| {
                RequestError::invalid(Stage::Admit, format!("output `{}`: {text}", text::shown(&output.name)))
            })
        };
        self.places = self.outputs.iter().map(place).collect::<Result<_, _>>()?;
        let charge = room.memory.take(contents::most(&message, room.longest));
        let charge = charge.map_err(|full| full.at(Stage::Admit))?;
        let mut input = contents::input(message, self.memory, room.longest)?;
        if let Input::Tensors(input) = &mut input {
            charge.own_tensors(&mut input.tensors, &[]).map_err(|full| full.at(Stage::Admit))?;
            self.entry.strip_batch_axis(&mut input.tensors);
        }
        Ok(input)
    }

    fn encode(
        self,
        output: Output,
        generation: &Generation,
    ) -> Result<<InferHead as Transport>::Answer, RequestError> {
        let tensors = match contents::of_output(output)? {
            Ok(tensors) => tensors,
            Err(status) => return Ok(Err(status)),
        };
        let wanted = self.outputs.iter().map(|output| output.name.as_str());
        let mut tensors = selected(tensors, wanted)?;
        for (tensor, classes) in tensors.iter_mut().zip(self.classes).filter(|(_, classes)| *classes > 0) {
            let classified = self.entry.classes_in(generation).of(tensor, classes);
            *tensor = classified.map_err(|text| RequestError::invalid(Stage::PostInference, text))?;
        }
        for (tensor, place) in tensors.iter_mut().zip(&self.places) {
            if let Some(place) = place {
                let written = place.write(&tensor.name, &tensor.data);
                written.map_err(|text| RequestError::invalid(Stage::PostInference, text))?;
            }
        }
        let (mut outputs, mut raw_output_contents) = contents::outputs(tensors);
        for ((output, bytes), place) in outputs.iter_mut().zip(&mut raw_output_contents).zip(&self.places) {
            if let Some(place) = place {
                output.parameters = contents::written(place, bytes.len());
                *bytes = Bytes::new();
            }
        }
        Ok(Ok(Response::new(pb::ModelInferResponse {
            model_version: self.entry.version_in(generation),
            model_name: self.entry.name,
            id: self.id,
            parameters: BTreeMap::new(),
            outputs,
            raw_output_contents,
        })))
    }
}

/// Serves one request, or says why it is not.
///
/// # Errors
/// Its failure, logged already; or what its handler answered, if that was no success.
pub(super) async fn infer(
    served: &Served,
    call: &Call,
    message: pb::ModelInferRequest,
    is_due: Result<(), RequestError>,
) -> Result<Response<pb::ModelInferResponse>, Status> {
    let entry = is_due.and_then(|()| entry(served, call, &message));
    let found = entry.map(|entry| {
        let (id, outputs, classes, places) = Default::default();
        let memory = &served.shared_memory;
        (entry.destination(), GrpcInference { entry, memory, id, outputs, classes, places })
    });
    serve(call.call(served), found, call.head(PATH), message).await
}

/// The model that a request is for.
///
/// # Errors
/// There is no such model, or its caller may not use it.
pub(super) fn entry<'a>(
    served: &'a Served,
    call: &Call,
    message: &pb::ModelInferRequest,
) -> Result<Entry<'a>, RequestError> {
    served.model(&message.model_name, Some(&message.model_version), call.credentials(), GRPC)
}

/// The outputs that are wanted, in the order in which they are; all of them if none is named.
///
/// # Errors
/// `invalid_input`: one is named twice, or is none.
pub(super) fn selected<'a>(
    tensors: Vec<Tensor>,
    wanted: impl ExactSizeIterator<Item = &'a str> + Clone,
) -> Result<Vec<Tensor>, RequestError> {
    if wanted.len() == 0 {
        return Ok(tensors);
    }
    let mut names = HashSet::with_capacity(wanted.len());
    if let Some(twice) = wanted.clone().find(|name| !names.insert(*name)) {
        let message = format!("output `{twice}` is asked for twice");
        return Err(RequestError::new(Code::InvalidInput, Stage::PostInference, message));
    }
    let find = |name: &str| {
        tensors.iter().find(|tensor| *tensor.name == *name).cloned().ok_or_else(|| {
            let names: Vec<String> = tensors.iter().map(|tensor| format!("`{}`", tensor.name)).collect();
            let message = format!("there is no output `{}`, but {}", text::shown(name), names.join(", "));
            RequestError::new(Code::InvalidInput, Stage::PostInference, message)
        })
    };
    wanted.map(find).collect()
}
