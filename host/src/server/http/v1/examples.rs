//! `POST /v1/models/{m}:classify` and `:regress`: examples become tensors, and the outputs classes with
//! scores, or numbers.
//!
//! Flow: `connection → [examples] → pipeline → [examples] → connection`.
//! In:   `{"signature_name", "context", "examples"}`, hostile. An example is an object with a value, or a
//!       list of values, for each feature; what it does not have is the context's.
//! Out:  `{"result": …, "results": …}`, the same list twice: TensorFlow Serving is documented with the one
//!       and answers with the other. For each example it has a list of pairs of label and score, or a number.
//! How they are made is said in [`rows`]: as over gRPC. Features of a model that names its inputs are read as
//! `:predict` reads values, so a whole number is one of an FP type too.
//! Invariant: all inputs together have at most `limits.body` bytes, however often a context is repeated.

use std::borrow::Cow;
use std::fmt;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::response::{answered, encode_error};
use crate::blocking;
use crate::endpoint::generation::Generation;
use crate::error::{Code, RequestError, Stage};
use crate::json::cursor::{Cursor, Kind};
use crate::json::object::{Object, told};
use crate::json::read::{self, Mode, Repeated};
use crate::json::{special, typed};
use crate::memory::{Account, Charge, Exhausted};
use crate::pipeline::respond;
use crate::request::{Input, Output, TensorInput, is_json_type};
use crate::server::compat::tf_serving::examples::{self as rows, Method, Rows};
use crate::server::compat::tf_serving::scores::{self, Classes};
use crate::server::grpc::elements::{each, too_large};
use crate::server::grpc::tensorflow::pb::feature::Kind as Feature;
use crate::server::grpc::tensorflow::pb::{BytesList, Example, FloatList, Int64List};
use crate::server::head::Head;
use crate::server::models::Entry;
use crate::server::serve::{Call, Protocol, Room, serve};
use crate::tensor::{BytesElements, Datatype, Tensor, TensorSpec, push_bytes_element};
use crate::text::shown;

/// Most bytes of a score beside its label, and of a number.
const SCORE: usize = 32;

struct Examples<'a> {
    entry: Entry<'a>,
    method: Method,
    count: usize,
    /// The account that the answer is charged to.
    memory: Account,
}

impl Protocol for Examples<'_> {
    type Transport = Box<Head>;

    fn decode(&mut self, _: &Box<Head>, body: Bytes, room: Room) -> Result<Input, RequestError> {
        self.memory = room.memory;
        let inputs = self.entry.inputs();
        let parsed = rows::parsed(&self.entry, &inputs, self.method)?;
        let mut tensors = blocking::if_large(body.len(), || {
            let (tensors, count) = read(&self.entry, parsed, &inputs, &body, room)?;
            self.count = count;
            Ok::<_, RequestError>(tensors)
        })?;
        self.entry.strip_batch_axis(&mut tensors);
        Ok(Input::Tensors(TensorInput::new(tensors, None)))
    }

    fn encode(self, output: Output, _: &Generation) -> Result<Response, RequestError> {
        let tensors = match output {
            Output::Tensors(tensors) => tensors,
            // As over gRPC, a handler's own JSON is outputs; an answer that is no success goes out as it is.
            Output::Response(response)
                if (200..300).contains(&response.status)
                    && is_json_type(&response.content_type)
                    && !response.body.is_empty() =>
            {
                let tensors = blocking::if_large(response.body.len(), || typed::tensors(&response.body));
                tensors.map_err(|problem| {
                    let message = format!("no tensors can be made of the handler's response: {problem}");
                    RequestError::new(Code::PluginBadOutput, Stage::PostInference, message)
                })?
            }
            other => return Ok(answered(respond::of_output(other))),
        };
        let bytes = tensors.iter().map(|tensor| tensor.data.len()).sum();
        let body = blocking::if_large(bytes, || self.answer(&tensors))?;
        let mut response = respond::json(Vec::new());
        response.body = body;
        Ok(answered(response))
    }

    fn encode_error(error: RequestError, call: &Call<'_>, endpoint: Option<&str>) -> Response {
        encode_error(error, call, endpoint)
    }
}

