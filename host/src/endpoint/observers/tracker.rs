//! Counts what an endpoint predicts: classes, or the spread of values.
//!
//! Place in the flow: after a run, if the endpoint has a [`TrackerConfig`].
//! In: the response as its caller gets it, read whole; or the tensors. Out: metrics.
//! Invariant: a response without such a prediction is counted as untracked, and is otherwise as it was.

use std::borrow::Cow;

use super::{EndedRun, Observer, RunStart};
use crate::blocking;
use crate::endpoint::config::{PredictionKind, TrackerConfig};
use crate::json::cursor::{Cursor, Kind, Raw};
use crate::json::write;
use crate::pipeline::debug::cut;
use crate::request::{Output, Response, is_json_type};
use crate::tensor::Tensor;

/// Longest name of a class, in bytes.
const LONGEST_CLASS: usize = 128;
/// Longest JSON of an output of one element, in bytes.
const LONGEST_OUTPUT: usize = 4096;
/// Most characters of a value that the log shows.
const MOST_SHOWN: usize = 40;

/// Writes the endpoint's metrics.
pub struct TrackerObserver;

impl Observer for TrackerObserver {
    fn begin(&mut self, _start: &mut RunStart<'_>) {}

    fn end(self, run: &EndedRun<'_>) {
        let (Some(tracker), Ok(output)) = (&run.config.tracker, run.outcome) else { return };
        let found = match output {
            Output::Response(response) if !(200..300).contains(&response.status) => return,
            Output::Response(response) => {
                blocking::if_large(response.body.len(), || of_response(tracker, response))
            }
            Output::Streamed { status } if !(200..300).contains(status) => return,
            Output::Streamed { .. } => Err("it was streamed".to_owned()),
            Output::Tensors(tensors) => of_tensors(tracker, tensors),
        };
        let predictions = &run.metrics.predictions;
        match found {
            Ok(Prediction::Class(class)) => predictions.class(&class),
            Ok(Prediction::Value(value)) => predictions.value(value),
            Err(why) => {
                let endpoint = &run.config.name;
                // Every response of a handler is likely to be the same; the metric has their number.
                if predictions.untracked() == 0 {
                    tracing::warn!(endpoint = %endpoint, request.id = %run.request.id,
                        "no prediction to track in the response: {why}");
                } else {
                    tracing::debug!(endpoint = %endpoint, request.id = %run.request.id,
                        "no prediction to track in the response: {why}");
                }
            }
        }
    }
}

/// A prediction as it is counted.
#[derive(Debug, PartialEq)]
enum Prediction<'a> {
    Class(Cow<'a, str>),
    Value(f64),
}

type Found<'a> = Result<Prediction<'a>, String>;

fn of_response<'a>(tracker: &TrackerConfig, response: &'a Response) -> Found<'a> {
    if !is_json_type(&response.content_type) {
        // Text is one value, a class.
        let text = str::from_utf8(&response.body).ok().filter(|_| response.content_type.starts_with("text/"));
        return match text {
            Some(text) if tracker.key.is_empty() => of_text(tracker.kind, Cow::Borrowed(text)),
            _ => Err(format!("its content type is `{}`", response.content_type)),
        };
    }
    let cursor = Cursor::proven(&response.body).ok_or("it is not JSON")?;
    let value = find(cursor, &tracker.key)
        .ok_or_else(|| format!("there is nothing at `{}`", tracker.key.join("/")))?;
    of_json(tracker.kind, value)
}

/// The value at the end of these keys and indices.
fn find<'a>(mut cursor: Cursor<'a>, key: &[String]) -> Option<Raw<'a>> {
    for step in key {
        match cursor.kind() {
            Kind::Object => {
                cursor.enter();
                while cursor.key()?.string() != *step {
                    cursor.skip();
                }
            }
            Kind::Array => {
                let index: usize = step.parse().ok()?;
                cursor.enter();
                for _ in 0..index {
                    cursor.element().then(|| cursor.skip())?;
                }
                cursor.element().then_some(())?;
            }
            _ => return None,
        }
    }
    Some(cursor.skip())
}

