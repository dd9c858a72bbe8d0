//! The answer to an inference request: JSON, and behind it the tensors that were asked for as binary data.
//!
//! Place in the flow: after the pipeline.
//! In:   what the pipeline made, and what the caller wants. Out: an HTTP response.
//! Invariant: tensors of any size that go out as binary data are not copied.

use std::borrow::Cow;
use std::collections::{HashSet, VecDeque};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use axum::response::Response;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use serde::Serialize;

use super::super::cors;
use super::super::transport::into_http;
use super::request::{HEADER_LENGTH, RequestedOutputs};
use crate::blocking;
use crate::compression::Coding;
use crate::error::{Code, RequestError, Stage};
use crate::json::typed;
use crate::json::write::Flat;
use crate::request::{self, Output};
use crate::server::classification::Classes;
use crate::server::shared_memory::Place;
use crate::tensor::{BytesElements, Datatype, Tensor};
use crate::text::shown;

const STAGE: Stage = Stage::PostInference;
/// Up to this many bytes of tensors are copied behind the JSON: cheaper than one more piece to send.
const JOINED: usize = 16 << 10;
/// An answer that fits into a packet becomes no faster by being smaller.
const WORTH_PACKING: usize = 1400;

#[derive(Serialize)]
struct Answer<'a> {
    model_name: &'a str,
    model_version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    outputs: Vec<AnswerOutput<'a>>,
}

#[derive(Serialize)]
struct AnswerOutput<'a> {
    name: &'a str,
    datatype: &'static str,
    shape: &'a [u64],
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<Binary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Flat<'a>>,
}

#[derive(Serialize)]
struct Binary {
    binary_data_size: usize,
}

/// The response to what the pipeline made. A handler that works alone answers in JSON, of which tensors are
/// made; anything else it says, such as errors in its own words, passes as it is.
///
/// # Errors
/// `invalid_input` for an unknown output, or one that JSON cannot hold; `plugin_bad_output` for JSON that
/// cannot become tensors.
pub(super) fn of(
    output: Output,
    model: &str,
    version: &str,
    wanted: &RequestedOutputs,
    classes: impl Fn() -> Classes,
    coding: Option<Coding>,
) -> Result<Response, RequestError> {
    let (tensors, headers) = match output {
        Output::Tensors(tensors) => (tensors, Vec::new()),
        Output::Response(response) if is_json(&response) => {
            let tensors = blocking::if_large(response.body.len(), || typed::tensors(&response.body));
            let tensors = tensors.map_err(|problem| {
                let message = format!("no tensors can be made of the handler's response: {problem}");
                RequestError::new(Code::PluginBadOutput, STAGE, message)
            })?;
            (tensors, response.headers)
        }
        Output::Response(response) => return Ok(into_http(response)),
        Output::Streamed { status } => return Ok(into_http(request::Response::bare(status))),
    };
    let (json, binary) = write(&tensors, model, version, wanted, classes)?;
    let mut response = into_http(request::Response {
        status: 200,
        content_type: String::new(),
        headers,
        body: Bytes::new(),
    });
    let headers = response.headers_mut();
    let json_type = HeaderValue::from_static("application/json");
    let content_type = match &binary {
        None => {
            // A handler's: of its own body, which this is not.
            headers.remove(HEADER_LENGTH);
            json_type
        }
        Some(_) => {
            headers.insert(HEADER_LENGTH, json.len().into());
            HeaderValue::from_static("application/octet-stream")
        }
    };
    headers.insert(CONTENT_TYPE, content_type);
    let mut pieces = pieces(json, binary.unwrap_or_default());
    if pieces.iter().map(Bytes::len).sum::<usize>() > WORTH_PACKING {
        cors::vary(headers, &HeaderValue::from_static("accept-encoding"));
        if let Some(coding) = coding {
            pieces = vec![coding.encode(&pieces)];
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
        }
    }
    *response.body_mut() = Body::new(Pieces(pieces.into()));
    Ok(response)
}

fn is_json(response: &request::Response) -> bool {
    (200..300).contains(&response.status)
        && request::is_json_type(&response.content_type)
        && !response.body.is_empty()
}

