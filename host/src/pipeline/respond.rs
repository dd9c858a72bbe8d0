//! The last look at a response before it leaves.
//!
//! Place in the flow: after `post-inference`, or after whatever stage a handler answered from.
//! Invariant: a response that says it is JSON is valid JSON. Several languages write `NaN` and `Infinity`, which JSON
//! does not have; they become `null`.

use bytes::Bytes;
use serde::de::IgnoredAny;

use crate::blocking;
use crate::error::{Code, RequestError, Stage};
use crate::request::Response;

/// A 200 with a JSON body that this host wrote itself.
pub fn json(body: Vec<u8>) -> Response {
    Response {
        status: 200,
        content_type: "application/json".to_owned(),
        headers: Vec::new(),
        body: body.into(),
    }
}

/// Checks a handler's response; mends numbers that JSON cannot express.
///
/// # Errors
/// `plugin_bad_output` if the body is announced as JSON and is something else.
pub fn checked(response: Response, stage: Stage) -> Result<Response, RequestError> {
    blocking::if_large(response.body.len(), || check(response, stage))
}

fn check(mut response: Response, stage: Stage) -> Result<Response, RequestError> {
    let is_json = response.content_type.split(';').next().is_some_and(|t| t.trim() == "application/json");
    // No content: 204 and 304 have no body whatever their type says.
    if !is_json
        || response.body.is_empty() && matches!(response.status, 204 | 304)
        || is_valid(&response.body)
    {
        return Ok(response);
    }
    let mended = without_special_numbers(&response.body);
    if !is_valid(&mended) {
        let message = "the handler returned a body that is not JSON, with content type `application/json`";
        return Err(RequestError::new(Code::PluginBadOutput, stage, message));
    }
    response.body = Bytes::from(mended);
    Ok(response)
}

fn is_valid(body: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(body).is_ok()
}

/// Replaces `NaN`, `Infinity` and `-Infinity` outside of strings by `null`.
fn without_special_numbers(body: &[u8]) -> Vec<u8> {
    const SPECIAL: [&[u8]; 3] = [b"NaN", b"-Infinity", b"Infinity"];
    let mut out = Vec::with_capacity(body.len());
    let mut rest = body;
    let mut in_string = false;
    while let [byte, after @ ..] = rest {
        let special = SPECIAL.iter().find_map(|word| rest.strip_prefix(*word)).filter(|_| !in_string);
        if let Some(after) = special {
            out.extend_from_slice(b"null");
            rest = after;
            continue;
        }
        out.push(*byte);
        rest = after;
        match byte {
            b'"' => in_string = !in_string,
            // An escaped character cannot end the string.
            b'\\' if in_string => {
                if let [escaped, after @ ..] = rest {
                    out.push(*escaped);
                    rest = after;
                }
            }
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_stays_or_becomes_valid() {
        for (body, expected) in [
            (r#"{"a":1}"#, Some(r#"{"a":1}"#)),
            ("[NaN, Infinity,-Infinity]", Some("[null, null,null]")),
            (r#"{"NaN \" NaN":NaN}"#, Some(r#"{"NaN \" NaN":null}"#)),
            ("", None),
            ("{", None),
            ("[-NaN]", None),
            ("\"NaN", None),
        ] {
            let response = Response { body: body.into(), ..json(Vec::new()) };
            let checked = checked(response, Stage::PostInference).map(|response| response.body);
            assert_eq!(checked.ok().as_deref(), expected.map(str::as_bytes), "{body}");
        }
    }

    #[test]
    fn other_types_pass_untouched() {
        let response =
            Response { content_type: "text/plain".to_owned(), body: "NaN".into(), ..json(Vec::new()) };
        assert_eq!(checked(response, Stage::PostInference).unwrap().body, "NaN");
    }
}
