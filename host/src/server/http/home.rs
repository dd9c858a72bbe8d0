//! The page at `/` for a browser: what is served here, and how to call it.
//!
//! Place in the flow: before the routes of `/`, whose JSON all other clients get as ever. In: `Accept` and
//! `Host` of a request. Out: HTML without scripts, made of what `/openapi.json` says; it is off with that
//! document.
//! Invariants: nothing that the document does not say; every text in it is escaped; [`LISTED`] endpoints and
//! [`OPERATIONS`] of each at most.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderName, HeaderValue,
    REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, Method};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::MethodRouter;
use serde_json::Value;

use super::openapi::{application, endpoint};
use crate::endpoint::generation::Generation;
use crate::plugin::Operation;
use crate::request::Protocol;
use crate::rollout::deployment::Deployment;
use crate::server::head::Secure;
use crate::server::served::Served;

/// Most endpoints on the page.
const LISTED: usize = 100;
/// Most operations of an application on it.
const OPERATIONS: usize = 20;
/// Most bytes of an example that a command has; a longer one is in a file.
const LONGEST_EXAMPLE: usize = 300;

const STYLE: &str = "\
:root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}\
body{max-width:60rem;margin:2rem auto;padding:0 1rem}\
h2{margin:2rem 0 .25rem;font-size:1.15rem}\
pre{overflow-x:auto;padding:.75rem;border:1px solid;border-color:color-mix(in srgb,currentColor 25%,transparent);border-radius:6px}\
p{margin:.25rem 0}";

const HEADERS: [(HeaderName, HeaderValue); 6] = [
    (CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
    (
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
    ),
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    (VARY, HeaderValue::from_static("accept")),
];

/// The routes of `/`, with the page before them.
pub(super) fn before(routes: MethodRouter, served: &Arc<Served>) -> MethodRouter {
    routes.layer(from_fn_with_state(served.clone(), page))
}

async fn page(State(served): State<Arc<Served>>, request: Request, next: Next) -> Response {
    let is_read = [Method::GET, Method::HEAD].contains(request.method());
    if is_read && takes_html(request.headers()) {
        return (HEADERS, html(&served, &base(&request))).into_response();
    }
    let mut response = next.run(request).await;
    if is_read {
        response.headers_mut().append(VARY, HeaderValue::from_static("accept"));
    }
    response
}

/// Whether a client names HTML among what it takes, as browsers do and libraries do not.
fn takes_html(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(ACCEPT).into_iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let is_html = parts.next().is_some_and(|essence| essence.eq_ignore_ascii_case("text/html"));
        is_html && !parts.any(|parameter| ["q=0", "q=0.0"].contains(&parameter))
    })
}

/// The server's address as the client knows it, for commands to copy.
fn base(request: &Request) -> String {
    let scheme = request.extensions().get::<Secure>().copied().unwrap_or_default().scheme();
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    let host = host.or_else(|| request.uri().authority().map(|authority| authority.as_str()));
    // A command has a name and a port, and no other text that a client has sent.
    let is_name =
        |host: &&str| host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte));
    let host = host.filter(|host| !host.is_empty()).filter(is_name).unwrap_or("127.0.0.1:8000");
    format!("{scheme}://{host}")
}

fn html(served: &Served, base: &str) -> String {
    let endpoints: Vec<&Arc<Deployment>> =
        served.endpoints.iter().filter(|it| it.config.speaks(Some(Protocol::Http))).collect();
    let mut body = String::new();
    let count = match endpoints.len() {
        1 => "One endpoint is served".to_owned(),
        count => format!("{count} endpoints are served"),
    };
    let _ = write!(
        body,
        "<h1>modelhost</h1>\n<p>{count} here. <a href=\"docs/\">Try them</a>, or read \
         <a href=\"openapi.json\">openapi.json</a>.</p>\n"
    );
    for endpoint in endpoints.iter().take(LISTED) {
        section(&mut body, endpoint, base);
    }
    let left = endpoints.len().saturating_sub(LISTED);
    if left > 0 {
        let _ = writeln!(body, "<p>{left} more are on the <a href=\"docs/\">page of all calls</a>.</p>");
    }
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>modelhost</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )
}

