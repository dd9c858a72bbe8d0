//! `operations`: what an application says it serves.
//!
//! Place in the flow: asked once when a handler is loaded; the OpenAPI document and the schema of a model
//! read it.
//! In: what the guest returned. Out: operations that are sound, or text for the operator.
//! Invariant: no method of a path is there twice, so that of two routes none is served in secret.

use std::collections::BTreeSet;
use std::pin::pin;

use serde_json::Value;

use super::bindings::exports::modelhost::handler::operations as guest;
use super::convert::shown;
use super::deadline::metered;
use super::instance::Instance;
use super::state;
use crate::error::Stage;

/// Most of them.
const MOST: usize = 1000;
/// Most bytes of all that they say.
const LONGEST: usize = 1 << 20;

/// A method of a path of an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// In capitals.
    pub method: String,
    /// Below the endpoint's path; a segment in braces is a parameter.
    pub path: String,
    /// For people; may be empty.
    pub summary: String,
    /// The media type of the body; empty if there is none.
    pub consumes: String,
    /// JSON Schema of the body.
    pub input: Option<Value>,
    /// The media type of the response; empty if it is not known.
    pub produces: String,
    /// JSON Schema of the response.
    pub output: Option<Value>,
}

impl Operation {
    /// Whether the response comes in pieces, as its media type tells.
    pub fn is_stream(&self) -> bool {
        self.produces.starts_with("text/event-stream")
    }
}

impl Instance {
    /// Calls `operations`, as `input-schema` is called; nothing if the handler has none.
    ///
    /// # Errors
    /// Text for the operator.
    pub(super) async fn operations(&mut self) -> Result<Vec<Operation>, String> {
        const STAGE: Stage = Stage::PreInference;
        let Some(guest) = &self.exports.operations else { return Ok(Vec::new()) };
        let cpu = self.store.data().time(STAGE);
        let (meter, end) = state::arm_until(&mut self.store, cpu, None, 0);
        let outcome = metered(meter, end, pin!(guest.call_operations(&mut self.store))).await;
        self.told(outcome, STAGE).and_then(sound)
    }
}

fn sound(operations: Vec<guest::Operation>) -> Result<Vec<Operation>, String> {
    if operations.len() > MOST {
        return Err(format!("{} operations, more than {MOST}", operations.len()));
    }
    let length: usize = operations.iter().map(length).sum();
    if length > LONGEST {
        return Err(format!("texts of {length} bytes, more than {LONGEST}"));
    }
    let operations = operations.into_iter().map(operation).collect::<Result<Vec<_>, _>>()?;
    let mut seen = BTreeSet::new();
    match operations.iter().find(|it| !seen.insert((&*it.method, nameless(&it.path)))) {
        Some(twice) => Err(format!("`{} {}` is there twice", twice.method, shown(&twice.path))),
        None => Ok(operations),
    }
}

fn length(operation: &guest::Operation) -> usize {
    let schemas = [&operation.input, &operation.output].into_iter().flatten().map(String::len);
    let texts = [&operation.path, &operation.summary, &operation.consumes, &operation.produces];
    schemas.chain(texts.map(String::len)).sum()
}

fn operation(said: guest::Operation) -> Result<Operation, String> {
    let which = format!("`{} {}`", shown(&said.method), shown(&said.path));
    let is_method = (1..=20).contains(&said.method.len())
        && said.method.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-');
    if !is_method {
        return Err(format!("{which}: a method is written in capitals, such as `POST`"));
    }
    if !said.path.starts_with('/') || said.path.chars().any(|c| c.is_control() || c == '?' || c == '#') {
        return Err(format!("{which}: a path begins with `/` and has no query"));
    }
    let schema = |text: Option<String>| match text.as_deref().map(serde_json::from_str) {
        None => Ok(None),
        Some(Ok(schema @ (Value::Object(_) | Value::Bool(_)))) => Ok(Some(schema)),
        Some(_) => Err(format!("{which}: a schema is not JSON Schema")),
    };
    let (input, output) = (schema(said.input)?, schema(said.output)?);
    let guest::Operation { method, path, summary, consumes, produces, .. } = said;
    Ok(Operation { method, path, summary, consumes, input, produces, output })
}

/// A path whose parameters have no names: two that differ in those alone are one.
fn nameless(path: &str) -> String {
    let segment = |segment: &str| match segment.strip_prefix('{') {
        Some(name) if segment.ends_with('}') => if name.starts_with('*') { "{*}" } else { "{}" }.to_owned(),
        _ => segment.to_owned(),
    };
    path.split('/').map(segment).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(method: &str, path: &str, input: Option<&str>) -> guest::Operation {
        guest::Operation {
            method: method.to_owned(),
            path: path.to_owned(),
            summary: String::new(),
            consumes: String::new(),
            input: input.map(str::to_owned),
            produces: String::new(),
            output: None,
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for (operations, expected) in [
            (vec![said("POST", "/a", Some("{}")), said("GET", "/a", None), said("POST", "/a/", None)], None),
            (vec![said("POST", "/a", None), said("POST", "/a", None)], Some("`POST /a` is there twice")),
            (
                vec![said("GET", "/{a}/x", None), said("GET", "/{b}/x", None)],
                Some("`GET /{b}/x` is there twice"),
            ),
            (vec![said("GET", "/{a}", None), said("GET", "/{*a}", None)], None),
            (
                vec![said("post", "/", None)],
                Some("`post /`: a method is written in capitals, such as `POST`"),
            ),
            (vec![said("POST", "a", None)], Some("`POST a`: a path begins with `/` and has no query")),
            (vec![said("POST", "/a?b", None)], Some("`POST /a?b`: a path begins with `/` and has no query")),
            (vec![said("POST", "/", Some("[]"))], Some("`POST /`: a schema is not JSON Schema")),
            (vec![said("POST", "/", Some("{"))], Some("`POST /`: a schema is not JSON Schema")),
            (vec![said("A", "/", None); 1001], Some("1001 operations, more than 1000")),
            (
                vec![said("A", "/", Some(&" ".repeat(LONGEST)))],
                Some("texts of 1048577 bytes, more than 1048576"),
            ),
        ] {
            assert_eq!(sound(operations).err().as_deref(), expected);
        }
    }
}
