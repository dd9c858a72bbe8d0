//! What every stage saw, cut to be readable: for `?debug=true` and `host run`.
//!
//! Place in the flow: beside it; nothing here changes a request. Lists end after ten elements and text after
//! 500 characters.

use std::fmt::Write as _;

use super::report::RunReport;
use crate::error::RequestError;
use crate::json::write;
use crate::model_access::{HandlerModelCall, ModelCall};
use crate::outbound::{OutboundAnswer, OutboundCall};
use crate::request::{Input, Output, Request};
use crate::tensor::{BytesElements, Tensor};

const ELEMENTS: usize = 10;
const CHARACTERS: usize = 500;

/// The values that each stage of a run was given and made (`sample`, `pre_inference`, `inference`,
/// `post_inference`), up to the stage that it reached, and the handler's own calls of models and other
/// servers. The plan of the run has to [log calls](super::plan::HostCalls::log_calls).
pub fn objects(
    request: &Request,
    report: &RunReport,
    outcome: &Result<Output, RequestError>,
) -> Vec<(&'static str, String)> {
    let sample = match &request.input {
        Input::Body(body, _) => text(body),
        Input::Tensors(input) => tensors(&input.tensors),
        Input::Exchange(_) => "a stream".to_owned(),
        Input::Socket(_) => "a WebSocket".to_owned(),
    };
    let mut objects = vec![("sample", sample)];
    if let Some(log) = report.log() {
        objects.extend(log.model_calls().iter().map(|call| ("model_call", model_call(call))));
        objects.extend(log.outbound().iter().map(|call| ("outbound", outbound(call))));
    }
    let Some(ModelCall { inputs, outputs }) = report.model_call() else { return objects };
    objects.push(("pre_inference", tensors(&inputs)));
    let Some(outputs) = outputs else { return objects };
    objects.push(("inference", tensors(&outputs)));
    match outcome {
        Ok(Output::Response(response)) => {
            objects.push(("post_inference", format!("{} {}", response.status, text(&response.body))));
        }
        Ok(Output::Tensors(made)) => objects.push(("post_inference", tensors(made))),
        Ok(Output::Streamed { .. }) | Err(_) => {}
    }
    objects
}

/// `add: a FP32 [2] = [1.0, 2.0] -> sum FP32 [2] = [2.0, 4.0]`
fn model_call(call: &HandlerModelCall) -> String {
    let outcome = match &call.outcome {
        Some(Ok(outputs)) => tensors(outputs),
        Some(Err(error)) => cut(&format!("{error:?}"), CHARACTERS),
        None => "nothing yet".to_owned(),
    };
    format!("{}: {} -> {outcome}", cut(&call.model, CHARACTERS), tensors(&call.inputs))
}

/// `POST https://hooks.example.com/done -> 200`: no body, header or query, which may hold anything.
fn outbound(call: &OutboundCall) -> String {
    let answer = match &call.answer {
        Some(OutboundAnswer::Response { status, .. }) => status.to_string(),
        Some(OutboundAnswer::Failed(error)) => error.to_string(),
        None => "nothing yet".to_owned(),
    };
    format!("{} -> {answer}", cut(&call.shown(), CHARACTERS))
}

/// `input FP32 [1, 4] = [5.2, 3.6, 1.4, 0.3]`, one line a tensor.
pub fn tensors(tensors: &[Tensor]) -> String {
    let lines: Vec<String> = tensors
        .iter()
        .map(|tensor| {
            let mut line = format!("{} {} {:?} = ", tensor.name, tensor.datatype, tensor.shape);
            let head = head(tensor);
            // The writer of responses, so that a number looks here as it does there; without its outer list.
            let json = write::outputs(std::slice::from_ref(&head));
            let json = String::from_utf8_lossy(&json);
            let json = json.strip_prefix('[').and_then(|json| json.strip_suffix(']')).unwrap_or(&json);
            let _ = match tensor.elements().checked_sub(ELEMENTS) {
                Some(more @ 1..) => {
                    let shown = text(json.strip_suffix(']').unwrap_or(json).as_bytes());
                    write!(line, "{shown}, … {more} more]")
                }
                _ => write!(line, "{}", text(json.as_bytes())),
            };
            line
        })
        .collect();
    lines.join("; ")
}

/// A body as text, if it is text. On one line: line ends and other controls are escaped, so that a caller's
/// body cannot pass for log lines.
pub fn text(bytes: &[u8]) -> String {
    cut_bytes(bytes, CHARACTERS)
}

/// The same, of so many characters at most.
pub fn cut_bytes(bytes: &[u8], most: usize) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => cut(text, most),
        Err(_) => format!("{} bytes, not text", bytes.len()),
    }
}

/// At most so many characters of a text, on one line.
pub fn cut(text: &str, most: usize) -> String {
    let mut shown = String::new();
    for character in text.trim_end().chars().take(most) {
        match character.is_control() {
            true => shown.extend(character.escape_default()),
            false => shown.push(character),
        }
    }
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{shown}… {} bytes more", text.len() - end),
        None => shown,
    }
}

/// The first elements of a tensor, flat, unless all of them are shown.
fn head(tensor: &Tensor) -> Tensor {
    let elements = tensor.elements();
    if elements <= ELEMENTS {
        return tensor.clone();
    }
    let end = match tensor.datatype.size() {
        Some(size) => size * ELEMENTS,
        None => {
            BytesElements::new(&tensor.data).take(ELEMENTS).flatten().map(|element| element.len() + 4).sum()
        }
    };
    Tensor {
        name: tensor.name.clone(),
        datatype: tensor.datatype,
        shape: vec![ELEMENTS as u64],
        data: tensor.data.slice(..end.min(tensor.data.len())),
    }
}
