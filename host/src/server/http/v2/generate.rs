//! `POST /v2/models/{model}[/versions/{version}]/generate` and `…/generate_stream`: a JSON object of inputs,
//! by their names, and back an object of outputs (Triton's generate extension).
//!
//! Place in the flow: the [`Protocol`] of these paths.
//! In:   `{"id", "parameters": {…}, INPUT: value, …}`; a field that names no input is a parameter as well.
//! Values are bare elements or lists. Out: `{"model_name", "model_version", "id", OUTPUT: value, …}`, an
//! output of one element as it is, any other as one flat list; of a stream the only event.
//! A handler gets the body as it is, as on its endpoint's own path, and its response is the answer.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use axum::response::Response;
use bytes::Bytes;
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::value::RawValue;

use super::super::transport::into_http;
use super::model_request::ModelRequest;
use crate::blocking;
use crate::endpoint::generation::Generation;
use crate::error::{Code, RequestError, Stage};
use crate::json::object::problem;
use crate::json::write::{Flat, Nested};
use crate::json::{read, special};
use crate::request::{self, Form, Input, Output, TensorInput, without_mark};
use crate::server::head::Head;
use crate::server::models::Entry;
use crate::server::serve::{Call, Protocol, Room, serve};
use crate::tensor::{Tensor, TensorSpec};

const JSON: &str = "application/json";
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
/// The field that names the request, unless an input is called so.
const ID: &str = "id";
const PARAMETERS: &str = "parameters";

type Fields<'a> = BTreeMap<String, &'a RawValue>;

struct Generate<'a> {
    entry: Entry<'a>,
    is_stream: bool,
    /// The client's name of the request, JSON.
    id: Option<Box<RawValue>>,
}

impl Protocol for Generate<'_> {
    type Transport = Box<Head>;

    fn decode(&mut self, _: &Box<Head>, body: Bytes, room: Room) -> Result<Input, RequestError> {
        if self.entry.reads_bodies() {
            return Ok(Input::Body(without_mark(body), Form::Plain));
        }
        let inputs = self.entry.inputs();
        let (mut input, id) = blocking::if_large(body.len(), || {
            let charge = room.memory.take(read::most(&body)).map_err(|full| full.at(Stage::Admit))?;
            let (mut input, id) =
                fields(&body, &inputs).map_err(|text| RequestError::invalid(Stage::Admit, text))?;
            let owned = charge.own_tensors(&mut input.tensors, &body);
            owned.map_err(|full| full.at(Stage::Admit)).map(|()| (input, id))
        })?;
        self.entry.strip_batch_axis(&mut input.tensors);
        self.id = id;
        Ok(Input::Tensors(input))
    }

    fn rewrites(&self) -> bool {
        self.is_stream
    }

    fn encode(self, output: Output, generation: &Generation) -> Result<Response, RequestError> {
        let response = match output {
            Output::Response(response) => response,
            Output::Streamed { status } => request::Response::bare(status),
            Output::Tensors(tensors) => {
                let version = self.entry.version_in(generation);
                let (model, id) = (&*self.entry.name, self.id.as_deref());
                let answer = Answer { model, version: &version, id, tensors: &tensors };
                let bytes = tensors.iter().map(|tensor| tensor.data.len()).sum();
                let body = blocking::if_large(bytes, || serde_json::to_vec(&answer)).map_err(|error| {
                    let text = "the answer cannot be written";
                    RequestError::new(Code::Internal, Stage::PostInference, text).with_detail(error)
                })?;
                let (content_type, body) = (JSON.to_owned(), body.into());
                request::Response { status: 200, content_type, headers: Vec::new(), body }
            }
        };
        let is_json = request::is_json_type(&response.content_type) && response.status < 300;
        if !(self.is_stream && is_json) {
            return Ok(into_http(response));
        }
        let body = event(&response.body).into();
        let mut answer = into_http(request::Response { body, ..response });
        answer.headers_mut().insert(CONTENT_TYPE, EVENTS);
        answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        Ok(answer)
    }
}

/// JSON as the data of an event, one `data:` a line. Each of CR, LF and both ends a line, as clients read it.
fn event(json: &[u8]) -> Vec<u8> {
    let mut event = Vec::with_capacity(json.len() + 16);
    let lines = json.split(|byte| matches!(byte, b'\r' | b'\n'));
    for line in lines.filter(|line| !line.is_empty()) {
        event.extend_from_slice(b"data: ");
        event.extend_from_slice(line);
        event.push(b'\n');
    }
    event.push(b'\n');
    event
}

/// The tensors, the parameters and the name of a request.
fn fields(body: &[u8], inputs: &[TensorSpec]) -> Result<(TensorInput, Option<Box<RawValue>>), String> {
    let text = special::text(body).map_err(|error| format!("malformed json: {error}"))?;
    let mut copy = None;
    let found = special::read(text, &mut copy, object);
    let (mut fields, document) = found.map_err(|error| problem("no request to generate", &error))?;
    let values = inputs.iter().filter_map(|spec| Some(document.written(fields.get(&*spec.name)?.get())));
    let mut values: Vec<&str> = values.collect();
    values.sort_unstable_by_key(|value| value.as_ptr());
    document.check(values).map_err(|error| format!("malformed json: {error}"))?;
    let mut tensors = Vec::with_capacity(inputs.len());
    for spec in inputs {
        if let Some(value) = fields.remove(&*spec.name) {
            let value = document.written(value.get());
            let tensor = tensor(value, spec).map_err(|text| format!("input `{}`: {text}", spec.name))?;
            tensors.push(tensor);
        }
    }
    let id = fields.remove(ID).map(ToOwned::to_owned);
    let mut parameters = match fields.remove(PARAMETERS) {
        Some(nested) => object(nested.get()).map_err(|error| format!("`{PARAMETERS}`: {error}"))?,
        None => Fields::new(),
    };
    // Triton takes both, and what stands beside the inputs is the nearer.
    parameters.append(&mut fields);
    let text = match parameters.is_empty() {
        true => None,
        false => Some(serde_json::to_string(&parameters).map_err(|error| error.to_string())?.into()),
    };
    Ok((TensorInput::new(tensors, text), id))
}

