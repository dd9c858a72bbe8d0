//! `Classify` and `Regress`: examples become tensors, and the outputs classes with scores, or numbers.
//!
//! Place in the flow: a [`Protocol`] as that of `Predict`.
//! In:   a list of `tf.Example`, hostile. Out: one row for each in every input of the model; how they are
//! made is said in [`rows`].
//! Invariant: all inputs together have at most `limits.body` bytes, however often a context is repeated.

use std::marker::PhantomData;

use bytemuck::NoUninit;
use half::{bf16, f16};
use tonic::{Response, Status};
use tonic_prost::prost::Message as _;

use super::pb::Example;
use super::pb::feature::Kind;
use super::pb::serving::input::Kind as Listed;
use super::pb::serving::{
    self, Class, ClassificationRequest, ClassificationResponse, ClassificationResult, Classifications,
    ModelSpec, RegressionRequest, RegressionResponse, RegressionResult,
};
use super::spec;
use crate::blocking;
use crate::endpoint::generation::Generation;
use crate::error::{RequestError, Stage};
use crate::memory::Exhausted;
use crate::request::{Input, Output, TensorInput};
use crate::server::compat::tf_serving::examples::{self as rows, Rows};
use crate::server::compat::tf_serving::scores;
use crate::server::grpc::bounds::UNFOLDED;
use crate::server::grpc::call::{Call, GrpcHead};
use crate::server::grpc::codec::RequestMessage;
use crate::server::grpc::contents;
use crate::server::grpc::elements::{narrowed, plain, texts, too_large};
use crate::server::models::Entry;
use crate::server::serve::{Protocol, Room, Transport, serve as serve_request};
use crate::server::served::Served;
use crate::tensor::{Datatype, Signature, Tensor, TensorSpec, push_bytes_element};

/// A call that brings examples.
pub(super) trait Method: Send + Sync {
    type Request: RequestMessage;
    type Response: Send + 'static;

    /// The path that a handler sees.
    const PATH: &'static str;
    const METHOD: rows::Method;

    /// The spec and the input of a request.
    fn taken_apart(request: Self::Request) -> (Option<ModelSpec>, Option<serving::Input>);

    fn spec(request: &Self::Request) -> Option<&ModelSpec>;

    /// The answer to `count` examples.
    ///
    /// # Errors
    /// `invalid_input`: it cannot be made of these outputs.
    fn answer(
        outputs: &[Tensor],
        signature: &Signature,
        count: usize,
        spec: ModelSpec,
    ) -> Result<Self::Response, RequestError>;
}

/// `Classify`.
pub(super) struct Classification;

impl Method for Classification {
    type Request = ClassificationRequest;
    type Response = ClassificationResponse;

    const PATH: &'static str = "/tensorflow.serving.PredictionService/Classify";
    const METHOD: rows::Method = rows::Method::Classify;

    fn taken_apart(request: ClassificationRequest) -> (Option<ModelSpec>, Option<serving::Input>) {
        (request.model_spec, request.input)
    }

    fn spec(request: &ClassificationRequest) -> Option<&ModelSpec> {
        request.model_spec.as_ref()
    }

    fn answer(
        outputs: &[Tensor],
        signature: &Signature,
        count: usize,
        spec: ModelSpec,
    ) -> Result<ClassificationResponse, RequestError> {
        let classes = scores::Classes::of(outputs, signature, count)?;
        let rows = classes.rows().map(|row| {
            let class = |(label, score)| Class { label: String::from(label), score };
            Classifications { classes: row.map(class).collect() }
        });
        let result = Some(ClassificationResult { classifications: rows.collect() });
        Ok(ClassificationResponse { result, model_spec: Some(spec) })
    }
}

/// `Regress`.
pub(super) struct Regression;

impl Method for Regression {
    type Request = RegressionRequest;
    type Response = RegressionResponse;

    const PATH: &'static str = "/tensorflow.serving.PredictionService/Regress";
    const METHOD: rows::Method = rows::Method::Regress;

    fn taken_apart(request: RegressionRequest) -> (Option<ModelSpec>, Option<serving::Input>) {
        (request.model_spec, request.input)
    }

    fn spec(request: &RegressionRequest) -> Option<&ModelSpec> {
        request.model_spec.as_ref()
    }

