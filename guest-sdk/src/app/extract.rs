//! The arguments of a route's function, read from the request.

use std::ops::Range;
use std::str::FromStr;

use serde::de::DeserializeOwned;

use super::{Operation, Output, Request};
use crate::{Part, Result, Sample, internal, invalid};

/// An argument of a route's function. Each takes its part out of the request, in the order of the arguments.
pub trait FromRequest: Sized {
    /// Reads it.
    ///
    /// # Errors
    /// [`Error::InvalidInput`](crate::Error::InvalidInput) for what the caller has to mend.
    fn from_request(request: &mut Request<'_>) -> Result<Self>;

    /// Says what it takes of a request.
    fn describe(operation: &mut Operation) {
        let _ = operation;
    }
}

/// JSON: of the body, or as a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Json<T>(pub T);

/// The query as a type: `?top=3&label=cat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query<T>(pub T);

/// The next parameter of the path, decoded: a number, a string, or anything else that is written as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path<T>(pub T);

/// The fields of a form, `application/x-www-form-urlencoded`, as a type. Another content type is answered
/// with 415.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Form<T>(pub T);

/// A form with files, `multipart/form-data`: at most 1000 parts, 8 KiB of headers in each. Another content
/// type is answered with 415.
///
/// ```
/// use modelhost_guest::Result;
/// use modelhost_guest::app::{Json, Multipart};
///
/// # struct App;
/// fn classify(_: &mut App, form: Multipart) -> Result<Json<(String, usize)>> {
///     let photo = form.file("photo")?;
///     Ok(Json((form.field("title")?.to_owned(), photo.body.len())))
/// }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Multipart {
    sample: Sample,
    parts: Vec<Owned>,
}

/// A part of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Owned {
    name: String,
    filename: Option<String>,
    content_type: String,
    body: Range<usize>,
}

impl Multipart {
    /// Reads a body.
    ///
    /// # Errors
    /// As [`Sample::multipart`].
    pub fn read(sample: Sample) -> Result<Multipart> {
        let begin = sample.body.as_ptr().addr();
        let owned = |part: Part<'_>| {
            let start = part.body.as_ptr().addr().saturating_sub(begin);
            Owned {
                name: part.name.into_owned(),
                filename: part.filename.map(Into::into),
                content_type: part.content_type.to_owned(),
                body: start..start + part.body.len(),
            }
        };
        let parts = sample.multipart()?.into_iter().map(owned).collect();
        Ok(Multipart { sample, parts })
    }

    /// All parts, in order.
    pub fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        self.parts.iter().map(|part| Part {
            name: part.name.as_str().into(),
            filename: part.filename.as_deref().map(Into::into),
            content_type: &part.content_type,
            body: self.sample.body.get(part.body.clone()).unwrap_or_default(),
        })
    }

    /// The text of the first field of this name.
    ///
    /// # Errors
    /// [`Error::InvalidInput`](crate::Error::InvalidInput) if there is none, or it is not UTF-8.
    pub fn field(&self, name: &str) -> Result<&str> {
        let found = self.parts.iter().find(|part| part.name == name && part.filename.is_none());
        let found = found.ok_or_else(|| invalid(format!("missing field `{name}`")))?;
        let body = self.sample.body.get(found.body.clone()).unwrap_or_default();
        std::str::from_utf8(body).map_err(|_| invalid(format!("the part `{name}` is not UTF-8")))
    }

    /// The first file of this name.
    ///
    /// # Errors
    /// [`Error::InvalidInput`](crate::Error::InvalidInput) if there is none.
    pub fn file(&self, name: &str) -> Result<Part<'_>> {
        let found = self.parts().find(|part| part.name == name && part.filename.is_some());
        found.ok_or_else(|| invalid(format!("missing file `{name}`")))
    }
}

impl<T: DeserializeOwned> FromRequest for Form<T> {
    fn from_request(request: &mut Request<'_>) -> Result<Self> {
        request.sample.form()?;
        let fields = serde_urlencoded::from_bytes(&request.sample.body);
        fields.map(Form).map_err(|error| invalid(format!("the form: {error}")))
    }

