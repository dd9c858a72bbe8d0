//! `POST /v1/models/{m}:predict` and `:predict_binary`: the same call, in JSON or in MessagePack.
//!
//! Flow: `connection → [predict] → pipeline → [predict] → connection`.
//! In:   JSON, with any content type (these clients never minded it); as `application/octet-stream`
//! MessagePack.
//! Out:  the handler's response, or the outputs in the form of `json/serving.rs`; JSON as MessagePack for
//! clients that sent that.
//! Invariant: no handler sees a body that is not JSON.

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use bytes::Bytes;

use super::response::{answered, encode_error};
use crate::blocking;
use crate::endpoint::generation::Generation;
use crate::error::{Code, RequestError, Stage};
use crate::json::msgpack::{self, Special};
use crate::json::serving::Serving;
use crate::json::special;
use crate::memory::{Account, COUNTED};
use crate::pipeline::respond;
use crate::request::{self, Form, Input, Output, is_json_type, without_mark};
use crate::server::head::Head;
use crate::server::models::Entry;
use crate::server::serve::{Call, Protocol, Room, serve};

const BINARY: &str = "application/octet-stream";
pub(super) const JSON: &str = "application/json";
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
        let serving = blocking::if_large(body.len(), || scanned(&body, room.memory))?;
        Ok(Input::Body(body, Form::Serving(serving)))
    }

    fn rewrites(&self) -> bool {
        self.is_binary
    }

    fn encode(self, output: Output, _: &Generation) -> Result<Response, RequestError> {
        let response = respond::of_output(output);
        let response = if self.is_binary { to_msgpack(response)? } else { response };
        Ok(answered(response))
    }

    fn encode_error(error: RequestError, call: &Call<'_>, endpoint: Option<&str>) -> Response {
        encode_error(error, call, endpoint)
    }
}

/// One prediction. `is_binary`: its body is MessagePack.
pub(super) async fn predict(
    call: Call<'_>,
    entry: Result<Entry<'_>, RequestError>,
    is_binary: bool,
    head: Box<Head>,
    body: Body,
) -> Response {
    let found = entry.map(|entry| {
        let special = if entry.reads_bodies() { Special::Null } else { Special::Words };
        (entry.destination(), V1 { is_binary, special })
    });
    serve(call, found, head, body).await
}

/// The keys of a body that is JSON.
fn scanned(body: &Bytes, memory: Account) -> Result<Serving, RequestError> {
    let _copied = memory.take(special::most_copied(body)).map_err(|full| full.at(Stage::Admit))?;
    Serving::scan(body)
        .map_err(|error| RequestError::invalid(Stage::Admit, format!("Invalid JSON payload: {error}")))
}

/// Whether a body is MessagePack by its type.
pub(super) fn is_binary(headers: &HeaderMap) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_by_which_special_numbers_are_read_is_charged() {
        let body = |number: &str| Bytes::from(format!("{{\"instances\": [{}1]}}", number.repeat(COUNTED)));
        let memory = Account::alone(COUNTED);
        assert!(scanned(&body("111, "), memory).is_ok());
        assert_eq!(scanned(&body("NaN, "), memory).unwrap_err().code, Code::Overloaded);
        assert!(scanned(&body("NaN, "), Account::alone(6 * COUNTED)).is_ok());
        assert_eq!(memory.held(), 0);
    }
}