impl Examples<'_> {
    /// The body of the answer.
    ///
    /// # Errors
    /// `invalid_input`: it cannot be made of these outputs; `overloaded`.
    fn answer(&self, tensors: &[Tensor]) -> Result<Bytes, RequestError> {
        let signature = self.entry.signature();
        let mut charge = self.memory.open();
        let made = match self.method {
            Method::Classify => {
                let classes = Classes::of(tensors, &signature, self.count)?;
                // An escape takes six bytes.
                let bytes = classes.rows().flatten().map(|(label, _)| 6 * label.len() + SCORE);
                let bytes = bytes.fold(0, usize::saturating_add);
                charge.grow(bytes.saturating_mul(2)).map_err(full)?;
                written(classes.rows().map(Iterator::collect::<Vec<_>>))
            }
            Method::Regress => {
                let values = scores::regressions(tensors, self.count)?;
                charge.grow(values.len().saturating_mul(2 * SCORE)).map_err(full)?;
                written(values)
            }
        };
        let body = made.map_err(|error| {
            let text = "the answer cannot be written";
            RequestError::new(Code::Internal, Stage::PostInference, text).with_detail(error)
        })?;
        Ok(charge.own(body.into()))
    }
}

/// The body of an answer of these items.
fn written<T: Serialize>(items: impl IntoIterator<Item = T>) -> serde_json::Result<Vec<u8>> {
    let mut body = b"{\"result\":".to_vec();
    let begin = body.len();
    body.push(b'[');
    for (number, item) in items.into_iter().enumerate() {
        if number > 0 {
            body.push(b',');
        }
        serde_json::to_writer(&mut body, &item)?;
    }
    body.push(b']');
    let list = begin..body.len();
    body.extend_from_slice(b",\"results\":");
    body.extend_from_within(list);
    body.push(b'}');
    Ok(body)
}

/// One call.
pub(super) async fn call(
    call: Call<'_>,
    entry: Result<Entry<'_>, RequestError>,
    method: Method,
    head: Box<Head>,
    body: Body,
) -> Response {
    let found = entry.map(|entry| {
        let memory = Account::default();
        (entry.destination(), Examples { entry, method, count: 0, memory })
    });
    serve(call, found, head, body).await
}

fn invalid(text: String) -> RequestError {
    RequestError::invalid(Stage::Admit, text)
}

fn full(full: Exhausted) -> RequestError {
    full.at(Stage::PostInference)
}

/// The members of a body, as they are written.
struct Parts<'a> {
    signature: String,
    context: Option<&'a str>,
    examples: Option<&'a str>,
}

impl<'a> Parts<'a> {
    fn of(body: &'a [u8]) -> Result<Parts<'a>, RequestError> {
        #[derive(Deserialize)]
        struct Request<'a> {
            #[serde(borrow)]
            signature_name: Option<Cow<'a, str>>,
            #[serde(borrow)]
            context: Option<&'a RawValue>,
            #[serde(borrow)]
            examples: Option<&'a RawValue>,
        }
        let malformed = |error: &dyn fmt::Display| invalid(format!("Invalid JSON payload: {error}"));
        let text = special::text(body).map_err(|error| malformed(&error))?;
        let mut copy = None;
        let found = special::read(text, &mut copy, serde_json::from_str::<Object<Request<'_>>>);
        let (Object(request), document) = found.map_err(|error| match error.is_data() {
            true => invalid(format!("the body is no list of examples: {}", told(&error))),
            false => malformed(&error),
        })?;
        let written = |part: Option<&RawValue>| part.map(|part| document.written(part.get()));
        let (context, examples) = (written(request.context), written(request.examples));
        let mut parts: Vec<&str> = context.into_iter().chain(examples).collect();
        parts.sort_unstable_by_key(|part| part.as_ptr());
        document.check(parts).map_err(|error| malformed(&error))?;
        let signature = request.signature_name.unwrap_or_default().into_owned();
        Ok(Parts { signature, context, examples })
    }
}

/// The tensors of a request, and the number of its examples. `parsed`: the input of a model that parses them.
fn read(
    entry: &Entry<'_>,
    parsed: Option<&TensorSpec>,
    inputs: &[TensorSpec],
    body: &Bytes,
    room: Room,
) -> Result<(Vec<Tensor>, usize), RequestError> {
    let full = |full: Exhausted| full.at(Stage::Admit);
    let charge = room.memory.take(special::most_copied(body)).map_err(full)?;
    let Parts { signature, context, examples } = Parts::of(body)?;
    rows::check_signature(entry, &signature)?;
    let list = List::of(context, examples)?;
    let mut bytes = Size { bytes: 0, limit: room.longest, charge };
    let mut tensors = match parsed {
        Some(only) => vec![list.encoded(only, &mut bytes)?],
        None => list.features(inputs, &mut bytes)?,
    };
    bytes.charge.own_tensors(&mut tensors, body).map_err(full)?;
    Ok((tensors, list.count))
}

/// The size of the tensors as they grow.
struct Size {
    bytes: usize,
    limit: usize,
    charge: Charge,
}

impl Size {
    fn add(&mut self, bytes: usize) -> Result<(), RequestError> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > self.limit {
            return Err(too_large(self.limit));
        }
        self.charge.grow(self.bytes).map_err(|full| full.at(Stage::Admit))
    }
}

