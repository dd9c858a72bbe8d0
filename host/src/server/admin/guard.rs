//! Which requests the operator's listener answers.
//!
//! Place in the flow: before every route of [`super`]. In: a request's head. Out: whether it goes on.
//! A probe needs neither key nor name to see that the process is alive and ready. For everything else the
//! request has to be addressed to this host by an address or a name it is known by: a web page can make any
//! name of its own mean this address (DNS rebinding), and would then read what it is told. And a browser must
//! not say that another site's page asks. An order of the page at `/` comes from this very address.

use axum::http::header::{HOST, ORIGIN};
use axum::http::request::Parts;

/// The host that a request is addressed to, with its port.
fn authority(parts: &Parts) -> Option<&str> {
    match parts.uri.authority() {
        Some(authority) => Some(authority.as_str()),
        None => parts.headers.get(HOST)?.to_str().ok(),
    }
}

/// The host that a request is addressed to, without its port.
fn addressed(parts: &Parts) -> Option<&str> {
    let host = authority(parts)?;
    let name = match host.strip_prefix('[') {
        Some(address) => address.split_once(']')?.0,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    Some(name.trim_end_matches('.'))
}

/// Whether a request is addressed to this host: by an address, by the name of the loopback, or by one of
/// these names.
///
/// # Errors
/// The name that it is addressed to.
pub(super) fn is_addressed_here(parts: &Parts, names: &[String]) -> Result<(), String> {
    let name = addressed(parts).unwrap_or_default();
    let is_own = |own: &str| own.eq_ignore_ascii_case(name);
    let is_address = name.parse::<std::net::IpAddr>().is_ok();
    let is_loopback = is_own("localhost") || name.to_ascii_lowercase().ends_with(".localhost");
    match is_address || is_loopback || names.iter().any(|own| is_own(own)) {
        true => Ok(()),
        // Of HTTP/1.0 none is expected; no browser speaks it.
        false if name.is_empty() && parts.version == axum::http::Version::HTTP_10 => Ok(()),
        false => Err(name.to_owned()),
    }
}

/// Whether a page of this very address asks: host and port of its one `Origin` are those that are asked.
pub(super) fn is_own_page(parts: &Parts) -> bool {
    let mut origins = parts.headers.get_all(ORIGIN).iter();
    let (Some(origin), None) = (origins.next(), origins.next()) else { return false };
    let from = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    from.zip(authority(parts)).is_some_and(|((_, from), here)| from.eq_ignore_ascii_case(here))
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    #[test]
    fn a_request_is_for_an_address_the_loopback_or_a_configured_name() {
        let names = ["admin.internal".to_owned()];
        for (host, expected) in [
            ("127.0.0.1:8001", true),
            ("10.1.2.3", true),
            ("[::1]:8001", true),
            ("[::1]", true),
            ("localhost:8001", true),
            ("LOCALHOST.", true),
            ("a.localhost", true),
            ("Admin.Internal:8001", true),
            ("evil.example:8001", false),
            ("127.0.0.1.evil.example", false),
            ("localhost.evil.example", false),
            ("notlocalhost", false),
            ("", false),
        ] {
            let request = Request::get("/").header("host", host).body(()).unwrap();
            assert_eq!(is_addressed_here(&request.into_parts().0, &names).is_ok(), expected, "{host}");
        }
    }

    #[test]
    fn a_page_is_this_addresss_own_by_host_and_port() {
        for (origins, expected) in [
            (&["http://127.0.0.1:8001"][..], true),
            (&["https://127.0.0.1:8001"], true),
            (&["http://127.0.0.1:8000"], false),
            (&["http://127.0.0.1"], false),
            (&["http://localhost:8001"], false),
            (&["http://127.0.0.1:8001.evil.example"], false),
            (&["null"], false),
            (&[], false),
            (&["http://127.0.0.1:8001", "http://127.0.0.1:8001"], false),
        ] {
            let request = Request::post("/").header("host", "127.0.0.1:8001");
            let add =
                |request: axum::http::request::Builder, origin: &&str| request.header("origin", *origin);
            let request = origins.iter().fold(request, add).body(()).unwrap();
            assert_eq!(is_own_page(&request.into_parts().0), expected, "{origins:?}");
        }
    }
}
