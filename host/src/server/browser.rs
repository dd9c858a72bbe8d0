//! Requests that web pages make a browser send.
//!
//! Place in the flow: before every order, on the listeners that take them. In: a request's headers. Out:
//! whether it goes on.

use axum::Json;
use axum::http::header::{HeaderName, ORIGIN};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde_json::json;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Why an order is refused that a web page gave.
pub(super) const FROM_A_PAGE: &str = "orders from web pages are not taken";

/// Whether a browser says that a page of another site asks (Fetch Metadata Request Headers, section 2.2).
pub(super) fn is_from_another_site(headers: &HeaderMap) -> bool {
    headers.get_all(SEC_FETCH_SITE).iter().any(|site| site != "none" && site != "same-origin")
}

/// Refuses an order that a web page gave. A browser sends a plain POST to any address its user can reach,
/// loopback included, and says with every one where the page came from, in one header or another; the
/// operator's tools do not.
pub(super) fn is_from_a_page(headers: &HeaderMap) -> bool {
    headers.contains_key(ORIGIN) || is_from_another_site(headers)
}

/// The refusal of such an order on the operator's address.
#[expect(clippy::result_large_err, reason = "an order is rare, and its refusal is the answer")]
pub(super) fn not_from_a_page(headers: &HeaderMap) -> Result<(), Response> {
    match is_from_a_page(headers) {
        true => Err(refused(StatusCode::FORBIDDEN, "forbidden", FROM_A_PAGE.to_owned())),
        false => Ok(()),
    }
}

/// The operator's refusals, in JSON.
pub(super) fn refused(status: StatusCode, code: &str, error: String) -> Response {
    (status, Json(json!({ "error": error, "code": code }))).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_another_site_is_known_by_its_browser() {
        for (site, expected) in
            [("cross-site", true), ("same-site", true), ("same-origin", false), ("none", false)]
        {
            let headers = [(SEC_FETCH_SITE, site.parse().unwrap())].into_iter().collect();
            assert_eq!(is_from_another_site(&headers), expected, "{site}");
        }
        assert!(!is_from_another_site(&HeaderMap::new()));
    }
}
