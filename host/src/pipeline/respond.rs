//! The last look at a response before it leaves.
//!
//! Place in the flow: after `post-inference`, or after the stage that a handler answered from.
//! Invariant: a response that says it is JSON is valid JSON. Several languages write `NaN` and `Infinity`,
//! which JSON does not have; they become `null`.

use bytes::Bytes;

use crate::blocking;
use crate::error::{Code, RequestError, Stage};
use crate::json::cursor::Cursor;
use crate::json::{special, write};
use crate::request::{Output, Response, is_json_type};

/// A 200 with a JSON body that this host wrote itself.
pub fn json(body: Vec<u8>) -> Response {
    Response {
        status: 200,
        content_type: "application/json".to_owned(),
        headers: Vec::new(),
        body: body.into(),
    }
}

/// An output as a response, by a protocol that has no tensors.
pub fn of_output(output: Output) -> Response {
    match output {
        Output::Response(response) => response,
        Output::Streamed { status } => Response::bare(status),
        Output::Tensors(tensors) => json(write::outputs(&tensors)),
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
    // No content: 204 and 304 have no body, for any type. What is compressed cannot be looked into; an
    // endpoint has to grant that.
    if !is_json_type(&response.content_type)
        || is_compressed(&response)
        || response.body.is_empty() && matches!(response.status, 204 | 304)
        || is_valid(&response.body)
    {
        return Ok(response);
    }
    let mended = special::nulled(&response.body);
    if !is_valid(&mended) {
        let message = "the handler returned a body that is not JSON, with a content type that says it is";
        return Err(RequestError::new(Code::PluginBadOutput, stage, message));
    }
    response.body = Bytes::from(mended.into_owned());
    Ok(response)
}

fn is_valid(body: &[u8]) -> bool {
    Cursor::proven(body).is_some()
}

fn is_compressed(response: &Response) -> bool {
    response.headers.iter().any(|(name, coding)| {
        name.eq_ignore_ascii_case("content-encoding") && !coding.trim().eq_ignore_ascii_case("identity")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_stays_or_becomes_valid() {
        for (body, expected) in [
            (&br#"{"a":1}"#[..], Some(&br#"{"a":1}"#[..])),
            (b"[NaN, Infinity,-Infinity]", Some(b"[null, null,null]")),
            (br#"{"NaN \" NaN":NaN}"#, Some(br#"{"NaN \" NaN":null}"#)),
            ("{\"a\":\"é\"}".as_bytes(), Some("{\"a\":\"é\"}".as_bytes())),
            (b"", None),
            (b"{", None),
            (b"[-NaN]", None),
            (b"\"NaN", None),
            (b"{\"a\":\"\xff\"}", None),
            (b"{\"\xff\":NaN}", None),
            (b"\xef\xbb\xbf{}", None),
        ] {
            for content_type in [
                "application/json",
                "Application/JSON; charset=utf-8",
                " text/json",
                "application/geo+json;x",
            ] {
                let content_type = content_type.to_owned();
                let response = Response { body: body.into(), content_type, ..json(Vec::new()) };
                let checked = checked(response, Stage::PostInference).map(|response| response.body);
                assert_eq!(checked.ok().as_deref(), expected, "{}", String::from_utf8_lossy(body));
            }
        }
    }

    #[test]
    fn other_types_pass_untouched() {
        for content_type in
            ["text/plain", "application/x-ndjson", "application/json5", "text/plain; a=application/json", ""]
        {
            let response =
                Response { content_type: content_type.to_owned(), body: "NaN".into(), ..json(Vec::new()) };
            assert_eq!(checked(response, Stage::PostInference).unwrap().body, "NaN", "{content_type}");
        }
    }

    #[test]
    fn what_is_compressed_is_not_looked_into() {
        for (coding, expected) in [("gzip", Some("NaN")), ("identity", Some("null"))] {
            let headers = vec![("Content-Encoding".to_owned(), coding.to_owned())];
            let response = Response { headers, body: "NaN".into(), ..json(Vec::new()) };
            let checked = checked(response, Stage::PostInference).ok().map(|response| response.body);
            assert_eq!(checked.as_deref(), expected.map(str::as_bytes), "{coding}");
        }
    }
}