/// Examples, and what all of them have in common; JSON.
struct List<'a> {
    examples: &'a str,
    count: usize,
    context: Option<&'a str>,
}

impl<'a> List<'a> {
    fn of(context: Option<&'a str>, examples: Option<&'a str>) -> Result<List<'a>, RequestError> {
        let examples = examples.ok_or_else(|| invalid("the body has no `examples`".to_owned()))?;
        if Cursor::at(examples).kind() != Kind::Array {
            return Err(invalid("`examples` is no list".to_owned()));
        }
        let count = items(examples).count();
        if count == 0 {
            return Err(invalid("there are no examples in `examples`".to_owned()));
        }
        Ok(List { examples, count, context })
    }

    /// The features as inputs of a model. An optional one is given with every example or with none.
    fn features(&self, specs: &[TensorSpec], size: &mut Size) -> Result<Vec<Tensor>, RequestError> {
        struct Column<'a> {
            spec: &'a TensorSpec,
            rows: Option<Rows<'a>>,
            /// The first example without it.
            missing: Option<usize>,
        }
        let values = |object: &'a str, number: Option<usize>| {
            check_object(object, number)?;
            read::values(object.as_bytes(), specs, |spec| &spec.name, Repeated::Last)
                .map_err(|text| invalid(format!("{}: {text}", Named(number))))
        };
        let shared = match self.context {
            Some(context) => values(context, None)?,
            None => vec![None; specs.len()],
        };
        let mut columns: Vec<Column<'_>> =
            specs.iter().map(|spec| Column { spec, rows: None, missing: None }).collect();
        for (number, example) in items(self.examples).enumerate() {
            let own = values(example, Some(number))?;
            for ((Column { spec, rows, missing }, own), shared) in columns.iter_mut().zip(own).zip(&shared) {
                let given = |value: &&str| *value != "null";
                let Some(value) = own.filter(given).or(shared.filter(given)) else {
                    if !spec.is_optional() {
                        return Err(rows::missing(spec, number));
                    }
                    missing.get_or_insert(number);
                    continue;
                };
                let rows = match rows {
                    Some(rows) => rows,
                    None => rows.insert(Rows::new(spec, self.count)?),
                };
                let (length, data) =
                    elements(value, spec.datatype).map_err(|text| rows.refusal(number, &text))?;
                size.add(data.len())?;
                rows.push(number, length, || Ok(data))?;
            }
        }
        let given =
            columns.into_iter().filter_map(|column| Some((column.spec, column.rows?, column.missing)));
        let tensor = |(spec, rows, missing): (&TensorSpec, Rows<'_>, Option<usize>)| match missing {
            Some(number) => Err(rows::missing(spec, number)),
            None => rows.tensor(),
        };
        given.map(tensor).collect()
    }

    /// The examples for a model that parses them: the encoding of the context, then of the example, which is
    /// that of both with the example's features over those of the context.
    fn encoded(&self, input: &TensorSpec, size: &mut Size) -> Result<Tensor, RequestError> {
        let context = self.context.map(|context| encoded(context, None)).transpose()?.unwrap_or_default();
        let mut data = Vec::new();
        for (number, example) in items(self.examples).enumerate() {
            let example = [context.as_slice(), &encoded(example, Some(number))?].concat();
            size.add(example.len() + 4)?;
            if !push_bytes_element(&mut data, &example) {
                return Err(too_large(size.limit));
            }
        }
        Tensor::new(input.name.clone(), Datatype::Bytes, vec![self.count as u64], data.into())
            .map_err(|error| invalid(error.to_string()))
    }
}

