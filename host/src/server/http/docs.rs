//! The page at `/docs/`, from which a person tries the endpoints: Swagger UI, reading `/openapi.json`.
//!
//! Place in the flow: beside it; constant files out of the program itself.
//! Invariant: the page asks no host but this one for anything. Nothing it needs lies elsewhere, and
//! [`CONTENT_SECURITY_POLICY`] makes the browser refuse what would.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};

use super::error::not_found;
use crate::request::Protocol;
use crate::server::served::Served;

macro_rules! of_swagger_ui {
    ($name:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/swagger-ui/", $name))
    };
}

/// The page itself, in place of the one that comes with Swagger UI, which has Swagger UI's title.
const INDEX: &str = include_str!("docs/index.html");
/// The files that it loads, with their content types: those of Swagger UI that it needs, which `build.rs` has
/// unpacked, and what tells it how to show the document.
const FILES: [(&str, &str, &[u8]); 5] = [
    ("favicon-32x32.png", "image/png", of_swagger_ui!("favicon-32x32.png")),
    ("index.css", "text/css", of_swagger_ui!("index.css")),
    ("swagger-initializer.js", "text/javascript", include_bytes!("docs/swagger-initializer.js")),
    ("swagger-ui-bundle.js", "text/javascript", of_swagger_ui!("swagger-ui-bundle.js")),
    ("swagger-ui.css", "text/css", of_swagger_ui!("swagger-ui.css")),
];

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

/// Paths and their methods.
pub(super) fn methods(served: &Arc<Served>) -> Vec<(&'static str, MethodRouter)> {
    vec![
        ("/docs", get(redirect)),
        ("/docs/", get(index).with_state(served.clone())),
        ("/docs/{file}", get(file).with_state(served.clone())),
    ]
}

async fn redirect() -> impl IntoResponse {
    (StatusCode::PERMANENT_REDIRECT, [(LOCATION, "docs/")], HEADERS)
}

async fn index(State(served): State<Arc<Served>>) -> impl IntoResponse {
    let html = match served.development {
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
    let call = if first.is_application() { String::new() } else { format!("/{name}.predict") };
    format!("if (!location.hash) history.replaceState(null, \"\", \"#/{name}{call}\");\n")
}

async fn file(State(served): State<Arc<Served>>, Path(name): Path<String>, request: Request) -> Response {
    match (&served.development, name.as_str()) {
        (Some(_), "dev.js") => {
            return ([(CONTENT_TYPE, "text/javascript")], HEADERS, FOLLOWER).into_response();
        }
        (Some(development), "dev.json") => return (HEADERS, Json(development.page())).into_response(),
        (_, "open.js") => {
            return ([(CONTENT_TYPE, "text/javascript")], HEADERS, open(&served)).into_response();
        }
        _ => {}
    }
    match FILES.into_iter().find(|(known, ..)| *known == name) {
        Some((_, content_type, bytes)) => ([(CONTENT_TYPE, content_type)], HEADERS, bytes).into_response(),
        None => not_found(State(served), request).await,
    }
}
