//! The body that came in and the response that goes out.
//!
//! Both are the contract's own records, so their fields are public and everything here is a convenience.

use serde::{Deserialize, Serialize};

use crate::{Error, Response, Result, Sample, internal, invalid};

impl Sample {
    /// A body, for tests.
    pub fn new(content_type: impl Into<String>, body: impl Into<Vec<u8>>) -> Sample {
        Sample { content_type: content_type.into(), body: body.into() }
    }

    /// The body as JSON, whatever its content type says. `T` may borrow from the body.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] that says what is wrong and where: `malformed json: …`, ``missing field `width` ``,
    /// `` `boxes[2].width`: invalid type: string "abc", expected f32 …``.
    pub fn json<'a, T: Deserialize<'a>>(&'a self) -> Result<T> {
        serde_json::from_slice(&self.body).map_err(|error| explain::<T>(&self.body, error))
    }

    /// The body as text.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] if it is not UTF-8.
    pub fn text(&self) -> Result<&str> {
        Ok(std::str::from_utf8(&self.body)?)
    }
}

/// Adds the place inside the document to an error about its contents.
///
/// The document is read a second time to find the place, so that requests in good order do not pay for it.
#[cold]
pub(crate) fn explain<'a, T: Deserialize<'a>>(body: &'a [u8], error: serde_json::Error) -> Error {
    if !error.is_data() {
        return error.into();
    }
    let mut json = serde_json::Deserializer::from_slice(body);
    match serde_path_to_error::deserialize::<_, T>(&mut json) {
        Err(located) if located.path().iter().next().is_some() => {
            invalid(format!("`{}`: {}", located.path(), located.inner()))
        }
        _ => error.into(),
    }
}

impl Response {
    /// A response of any kind.
    pub fn new(status: u16, content_type: impl Into<String>, body: impl Into<Vec<u8>>) -> Response {
        Response { status, content_type: content_type.into(), headers: Vec::new(), body: body.into() }
    }

    /// 200 with `value` as JSON. NaN and infinities, which JSON does not have, become `null`.
    ///
    /// # Errors
    /// [`Error::Internal`] if `value` cannot be written as JSON: a map whose keys are no strings, say.
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<Response> {
        let body = serde_json::to_vec(value)
            .map_err(|error| internal(format!("the response is no json: {error}")))?;
        Ok(Response::new(200, "application/json", body))
    }

    /// 200 with plain text.
    pub fn text(text: impl Into<String>) -> Response {
        Response::new(200, "text/plain; charset=utf-8", text.into())
    }

    /// The same response with another status, 200 to 599.
    #[must_use]
    pub fn status(mut self, status: u16) -> Response {
        self.status = status;
        self
    }

    /// The same response with one more header. The host refuses hop-by-hop headers, `content-length` and
    /// `content-type`.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Response {
        self.headers.push((name.into(), value.into()));
        self
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only the errors matter")]
    struct Drawing {
        title: String,
        boxes: Vec<Rect>,
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only the errors matter")]
    struct Rect {
        width: f32,
    }

    fn complaint(body: &str) -> String {
        let sample = Sample::new("application/json", body);
        sample.json::<Drawing>().unwrap_err().to_string()
    }

    #[test]
    fn json_errors_say_what_and_where() {
        assert_eq!(complaint("{bad"), "malformed json: key must be a string at line 1 column 2");
        assert_eq!(complaint(""), "malformed json: EOF while parsing a value at line 1 column 0");
        assert_eq!(complaint(r#"{"boxes":[]}"#), "missing field `title` at line 1 column 12");
        assert_eq!(
            complaint(r#"{"title":"t","boxes":[{"width":1},{"width":"abc"}]}"#),
            "`boxes[1].width`: invalid type: string \"abc\", expected f32 at line 1 column 48",
        );
        assert_eq!(
            complaint(r#"{"title":"t","boxes":[{}]}"#),
            "`boxes[0]`: missing field `width` at line 1 column 24",
        );
    }

    #[test]
    fn text_may_borrow_from_the_body() {
        let sample = Sample::new("application/json", r#""setosa""#);
        assert_eq!(sample.json::<&str>(), Ok("setosa"));
        assert_eq!(sample.text(), Ok("\"setosa\""));
    }

    #[test]
    fn responses() {
        let nan = Response::json(&[1.5, f32::NAN, f32::INFINITY]).unwrap();
        assert_eq!(nan, Response::new(200, "application/json", "[1.5,null,null]"));

        let map = BTreeMap::from([(vec![1], 1)]);
        assert_eq!(
            Response::json(&map).unwrap_err(),
            Error::Internal("the response is no json: key must be a string".into()),
        );

        let text = Response::text("later").status(202).header("x-eta", "5");
        assert_eq!((text.status, text.headers.as_slice()), (202, [("x-eta".into(), "5".into())].as_slice()));
    }
}