/// The items of a list that is known to be JSON.
fn items(list: &str) -> impl Iterator<Item = &str> {
    let mut cursor = Cursor::at(list);
    cursor.enter();
    std::iter::from_fn(move || cursor.element().then(|| cursor.skip().text()))
}

/// The example of a number, or the context.
struct Named(Option<usize>);

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(number) => write!(f, "example {number}"),
            None => f.write_str("`context`"),
        }
    }
}

fn check_object(example: &str, number: Option<usize>) -> Result<(), RequestError> {
    match Cursor::at(example).kind() {
        Kind::Object => Ok(()),
        _ => Err(invalid(format!("{}: an object of features is expected", Named(number)))),
    }
}

/// Number and data of the values of a feature: one, or a list of them.
fn elements(value: &str, datatype: Datatype) -> Result<(usize, Vec<u8>), String> {
    let (shape, data) = read::elements(value, datatype, Mode::Lenient).map_err(|error| error.to_string())?;
    match shape.as_slice() {
        [] => Ok((1, data)),
        [values] => Ok((usize::try_from(*values).unwrap_or(usize::MAX), data)),
        _ => Err("a value or a list of values is expected, not a list of lists".to_owned()),
    }
}

/// An example as `tf.Example`, feature by feature: fields that come again are merged.
fn encoded(example: &str, number: Option<usize>) -> Result<Vec<u8>, RequestError> {
    check_object(example, number)?;
    let mut cursor = Cursor::at(example);
    cursor.enter();
    let mut encoded = Vec::new();
    while let Some(key) = cursor.key() {
        let name = key.string().into_owned();
        let kind = feature(cursor.skip().text())
            .map_err(|text| invalid(format!("{}: feature `{}`: {text}", Named(number), shown(&name))))?;
        encoded.append(&mut Example::of(name, kind).encoded());
    }
    Ok(encoded)
}

/// A value, or a list of them, as TensorFlow Serving reads it: without a decimal point they are integers.
fn feature(value: &str) -> Result<Option<Feature>, String> {
    let datatype = datatype_of(value);
    let (length, data) = elements(value, datatype)?;
    Ok(match datatype {
        _ if length == 0 => None,
        Datatype::Bytes => {
            let texts = BytesElements::new(&data).flatten().map(Bytes::copy_from_slice);
            Some(Feature::BytesList(BytesList { value: texts.collect() }))
        }
        Datatype::Fp32 => Some(Feature::FloatList(FloatList { value: each(&data, f32::from_le_bytes) })),
        Datatype::Bool => {
            Some(Feature::Int64List(Int64List { value: data.iter().map(|byte| i64::from(*byte)).collect() }))
        }
        _ => Some(Feature::Int64List(Int64List { value: each(&data, i64::from_le_bytes) })),
    })
}

/// BYTES, FP32, BOOL or INT64.
fn datatype_of(value: &str) -> Datatype {
    let one = |value: &str| match Cursor::at(value).kind() {
        Kind::String | Kind::Object => Datatype::Bytes,
        Kind::Word if matches!(value, "true" | "false") => Datatype::Bool,
        Kind::Number if value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') => Datatype::Int64,
        Kind::Number | Kind::Word => Datatype::Fp32,
        // What it is does not matter: it is refused.
        Kind::Array => Datatype::Bytes,
    };
    match Cursor::at(value).kind() {
        Kind::Array => {
            let mut kinds = items(value).map(one);
            kinds.find(|kind| *kind != Datatype::Int64).unwrap_or(Datatype::Int64)
        }
        _ => one(value),
    }
}

#[cfg(test)]
mod tests;
