//! An image by the Open Inference Protocol's binary tensor data extension, as `host serve --model image.onnx --name oip` has it.
//!
//! In:  a JSON header of `inference-header-content-length` bytes, then 1 × 3 × 224 × 224 values as little-endian FP32.
//! Out: a JSON header, then the model's output in the same form.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use ort::session::Session;
use ort::value::TensorRef;
use serde::{Deserialize, Serialize};

use crate::sessions::Sessions;
use crate::{Failure, refuse};

const HEADER_LENGTH: HeaderName = HeaderName::from_static("inference-header-content-length");

#[derive(Deserialize)]
struct Request {
    inputs: Vec<Input>,
}

#[derive(Deserialize)]
struct Input {
    shape: Vec<usize>,
    datatype: String,
    parameters: Size,
}

#[derive(Serialize, Deserialize)]
struct Size {
    binary_data_size: usize,
}

#[derive(Serialize)]
struct Answer<'a> {
    model_name: &'a str,
    model_version: &'a str,
    outputs: [Output<'a>; 1],
}

#[derive(Serialize)]
struct Output<'a> {
    name: &'a str,
    datatype: &'a str,
    shape: &'a [i64],
    parameters: Size,
}

pub fn router(sessions: Vec<Session>) -> Router {
    let limit = axum::extract::DefaultBodyLimit::max(32 << 20);
    Router::new().route("/v2/models/oip/infer", post(infer)).layer(limit).with_state(Sessions::new(sessions))
}

async fn infer(State(sessions): State<Arc<Sessions>>, headers: HeaderMap, body: Bytes) -> Response {
    let length = headers.get(HEADER_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    let Some((head, data)) = length.and_then(|length| body.split_at_checked(length)) else {
        return refuse(StatusCode::BAD_REQUEST, "expected a header and its length");
    };
    let Ok(request) = serde_json::from_slice::<Request>(head) else {
        return refuse(StatusCode::BAD_REQUEST, "expected inputs");
    };
    let [Input { shape, datatype, parameters }] = request.inputs.as_slice() else {
        return refuse(StatusCode::BAD_REQUEST, "expected one input");
    };
    let (values, rest) = data.as_chunks::<4>();
    let fits = parameters.binary_data_size == data.len() && shape.iter().product::<usize>() == values.len();
    if !fits || datatype != "FP32" || !rest.is_empty() {
        return refuse(StatusCode::BAD_REQUEST, "expected FP32 values of that shape");
    }
    // The one copy: a body need not lie where a float may.
    let pixels: Vec<f32> = values.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let shape = shape.clone();
    drop(body);
    match sessions.run(move |session| predict(session, &shape, &pixels)).await {
        Ok((length, bytes)) => {
            let kind = (header::CONTENT_TYPE, "application/octet-stream".to_owned());
            ([kind, (HEADER_LENGTH, length.to_string())], bytes).into_response()
        }
        Err(error) => refuse(StatusCode::INTERNAL_SERVER_ERROR, error),
    }
}

/// Runs the model; the length of the answer's header, and the answer.
fn predict(session: &mut Session, shape: &[usize], pixels: &[f32]) -> Result<(usize, Vec<u8>), Failure> {
    let outputs = session.run(ort::inputs![TensorRef::from_array_view((shape, pixels))?])?;
    let (name, last) = outputs.iter().last().ok_or("the model has no output")?;
    let (shape, logits) = last.try_extract_tensor::<f32>()?;
    let parameters = Size { binary_data_size: size_of_val(logits) };
    let output = Output { name, datatype: "FP32", shape, parameters };
    let mut bytes = serde_json::to_vec(&Answer { model_name: "oip", model_version: "1", outputs: [output] })?;
    let length = bytes.len();
    bytes.extend(logits.iter().flat_map(|logit| logit.to_le_bytes()));
    Ok((length, bytes))
}
