//! Answers as OpenAPI has them: errors by status, headers, and the components that they refer to.
//!
//! Place in the flow: beside it; what the operations of every protocol share.
//! In: the error codes that an operation may end in. Out: response objects. The statuses are those of
//! `server/status.rs`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::error::{Code, Stage};
use crate::server::status;

/// A path and its path item: the operations by method.
pub(in crate::server) type Path = (String, Value);
/// Paths that are made as they are asked for: all those of a thousand endpoints are half a gigabyte.
pub(in crate::server) type Paths<'a> = Box<dyn Iterator<Item = Path> + 'a>;

/// The group of what belongs to no endpoint; no name of an endpoint has a space.
pub(in crate::server) const PROCESS_TAG: &str = "the server";

/// The header with the digest of a handler that had its say.
const HANDLER_DIGEST: &str = "x-handler-digest";

/// That group, described.
pub(in crate::server) fn process_tag() -> Value {
    json!({ "name": PROCESS_TAG, "description": "Health, metrics and the list of models." })
}

/// The faults of a handler.
pub(in crate::server) const HANDLER_CODES: [Code; 6] = [
    Code::PluginUnavailable,
    Code::PluginTrap,
    Code::PluginOutOfMemory,
    Code::PluginBadOutput,
    Code::PluginError,
    Code::PluginTimeout,
];

/// An answer that is no error: JSON of this schema.
pub(in crate::server) fn json_ok(description: &str, schema: &Value) -> Value {
    error_free(description, &json!({ "application/json": { "schema": schema } }))
}

/// An answer that is no error, of these media types.
pub(in crate::server) fn error_free(description: &str, content: &Value) -> Value {
    json!({ "description": description, "headers": { "x-request-id": header("x-request-id") }, "content": content })
}

/// A path that is read: its one operation, which ends in `ok` or one of `codes`.
pub(in crate::server) fn get(id: &str, tag: &str, summary: &str, ok: Value, codes: &[Code]) -> Value {
    let codes = [codes, &[Code::MethodNotAllowed]].concat();
    json!({
        "get": {
            "operationId": id,
            "tags": [tag],
            "summary": summary,
            "responses": with_errors(ok, &codes, false),
        },
    })
}

/// `ok` and an error for each status among `codes`; `from_handler`: the handler's digest may stand on them,
/// for it had its say.
pub(in crate::server) fn with_errors(mut ok: Value, codes: &[Code], from_handler: bool) -> Value {
    let mut by_status: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
    for code in codes {
        let together = by_status.entry(status::of(*code).0.as_u16()).or_default();
        // Several stages end in the same; in an enum no value may stand twice.
        if !together.contains(code) {
            together.push(*code);
        }
    }
    let errors = by_status.into_iter().map(|(status, codes)| {
        let error = SharedError { status, codes, from_handler };
        (status.to_string(), error.reference())
    });
    if let (true, Some(Value::Object(headers))) = (from_handler, ok.get_mut("headers")) {
        headers.insert(HANDLER_DIGEST.to_owned(), header(HANDLER_DIGEST));
    }
    Value::Object([("200".to_owned(), ok)].into_iter().chain(errors).collect())
}

/// The error of one status. It stands among the components, once, however many operations end in it: a
/// thousand endpoints would have twenty thousand copies.
#[derive(Debug, PartialEq, Eq)]
struct SharedError {
    status: u16,
    codes: Vec<Code>,
    from_handler: bool,
}

impl SharedError {
    /// Where the errors are.
    const PLACE: &str = "#/components/responses/";

    /// `error-503-1c`, where the last part has a bit for each code; `-handler` behind it.
    fn name(&self) -> String {
        let bits = Code::ALL.iter().enumerate().filter(|(_, code)| self.codes.contains(code));
        let bits = bits.fold(0, |bits, (at, _)| bits | 1_u64 << at);
        let end = if self.from_handler { "-handler" } else { "" };
        format!("error-{}-{bits:x}{end}", self.status)
    }

    fn reference(&self) -> Value {
        json!({ "$ref": format!("{}{}", Self::PLACE, self.name()) })
    }

