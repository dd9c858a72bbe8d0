//! The body that came in and the response that goes out.
//!
//! Both are the contract's own records, so their fields are public and everything here is a convenience.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::media_type::Parameterised;
use crate::{Error, Part, Response, Result, Sample, internal, invalid, multipart};

/// Most fields of a form.
const MAX_FIELDS: usize = 1000;

impl Sample {
    /// A body, for tests.
    pub fn new(content_type: impl Into<String>, body: impl Into<Vec<u8>>) -> Sample {
        Sample { content_type: content_type.into(), body: body.into() }
    }

    /// The body as JSON, with any content type. `T` may borrow from the body.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] that says what is wrong and where: `malformed json: …`, ``missing field
    /// `width` ``, `` `boxes[2].width`: invalid type: string "abc", expected f32 …``. A byte order mark is
    /// no JSON.
    pub fn json<'a, T: Deserialize<'a>>(&'a self) -> Result<T> {
        serde_json::from_slice(&self.body).map_err(|error| match self.without_json() {
            Some(text) => invalid(format!("malformed json: the body {text}")),
            None => explain::<T>(&self.body, error),
        })
    }

    /// The reason why the body has no JSON at all, where that is plain.
    fn without_json(&self) -> Option<&'static str> {
        if self.body.trim_ascii().is_empty() {
            return Some("is empty");
        }
        self.body.starts_with(b"\xef\xbb\xbf").then_some("begins with a byte order mark")
    }

    /// The body as text, by the `charset` of its content type: UTF-8 if there is none, or US-ASCII or
    /// ISO-8859-1. Borrowed unless it had to be converted.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for another charset, and for bytes that are no text in this one.
    pub fn text(&self) -> Result<Cow<'_, str>> {
        let charset = Parameterised::new(&self.content_type).parameter("charset").unwrap_or("utf-8".into());
        match charset.to_ascii_lowercase().as_str() {
            "utf-8" | "utf8" => Ok(std::str::from_utf8(&self.body)?.into()),
            "us-ascii" | "ascii" => match self.body.iter().position(|byte| !byte.is_ascii()) {
                Some(index) => Err(invalid(format!("invalid us-ascii: byte {index} is not within 0 to 127"))),
                None => Ok(String::from_utf8_lossy(&self.body)),
            },
            // Its bytes are the first 256 characters of Unicode.
            "iso-8859-1" | "latin-1" | "latin1" => {
                Ok(self.body.iter().map(|byte| char::from(*byte)).collect())
            }
            other => {
                let other: String = other.chars().take(40).collect();
                Err(invalid(format!("unknown charset `{other}`, expected utf-8, us-ascii or iso-8859-1")))
            }
        }
    }

    /// The fields of an `application/x-www-form-urlencoded` body, names and values, in order. What is no
    /// UTF-8 in them is replaced by U+FFFD, as in a browser.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for more than 1000 fields; another content type is answered with 415.
    pub fn form(&self) -> Result<Vec<(Cow<'_, str>, Cow<'_, str>)>> {
        self.expect("application/x-www-form-urlencoded")?;
        let fields: Vec<_> = form_urlencoded::parse(&self.body).take(MAX_FIELDS + 1).collect();
        if fields.len() > MAX_FIELDS {
            return Err(invalid(format!("more than {MAX_FIELDS} fields")));
        }
        Ok(fields)
    }

    /// The parts of a `multipart/form-data` body, in order. They borrow from it: a file is not copied.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a body that does not keep to RFC 7578, has more than 1000 parts, or more
    /// than 8 KiB of headers in one of them; another content type is answered with 415.
    pub fn multipart(&self) -> Result<Vec<Part<'_>>> {
        let boundary = self.expect("multipart/form-data")?.parameter("boundary");
        let boundary =
            boundary.ok_or_else(|| invalid("malformed multipart: the content type has no boundary"))?;
        multipart::parts(&self.body, &boundary)
    }

    fn expect(&self, essence: &str) -> Result<Parameterised<'_>> {
        let content_type = Parameterised::new(&self.content_type);
        if content_type.is(essence) {
            return Ok(content_type);
        }
        let got: String = content_type.essence.chars().take(40).collect();
        Err(Error::UnsupportedMediaType(format!("expected `{essence}`, got `{got}`")))
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
    /// `content-type`, and unless the endpoint grants them those that speak for the whole server, such as
    /// `set-cookie`.
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
        assert_eq!(complaint(" "), "malformed json: the body is empty");
        assert_eq!(complaint("\u{feff}{}"), "malformed json: the body begins with a byte order mark");
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
        assert!(matches!(sample.text(), Ok(Cow::Borrowed("\"setosa\""))));
    }

    #[test]
    fn text_is_read_by_its_charset() {
        let text = |content_type: &str, body: &[u8]| match Sample::new(content_type, body).text() {
            Ok(text) => text.into_owned(),
            Err(error) => error.to_string(),
        };
        for (content_type, body, expected) in [
            ("", &b"h\xc3\xa9"[..], "hé"),
            ("text/plain; charset=UTF-8", b"h\xc3\xa9", "hé"),
            ("text/plain; charset=utf8", b"\xe9", "incomplete utf-8 byte sequence from index 0"),
            ("text/plain; charset=latin-1", b"\xe9", "é"),
            ("text/plain; Charset=\"ISO-8859-1\"", b"h\xe9\x80", "hé\u{80}"),
            ("text/plain; charset=us-ascii", b"hello", "hello"),
            ("text/plain; charset=ascii", b"h\xe9", "invalid us-ascii: byte 1 is not within 0 to 127"),
            (
                "text/plain; charset=utf-16",
                b"",
                "unknown charset `utf-16`, expected utf-8, us-ascii or iso-8859-1",
            ),
        ] {
            assert_eq!(text(content_type, body), expected, "{content_type}");
        }
    }

    #[test]
    fn forms() {
        let form = |body: &str| Sample::new("application/x-www-form-urlencoded; charset=utf-8", body);
        let field = |name: &str, value: &str| (Cow::from(name.to_owned()), Cow::from(value.to_owned()));
        let sample = form("a=1&b=h%C3%A9+%26&a=&c&%FF=x");
        let fields =
            [field("a", "1"), field("b", "hé &"), field("a", ""), field("c", ""), field("\u{fffd}", "x")];
        assert_eq!(sample.form().as_deref(), Ok(fields.as_slice()));
        assert_eq!(form("a&".repeat(1000).as_str()).form().map(|fields| fields.len()), Ok(1000));
        assert_eq!(form("a&".repeat(1001).as_str()).form().unwrap_err(), invalid("more than 1000 fields"));
        let other = Sample::new("text/plain; x=1", "a=1");
        let refused = Error::UnsupportedMediaType(
            "expected `application/x-www-form-urlencoded`, got `text/plain`".into(),
        );
        assert_eq!(other.form().unwrap_err(), refused);
    }

    #[test]
    fn forms_with_files() {
        let body =
            "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"x\"\r\n\r\nhello\r\n--b--\r\n";
        let sample = Sample::new("Multipart/Form-Data; boundary=\"b\"", body);
        let parts = sample.multipart().unwrap();
        let found = (&*parts[0].name, parts[0].filename.as_deref(), parts[0].content_type, parts[0].body);
        assert_eq!((found, parts.len()), (("f", Some("x"), "text/plain", &b"hello"[..]), 1));
        let error = |content_type: &str| Sample::new(content_type, body).multipart().unwrap_err().to_string();
        assert_eq!(error("multipart/form-data"), "malformed multipart: the content type has no boundary");
        assert_eq!(
            error("multipart/mixed; boundary=b"),
            "expected `multipart/form-data`, got `multipart/mixed`"
        );
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
