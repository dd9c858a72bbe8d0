//! Methods and paths to functions.

use percent_encoding::percent_decode_str;
use serde_json::json;

use super::{FromRequest, IntoReply, Reply, Request};
use crate::{Response, Result};

type Function<S> = Box<dyn Fn(&mut S, &mut Request<'_>) -> Result<Reply> + Send + Sync>;

/// Routes of an application whose state is `S`. The first one that fits a request serves it.
///
/// A path is written as it is asked for: `/items/{id}` has one parameter, which is one segment;
/// `/files/{*path}` has one that is all the rest. `HEAD` is served where `GET` is.
pub struct Router<S> {
    routes: Vec<(&'static str, &'static str, Function<S>)>,
    fallback: Option<Function<S>>,
}

/// A function that serves requests: of the state, and of anything that is read [from the
/// request](FromRequest).
pub trait Route<S, Arguments>: Send + Sync + 'static {
    /// Reads the arguments and calls the function.
    ///
    /// # Errors
    /// Those of the arguments and of the function.
    fn call(&self, state: &mut S, request: &mut Request<'_>) -> Result<Reply>;
}

macro_rules! routes {
    ($(($($argument:ident)*))+) => {$(
        impl<S, F, R, $($argument: FromRequest,)*> Route<S, ($($argument,)*)> for F
        where
            F: Fn(&mut S, $($argument),*) -> R + Send + Sync + 'static,
            R: IntoReply,
        {
            fn call(&self, state: &mut S, request: &mut Request<'_>) -> Result<Reply> {
                let _ = &request;
                self(state, $($argument::from_request(request)?),*).into_reply()
            }
        }
    )+};
}

routes! { () (A) (A B) (A B C) (A B C D) (A B C D E) }

impl<S: 'static> Default for Router<S> {
    fn default() -> Self {
        Router { routes: Vec::new(), fallback: None }
    }
}

impl<S: 'static> Router<S> {
    /// No routes: all that is asked for is not there.
    pub fn new() -> Router<S> {
        Router::default()
    }

    /// Serves requests of a method to a path.
    #[must_use]
    pub fn on<A: 'static>(
        mut self,
        method: &'static str,
        path: &'static str,
        function: impl Route<S, A>,
    ) -> Router<S> {
        let function = move |state: &mut S, request: &mut Request<'_>| function.call(state, request);
        self.routes.push((method, path, Box::new(function)));
        self
    }

    /// Serves `GET` and `HEAD`.
    #[must_use]
    pub fn get<A: 'static>(self, path: &'static str, function: impl Route<S, A>) -> Router<S> {
        self.on("GET", path, function)
    }

    /// Serves `POST`.
    #[must_use]
    pub fn post<A: 'static>(self, path: &'static str, function: impl Route<S, A>) -> Router<S> {
        self.on("POST", path, function)
    }

    /// Serves `PUT`.
    #[must_use]
    pub fn put<A: 'static>(self, path: &'static str, function: impl Route<S, A>) -> Router<S> {
        self.on("PUT", path, function)
    }

    /// Serves `DELETE`.
    #[must_use]
    pub fn delete<A: 'static>(self, path: &'static str, function: impl Route<S, A>) -> Router<S> {
        self.on("DELETE", path, function)
    }

    /// Serves what no route fits.
    #[must_use]
    pub fn fallback<A: 'static>(mut self, function: impl Route<S, A>) -> Router<S> {
        self.fallback = Some(Box::new(move |state, request| function.call(state, request)));
        self
    }

    /// Leads a request to its function. Without one the response is 404, or 405 with `allow` if the path is
    /// there for other methods.
    ///
    /// # Errors
    /// Those of the function.
    pub fn respond(&self, state: &mut S, mut request: Request<'_>) -> Result<Reply> {
        let (method, path) = (request.context.method(), request.context.path());
        let asked = if method == "HEAD" { "GET" } else { &method };
        let mut allowed = Vec::new();
        for (own, pattern, function) in &self.routes {
            if let Some(parameters) = parameters(pattern, &path) {
                if *own == asked || *own == method {
                    request.parameters = parameters.into_iter();
                    return function(state, &mut request);
                }
                allowed.push(*own);
            }
        }
        if allowed.is_empty() {
            return match &self.fallback {
                Some(function) => function(state, &mut request),
                None => refusal(404, "not_found", "there is nothing at this path")?.into_reply(),
            };
        }
        if allowed.contains(&"GET") {
            allowed.push("HEAD");
        }
        let response = refusal(405, "method_not_allowed", "the path is there for other methods")?;
        response.header("allow", allowed.join(", ")).into_reply()
    }
}

fn refusal(status: u16, code: &str, text: &str) -> Result<Response> {
    Ok(Response::json(&json!({"error": text, "code": code}))?.status(status))
}

/// The parameters of a path, decoded, if it fits the pattern.
fn parameters(pattern: &str, path: &str) -> Option<Vec<String>> {
    let decoded = |text: &str| percent_decode_str(text).decode_utf8().ok().map(String::from);
    let mut found = Vec::new();
    let (mut pattern, mut path) = (pattern, path);
    loop {
        let (own, rest) = next(pattern);
        let parameter = own.strip_prefix('{').and_then(|own| own.strip_suffix('}'));
        if let Some(name) = parameter
            && name.starts_with('*')
        {
            found.push(decoded(path.strip_prefix('/').unwrap_or(path))?);
            return Some(found);
        }
        let (segment, path_rest) = next(path);
        match parameter {
            Some(_) if segment.is_empty() => return None,
            Some(_) => found.push(decoded(segment)?),
            None if own == segment => {}
            None => return None,
        }
        match (rest, path_rest) {
            (None, None) => return Some(found),
            (Some(rest), Some(path_rest)) => (pattern, path) = (rest, path_rest),
            _ => return None,
        }
    }
}

/// The first segment of `/a/b`, and what follows it, if anything does.
fn next(path: &str) -> (&str, Option<&str>) {
    let path = path.strip_prefix('/').unwrap_or(path);
    match path.find('/') {
        Some(end) => {
            let (segment, rest) = path.split_at(end);
            (segment, Some(rest))
        }
        None => (path, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_fit_patterns() {
        for (pattern, path, expected) in [
            ("/", "/", Some(vec![])),
            ("/a", "/a", Some(vec![])),
            ("/a", "/a/", None),
            ("/a", "/", None),
            ("/a/b", "/a", None),
            ("/items/{id}", "/items/7", Some(vec!["7"])),
            ("/items/{id}", "/items/a%20b%2Fc", Some(vec!["a b/c"])),
            ("/items/{id}", "/items/", None),
            ("/items/{id}", "/items/%ff", None),
            ("/items/{id}/tags/{tag}", "/items/7/tags/x", Some(vec!["7", "x"])),
            ("/items/{id}", "/items/7/tags", None),
            ("/files/{*path}", "/files/a/b.txt", Some(vec!["a/b.txt"])),
            ("/files/{*path}", "/files/", Some(vec![""])),
        ] {
            let expected = expected.map(|all| all.into_iter().map(str::to_owned).collect());
            assert_eq!(parameters(pattern, path), expected, "{pattern} {path}");
        }
    }
}
