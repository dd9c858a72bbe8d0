//! The operator's page: what is served, how it does, and orders with a click.
//!
//! Place in the flow: beside it; constant files out of the program itself. Everything that the page shows and
//! does, it asks of the routes beside this one, with the operator's key if there is one.
//! Invariants: the page asks no host but this one, and [`HEADERS`] make the browser refuse what would; it
//! holds nothing of this process, so it is shown without a key.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;

use crate::server::http::not_found;
use crate::server::served::Served;

/// Where the page is.
pub(super) const PATH: &str = "/";
/// Where its files are.
const FOLDER: &str = "/page/";

macro_rules! files {
    ($($name:literal $content_type:literal),+ $(,)?) => {
        [$(($name, $content_type, include_bytes!(concat!("page/", $name)).as_slice())),+]
    };
}

const INDEX: &[u8] = include_bytes!("page/index.html");
/// The files that it loads, with their content types. `preact.js`, `hooks.js` and `htm.js` are others' work:
/// `page/LICENSES` has their terms.
const FILES: [(&str, &str, &[u8]); 14] = files![
    "LICENSES" "text/plain; charset=utf-8",
    "icon.svg" "image/svg+xml",
    "page.css" "text/css; charset=utf-8",
    "app.js" "text/javascript; charset=utf-8",
    "api.js" "text/javascript; charset=utf-8",
    "charts.js" "text/javascript; charset=utf-8",
    "endpoint.js" "text/javascript; charset=utf-8",
    "orders.js" "text/javascript; charset=utf-8",
    "overview.js" "text/javascript; charset=utf-8",
    "trial.js" "text/javascript; charset=utf-8",
    "view.js" "text/javascript; charset=utf-8",
    "preact.js" "text/javascript; charset=utf-8",
    "hooks.js" "text/javascript; charset=utf-8",
    "htm.js" "text/javascript; charset=utf-8",
];

/// On every answer.
const HEADERS: [(HeaderName, HeaderValue); 6] = [
    (
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
             img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
    ),
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    // The files are those of this very program; the next one may bring others under the same names.
    (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
];

/// Whether a path is one of the page, which needs no key.
pub(super) fn is_open(path: &str) -> bool {
    path == PATH || path.starts_with(FOLDER)
}

pub(super) fn router() -> Router<Arc<Served>> {
    Router::new().route(PATH, get(index)).route("/page/{file}", get(file))
}

async fn index() -> Response {
    ([(CONTENT_TYPE, "text/html; charset=utf-8")], HEADERS, INDEX).into_response()
}

async fn file(State(served): State<Arc<Served>>, Path(name): Path<String>, request: Request) -> Response {
    match FILES.into_iter().find(|(known, ..)| *known == name) {
        Some((_, content_type, bytes)) => ([(CONTENT_TYPE, content_type)], HEADERS, bytes).into_response(),
        None => not_found(State(served), request).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small() {
        let all: usize = FILES.iter().map(|(.., bytes)| bytes.len()).sum::<usize>() + INDEX.len();
        assert!(all <= 300_000, "{all}");
    }
}