/// An object of JSON and nothing else.
fn object(json: &str) -> serde_json::Result<Fields<'_>> {
    serde_json::from_str(json)
}

/// A value as an input's tensor: of fewer extents than the input has, those before them are one.
fn tensor(value: &str, spec: &TensorSpec) -> Result<Tensor, String> {
    let tensor = read::tensor(value, &spec.name, spec.datatype)?;
    let missing = spec.shape.len().saturating_sub(tensor.shape.len());
    let shape: Vec<u64> = std::iter::repeat_n(1, missing).chain(tensor.shape.iter().copied()).collect();
    if spec.accepts(&shape) { Ok(Tensor { shape, ..tensor }) } else { Ok(tensor) }
}

/// The answer.
struct Answer<'a> {
    model: &'a str,
    version: &'a str,
    id: Option<&'a RawValue>,
    tensors: &'a [Tensor],
}

impl Serialize for Answer<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("model_name", self.model)?;
        map.serialize_entry("model_version", self.version)?;
        if let Some(id) = self.id {
            map.serialize_entry(ID, id)?;
        }
        for tensor in self.tensors {
            match tensor.elements() {
                1 => {
                    let bare = Tensor { shape: Vec::new(), ..tensor.clone() };
                    map.serialize_entry(&*tensor.name, &Nested(&bare))?;
                }
                _ => map.serialize_entry(&*tensor.name, &Flat(tensor))?,
            }
        }
        map.end()
    }
}

/// `…/generate`.
pub(super) async fn generate(model: ModelRequest, request: Request) -> Response {
    run(model, request, false).await
}

/// `…/generate_stream`.
pub(super) async fn generate_stream(model: ModelRequest, request: Request) -> Response {
    run(model, request, true).await
}

async fn run(model: ModelRequest, request: Request, is_stream: bool) -> Response {
    let (head, body): (Box<Head>, Body) = Head::split(request);
    let call = Call::new(&model.served, head.id(), model.arrived);
    let found = model.entry().map(|entry| (entry.destination(), Generate { entry, is_stream, id: None }));
    serve(call, found, head, body).await
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::tensor::{Datatype, Extent, Role};

    fn spec(name: &str, datatype: Datatype, shape: &[i64]) -> TensorSpec {
        let extent = |extent: &i64| u64::try_from(*extent).map_or(Extent::Free(None), Extent::Fixed);
        let shape = shape.iter().map(extent).collect();
        TensorSpec { name: Arc::from(name), datatype, shape, role: Role::Plain }
    }

    fn read(body: &str) -> Result<(String, String), String> {
        let inputs = [spec("text_input", Datatype::Bytes, &[-1, 1]), spec("x", Datatype::Fp32, &[-1, -1])];
        let (input, id) = fields(body.as_bytes(), &inputs)?;
        let shown = |tensor: &Tensor| format!("{} {:?}", tensor.name, tensor.shape);
        let tensors = input.tensors.iter().map(shown).collect::<Vec<_>>().join("; ");
        let id = id.map(|id| format!(" id {id}")).unwrap_or_default();
        Ok((tensors + &id, input.parameters.map(String::from).unwrap_or_default()))
    }

    #[test]
    fn every_end_of_a_line_begins_another_data() {
        for (json, expected) in [
            ("{}", "data: {}\n\n"),
            ("{\r\n}\n", "data: {\ndata: }\n\n"),
            ("{\r\revent: x\n\n}", "data: {\ndata: event: x\ndata: }\n\n"),
        ] {
            assert_eq!(String::from_utf8(event(json.as_bytes())).unwrap(), expected);
        }
    }

    #[test]
    fn fields_are_inputs_or_parameters() {
        for (body, tensors, parameters) in [
            (r#"{"text_input":"hi"}"#, "text_input [1, 1]", ""),
            (r#"{"text_input":["hi"],"x":[1,2]}"#, "text_input [1, 1]; x [1, 2]", ""),
            (r#"{"x":[[1,2],[3,4]]}"#, "x [2, 2]", ""),
            ("\u{feff}{\"x\":[[NaN,-Infinity],[3,null]]}", "x [2, 2]", ""),
            (r#"{"x":1.5,"id":"7","stream":false}"#, "x [1, 1] id \"7\"", r#"{"stream":false}"#),
            (r#"{"x":1,"parameters":{"a":[1],"b":2},"b":3}"#, "x [1, 1]", r#"{"a":[1],"b":3}"#),
            ("{}", "", ""),
        ] {
            assert_eq!(read(body).unwrap(), (tensors.to_owned(), parameters.to_owned()), "{body}");
        }
        for (body, expected) in [
            ("[1]", "no request to generate: invalid type"),
            ("{", "malformed json: EOF"),
            (r#"{"x":"a"}"#, "input `x`: "),
            (r#"{"x":NaN,"id":NaN}"#, "malformed json: NaN at line 1 column 15, where no data"),
            (r#"{"x":[[1],[2,3]]}"#, "input `x`: "),
            (r#"{"parameters":[1]}"#, "`parameters`: invalid type"),
        ] {
            let error = read(body).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
