//! The request around the body, and its stand-in for native tests.
//!
//! In a component [`Context`] is the host's resource under another name; every question is one call to the
//! host and costs nothing that was not asked for. Natively there is no host, so the same methods answer from
//! what a test put into a [`ContextBuilder`].

use serde::de::DeserializeOwned;

use crate::{Error, Result, Sample, Signature, internal, message::explain};

#[cfg(target_family = "wasm")]
use crate::bindings::types::Context as Source;
#[cfg(not(target_family = "wasm"))]
use native::Source;

#[cfg(not(target_family = "wasm"))]
pub use native::ContextBuilder;

/// The request being served. Nothing is fetched from the host that is not asked for.
#[derive(Debug)]
#[repr(transparent)]
pub struct Context(Source);

impl Context {
    /// The host's resource, seen as a `Context`.
    #[cfg(target_family = "wasm")]
    #[expect(
        unsafe_code,
        reason = "a borrow of a transparent wrapper; the alternative is a lifetime in the name"
    )]
    pub(crate) fn from_host(source: &Source) -> &Context {
        // SAFETY: `Context` is `repr(transparent)` over `Source`, and the lifetime stays the same.
        unsafe { &*std::ptr::from_ref(source).cast::<Context>() }
    }

    /// From `x-request-id`, or made by the host. At most 128 visible ASCII characters.
    pub fn request_id(&self) -> String {
        self.0.request_id()
    }

    /// Upper case: `POST`.
    pub fn method(&self) -> String {
        self.0.method()
    }

    /// Without the query: `/iris`.
    pub fn path(&self) -> String {
        self.0.path()
    }

    /// Without the question mark; empty if there is none.
    pub fn query(&self) -> String {
        self.0.query()
    }

    /// The header's value. Several lines of one name are one value, joined by `, `, those of `cookie` by
    /// `; `; bytes above 0x7F are characters of ISO-8859-1. Names match in any case; without a header of
    /// that name, `-` and `_` count as the same. `:scheme` is `http` or `https`.
    pub fn header(&self, name: &str) -> Option<String> {
        self.0.header(name)
    }

    /// The request's body again, so that `post_inference` can see it. Copies it from the host.
    pub fn sample(&self) -> Sample {
        self.0.sample()
    }

    /// The model's inputs and outputs; both empty when the endpoint has no model.
    pub fn signature(&self) -> Signature {
        self.0.signature()
    }

    /// The endpoint's `metadata` from the configuration, as a type.
    ///
    /// Metadata cannot change during the life of an instance, so read it once and keep it in the handler.
    /// Where the configuration has none it is `null`: read an `Option` if that is fine.
    ///
    /// # Errors
    /// [`Error::Internal`] if it does not have the form of `T`: only the operator can mend that.
    pub fn metadata<T: DeserializeOwned>(&self) -> Result<T> {
        Metadata::new(self.metadata_text()).parse()
    }

    /// The endpoint's `metadata` as JSON text; `null` if the configuration has none.
    pub fn metadata_text(&self) -> String {
        self.0.metadata()
    }

    /// The `parameters` of a request of the Open Inference Protocol, as a type; an empty object if it has
    /// none.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] if they do not have the form of `T`.
    pub fn parameters<T: DeserializeOwned>(&self) -> Result<T> {
        let text = self.0.parameters();
        serde_json::from_str(&text).map_err(|error| explain::<T>(text.as_bytes(), error))
    }
}

/// The endpoint's `metadata` from the configuration, where there is no request: in
/// [`Handler::init`](crate::Handler::init).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata(String);

impl Metadata {
    /// From JSON text; for native tests.
    pub fn new(text: impl Into<String>) -> Metadata {
        Metadata(text.into())
    }

    /// JSON text; `null` if the configuration has none.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The metadata as a type. Where the configuration has none it is `null`: read an `Option` if that is
    /// fine.
    ///
    /// # Errors
    /// [`Error::Internal`] if it does not have the form of `T`: only the operator can mend that.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_str(&self.0).map_err(|error| match explain::<T>(self.0.as_bytes(), error) {
            Error::InvalidInput(why) => internal(format!("the endpoint's metadata: {why}")),
            other => other,
        })
    }
}

#[cfg(not(target_family = "wasm"))]
mod native {
    use serde::Serialize;

    use super::Context;
    use crate::{Sample, Signature};

    /// The host's part of a context; the methods have the names of the generated ones.
    #[derive(Debug, Clone)]
    pub(super) struct Source {
        request_id: String,
        method: String,
        path: String,
        query: String,
        headers: Vec<(String, String)>,
        sample: Sample,
        signature: Signature,
        metadata: String,
        parameters: String,
    }

    impl Source {
        pub(super) fn request_id(&self) -> String {
            self.request_id.clone()
        }

        pub(super) fn method(&self) -> String {
            self.method.clone()
        }

        pub(super) fn path(&self) -> String {
            self.path.clone()
        }

        pub(super) fn query(&self) -> String {
            self.query.clone()
        }

        pub(super) fn header(&self, name: &str) -> Option<String> {
            let find = |is_it: &dyn Fn(&str) -> bool| self.headers.iter().find(|(other, _)| is_it(other));
            let dashed = |name: &str| name.replace('_', "-").to_ascii_lowercase();
            let found = find(&|other| other.eq_ignore_ascii_case(name));
            found.or_else(|| find(&|other| dashed(other) == dashed(name))).map(|(_, value)| value.clone())
        }

