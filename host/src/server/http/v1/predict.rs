//! `POST /v1/models/{m}:predict` and `:predict_binary`: the same call, in JSON or in MessagePack.
//!
//! Flow: `connection → [predict] → pipeline → [predict] → connection`.
//! In:   JSON, whatever the content type says (these clients never minded it); as `application/octet-stream` MessagePack.
//! Out:  the handler's response, or the outputs in the form of `json/serving.rs`; JSON as MessagePack for who sent that.
//! Invariant: no handler sees a body that is not JSON.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use axum::response::Response;
use bytes::Bytes;

use super::super::{call, error};
use super::{ModelPath, Operation, no_route, wrong_method};
use crate::blocking;
use crate::deploy::Answer;
use crate::error::{Code, RequestError, Stage};
use crate::json::serving::Serving;
use crate::json::{msgpack, write};
use crate::pipeline::respond;
use crate::request::{self, Form, Input, Output, is_json_type};
use crate::server::Served;
use crate::server::compat::{pydantic_messages, truss};
use crate::server::head::Head;

const BINARY: &str = "application/octet-stream";
const JSON: &str = "application/json";
/// How many times `limits.body` the JSON of a MessagePack document may be long. Numbers take up to six times as much.
const GROWTH: usize = 8;

pub(super) async fn predict(State(served): State<Arc<Served>>, request: Request) -> Response {
    let arrived = Instant::now();
    let (mut head, body) = Head::split(request);
    let id = call::id_of(&head);
    let refuse = |failure: RequestError, endpoint: Option<&str>| {
        let code = truss::code(failure.code);
        truss::marked(error::respond(failure, &id, &served, endpoint, arrived), code)
    };
    let path = head.parts.uri.path();
    let found = match ModelPath::of(path) {
        Some(model_path) if model_path.operation == Operation::Prediction => {
            model_path.find(&served, call::credentials(head.headers()))
        }
        Some(_) => {
            let mut response = refuse(wrong_method(path, "POST"), None);
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD, OPTIONS"));
            return response;
        }
        None => Err(no_route(path)),
    };
    let entry = match found {
        Ok(entry) => entry,
        Err(failure) => return refuse(failure, None),
    };
    let is_binary = is_binary(head.headers());
    head.parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    let limit = entry.endpoint.config.limits.body.saturating_mul(GROWTH);
    let read = |_: &_, body: Bytes| {
        let body =
            if is_binary { blocking::if_large(body.len(), || from_msgpack(&body, limit))? } else { body };
        let serving = blocking::if_large(body.len(), || Serving::scan(&body))
            .map_err(|error| RequestError::invalid(Stage::Admit, format!("Invalid JSON payload: {error}")))?;
        Ok(Input::Body(body, Form::Serving(serving)))
    };
    let (outcome, by) =
        match call::serve(entry.endpoint, entry.model.clone(), head, body, &id, arrived, read).await {
            Ok(Answer { outcome, generation, bypassed }) => (outcome, Some((generation, bypassed))),
            Err(failure) => (Err(failure), None),
        };
    let response = outcome.and_then(|output| {
        let response = match output {
            Output::Response(response) => response,
            // Only those who bring tensors get tensors, and they come another way.
            Output::Tensors(tensors) => respond::json(write::outputs(&tensors)),
        };
        if is_binary { to_msgpack(response) } else { Ok(response) }
    });
    let mut response = match response {
        Ok(response) if response.status >= 300 => truss::marked(call::into_http(response), truss::CALLER),
        Ok(response) => call::into_http(response),
        Err(mut failure) => {
            if !failure.faults.is_empty() {
                failure.message = pydantic_messages::of(&failure.faults);
            }
            refuse(failure, Some(&entry.endpoint.config.name))
        }
    };
    call::sign(response.headers_mut(), &id, by.as_ref());
    response
}

fn is_binary(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().is_some_and(|essence| essence.trim().eq_ignore_ascii_case(BINARY))
}

fn from_msgpack(body: &[u8], limit: usize) -> Result<Bytes, RequestError> {
    msgpack::to_json(body, limit).map(Bytes::from).map_err(|error| {
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
