//! Methods and paths to functions.

use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use super::batch::{Responses, Together, only, together};
use super::{FromRequest, IntoReply, Operation, Reply, Request};
use crate::error::refusal;
use crate::{Context, Response, Result, internal};

type Function<S> = Box<dyn Fn(&mut S, &mut Request<'_>) -> Result<Reply> + Send + Sync>;

/// Routes of an application whose state is `S`. The first one that fits a request serves it.
///
/// A path is written as it is asked for: `/items/{id}` has one parameter, which is one segment;
/// `/files/{*path}` has one that is all the rest. `HEAD` is served where `GET` is.
pub struct Router<S> {
    routes: Vec<Entry<S>>,
    fallback: Option<Function<S>>,
}

struct Entry<S> {
    operation: Operation,
    function: Function<S>,
    /// The same of several requests, if it has that.
    together: Option<Together<S>>,
}

/// A function that serves requests: of the state, of the request's [`Context`] if it wants that, and of
/// anything that is read [from the request](FromRequest).
pub trait Route<S, Arguments>: Send + Sync + 'static {
    /// Reads the arguments.
    ///
    /// # Errors
    /// Those of the first argument that cannot be read.
    fn read(request: &mut Request<'_>) -> Result<Arguments>;

    /// Calls the function.
    ///
    /// # Errors
    /// Those of the function.
    fn call(&self, state: &mut S, context: &Context, arguments: Arguments) -> Result<Reply>;

    /// Says what arguments and result are.
    fn describe(operation: &mut Operation);
}

/// Among the arguments of a function that wants the [`Context`].
#[derive(Debug, Clone, Copy)]
pub struct WithContext(());

macro_rules! routes {
    ($(($($argument:ident)*))+) => {$(
        impl<S, F, R, $($argument: FromRequest,)*> Route<S, ($($argument,)*)> for F
        where
            F: Fn(&mut S, $($argument),*) -> R + Send + Sync + 'static,
            R: IntoReply,
        {
            fn read(request: &mut Request<'_>) -> Result<($($argument,)*)> {
                let _ = &request;
                Ok(($($argument::from_request(request)?,)*))
            }

            #[allow(non_snake_case, reason = "each argument is called as its type")]
            fn call(&self, state: &mut S, _: &Context, arguments: ($($argument,)*)) -> Result<Reply> {
                let ($($argument,)*) = arguments;
                self(state, $($argument),*).into_reply()
            }

            fn describe(operation: &mut Operation) {
                $($argument::describe(operation);)*
                R::describe(operation);
            }
        }

        impl<S, F, R, $($argument: FromRequest,)*> Route<S, (WithContext, $($argument,)*)> for F
        where
            F: Fn(&mut S, &Context, $($argument),*) -> R + Send + Sync + 'static,
            R: IntoReply,
        {
            fn read(request: &mut Request<'_>) -> Result<(WithContext, $($argument,)*)> {
                let _ = &request;
                Ok((WithContext(()), $($argument::from_request(request)?,)*))
            }

            #[allow(non_snake_case, reason = "each argument is called as its type")]
            fn call(
                &self,
                state: &mut S,
                context: &Context,
                arguments: (WithContext, $($argument,)*),
            ) -> Result<Reply> {
                let (_, $($argument,)*) = arguments;
                self(state, context, $($argument),*).into_reply()
            }

            fn describe(operation: &mut Operation) {
                $($argument::describe(operation);)*
                R::describe(operation);
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
    pub fn on<A: 'static, R: Route<S, A>>(self, method: &str, path: &str, function: R) -> Router<S> {
        let operation = described::<S, A, R>(method, path);
        self.with(operation, called(function))
    }

    fn with(mut self, operation: Operation, function: Function<S>) -> Router<S> {
        self.routes.push(Entry { operation, function, together: None });
        self
    }

    /// Serves `GET` and `HEAD`.
    #[must_use]
    pub fn get<A: 'static>(self, path: &str, function: impl Route<S, A>) -> Router<S> {
        self.on("GET", path, function)
    }

    /// Serves `POST`.
    #[must_use]
    pub fn post<A: 'static>(self, path: &str, function: impl Route<S, A>) -> Router<S> {
        self.on("POST", path, function)
    }

    /// Serves `PUT`.
    #[must_use]
    pub fn put<A: 'static>(self, path: &str, function: impl Route<S, A>) -> Router<S> {
        self.on("PUT", path, function)
    }

    /// Serves `DELETE`.
    #[must_use]
    pub fn delete<A: 'static>(self, path: &str, function: impl Route<S, A>) -> Router<S> {
        self.on("DELETE", path, function)
    }

    /// Serves `POST` by `{"started": true}` at once, and calls the function afterwards: the client waits for
    /// neither it nor its result. What cannot be read as its arguments is refused before. It has as long as
    /// `limits.background_timeout` says; an error of it is in the host's log and its metrics.
    #[must_use]
    pub fn background<A: 'static, R: Route<S, A>>(self, path: &str, function: R) -> Router<S> {
        let mut operation = described::<S, A, R>("POST", path);
        operation.produces = "application/json".to_owned();
        self.with(operation, Box::new(move |state, request| later(&function, state, request)))
    }

    /// Serves `POST`s together, as many as have come when the host calls: the function gets a list of what
    /// one argument would be and returns as many results, in that order. `respond_all` has to be exported,
    /// and the endpoint says how many may be in a batch (`batching.max_requests`); else each request is a
    /// batch of one. The path has no parameters.
    #[must_use]
    pub fn batch<T: FromRequest + 'static, R: IntoReply + 'static>(
        mut self,
        path: &str,
        function: impl Fn(&mut S, Vec<T>) -> Result<Vec<R>> + Send + Sync + 'static,
    ) -> Router<S> {
        let mut operation = unsaid("POST", path);
        T::describe(&mut operation);
        R::describe(&mut operation);
        let function = std::sync::Arc::new(function);
        let same = function.clone();
        self = self.with(
            operation,
            Box::new(move |state, request| {
                only(together(&*same, state, std::slice::from_mut(request))?)?.into_reply()
            }),
        );
        if let Some(last) = self.routes.last_mut() {
            last.together = Some(Box::new(move |state, requests| together(&*function, state, requests)));
        }
        self
    }

    /// The paths of the functions that serve requests together.
    pub fn batched_paths(&self) -> Vec<String> {
        self.routes.iter().filter(|it| it.together.is_some()).map(|it| it.operation.path.clone()).collect()
    }

    /// Leads the requests of a batch, which have the same path, to their function.
    ///
    /// # Errors
    /// Those of the function for all of them.
    pub fn respond_all(&self, state: &mut S, requests: &mut [Request<'_>]) -> Result<Responses> {
        let path = requests.first().map(|request| request.context.path()).unwrap_or_default();
        let route = self.routes.iter().find(|route| route.together.is_some() && route.operation.path == path);
        let together = route.and_then(|route| route.together.as_ref());
        together.ok_or_else(|| internal("no function serves requests to this path together"))?(
            state, requests,
        )
    }

    /// Says what the last route is for.
    #[must_use]
    pub fn summary(self, text: &str) -> Router<S> {
        self.say(|operation| operation.summary = text.to_owned())
    }

    /// Says what the last route takes: JSON Schema of the body.
    #[must_use]
    pub fn input(self, schema: &Value) -> Router<S> {
        self.say(|operation| operation.input = Some(schema.to_string()))
    }

    /// Says what the last route returns: JSON Schema of the response.
    #[must_use]
    pub fn output(self, schema: &Value) -> Router<S> {
        self.say(|operation| operation.output = Some(schema.to_string()))
    }

    /// Says what the last route returns: the media type of the response, where its function's result does not
    /// tell it. A stream of events is `text/event-stream`.
    #[must_use]
    pub fn produces(self, media_type: &str) -> Router<S> {
        self.say(|operation| operation.produces = media_type.to_owned())
    }

    fn say(mut self, what: impl FnOnce(&mut Operation)) -> Router<S> {
        if let Some(last) = self.routes.last_mut() {
            what(&mut last.operation);
        }
        self
    }

    /// All routes as they are told to callers. The host refuses an application that has one of them twice.
    pub fn operations(&self) -> Vec<Operation> {
        self.routes.iter().map(|route| route.operation.clone()).collect()
    }

    /// Serves what no route fits.
    #[must_use]
    pub fn fallback<A: 'static>(mut self, function: impl Route<S, A>) -> Router<S> {
        self.fallback = Some(called(function));
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
        for Entry { operation, function, .. } in &self.routes {
            let own = operation.method.as_str();
            if let Some(parameters) = parameters(&operation.path, &path) {
                if own == asked || own == method {
                    request.parameters = parameters.into_iter();
                    return function(state, &mut request);
                }
                allowed.push(own);
            }
        }
        if allowed.is_empty() {
            return match &self.fallback {
                Some(function) => function(state, &mut request),
                None => {
                    let text = "there is nothing at this path";
                    refusal(request.context, 404, "not_found", text)?.into_reply()
                }
            };
        }
        if allowed.contains(&"GET") {
            allowed.push("HEAD");
        }
        let text = "the path is there for other methods";
        let response = refusal(request.context, 405, "method_not_allowed", text)?;
        response.header("allow", allowed.join(", ")).into_reply()
    }
}

