//! Which response headers are a handler's to set.
//!
//! Place in the flow: [`super::convert`] asks for each header of a handler's response, `config` for each name
//! that an endpoint grants. Most headers say something of one response, and are the handler's. Those that a
//! browser, a proxy or a load balancer takes as the word of the whole origin, or of the whole server, speak
//! for every other endpoint too: they need the operator's grant, `response_headers`.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use crate::request::ID_HEADERS;
use crate::text;

/// Whose a response header is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// Any handler's.
    Handler,
    /// A handler's whose endpoint grants it.
    Operator,
    /// The server's, which sets it itself: what a handler says by it is left out.
    Server,
    /// The server's, because it belongs to the connection or frames the message: no handler may set it.
    Connection,
}

/// They name the request, who answered it, and whether the answer was kept, for those who read them later.
const SERVER: [&str; 6] =
    ["age", "cache-status", ID_HEADERS[1], "x-handler-bypassed", "x-handler-digest", ID_HEADERS[0]];

const CONNECTION: [&str; 9] = [
    "connection",
    "content-length",
    // A member of the response of its own.
    "content-type",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

const OPERATOR: [&str; 31] = [
    // Browsers keep them for the origin, or the host: how it is reached, what is kept of it, what may be
    // loaded from it.
    "accept-ch",
    "alt-svc",
    "clear-site-data",
    "critical-ch",
    "expect-ct",
    "nel",
    "origin-agent-cluster",
    "public-key-pins",
    "public-key-pins-report-only",
    "report-to",
    "service-worker-allowed",
    "set-login",
    "strict-transport-security",
    "use-as-dictionary",
    // Cookies are shared by all paths and ports of a host, and a prompt for a password by the origin.
    "authentication-info",
    "proxy-authenticate",
    "proxy-authentication-info",
    "set-cookie",
    "set-cookie2",
    "www-authenticate",
    // How the body is packed is between the server and each client; it also hides the body from all checks.
    "content-encoding",
    // Words of the server about itself.
    "date",
    "server",
    "via",
    // Orders to a proxy in front, which answers with files and addresses of its own.
    "x-lighttpd-send-file",
    "x-reproxy-file",
    "x-reproxy-url",
    "x-sendfile",
    "x-sendfile2",
    // What a load balancer concludes of the whole server.
    "endpoint-load-metrics",
    "endpoint-load-metrics-bin",
];

/// The same of whole families: which pages may read answers (the server's own setting), orders to nginx,
/// orders to Envoy.
const OPERATOR_FAMILIES: [&str; 3] = ["access-control-", "x-accel-", "x-envoy-"];

/// Whose the header `name` is, in any case.
pub fn owner(name: &str) -> Owner {
    let among = |names: &[&str]| names.iter().any(|own| own.eq_ignore_ascii_case(name));
    let is_of = |family: &&str| {
        name.get(..family.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(family))
    };
    if among(&CONNECTION) {
        Owner::Connection
    } else if among(&SERVER) {
        Owner::Server
    } else if among(&OPERATOR) || OPERATOR_FAMILIES.iter().any(is_of) {
        Owner::Operator
    } else {
        Owner::Handler
    }
}

/// The names that need a grant, those of families aside.
pub fn operators() -> impl Iterator<Item = &'static str> {
    OPERATOR.into_iter()
}

/// The headers that are left out of a handler's responses, as far as the log has named them.
#[derive(Default)]
pub(super) struct LeftOut(Mutex<HashSet<String>>);

impl LeftOut {
    /// Most names: a handler can make up others.
    const MOST: usize = 100;

    /// Has the log name one, once.
    pub(super) fn name(&self, name: &str, endpoint: &str) {
        let name = text::shown(name);
        let mut named = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if named.len() < LeftOut::MOST && named.insert(name.clone()) {
            tracing::warn!(%endpoint,
                "response header `{name}` is left out of answers: it speaks for the whole server, and \
                 `response_headers` does not grant it");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_header_has_an_owner() {
        for (name, expected) in [
            ("x-mine", Owner::Handler),
            ("Location", Owner::Handler),
            ("cache-control", Owner::Handler),
            ("content-security-policy", Owner::Handler),
            ("access-control", Owner::Handler),
            ("Strict-Transport-Security", Owner::Operator),
            ("access-control-allow-origin", Owner::Operator),
            ("X-Accel-Redirect", Owner::Operator),
            ("set-cookie", Owner::Operator),
            ("X-Banana-Request-Id", Owner::Server),
            ("Age", Owner::Server),
            ("cache-status", Owner::Server),
            ("Transfer-Encoding", Owner::Connection),
            ("Content-Type", Owner::Connection),
        ] {
            assert_eq!(owner(name), expected, "{name}");
        }
    }

    #[test]
    fn the_reference_names_all_that_need_a_grant() {
        let reference = include_str!("../../../../../docs/reference.md");
        let families = OPERATOR_FAMILIES.iter().map(|family| format!("`{family}*`"));
        for name in operators().map(|name| format!("`{name}`")).chain(families) {
            assert!(reference.contains(&name), "docs/reference.md should name {name}");
        }
    }
}
