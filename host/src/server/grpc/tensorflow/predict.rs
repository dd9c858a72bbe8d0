//! `Predict`: tensors by name become tensors, and so does the answer.
//!
//! Place in the flow: a [`Protocol`] as [`infer`] is one: the same way to the
//! same handlers and models, with the same errors.

use std::collections::BTreeMap;

use tonic::{Code as Grpc, Response, Status};
use tonic_prost::prost::Message as _;

use super::pb::TensorProto;
use super::pb::serving::{ModelSpec, PredictRequest, PredictResponse};
use super::{spec, tensor};
use crate::blocking;
use crate::endpoint::generation::Generation;
use crate::error::{RequestError, Stage};
use crate::memory::Exhausted;
use crate::request::{Input, Output, TensorInput};
use crate::server::compat::tf_serving::examples::check_signature;
use crate::server::grpc::bounds::UNFOLDED;
use crate::server::grpc::call::{Call, GrpcHead};
use crate::server::grpc::{contents, failure, infer};
use crate::server::models::Entry;
use crate::server::serve::{Protocol, Room, Transport, serve};
use crate::server::served::Served;

/// The path that a handler sees.
const PATH: &str = "/tensorflow.serving.PredictionService/Predict";

type PredictHead = GrpcHead<PredictRequest, PredictResponse>;

struct Prediction<'a> {
    entry: Entry<'a>,
    outputs: Vec<String>,
}

impl Protocol for Prediction<'_> {
    type Transport = PredictHead;

    fn decode(
        &mut self,
        _: &PredictHead,
        message: PredictRequest,
        room: Room,
    ) -> Result<Input, RequestError> {
        let encoded = message.encoded_len();
        self.outputs = message.output_filter;
        let full = |full: Exhausted| full.at(Stage::Admit);
        let charge = room.memory.take(encoded.saturating_mul(UNFOLDED)).map_err(full)?;
        let mut tensors = tensor::inputs(message.inputs, room.longest)?;
        charge.own_tensors(&mut tensors, &[]).map_err(full)?;
        self.entry.strip_batch_axis(&mut tensors);
        Ok(Input::Tensors(TensorInput::new(tensors, None)))
    }

    fn encode(
        self,
        output: Output,
        generation: &Generation,
    ) -> Result<<PredictHead as Transport>::Answer, RequestError> {
        let tensors = match contents::of_output(output)? {
            Ok(tensors) => infer::selected(tensors, self.outputs.iter().map(String::as_str))?,
            Err(status) => return Ok(Err(status)),
        };
        let bytes = tensors.iter().map(|tensor| tensor.data.len()).sum();
        let outputs: BTreeMap<String, TensorProto> = blocking::if_large(bytes, || {
            tensors.iter().map(|tensor| (tensor.name.to_string(), tensor::written(tensor))).collect()
        });
        let model_spec = Some(spec::answered(&self.entry, generation));
        Ok(Ok(Response::new(PredictResponse { outputs, model_spec })))
    }
}

/// Serves one request.
///
/// # Errors
/// Its failure, logged already; or what its handler answered, if that was no success. A signature that is not
/// served is `FAILED_PRECONDITION`, as TensorFlow Serving has it.
pub(super) async fn predict(
    served: &Served,
    call: &Call,
    message: PredictRequest,
) -> Result<Response<PredictResponse>, Status> {
    let entry = spec::entry(served, message.model_spec.as_ref(), call);
    if let (Ok(entry), Some(ModelSpec { signature_name, .. })) = (&entry, &message.model_spec)
        && let Err(error) = check_signature(entry, signature_name)
    {
        let status = failure::status(error, &call.call(served), Some(&entry.endpoint.config.name));
        let metadata = status.metadata().clone();
        return Err(Status::with_metadata(Grpc::FailedPrecondition, status.message(), metadata));
    }
    let found = entry.map(|entry| (entry.destination(), Prediction { entry, outputs: Vec::new() }));
    serve(call.call(served), found, call.head(PATH), message).await
}