        pub(super) fn sample(&self) -> Sample {
            self.sample.clone()
        }

        pub(super) fn signature(&self) -> Signature {
            self.signature.clone()
        }

        pub(super) fn metadata(&self) -> String {
            self.metadata.clone()
        }

        pub(super) fn parameters(&self) -> String {
            self.parameters.clone()
        }
    }

    /// A request for a native unit test, made by [`Context::builder`]. Exists outside components only.
    ///
    /// Unless told otherwise: `POST /`, id `test`, no query, headers, body, model or metadata.
    #[derive(Debug, Clone)]
    #[must_use]
    pub struct ContextBuilder(Source);

    impl Context {
        /// A request for a native unit test. Exists outside components only.
        pub fn builder() -> ContextBuilder {
            ContextBuilder(Source {
                request_id: "test".into(),
                method: "POST".into(),
                path: "/".into(),
                query: String::new(),
                headers: Vec::new(),
                sample: Sample::new("", Vec::new()),
                signature: Signature { inputs: Vec::new(), outputs: Vec::new() },
                metadata: "null".into(),
                parameters: "{}".into(),
            })
        }
    }

    #[expect(clippy::expect_used, reason = "a test's own literal")]
    fn json(value: &impl Serialize) -> String {
        serde_json::to_string(value).expect("a value that JSON can hold")
    }

    impl ContextBuilder {
        /// Sets [`Context::request_id`].
        pub fn request_id(mut self, id: impl Into<String>) -> Self {
            self.0.request_id = id.into();
            self
        }

        /// Sets [`Context::method`].
        pub fn method(mut self, method: impl Into<String>) -> Self {
            self.0.method = method.into();
            self
        }

        /// Sets [`Context::path`].
        pub fn path(mut self, path: impl Into<String>) -> Self {
            self.0.path = path.into();
            self
        }

        /// Sets [`Context::query`].
        pub fn query(mut self, query: impl Into<String>) -> Self {
            self.0.query = query.into();
            self
        }

        /// Adds a header for [`Context::header`].
        pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
            self.0.headers.push((name.into(), value.into()));
            self
        }

        /// Sets [`Context::sample`].
        pub fn sample(mut self, sample: Sample) -> Self {
            self.0.sample = sample;
            self
        }

        /// Sets the body, and the header that names its type.
        pub fn body(self, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
            self.header("content-type", content_type).sample(Sample::new(content_type, body))
        }

        /// Sets [`Context::signature`].
        pub fn signature(mut self, signature: Signature) -> Self {
            self.0.signature = signature;
            self
        }

        /// Sets [`Context::metadata`]: `serde_json::json!({"labels": ["a", "b"]})`.
        ///
        /// # Panics
        /// If `metadata` cannot be written as JSON.
        pub fn metadata(mut self, metadata: impl Serialize) -> Self {
            self.0.metadata = json(&metadata);
            self
        }

        /// Sets [`Context::parameters`].
        ///
        /// # Panics
        /// If `parameters` cannot be written as JSON.
        pub fn parameters(mut self, parameters: impl Serialize) -> Self {
            self.0.parameters = json(&parameters);
            self
        }

        /// The finished request.
        pub fn build(self) -> Context {
            Context(self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Datatype, TensorSpec};

    #[test]
    fn the_stand_in_answers_what_it_was_given() {
        let sample = Sample::new("text/plain", "hello");
        let input = TensorSpec { name: "input".into(), datatype: Datatype::Fp32, shape: vec![-1, 4] };
        let signature = Signature { inputs: vec![input], outputs: Vec::new() };
        let context = Context::builder()
            .request_id("r-1")
            .method("PUT")
            .path("/iris")
            .query("a=1")
            .header("X-Test", "first")
            .header("x-test", "second")
            .sample(sample.clone())
            .signature(signature.clone())
            .metadata(json!({"labels": ["a"]}))
            .build();
        assert_eq!(context.request_id(), "r-1");
        assert_eq!(context.method(), "PUT");
        assert_eq!(context.path(), "/iris");
        assert_eq!(context.query(), "a=1");
        assert_eq!(context.header("x-TEST").as_deref(), Some("first"));
        assert_eq!(context.header("X_Test").as_deref(), Some("first"));
        assert_eq!(context.header("absent"), None);
        assert_eq!(context.sample(), sample);
        assert_eq!(context.signature(), signature);
        assert_eq!(context.metadata_text(), r#"{"labels":["a"]}"#);
        assert_eq!(context.parameters(), Ok(json!({})));
        let context = Context::builder().parameters(json!({"top": 3})).build();
        assert_eq!(context.parameters(), Ok(json!({"top": 3})));
    }

    #[test]
    fn metadata_is_typed_and_the_operators_to_mend() {
        #[derive(Debug, PartialEq, serde::Deserialize)]
        struct Labels {
            labels: Vec<String>,
        }
        let none = Context::builder().build();
        assert_eq!(none.metadata::<Option<Labels>>(), Ok(None));

        let wrong = Context::builder().metadata(json!({"labels": ["a", 2]})).build();
        assert_eq!(
            wrong.metadata::<Labels>().unwrap_err(),
            internal(
                "the endpoint's metadata: `labels[1]`: invalid type: integer `2`, expected a string at line 1 column 16"
            ),
        );
    }
}