/// An endpoint, and a command for each way to call it.
fn section(page: &mut String, endpoint: &Deployment, base: &str) {
    let (name, current) = (&endpoint.config.name, endpoint.current());
    let is_application = endpoint.is_application();
    let call = if is_application { String::new() } else { format!("/{name}.predict") };
    let _ = writeln!(
        page,
        "<section>\n<h2><a href=\"docs/#/{0}{1}\">{0}</a></h2>",
        escaped(name),
        escaped(&call)
    );
    let key = if endpoint.config.keys.is_empty() { "" } else { " -H 'authorization: Bearer KEY'" };
    let commands = match is_application {
        true => of_application(endpoint, &current, base),
        false => {
            let command = format!("curl {}", quoted(&format!("{base}{}", endpoint.config.path)));
            vec![(String::new(), format!("{command}{}", body_of(&endpoint::request(&current))))]
        }
    };
    for (said, command) in commands {
        if !said.is_empty() {
            let _ = writeln!(page, "<p>{}</p>", escaped(&said));
        }
        let _ = writeln!(page, "<pre><code>{}</code></pre>", escaped(&format!("{command}{key}")));
    }
    page.push_str("</section>\n");
}

/// The operations of an application, or that it does not tell them.
fn of_application(endpoint: &Deployment, current: &Generation, base: &str) -> Vec<(String, String)> {
    let command = |operation: &Operation| {
        let url = quoted(&format!("{base}{}", application::path(endpoint, &operation.path)));
        let method = match &*operation.method {
            "GET" | "POST" => String::new(),
            other => format!(" -X {other}"),
        };
        let body = application::body(operation).as_ref().map(body_of);
        let body = body.unwrap_or_else(|| {
            if operation.method == "POST" { " -X POST".to_owned() } else { String::new() }
        });
        (operation.summary.clone(), format!("curl{method} {url}{body}"))
    };
    let operations: Vec<_> = current.operations().iter().take(OPERATIONS).map(command).collect();
    if operations.is_empty() {
        let url = quoted(&format!("{base}{}", endpoint.config.path));
        return vec![(
            "An application, which does not say what it serves.".to_owned(),
            format!("curl {url}"),
        )];
    }
    operations
}

/// The arguments that send the body of a call: its example, or a file of its first media type.
fn body_of(request: &Value) -> String {
    let Some(content) = request["content"].as_object() else { return String::new() };
    if let Some(json) = content.get("application/json") {
        let example = json.get("example").map(Value::to_string).filter(|text| text.len() <= LONGEST_EXAMPLE);
        return example
            .map_or(" --json @sample.json".to_owned(), |text| format!(" --json {}", quoted(&text)));
    }
    match content.keys().next().map(String::as_str) {
        Some("multipart/form-data") => " -F file=@FILE".to_owned(),
        Some("application/x-www-form-urlencoded") => " -d NAME=VALUE".to_owned(),
        Some("*/*") | None => " --data-binary @FILE".to_owned(),
        Some(media_type) => {
            format!(" --data-binary @FILE -H {}", quoted(&format!("content-type: {media_type}")))
        }
    }
}

/// A word of a shell.
fn quoted(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/.:_-@%".contains(&byte);
    if text.bytes().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// Text in HTML, in an attribute too.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_browser_takes_html() {
        for (accept, expected) in [
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", true),
            ("application/json, Text/HTML;q=0.5", true),
            ("*/*", false),
            ("text/*", false),
            ("application/json", false),
            ("text/html;q=0, application/json", false),
        ] {
            let headers = [(ACCEPT, accept.parse().unwrap())].into_iter().collect();
            assert_eq!(takes_html(&headers), expected, "{accept}");
        }
        assert!(!takes_html(&HeaderMap::new()));
    }

    #[test]
    fn a_command_sends_what_the_endpoint_reads() {
        for (content, expected) in [
            (json!({"application/json": {"example": {"a": "it's"}}}), r#" --json '{"a":"it'\''s"}'"#),
            (json!({"application/json": {"schema": {}}, "*/*": {}}), " --json @sample.json"),
            (json!({"application/json": {"example": "x".repeat(400)}}), " --json @sample.json"),
            (json!({"multipart/form-data": {}}), " -F file=@FILE"),
            (json!({"image/jpeg": {}}), " --data-binary @FILE -H 'content-type: image/jpeg'"),
            (json!({"*/*": {}}), " --data-binary @FILE"),
        ] {
            assert_eq!(body_of(&json!({"content": content})), expected);
        }
        assert_eq!(escaped("<a href=\"x\">'&"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;");
    }
}
