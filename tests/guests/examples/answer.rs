//! Answers with the response that the body spells out: `{"content_type": "text/plain", "headers": [["a", "b"]], "body": [104, 105]}`,
//! a list of bytes; `{"status": 204}` beside them is the status, `{"repeat": 80}` sends each header so many times. A request of tensors has the same as text in
//! the tensor `answer`. With `{"header": "x-test"}` alone: `{"got": value}` of that header of the request.

use modelhost_guest::{Context, Handler, Response, Result, Sample, Tensor, export};
use serde::Deserialize;
use serde_json::{Value, json};

struct Answer;

export!(Answer: pre_inference);

#[derive(Deserialize)]
struct Spelled {
    content_type: String,
    #[serde(default = "ok")]
    status: u16,
    #[serde(default)]
    headers: Vec<(String, String)>,
    #[serde(default = "one")]
    repeat: usize,
    body: Vec<u8>,
}

fn ok() -> u16 {
    200
}

fn one() -> usize {
    1
}

impl Handler for Answer {
    fn new() -> Self {
        Answer
    }

    fn pre_inference(&mut self, sample: Sample, context: &Context) -> Result<Vec<Tensor>> {
        let value: Value = sample.json()?;
        if let Some(name) = value.get("header").and_then(Value::as_str) {
            return Err(Response::json(&json!({ "got": context.header(name) }))?.into());
        }
        let invalid = |error: serde_json::Error| modelhost_guest::invalid(error.to_string());
        let spelled: Spelled = match value.get("answer").and_then(Value::as_str) {
            Some(text) => serde_json::from_str(text).map_err(invalid)?,
            None => serde_json::from_value(value).map_err(invalid)?,
        };
        let response = Response::new(spelled.status, spelled.content_type, spelled.body);
        let headers = spelled.headers.iter().flat_map(|header| std::iter::repeat_n(header, spelled.repeat));
        Err(headers.fold(response, |response, (name, value)| response.header(name, value)).into())
    }
}