    fn answer(
        outputs: &[Tensor],
        _: &Signature,
        count: usize,
        spec: ModelSpec,
    ) -> Result<RegressionResponse, RequestError> {
        let values = scores::regressions(outputs, count)?.into_iter();
        let regressions = values.map(|value| serving::Regression { value }).collect();
        Ok(RegressionResponse { result: Some(RegressionResult { regressions }), model_spec: Some(spec) })
    }
}

type HeadOf<M> = GrpcHead<<M as Method>::Request, <M as Method>::Response>;

struct Examples<'a, M> {
    entry: Entry<'a>,
    count: usize,
    method: PhantomData<M>,
}

impl<M: Method> Protocol for Examples<'_, M> {
    type Transport = HeadOf<M>;

    fn decode(&mut self, _: &HeadOf<M>, message: M::Request, room: Room) -> Result<Input, RequestError> {
        let (spec, input) = M::taken_apart(message);
        rows::check_signature(&self.entry, &spec.unwrap_or_default().signature_name)?;
        let list = List::of(input)?;
        self.count = list.examples.len();
        let bytes = list.encoded_len();
        let full = |full: Exhausted| full.at(Stage::Admit);
        let charge = room.memory.take(bytes.saturating_mul(UNFOLDED)).map_err(full)?;
        let inputs = self.entry.inputs();
        let parsed = rows::parsed(&self.entry, &inputs, M::METHOD)?;
        let mut tensors = blocking::if_large(bytes, || match parsed {
            Some(only) => list.encoded(only, room.longest).map(|tensor| vec![tensor]),
            None => list.features(&inputs, room.longest),
        })?;
        charge.own_tensors(&mut tensors, &[]).map_err(full)?;
        self.entry.strip_batch_axis(&mut tensors);
        Ok(Input::Tensors(TensorInput::new(tensors, None)))
    }

    fn encode(
        self,
        output: Output,
        generation: &Generation,
    ) -> Result<<HeadOf<M> as Transport>::Answer, RequestError> {
        let tensors = match contents::of_output(output)? {
            Ok(tensors) => tensors,
            Err(status) => return Ok(Err(status)),
        };
        let spec = spec::answered(&self.entry, generation);
        let bytes = tensors.iter().map(|tensor| tensor.data.len()).sum();
        let signature = self.entry.signature();
        let answer = blocking::if_large(bytes, || M::answer(&tensors, &signature, self.count, spec));
        answer.map(|answer| Ok(Response::new(answer)))
    }
}

/// Serves one request.
///
/// # Errors
/// Its failure, logged already; or what its handler answered, if that was no success.
pub(super) async fn serve<M: Method>(
    served: &Served,
    call: &Call,
    message: M::Request,
) -> Result<Response<M::Response>, Status> {
    let entry = spec::entry(served, M::spec(&message), call);
    let found =
        entry.map(|entry| (entry.destination(), Examples::<M> { entry, count: 0, method: PhantomData }));
    serve_request(call.call(served), found, call.head(M::PATH), message).await
}

fn invalid(text: String) -> RequestError {
    RequestError::invalid(Stage::Admit, text)
}

/// Examples, and what all of them have in common.
struct List {
    examples: Vec<Example>,
    context: Example,
}

impl List {
    fn of(input: Option<serving::Input>) -> Result<List, RequestError> {
        let list = match input.and_then(|input| input.kind) {
            None => List { examples: Vec::new(), context: Example::default() },
            Some(Listed::ExampleList(list)) => List { examples: list.examples, context: Example::default() },
            Some(Listed::ExampleListWithContext(list)) => {
                List { examples: list.examples, context: list.context.unwrap_or_default() }
            }
        };
        if list.examples.is_empty() {
            return Err(invalid("there are no examples in `input`".to_owned()));
        }
        Ok(list)
    }

    /// The length of all examples encoded, each with the context.
    fn encoded_len(&self) -> usize {
        let context = self.context.encoded_len();
        let each = self.examples.iter().map(|example| example.encoded_len().saturating_add(context));
        each.map(|length| length.saturating_add(4)).fold(0, usize::saturating_add)
    }