fn described<S, A, R: Route<S, A>>(method: &str, path: &str) -> Operation {
    let mut operation = unsaid(method, path);
    R::describe(&mut operation);
    operation
}

fn unsaid(method: &str, path: &str) -> Operation {
    Operation {
        method: method.to_owned(),
        path: path.to_owned(),
        summary: String::new(),
        consumes: String::new(),
        input: None,
        produces: String::new(),
        output: None,
    }
}

fn called<S, A: 'static>(function: impl Route<S, A>) -> Function<S> {
    Box::new(move |state, request| {
        let arguments = read(&function, request)?;
        function.call(state, request.context, arguments)
    })
}

/// The arguments of a function.
fn read<S, A, R: Route<S, A>>(_: &R, request: &mut Request<'_>) -> Result<A> {
    R::read(request)
}

fn later<S, A, R: Route<S, A>>(function: &R, state: &mut S, request: &mut Request<'_>) -> Result<Reply> {
    let arguments = read(function, request)?;
    let sent = request.output()?.send(Response::json(&json!({"started": true}))?)?;
    function.call(state, request.context, arguments)?;
    sent.into_reply()
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

    #[test]
    fn refusals_have_the_form_of_the_hosts() {
        fn item(_: &mut ()) -> &'static str {
            "item"
        }
        let router = Router::new().get("/item", item);
        for (path, status, expected) in [
            ("/", 404, r#"{"error":"there is nothing at this path","code":"not_found","#),
            ("/item", 405, r#"{"error":"the path is there for other methods","code":"method_not_allowed","#),
        ] {
            let context = Context::builder().path(path).build();
            let request = Request::of_batch(context.sample(), &context);
            let response = router.respond(&mut (), request).unwrap().into_response().unwrap();
            let body = String::from_utf8(response.body).unwrap();
            let expected = format!(r#"{expected}"stage":"pre_inference","request_id":"test"}}"#);
            assert_eq!((response.status, body), (status, expected), "{path}");
        }
    }
}
