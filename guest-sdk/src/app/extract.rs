//! The arguments of a route's function, read from the request.

use std::str::FromStr;

use serde::de::DeserializeOwned;

use super::{Operation, Output, Request};
use crate::{Result, Sample, internal, invalid};

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
