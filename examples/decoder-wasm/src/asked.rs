//! The body of a request of OpenAI's clients, member by member.
//!
//! In:   JSON. Out: values within their ranges. A member that this handler does not serve is an error, unless
//!       it asks for nothing: a client that sends `tools` must not get an answer that ignores them. Every
//!       error begins with the name of its member, which the host gives the client as `param`.

use std::ops::RangeInclusive;

use modelhost_guest::{Result, invalid};
use serde_json::{Map, Value};

/// The members that are not read yet; those that are `null` are not there.
pub(crate) struct Asked(Map<String, Value>);

impl Asked {
    pub(crate) fn new(body: Value) -> Result<Asked> {
        match body {
            Value::Object(members) => {
                Ok(Asked(members.into_iter().filter(|(_, it)| !it.is_null()).collect()))
            }
            _ => Err(invalid("the body is no JSON object")),
        }
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name)
    }

    pub(crate) fn needed(&mut self, name: &str) -> Result<Value> {
        self.take(name).ok_or_else(|| invalid(format!("`{name}` is missing")))
    }

    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(invalid(format!("`{name}` is no text"))),
        }
    }

    pub(crate) fn flag(&mut self, name: &str) -> Result<bool> {
        match self.take(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(_) => Err(invalid(format!("`{name}` is neither true nor false"))),
        }
    }

    pub(crate) fn whole(&mut self, name: &str, range: RangeInclusive<usize>) -> Result<Option<usize>> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let number = value.as_u64().and_then(|number| usize::try_from(number).ok());
        number.filter(|number| range.contains(number)).map(Some).ok_or_else(|| {
            let (least, most) = range.into_inner();
            let most = if most == usize::MAX { "on".to_owned() } else { format!("to {most}") };
            invalid(format!("`{name}` is {}, expected a whole number from {least} {most}", shown(&value)))
        })
    }

    /// A number that has no effect here, such as `temperature`: this model takes the likeliest token.
    pub(crate) fn number(&mut self, name: &str, range: RangeInclusive<f64>) -> Result<()> {
        let Some(value) = self.take(name) else { return Ok(()) };
        if value.as_f64().is_some_and(|number| range.contains(&number)) {
            return Ok(());
        }
        let (least, most) = range.into_inner();
        Err(invalid(format!("`{name}` is {}, expected a number from {least} to {most}", shown(&value))))
    }

    /// A member that is not served, but for values that ask for nothing.
    pub(crate) fn unserved(&mut self, name: &str, is_nothing: impl Fn(&Value) -> bool) -> Result<()> {
        match self.take(name) {
            Some(value) if !is_nothing(&value) => Err(invalid(format!("`{name}` is not served"))),
            _ => Ok(()),
        }
    }

    /// Members that say whose request it is, and change no answer.
    pub(crate) fn ignore(&mut self, names: &[&str]) {
        for name in names {
            self.0.remove(*name);
        }
    }

    /// No member is left.
    pub(crate) fn end(self) -> Result<()> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(name) => Err(invalid(format!("`{}` is not served", shortened(name)))),
        }
    }
}

/// `false`, zero, and what is empty.
pub(crate) fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(true) => false,
    }
}

/// The text of a message's `content`, which is at `place`: a text, or parts of it.
pub(crate) fn content(content: Value, place: &str) -> Result<String> {
    let parts = match content {
        Value::String(text) => return Ok(text),
        Value::Array(parts) => parts,
        _ => return Err(invalid(format!("`{place}` is neither a text nor a list of parts"))),
    };
    let text = |(at, part): (usize, Value)| {
        let kind = part.get("type").and_then(Value::as_str).unwrap_or_default();
        let text = part.get(if kind == "refusal" { "refusal" } else { "text" }).and_then(Value::as_str);
        match (kind, text) {
            ("text" | "input_text" | "output_text" | "refusal", Some(text)) => Ok(text.to_owned()),
            ("text" | "input_text" | "output_text" | "refusal", None) => {
                Err(invalid(format!("`{place}[{at}].text` is missing")))
            }
            ("", _) => Err(invalid(format!("`{place}[{at}].type` is missing"))),
            (kind, _) => {
                Err(invalid(format!("`{place}[{at}].type` is {:?}, expected \"text\"", shortened(kind))))
            }
        }
    };
    parts.into_iter().enumerate().map(text).collect()
}

fn shown(value: &Value) -> String {
    match value {
        Value::Number(number) => number.to_string(),
        Value::String(_) => "a text".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        other => other.to_string(),
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}
