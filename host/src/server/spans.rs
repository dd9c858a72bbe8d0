//! The operation of a request, as its span names it.
//!
//! Place in the flow: each protocol says what its request asks for, where tracing is on. In: a method and a
//! path, as any client has written them. Out: names that are one of few, and texts that are bounded.

use axum::http::Method;

use super::head::Head;
use crate::telemetry::traces::Operation;
use crate::text::beginning;

/// Most bytes of a path that a span has.
const LONGEST_PATH: usize = 256;

/// The methods that a span names; of another one, an application's, the name could be anything.
const METHODS: [Method; 8] = [
    Method::POST,
    Method::GET,
    Method::PUT,
    Method::DELETE,
    Method::PATCH,
    Method::HEAD,
    Method::OPTIONS,
    Method::TRACE,
];

/// A request over HTTP to a path that is served: one that is configured, or that of a model.
pub(super) fn http(head: &Head, is_found: bool) -> Operation {
    let path = head.parts.uri.path();
    of(head, path, is_found.then(|| template(path)))
}

/// A request to an application, whose path is below `route`.
pub(super) fn below(head: &Head, prefix: &str, route: &str) -> Operation {
    let path = format!("{prefix}{}", head.parts.uri.path());
    of(head, &path, Some(route.to_owned()))
}

fn of(head: &Head, path: &str, route: Option<String>) -> Operation {
    let method = &head.parts.method;
    let method = if METHODS.contains(method) { method.as_str() } else { "_OTHER" };
    let shortened = |text: &str| beginning(text, LONGEST_PATH).to_string().into_boxed_str();
    Operation::Http {
        method: method.into(),
        path: shortened(path),
        route: route.as_deref().map(shortened),
        scheme: head.secure.scheme(),
    }
}

/// A path without the names and versions of models.
fn template(path: &str) -> String {
    let models = ["/v1/models/", "/v2/models/"];
    let below = models.into_iter().find_map(|prefix| Some((prefix, path.strip_prefix(prefix)?)));
    let Some((prefix, rest)) = below else { return path.to_owned() };
    let end = |text: &str| text.find(['/', ':']).unwrap_or(text.len());
    let (_, rest) = rest.split_at(end(rest));
    let Some(version) = rest.strip_prefix("/versions/") else { return format!("{prefix}{{model}}{rest}") };
    let (_, rest) = version.split_at(end(version));
    format!("{prefix}{{model}}/versions/{{version}}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_names_no_model() {
        for (path, expected) in [
            ("/iris", "/iris"),
            ("/v2/models/iris/infer", "/v2/models/{model}/infer"),
            ("/v2/models/iris/versions/3/infer", "/v2/models/{model}/versions/{version}/infer"),
            ("/v1/models/iris:predict", "/v1/models/{model}:predict"),
            ("/v1/models/iris/versions/3:predict", "/v1/models/{model}/versions/{version}:predict"),
            ("/v1/models/iris", "/v1/models/{model}"),
        ] {
            assert_eq!(template(path), expected, "{path}");
        }
    }
}