/// `value` itself, or the one element of a list, as a model has for one row.
fn of_json(kind: PredictionKind, mut value: Raw<'_>) -> Found<'_> {
    let mut cursor = Cursor::of(value);
    while cursor.kind() == Kind::Array {
        cursor.enter();
        if !cursor.element() {
            return Err("a list is empty".to_owned());
        }
        value = cursor.skip();
        if cursor.element() {
            return Err("a list has more than one element".to_owned());
        }
        cursor = Cursor::of(value);
    }
    match cursor.kind() {
        Kind::String => of_text(kind, value.string()),
        Kind::Number => of_number(kind, value.text()),
        _ => Err(format!("expected {}, found {}", kind.expected(), shown(value.text()))),
    }
}

fn of_text(kind: PredictionKind, text: Cow<'_, str>) -> Found<'_> {
    match kind {
        PredictionKind::Classification if text.len() <= LONGEST_CLASS => Ok(Prediction::Class(text)),
        PredictionKind::Classification => Err(format!("a class of {} bytes is too long", text.len())),
        PredictionKind::Regression => Err(format!("expected {}, found {}", kind.expected(), shown(&text))),
    }
}

fn of_number(kind: PredictionKind, text: &str) -> Found<'_> {
    let is_integer =
        text.len() <= LONGEST_CLASS && text.bytes().all(|byte| matches!(byte, b'-' | b'0'..=b'9'));
    match (kind, text.parse::<f64>()) {
        (PredictionKind::Classification, _) if is_integer => Ok(Prediction::Class(Cow::Borrowed(text))),
        (PredictionKind::Regression, Ok(value)) if value.is_finite() => Ok(Prediction::Value(value)),
        _ => Err(format!("expected {}, found {}", kind.expected(), shown(text))),
    }
}

/// The tensor as JSON, and what is in that.
fn of_tensors(tracker: &TrackerConfig, tensors: &[Tensor]) -> Found<'static> {
    let tensor = match tracker.key.as_slice() {
        [] => tensors.first().filter(|_| tensors.len() == 1),
        [name, ..] => tensors.iter().find(|tensor| *tensor.name == **name),
    };
    let tensor = tensor.ok_or_else(|| format!("there is no output `{}`", tracker.key.join("/")))?;
    if tensor.elements() != 1 {
        return Err(format!("the output `{}` has {} elements", tensor.name, tensor.elements()));
    }
    let written = write::object_within(std::slice::from_ref(tensor), LONGEST_OUTPUT);
    let written = written.ok_or_else(|| format!("the output `{}` is too long", tensor.name))?;
    let value = Cursor::proven(&written).and_then(|cursor| find(cursor, &[tensor.name.to_string()]));
    let found = value.map(|value| of_json(tracker.kind, value));
    match found.ok_or_else(|| format!("the output `{}` is not JSON", tensor.name))?? {
        Prediction::Class(class) => Ok(Prediction::Class(Cow::Owned(class.into_owned()))),
        Prediction::Value(value) => Ok(Prediction::Value(value)),
    }
}

/// The beginning of a value, for the log.
fn shown(text: &str) -> String {
    format!("`{}`", cut(text, MOST_SHOWN))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(kind: PredictionKind, key: &[&str], body: &str) -> Result<String, String> {
        let tracker = TrackerConfig { key: key.iter().map(|&step| step.to_owned()).collect(), kind };
        let response = Response {
            status: 200,
            content_type: "application/json".to_owned(),
            headers: Vec::new(),
            body: body.to_owned().into_bytes().into(),
        };
        of_response(&tracker, &response).map(|found| match found {
            Prediction::Class(class) => class.into_owned(),
            Prediction::Value(value) => value.to_string(),
        })
    }

    #[test]
    fn classes_are_texts_and_integers() {
        let class = |key: &[&str], body| json(PredictionKind::Classification, key, body);
        let ok = |text: &str| Ok(text.to_owned());
        assert_eq!(class(&["class_label"], r#"{"p":[1],"class_label":"iris-setosa"}"#), ok("iris-setosa"));
        assert_eq!(class(&["l"], r#"{"l":"a\u00e9\""}"#), ok("aé\""));
        assert_eq!(class(&["0", "label"], r#"[{"label":3}]"#), ok("3"));
        assert_eq!(class(&[], r#""cat""#), ok("cat"));
        assert_eq!(class(&["label"], r#"{"label":[["dog"]]}"#), ok("dog"));
        assert!(class(&["label"], r#"{"label":["dog","cat"]}"#).unwrap_err().contains("more than one"));
        assert!(class(&["class_label"], r#"{"class_label":0.5}"#).unwrap_err().contains("found `0.5`"));
        assert!(
            class(&["class_label"], r#"{"label":"a"}"#).unwrap_err().contains("nothing at `class_label`")
        );
        assert!(class(&["2"], "[1,2]").unwrap_err().contains("nothing at `2`"));
        assert!(class(&["a", "b"], r#"{"a":1}"#).unwrap_err().contains("nothing at `a/b`"));
        assert!(class(&[], "null").unwrap_err().contains("found `null`"));
        assert!(class(&[], &format!("\"{}\"", "x".repeat(129))).unwrap_err().contains("129 bytes"));
    }

    #[test]
    fn values_are_numbers() {
        let value = |body| json(PredictionKind::Regression, &["price"], body);
        assert_eq!(value(r#"{"price":2.5}"#), Ok("2.5".to_owned()));
        assert_eq!(value(r#"{"price":-3}"#), Ok("-3".to_owned()));
        assert!(value(r#"{"price":"2.5"}"#).unwrap_err().contains("expected a number"));
        assert!(value(r#"{"price":1e999}"#).is_err());
    }
}
