//! Why a handler does not go on, and what `?` makes of other crates' errors.
//!
//! The rule for `?`: what can only come from the request's body is the caller's to mend (`invalid-input`),
//! all the rest is not (`internal`). Where that guess is wrong, `map_err` with [`invalid`] or [`internal`]
//! says so.

use std::fmt;

use serde::Serialize;

#[cfg(any(test, target_family = "wasm"))]
use crate::bindings::types;
use crate::{Context, Response, TensorError};

/// The result of a handler's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a handler does not go on. To return one is normal; a panic is a defect, and costs the instance.
#[derive(Debug, Clone, PartialEq)]
pub enum Error {
    /// The caller sent something unusable: 400 `invalid_input`. The caller reads the text: no secrets.
    InvalidInput(String),
    /// The handler cannot do its job: 500 `plugin_error`. The text goes to the host's log only.
    Internal(String),
    /// The body is of another type than the one that is asked for: 415 `unsupported_media_type`. The caller
    /// reads the text.
    UnsupportedMediaType(String),
    /// Answer with this response now and skip the stages that are left. Any status: a cache hit is a 200.
    Respond(Response),
}

/// The caller has to mend the request: `return Err(invalid("sepal_length must be positive"))`.
pub fn invalid(text: impl Into<String>) -> Error {
    Error::InvalidInput(text.into())
}

/// The caller cannot mend it: `file.ok_or_else(|| internal("labels.txt is missing"))`.
pub fn internal(text: impl Into<String>) -> Error {
    Error::Internal(text.into())
}

/// An error in the form of the host's own.
pub(crate) fn refusal(context: &Context, status: u16, code: &str, text: &str) -> Result<Response> {
    #[derive(Serialize)]
    struct Body<'a> {
        error: &'a str,
        code: &'a str,
        stage: &'a str,
        request_id: String,
    }
    let body = Body { error: text, code, stage: "pre_inference", request_id: context.request_id() };
    Ok(Response::json(&body)?.status(status))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::InvalidInput(text) | Error::Internal(text) | Error::UnsupportedMediaType(text) => {
                f.write_str(text)
            }
            Error::Respond(response) => write!(f, "the handler answered with status {}", response.status),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(any(test, target_family = "wasm"))]
impl Error {
    /// The contract's error, for the request of a context.
    pub(crate) fn told(self, context: &Context) -> types::Error {
        match self {
            Error::InvalidInput(text) => types::Error::InvalidInput(text),
            Error::Internal(text) => types::Error::Internal(text),
            Error::Respond(response) => types::Error::Respond(response),
            Error::UnsupportedMediaType(text) => {
                match refusal(context, 415, "unsupported_media_type", &text) {
                    Ok(response) => types::Error::Respond(response),
                    Err(error) => types::Error::Internal(error.to_string()),
                }
            }
        }
    }
}

impl From<Response> for Error {
    fn from(response: Response) -> Self {
        Error::Respond(response)
    }
}

/// JSON is nearly always the request's; [`Context::metadata`](crate::Context::metadata) and
/// [`Response::json`](crate::Response::json) map their own.
impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        if error.is_syntax() || error.is_eof() {
            return invalid(format!("malformed json: {error}"));
        }
        invalid(error.to_string())
    }
}

/// Text is nearly always the request's.
impl From<std::str::Utf8Error> for Error {
    fn from(error: std::str::Utf8Error) -> Self {
        invalid(error.to_string())
    }
}

/// Text is nearly always the request's.
impl From<std::string::FromUtf8Error> for Error {
    fn from(error: std::string::FromUtf8Error) -> Self {
        error.utf8_error().into()
    }
}

/// Files are the project's, not the caller's.
impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        internal(error.to_string())
    }
}

/// A tensor comes from the model, so a view that does not fit is a mismatch of handler and model.
impl From<TensorError> for Error {
    fn from(error: TensorError) -> Self {
        internal(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn question_mark_blames_the_right_side() {
        fn json(text: &str) -> Result<f32> {
            Ok(serde_json::from_str(text)?)
        }
        fn text(bytes: &[u8]) -> Result<&str> {
            Ok(std::str::from_utf8(bytes)?)
        }
        fn file() -> Result<String> {
            Ok(std::fs::read_to_string("no/such/file")?)
        }
        assert_eq!(
            json("1x").unwrap_err(),
            invalid("malformed json: trailing characters at line 1 column 2"),
        );
        assert_eq!(
            json("").unwrap_err().to_string(),
            "malformed json: EOF while parsing a value at line 1 column 0"
        );
        assert_eq!(
            json("\"abc\"").unwrap_err(),
            invalid("invalid type: string \"abc\", expected f32 at line 1 column 5"),
        );
        assert!(matches!(text(b"\xff").unwrap_err(), Error::InvalidInput(_)));
        assert!(matches!(file().unwrap_err(), Error::Internal(_)));
    }

    #[test]
    fn a_response_is_an_early_answer() {
        let teapot = Response::text("teapot").status(418);
        let error = Error::from(teapot.clone());
        assert_eq!(error.to_string(), "the handler answered with status 418");
        assert_eq!(error, Error::Respond(teapot));
    }
    /// The id of the request is known where the error leaves the handler.
    #[test]
    fn a_body_of_another_type_is_answered_as_other_refusals_are() {
        let context = Context::builder().request_id("r-1").build();
        let told = Error::UnsupportedMediaType("expected `a/b`".to_owned()).told(&context);
        let types::Error::Respond(response) = told else { panic!("{told:?}") };
        let expected = concat!(
            r#"{"error":"expected `a/b`","code":"unsupported_media_type","#,
            r#""stage":"pre_inference","request_id":"r-1"}"#
        );
        assert_eq!((response.status, response.body.as_slice()), (415, expected.as_bytes()));
    }
}