    /// The one of this name.
    fn named(name: &str) -> Option<SharedError> {
        let (status, rest) = name.strip_prefix("error-")?.split_once('-')?;
        let (bits, from_handler) = rest.strip_suffix("-handler").map_or((rest, false), |bits| (bits, true));
        let bits = u64::from_str_radix(bits, 16).ok()?;
        let codes = Code::ALL.into_iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1);
        Some(SharedError {
            status: status.parse().ok()?,
            codes: codes.map(|(_, code)| code).collect(),
            from_handler,
        })
    }

    fn response(&self) -> Value {
        let names: Vec<&str> = self.codes.iter().map(|code| code.name()).collect();
        let lines: Vec<String> =
            self.codes.iter().map(|code| format!("- `{}`: {}", code.name(), code.summary())).collect();
        let of_status = match self.status {
            401 => Some("www-authenticate"),
            405 => Some("allow"),
            503 => Some("retry-after"),
            _ => None,
        };
        let digest = self.from_handler.then_some(HANDLER_DIGEST);
        let headers = ["x-request-id"].into_iter().chain(of_status).chain(digest);
        let headers: Map<String, Value> = headers.map(|name| (name.to_owned(), header(name))).collect();
        let schema = json!({
            "allOf": [{ "$ref": "#/components/schemas/Error" }, { "properties": { "code": { "enum": names } } }],
        });
        json!({
            "description": lines.join("\n"),
            "headers": headers,
            "content": { "application/json": { "schema": schema, "examples": self.examples() } },
        })
    }

    /// A body for each code: without them viewers make one up, of the first code that there is.
    fn examples(&self) -> Value {
        let example = |code: &Code| {
            let stage = match code {
                Code::ModelError | Code::ModelUnloaded => Stage::Infer,
                code if *code == Code::InvalidInput || HANDLER_CODES.contains(code) => Stage::PreInference,
                _ => Stage::Admit,
            };
            let body = json!({
                "error": code.summary(),
                "code": code.name(),
                "stage": stage.name(),
                "request_id": "5f0c1e9ab2d34c7f",
            });
            (code.name().to_owned(), json!({ "value": body }))
        };
        self.codes.iter().map(example).collect::<Map<_, _>>().into()
    }
}

/// The name of the one way to present a key.
const BEARER: &str = "bearer";

/// Says of an operation that it requires a key; `or_none`: not always.
pub(in crate::server) fn lock(operation: &mut Value, or_none: bool) {
    let Value::Object(operation) = operation else { return };
    let security = if or_none { json!([{ BEARER: [] }, {}]) } else { json!([{ BEARER: [] }]) };
    operation.insert("security".to_owned(), security);
    if let Some(Value::Object(answers)) = operation.get_mut("responses") {
        let (status, _) = status::of(Code::Unauthorized);
        let status = status.as_u16();
        let error = SharedError { status, codes: vec![Code::Unauthorized], from_handler: false };
        answers.insert(status.to_string(), error.reference());
    }
}

/// A header that is one of the components.
pub(in crate::server) fn header(name: &str) -> Value {
    json!({ "$ref": format!("#/components/headers/{name}") })
}

/// Adds the components that a value refers to.
pub(in crate::server) fn references(of: &Value, into: &mut BTreeSet<String>) {
    match of {
        Value::Object(members) => {
            if let Some(Value::String(place)) = members.get("$ref")
                && !into.contains(place)
            {
                into.insert(place.clone());
            }
            members.values().for_each(|member| references(member, into));
        }
        Value::Array(elements) => elements.iter().for_each(|element| references(element, into)),
        _ => {}
    }
}

