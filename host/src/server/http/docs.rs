//! The page at `/docs/`, from which a person tries the endpoints: Swagger UI, reading `/openapi.json`.
//!
//! Place in the flow: beside it; constant files out of the program itself.
//! Invariant: the page asks no host but this one for anything. Nothing it needs lies elsewhere, and
//! [`CONTENT_SECURITY_POLICY`] makes the browser refuse what would.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use utoipa_swagger_ui::Config;

use super::error::not_found;
use crate::request::Protocol;
use crate::server::served::Served;

/// The page itself, in place of the one that comes with Swagger UI, which has Swagger UI's title.
const INDEX: &str = include_str!("docs/index.html");
/// Relative, as every address here: a proxy may have put the host below a path of its own.
const DOCUMENT: &str = "../openapi.json";

/// Under `host dev`, besides: loads the page again when another handler serves.
const FOLLOWER: &str = include_str!("docs/dev.js");

/// On every answer. Swagger UI sets styles on its elements and has its icons in `data:` addresses; scripts
/// come from files only.
const HEADERS: [(HeaderName, HeaderValue); 3] = [
    (
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
    ),
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    // The files are those of this very program; the next one may bring others under the same names.
    (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
];

/// The state of the pages: the configuration of Swagger UI, and the process around it for errors.
#[derive(Clone)]
struct Page {
    config: Arc<Config<'static>>,
    served: Arc<Served>,
}

/// Paths and their methods.
pub(super) fn methods(served: &Arc<Served>) -> Vec<(&'static str, MethodRouter)> {
    let config = Config::new([DOCUMENT])
        .use_base_layout()
        // Closed, but for what `open.js` opens.
        .doc_expansion("none")
        .deep_linking(true)
        .try_it_out_enabled(true)
        .display_request_duration(true)
        .default_models_expand_depth(-1)
        // Swagger's own service would be asked about the document otherwise.
        .validator_url("none");
    let page = Page { config: Arc::new(config), served: served.clone() };
    vec![
        ("/docs", get(redirect)),
        ("/docs/", get(index).with_state(page.clone())),
        ("/docs/{file}", get(file).with_state(page)),
    ]
}

async fn redirect() -> impl IntoResponse {
    (StatusCode::PERMANENT_REDIRECT, [(LOCATION, "docs/")], HEADERS)
}

async fn index(State(page): State<Page>) -> impl IntoResponse {
    let html = match page.served.development {
        Some(_) => INDEX.replace("  </body>", "    <script src=\"dev.js\"></script>\n  </body>"),
        None => INDEX.to_owned(),
    };
    ([(CONTENT_TYPE, "text/html; charset=utf-8")], HEADERS, html)
}

/// Opens the first endpoint's call, unless the address says what to open: a person came for that, and not for
/// the protocols.
fn open(served: &Served) -> String {
    let first = served.endpoints.iter().find(|endpoint| endpoint.config.speaks(Some(Protocol::Http)));
    let Some(first) = first else { return String::new() };
    let name = &first.config.name;
    let call =
        if first.current().pipeline.is_application() { String::new() } else { format!("/{name}.predict") };
    format!("if (!location.hash) history.replaceState(null, \"\", \"#/{name}{call}\");\n")
}

async fn file(State(page): State<Page>, Path(name): Path<String>, request: Request) -> Response {
    match (&page.served.development, name.as_str()) {
        (Some(_), "dev.js") => {
            return ([(CONTENT_TYPE, "text/javascript")], HEADERS, FOLLOWER).into_response();
        }
        (Some(development), "dev.json") => return (HEADERS, Json(development.page())).into_response(),
        (_, "open.js") => {
            return ([(CONTENT_TYPE, "text/javascript")], HEADERS, open(&page.served)).into_response();
        }
        _ => {}
    }
    // The error is that of writing the configuration as JSON, which has nothing in it that could fail.
    match utoipa_swagger_ui::serve(&name, page.config).ok().flatten() {
        Some(file) => ([(CONTENT_TYPE, file.content_type)], HEADERS, Body::from(file.bytes)).into_response(),
        None => not_found(State(page.served), request).await,
    }
}