    fn describe(operation: &mut Operation) {
        operation.consumes = "application/x-www-form-urlencoded".to_owned();
    }
}

impl FromRequest for Multipart {
    fn from_request(request: &mut Request<'_>) -> Result<Self> {
        Multipart::read(Sample::from_request(request)?)
    }

    fn describe(operation: &mut Operation) {
        operation.consumes = "multipart/form-data".to_owned();
    }
}

impl<T: DeserializeOwned> FromRequest for Json<T> {
    fn from_request(request: &mut Request<'_>) -> Result<Self> {
        request.sample.json().map(Json)
    }

    fn describe(operation: &mut Operation) {
        operation.consumes = "application/json".to_owned();
    }
}

impl<T: DeserializeOwned> FromRequest for Query<T> {
    fn from_request(request: &mut Request<'_>) -> Result<Self> {
        let query = request.context.query();
        serde_urlencoded::from_str(&query).map(Query).map_err(|error| invalid(format!("the query: {error}")))
    }
}

impl<T: FromStr> FromRequest for Path<T> {
    fn from_request(request: &mut Request<'_>) -> Result<Self> {
        let missing = || internal("the route's path has fewer parameters than its function takes");
        let text = request.parameters.next().ok_or_else(missing)?;
        let shown: String = text.chars().take(40).collect();
        text.parse()
            .map(Path)
            .map_err(|_| invalid(format!("`{shown}` in the path is not what is expected there")))
    }
}

/// The body as it came. Taken once.
impl FromRequest for Sample {
    fn from_request(request: &mut Request<'_>) -> Result<Self> {
        Ok(std::mem::replace(&mut request.sample, Sample::new("", Vec::new())))
    }

    fn describe(operation: &mut Operation) {
        operation.consumes = "*/*".to_owned();
    }
}

impl FromRequest for Output {
    fn from_request(request: &mut Request<'_>) -> Result<Self> {
        request.output()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::app::{Router, answer};
    use crate::{Context, Error, Handler};

    struct App;

    static ROUTES: std::sync::LazyLock<Router<App>> =
        std::sync::LazyLock::new(|| Router::new().post("/form", form).post("/files", files));

    fn form(_: &mut App, Form(fields): Form<HashMap<String, String>>) -> Json<HashMap<String, String>> {
        Json(fields)
    }

    fn files(_: &mut App, form: Multipart) -> Result<String> {
        let file = form.file("f")?;
        let name = file.filename.unwrap_or_default();
        Ok(format!("{} {name} {} {}", form.field("t")?, file.body.len(), form.parts().count()))
    }

    impl Handler for App {
        fn new() -> App {
            App
        }

        fn router() -> Option<&'static Router<App>> {
            Some(&ROUTES)
        }
    }

    #[test]
    fn forms_are_arguments() {
        let ask = |path: &str, kind: &str, body: &str| match answer(
            &mut App,
            Context::builder().path(path).body(kind, body),
        ) {
            Ok(answer) => answer.text().to_owned(),
            Err(Error::UnsupportedMediaType(_)) => "415".to_owned(),
            Err(error) => error.to_string(),
        };
        let kind = "multipart/form-data; boundary=b";
        let field = "--b\r\ncontent-disposition: form-data; name=t\r\n\r\nhé\r\n";
        let file = "--b\r\ncontent-disposition: form-data; name=f; filename=x\r\n\r\n12\r\n";
        assert_eq!(ask("/files", kind, &format!("{field}{file}--b--")), "hé x 2 2");
        assert_eq!(ask("/files", kind, &format!("{file}--b--")), "missing field `t`");
        assert_eq!(ask("/files", kind, &format!("{field}--b--")), "missing file `f`");
        assert_eq!(ask("/files", "text/plain", ""), "415");
        assert_eq!(ask("/form", "application/x-www-form-urlencoded", "a=b+c"), r#"{"a":"b c"}"#);
        assert_eq!(ask("/form", "application/json", "{}"), "415");
    }
}