/// The components that operations refer to; `locked`: the way to present a key is one.
pub(in crate::server) fn components(mut used: BTreeSet<String>, locked: bool) -> Value {
    let names = used.iter().filter_map(|place| place.strip_prefix(SharedError::PLACE));
    let responses: Map<String, Value> =
        names.filter_map(|name| Some((name.to_owned(), SharedError::named(name)?.response()))).collect();
    responses.values().for_each(|response| references(response, &mut used));
    let text = json!({ "type": "string" });
    let mut components = json!({
        "schemas": {
            "Error": {
                "type": "object",
                "description": "What every error is, on every path.",
                "properties": {
                    "error": { "type": "string", "description": "What was wrong, for people." },
                    "code": { "enum": Code::ALL.map(Code::name), "description": "What kind of failure; stable." },
                    "stage": { "enum": Stage::ALL.map(Stage::name), "description": "Where it happened." },
                    "request_id": { "type": "string", "description": "As in `x-request-id` and in the log." },
                    "detail": { "type": "string", "description": "Causes; only under `--debug`." },
                },
                "required": ["error", "code", "stage", "request_id"],
            },
        },
        "headers": {
            "x-request-id": {
                "description": "The request's id: the caller's own from the header of this name, or a new one.",
                "required": true,
                "schema": { "type": "string", "pattern": "^[!-~]{1,128}$" },
            },
            "x-handler-digest": {
                "description": "SHA-256 of the handler that answered, where one had its say.",
                "schema": { "type": "string", "pattern": "^[0-9a-f]{64}$" },
            },
            "retry-after": {
                "description": "Seconds after which to come back.",
                "schema": { "type": "integer", "minimum": 0 },
            },
            "allow": { "description": "The methods that the path does answer.", "required": true, "schema": text },
            "www-authenticate": { "description": "How to present a key.", "required": true, "schema": text },
        },
    });
    if let Some(Value::Object(headers)) = components.get_mut("headers") {
        headers.retain(|name, _| used.contains(&format!("#/components/headers/{name}")));
    }
    if let (Value::Object(components), false) = (&mut components, responses.is_empty()) {
        components.insert("responses".to_owned(), Value::Object(responses));
    }
    if let (Value::Object(components), true) = (&mut components, locked) {
        let scheme =
            json!({ "type": "http", "scheme": "bearer", "description": "One of the endpoint's keys." });
        components.insert("securitySchemes".to_owned(), json!({ BEARER: scheme }));
    }
    components
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The errors that answers refer to, by their places.
    fn shared(answers: &Value) -> BTreeMap<String, Value> {
        let mut used = BTreeSet::new();
        references(answers, &mut used);
        let components = components(used.clone(), false);
        let found = used.into_iter().filter_map(|place| {
            let answer = components.pointer(place.strip_prefix("#/components")?)?.clone();
            Some((place, answer))
        });
        found.collect()
    }

    #[test]
    fn errors_are_grouped_by_status() {
        let codes = [Code::Overloaded, Code::InvalidInput, Code::ShuttingDown, Code::MethodNotAllowed];
        let answers = with_errors(json_ok("fine", &json!({})), &codes, true);
        let shared = shared(&answers);
        let found: Vec<(&str, Vec<&str>)> = answers
            .as_object()
            .unwrap()
            .iter()
            .map(|(status, answer)| {
                let answer = answer.get("$ref").map_or(answer, |place| &shared[place.as_str().unwrap()]);
                (&**status, answer["headers"].as_object().unwrap().keys().map(|name| &**name).collect())
            })
            .collect();
        let (id, digest) = ("x-request-id", "x-handler-digest");
        assert_eq!(
            found,
            [
                ("200", vec![digest, id]),
                ("400", vec![digest, id]),
                ("405", vec!["allow", digest, id]),
                ("503", vec!["retry-after", digest, id]),
            ]
        );
        let schema =
            &shared[answers["503"]["$ref"].as_str().unwrap()]["content"]["application/json"]["schema"];
        assert_eq!(schema["allOf"][1]["properties"]["code"]["enum"], json!(["overloaded", "shutting_down"]));
    }

    #[test]
    fn every_code_can_be_documented() {
        let answers = with_errors(json!({}), &Code::ALL, false);
        let shared = shared(&answers);
        for code in Code::ALL {
            let status = status::of(code).0.as_u16().to_string();
            let answer = &shared[answers[&status]["$ref"].as_str().unwrap()];
            let description = answer["description"].as_str().unwrap();
            let example = &answer["content"]["application/json"]["examples"][code.name()]["value"];
            assert_eq!((&example["code"], &example["error"]), (&json!(code.name()), &json!(code.summary())));
            assert!(description.contains(&format!("- `{}`: ", code.name())), "{description}");
        }
    }
}