/// The JSON, and if any output is binary the data of those that are.
fn write(
    tensors: &[Tensor],
    model: &str,
    version: &str,
    wanted: &RequestedOutputs,
    classes: impl Fn() -> Classes,
) -> Result<(Vec<u8>, Option<Vec<Bytes>>), RequestError> {
    let selected =
        select(tensors, wanted, classes).map_err(|message| RequestError::invalid(STAGE, message))?;
    let mut binary = None;
    let mut outputs = Vec::with_capacity(selected.len());
    let mut bytes = 0;
    for Selected { tensor, binary: is_binary, place } in &selected {
        let mut output = AnswerOutput {
            name: &tensor.name,
            datatype: tensor.datatype.name(),
            shape: &tensor.shape,
            parameters: None,
            data: None,
        };
        if let Some(place) = place {
            // It has no parameters: Triton's C++ client takes any for those of binary data.
            place.write(&tensor.name, &tensor.data).map_err(|text| RequestError::invalid(STAGE, text))?;
        } else if *is_binary {
            binary.get_or_insert_with(Vec::new).push(tensor.data.clone());
            output.parameters = Some(Binary { binary_data_size: tensor.data.len() });
        } else if is_text(tensor) {
            bytes += tensor.data.len();
            output.data = Some(Flat(tensor));
        } else {
            let message = format!(
                "output `{}` holds bytes that are not UTF-8, which JSON cannot hold; ask for it with `binary_data`",
                tensor.name
            );
            return Err(RequestError::invalid(STAGE, message));
        }
        outputs.push(output);
    }
    let answer = Answer { model_name: model, model_version: version, id: wanted.id.as_deref(), outputs };
    let json = blocking::if_large(bytes, || {
        // A number takes three letters a byte or so.
        let mut json = Vec::with_capacity(256 + 3 * bytes);
        serde_json::to_writer(&mut json, &answer).map(|()| json)
    });
    let failed =
        |error| RequestError::new(Code::Internal, STAGE, "the answer cannot be written").with_detail(error);
    Ok((json.map_err(failed)?, binary))
}

/// Whether JSON can hold a tensor.
fn is_text(tensor: &Tensor) -> bool {
    tensor.datatype != Datatype::Bytes
        || BytesElements::new(&tensor.data)
            .all(|element| element.is_ok_and(|bytes| str::from_utf8(bytes).is_ok()))
}

/// An output that is wanted.
struct Selected<'a> {
    tensor: Cow<'a, Tensor>,
    binary: bool,
    place: Option<&'a Place>,
}

/// The outputs that are wanted.
fn select<'a>(
    tensors: &'a [Tensor],
    wanted: &'a RequestedOutputs,
    classes: impl Fn() -> Classes,
) -> Result<Vec<Selected<'a>>, String> {
    if wanted.outputs.is_empty() {
        let plain = |tensor| Selected { tensor: Cow::Borrowed(tensor), binary: wanted.binary, place: None };
        return Ok(tensors.iter().map(plain).collect());
    }
    let mut names = HashSet::new();
    let mut selected = Vec::new();
    for output in &wanted.outputs {
        let Some(tensor) = tensors.iter().find(|tensor| *tensor.name == *output.name) else {
            let names: Vec<String> = tensors.iter().map(|tensor| format!("`{}`", tensor.name)).collect();
            return Err(format!(
                "there is no output `{}`; there are {}",
                shown(&output.name),
                names.join(", ")
            ));
        };
        // Ends the loop also for a list without end: there are only so many outputs to ask for.
        if !names.insert(&*tensor.name) {
            return Err(format!("output `{}`: asked for twice", shown(&output.name)));
        }
        let tensor = match output.classes {
            0 => Cow::Borrowed(tensor),
            most => Cow::Owned(classes().of(tensor, most)?),
        };
        selected.push(Selected { tensor, binary: output.binary, place: output.place.as_ref() });
    }
    Ok(selected)
}

/// The pieces that go out: one if it is little.
fn pieces(mut json: Vec<u8>, binary: Vec<Bytes>) -> Vec<Bytes> {
    if binary.iter().map(Bytes::len).sum::<usize>() <= JOINED {
        binary.iter().for_each(|data| json.extend_from_slice(data));
        return vec![json.into()];
    }
    std::iter::once(json.into()).chain(binary).filter(|piece: &Bytes| !piece.is_empty()).collect()
}

/// A body of several pieces whose length is known.
struct Pieces(VecDeque<Bytes>);

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.iter().map(|piece| piece.len() as u64).sum())
    }
}