    /// The examples for a model that parses them: the encoding of the context, then of the example, which is
    /// that of both with the example's features over those of the context.
    fn encoded(&self, input: &TensorSpec, limit: usize) -> Result<Tensor, RequestError> {
        let length = self.encoded_len();
        if length > limit {
            return Err(too_large(limit));
        }
        let context = self.context.encode_to_vec();
        let mut data = Vec::with_capacity(length);
        for example in &self.examples {
            let encoded = [context.as_slice(), &example.encode_to_vec()].concat();
            if !push_bytes_element(&mut data, &encoded) {
                return Err(too_large(limit));
            }
        }
        let shape = vec![self.examples.len() as u64];
        Tensor::new(input.name.clone(), Datatype::Bytes, shape, data.into())
            .map_err(|error| invalid(error.to_string()))
    }

    /// The features as inputs of a model. An optional one is given with every example or with none.
    fn features(&self, specs: &[TensorSpec], limit: usize) -> Result<Vec<Tensor>, RequestError> {
        let mut left = limit;
        let mut tensors = Vec::with_capacity(specs.len());
        for spec in specs {
            let given = self.examples.iter().filter(|example| self.feature(example, &spec.name).is_some());
            if spec.is_optional() && given.count() == 0 {
                continue;
            }
            let mut rows = Rows::new(spec, self.examples.len())?;
            for (number, example) in self.examples.iter().enumerate() {
                let feature = self.feature(example, &spec.name).ok_or_else(|| rows::missing(spec, number))?;
                rows.push(number, length_of(feature), || values(spec.datatype, feature))?;
                if rows.bytes() > left {
                    return Err(too_large(limit));
                }
            }
            left = left.saturating_sub(rows.bytes());
            tensors.push(rows.tensor()?);
        }
        Ok(tensors)
    }

    fn feature<'a>(&'a self, example: &'a Example, name: &str) -> Option<&'a Kind> {
        let find = |example: &'a Example| example.features.as_ref()?.feature.get(name)?.kind.as_ref();
        find(example).or_else(|| find(&self.context))
    }
}

/// Number of values of a feature.
fn length_of(feature: &Kind) -> usize {
    match feature {
        Kind::BytesList(list) => list.value.len(),
        Kind::FloatList(list) => list.value.len(),
        Kind::Int64List(list) => list.value.len(),
    }
}

/// The values of a feature as elements of an input.
fn values(datatype: Datatype, feature: &Kind) -> Result<Vec<u8>, String> {
    fn each<T: NoUninit>(values: &[f32], convert: impl Fn(f32) -> T) -> Vec<u8> {
        plain(&values.iter().map(|value| convert(*value)).collect::<Vec<T>>())
    }
    let wanted = match (feature, datatype) {
        (Kind::FloatList(list), Datatype::Fp32) => return Ok(plain(&list.value)),
        (Kind::FloatList(list), Datatype::Fp64) => return Ok(each(&list.value, f64::from)),
        (Kind::FloatList(list), Datatype::Fp16) => {
            return Ok(each(&list.value, |value| f16::from_f32(value).to_bits()));
        }
        (Kind::FloatList(list), Datatype::Bf16) => {
            return Ok(each(&list.value, |value| bf16::from_f32(value).to_bits()));
        }
        (Kind::BytesList(list), Datatype::Bytes) => return texts(&list.value),
        (Kind::Int64List(list), _) => match datatype {
            Datatype::Int64 => return Ok(plain(&list.value)),
            Datatype::Int8 => return narrowed::<_, i8>(&list.value, datatype),
            Datatype::Int16 => return narrowed::<_, i16>(&list.value, datatype),
            Datatype::Int32 => return narrowed::<_, i32>(&list.value, datatype),
            Datatype::Uint8 | Datatype::Bool => return narrowed::<_, u8>(&list.value, datatype),
            Datatype::Uint16 => return narrowed::<_, u16>(&list.value, datatype),
            Datatype::Uint32 => return narrowed::<_, u32>(&list.value, datatype),
            Datatype::Uint64 => return narrowed::<_, u64>(&list.value, datatype),
            Datatype::Bytes => "bytes_list",
            Datatype::Fp16 | Datatype::Bf16 | Datatype::Fp32 | Datatype::Fp64 => "float_list",
        },
        (_, Datatype::Bytes) => "bytes_list",
        (_, Datatype::Fp16 | Datatype::Bf16 | Datatype::Fp32 | Datatype::Fp64) => "float_list",
        _ => "int64_list",
    };
    Err(format!("{datatype} comes in `{wanted}`"))
}

#[cfg(test)]
mod tests;
