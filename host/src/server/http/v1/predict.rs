//! `POST /v1/models/{m}:predict` and `:predict_binary`: the same call, in JSON or in MessagePack.
//!
//! Flow: `connection → [predict] → pipeline → [predict] → connection`.
//! In:   JSON, with any content type (these clients never minded it); as `application/octet-stream`
//! MessagePack.
//! Out:  the handler's response, or the outputs in the form of `json/serving.rs`; JSON as MessagePack for
//! clients that sent that.
//! Invariant: no handler sees a body that is not JSON.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use axum::response::Response;
use bytes::Bytes;

use super::super::transport::into_http;
use super::path::{ModelPath, Operation, no_route, wrong_method};
use crate::blocking;
use crate::endpoint::generation::Generation;
use crate::error::{Code, RequestError, Stage};
use crate::json::msgpack::{self, Special};
use crate::json::serving::Serving;
use crate::memory::COUNTED;
use crate::pipeline::respond;
use crate::request::{self, Form, Input, Output, is_json_type, without_mark};
use crate::server::compat::{pydantic_messages, truss};
use crate::server::head::{Head, credentials};
use crate::server::serve::{Call, Protocol, Room, Transport, serve};
use crate::server::served::Served;

const BINARY: &str = "application/octet-stream";
const JSON: &str = "application/json";
/// How many times `limits.body` the JSON of a MessagePack document may be long. Numbers take up to six times
/// as much.
const GROWTH: usize = 8;

struct V1 {
    /// Whether body and answer are MessagePack.
    is_binary: bool,
    /// NaN and infinities of MessagePack: words for a model, JSON for a handler.
    special: Special,
}

impl Protocol for V1 {
    type Transport = Box<Head>;

    fn decode(&mut self, _: &Box<Head>, body: Bytes, room: Room) -> Result<Input, RequestError> {
        let body = match self.is_binary {
            true => {
                let most = room.longest.saturating_mul(GROWTH);
                let usual = body.len().saturating_mul(GROWTH).max(COUNTED).min(most);
                let unpack = |limit| -> Result<Bytes, RequestError> {
                    let charge = room.memory.take(limit).map_err(|full| full.at(Stage::Admit))?;
                    let json = blocking::if_large(body.len(), || from_msgpack(&body, limit, self.special))?;
                    Ok(charge.own(json))
                };
                // Shapes of many extents can take more.
                match unpack(usual) {
                    Err(error) if error.code == Code::BodyTooLarge && usual < most => unpack(most)?,
                    unpacked => unpacked?,
                }
            }
            false => without_mark(body),
        };
        let serving = blocking::if_large(body.len(), || Serving::scan(&body))
            .map_err(|error| RequestError::invalid(Stage::Admit, format!("Invalid JSON payload: {error}")))?;
        Ok(Input::Body(body, Form::Serving(serving)))
    }

    fn rewrites(&self) -> bool {
        self.is_binary
    }

    fn encode(self, output: Output, _: &Generation) -> Result<Response, RequestError> {
        let response = respond::of_output(output);
        let response = if self.is_binary { to_msgpack(response)? } else { response };
        Ok(match response.status {
            300.. => truss::marked(into_http(response), truss::CALLER),
            _ => into_http(response),
        })
    }

    fn encode_error(mut error: RequestError, call: &Call<'_>, endpoint: Option<&str>) -> Response {
        if !error.violations.is_empty() {
            error.message = pydantic_messages::of(&error.violations);
        }
        let code = truss::code(error.code);
        truss::marked(Box::encode_error(error, call, endpoint), code)
    }
}

pub(super) async fn predict(State(served): State<Arc<Served>>, request: Request) -> Response {
    let (mut head, body) = Head::split(request);
    let call = Call { served: &served, id: head.id(), arrived: Instant::now(), client_deadline: None };
    let path = head.parts.uri.path();
    let entry = match ModelPath::of(path) {
        Some(model_path) if model_path.operation == Operation::Prediction => {
            model_path.find(&served, credentials(head.headers()))
        }
        Some(_) => {
            let mut response = V1::encode_error(wrong_method(path, "POST"), &call, None);
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD, OPTIONS"));
            return response;
        }
        None => Err(no_route(path)),
    };
    let is_binary = is_binary(head.headers());
    // The handler's body is JSON in any case.
    head.parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    let found = entry.map(|entry| {
        let special = if entry.reads_bodies() { Special::Null } else { Special::Words };
        (entry.destination(), V1 { is_binary, special })
    });
    serve(call, found, head, body).await
}

fn is_binary(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().is_some_and(|essence| essence.trim().eq_ignore_ascii_case(BINARY))
}

fn from_msgpack(body: &[u8], limit: usize, special: Special) -> Result<Bytes, RequestError> {
    msgpack::to_json(body, limit, special).map(Bytes::from).map_err(|error| {
        let code = match &error {
            msgpack::Error::Malformed(_) => Code::InvalidInput,
            msgpack::Error::TooLong(_) => Code::BodyTooLarge,
        };
        RequestError::new(code, Stage::Admit, format!("Invalid MessagePack payload: {error}"))
    })
}

/// A success that is JSON as MessagePack; anything else as it is.
fn to_msgpack(mut response: request::Response) -> Result<request::Response, RequestError> {
    if response.status >= 300 || !is_json_type(&response.content_type) || response.body.is_empty() {
        return Ok(response);
    }
    let body = blocking::if_large(response.body.len(), || msgpack::from_json(&response.body));
    response.body = body.map(Bytes::from).map_err(|error| {
        let message = "the response cannot be written as MessagePack";
        RequestError::new(Code::PluginBadOutput, Stage::PostInference, message).with_detail(error)
    })?;
    response.content_type = BINARY.to_owned();
    Ok(response)
}
