//! The list of places that a handler may reach.
//!
//! In: the operator's entries: `https://hooks.example.com`, `https://*.example.com`, `http://10.0.0.7:9000`,
//! and networks, `10.0.0.0/8`. Out: whether a place is listed, and whether an address may be connected to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::{fmt, io};

use http::Uri;
use ipnet::IpNet;

/// One entry.
#[derive(Clone, PartialEq, Eq)]
pub enum Rule {
    /// A place: scheme, host, port. Of a host that begins with `*.`, every name below it.
    Place {
        /// `http` or `https`.
        scheme: String,
        /// In lower case.
        host: String,
        /// As given, or the scheme's.
        port: u16,
    },
    /// Addresses that a listed name may have although they are private.
    Network(IpNet),
}

/// As in the configuration.
impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::Place { scheme, host, port } => write!(f, "{scheme}://{host}:{port}"),
            Rule::Network(network) => write!(f, "{network}"),
        }
    }
}

impl Rule {
    /// Reads an entry.
    ///
    /// # Errors
    /// Text that says what is wrong with it.
    pub fn parse(text: &str) -> Result<Rule, &'static str> {
        if let Ok(network) = text.parse::<IpNet>() {
            return Ok(Rule::Network(network));
        }
        let uri: Uri = text.parse().map_err(|_| "is neither a URL nor a network")?;
        let scheme = uri.scheme_str().filter(|scheme| ["http", "https"].contains(scheme));
        let scheme = scheme.ok_or("does not begin with `http://` or `https://`")?;
        if uri.path_and_query().is_some_and(|path| path.as_str() != "/") || text.contains('@') {
            return Err("has more than scheme, host and port");
        }
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_ascii_lowercase();
        let name = host.strip_prefix("*.").unwrap_or(&host);
        if name.is_empty() || name.contains('*') {
            return Err("has no host that can be told; `*.` stands at its beginning only");
        }
        let port = uri.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 });
        Ok(Rule::Place { scheme: scheme.to_owned(), host, port })
    }
}

/// All entries of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rules(pub Vec<Rule>);

/// A URL that no request may be sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// It is none, or has a user's name in it.
    #[error("is not a URL such as `https://hooks.example.com/done`")]
    NotUrl,
    /// Its place is not on the list.
    #[error("names a place that is not on the endpoint's list `allow_outbound`")]
    Denied,
}

/// All addresses.
const ANYWHERE: [&str; 2] = ["0.0.0.0/0", "::/0"];

impl Rules {
    /// For servers that the operator has named, by scheme, host and port: private addresses are as good as
    /// others for these.
    ///
    /// # Errors
    /// One of them is no origin.
    pub fn of_operator<'a>(origins: impl IntoIterator<Item = &'a str>) -> io::Result<Rules> {
        let rules = ANYWHERE.into_iter().chain(origins).map(Rule::parse);
        Ok(Rules(rules.collect::<Result<_, _>>().map_err(io::Error::other)?))
    }

    /// Scheme, host and port of a URL, if requests may be sent there; the addresses of its host are looked at
    /// when one is.
    ///
    /// # Errors
    /// [`UrlError`].
    pub fn origin(&self, url: &str) -> Result<String, UrlError> {
        let uri: Uri = url.parse().map_err(|_| UrlError::NotUrl)?;
        let authority = uri.authority().ok_or(UrlError::NotUrl)?;
        if authority.as_str().contains('@') || !["http", "https"].contains(&uri.scheme_str().unwrap_or("")) {
            return Err(UrlError::NotUrl);
        }
        let (scheme, host, port) = place(&uri);
        match self.allows(scheme, host, port) {
            true => Ok(format!("{scheme}://{}:{port}", host.to_ascii_lowercase())),
            false => Err(UrlError::Denied),
        }
    }

    /// Whether this place is listed.
    pub(super) fn allows(&self, scheme: &str, host: &str, port: u16) -> bool {
        let host = host.to_ascii_lowercase();
        self.0.iter().any(|rule| match rule {
            Rule::Place { scheme: its_scheme, host: its_host, port: its_port } => {
                its_scheme == scheme && *its_port == port && is_of(&host, its_host)
            }
            Rule::Network(_) => false,
        })
    }

    /// Whether `host` may be reached at this address: a public one, or one that is listed.
    pub(super) fn allows_address(&self, host: &str, address: IpAddr) -> bool {
        let address = address.to_canonical();
        is_public(address)
            || self.0.iter().any(|rule| match rule {
                Rule::Network(network) => network.contains(&address),
                Rule::Place { host: listed, .. } => {
                    let is_it = listed.parse::<IpAddr>().is_ok_and(|listed| listed.to_canonical() == address);
                    // The meaning of this name is fixed (RFC 6761).
                    let is_own = listed == "localhost" && address.is_loopback();
                    is_it && host == listed || is_own && host.eq_ignore_ascii_case(listed)
                }
            })
    }
}

/// Scheme, host and port of a request.
pub(super) fn place(uri: &Uri) -> (&str, &str, u16) {
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let scheme = uri.scheme_str().unwrap_or_default();
    (scheme, host, uri.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 }))
}

fn is_of(host: &str, listed: &str) -> bool {
    match listed.strip_prefix('*') {
        Some(below) => host.len() > below.len() && host.ends_with(below),
        None => host == listed,
    }
}

/// Whether an address is of the internet: none of this machine, of a private or link's network, of the
/// cloud's metadata, of documentation or of several receivers. After IANA's registries of special addresses.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !(a == 0
        || a >= 224
        || address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_documentation()
        || a == 100 && (64..128).contains(&b)
        || a == 192 && b == 0 && c == 0
        || a == 192 && b == 88 && c == 99
        || a == 198 && (18..20).contains(&b))
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let [a, b, ..] = segments;
    let embedded = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match segments {
        // NAT64 and 6to4 stand for an IPv4 address.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded(high, low),
        [0x2002, high, low, ..] => embedded(high, low),
        // What is assigned to the internet is below 2000::/3, but for protocols, Teredo and documentation.
        _ => {
            a & 0xe000 == 0x2000
                && !(a == 0x2001 && b < 0x0200)
                && !(a == 0x2001 && b == 0x0db8)
                && !(a == 0x3fff && b < 0x1000)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(entries: &[&str]) -> Rules {
        Rules(entries.iter().map(|entry| Rule::parse(entry).unwrap()).collect())
    }

    #[test]
    fn only_listed_places_are_allowed() {
        let rules = rules(&["https://Hooks.example.com", "http://*.inner.example:9000", "http://[::1]:80"]);
        for (scheme, host, port, expected) in [
            ("https", "hooks.example.com", 443, true),
            ("https", "HOOKS.example.com", 443, true),
            ("http", "hooks.example.com", 80, false),
            ("https", "hooks.example.com", 8443, false),
            ("https", "hooks.example.com.evil.com", 443, false),
            ("https", "evil-hooks.example.com", 443, false),
            ("http", "a.inner.example", 9000, true),
            ("http", "a.b.inner.example", 9000, true),
            ("http", "inner.example", 9000, false),
            ("http", ".inner.example", 9000, false),
            ("http", "ainner.example", 9000, false),
            ("http", "::1", 80, true),
        ] {
            assert_eq!(rules.allows(scheme, host, port), expected, "{scheme}://{host}:{port}");
        }
    }

    #[test]
    fn a_url_has_an_origin_if_its_place_is_listed() {
        let rules = rules(&["https://hooks.example.com", "http://[::1]:9000"]);
        let origin = "https://hooks.example.com:443".to_owned();
        for (url, expected) in [
            ("https://hooks.example.com/a?b#c", Ok(origin.clone())),
            ("https://HOOKS.example.com:443", Ok(origin)),
            ("http://[::1]:9000/x", Ok("http://::1:9000".to_owned())),
            ("http://hooks.example.com", Err(UrlError::Denied)),
            ("https://me:secret@hooks.example.com", Err(UrlError::NotUrl)),
            ("https://hooks.example.com@evil.example", Err(UrlError::NotUrl)),
            ("ftp://hooks.example.com", Err(UrlError::NotUrl)),
            ("hooks.example.com", Err(UrlError::NotUrl)),
            ("/hook", Err(UrlError::NotUrl)),
            ("", Err(UrlError::NotUrl)),
        ] {
            assert_eq!(rules.origin(url), expected, "{url}");
        }
    }

    #[test]
    fn entries_are_read_whole_or_refused() {
        for (entry, why) in [
            ("hooks.example.com", "does not begin with"),
            ("ftp://a.example", "does not begin with"),
            ("https://a.example/path", "more than scheme"),
            ("https://a.example?q", "more than scheme"),
            ("https://user@a.example", "more than scheme"),
            ("https://*", "no host"),
            ("https://a.*.example", "no host"),
            ("", "neither"),
        ] {
            let error = Rule::parse(entry).unwrap_err();
            assert!(error.contains(why), "{entry}: {error}");
        }
    }

    #[test]
    fn addresses_that_are_not_of_the_internet_are_refused_unless_listed() {
        let none = Rules::default();
        for address in [
            "127.0.0.1",
            "127.1.2.3",
            "0.0.0.0",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "192.0.0.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "fe80::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2001:db8::1",
            "2001::1",
        ] {
            assert!(!none.allows_address("a.example", address.parse().unwrap()), "{address}");
        }
        for address in ["1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "64:ff9b::101:101"] {
            assert!(none.allows_address("a.example", address.parse().unwrap()), "{address}");
        }
        let some = rules(&["10.1.0.0/16", "http://127.0.0.2", "http://localhost:9"]);
        for (host, address, expected) in [
            ("a.example", "10.1.2.3", true),
            ("a.example", "::ffff:10.1.2.3", true),
            ("a.example", "10.2.2.3", false),
            ("127.0.0.2", "127.0.0.2", true),
            // A name that leads to a listed address is not that address.
            ("a.example", "127.0.0.2", false),
            ("localhost", "127.0.0.1", true),
            ("a.example", "127.0.0.1", false),
            ("localhost", "10.2.2.3", false),
        ] {
            assert_eq!(some.allows_address(host, address.parse().unwrap()), expected, "{host} at {address}");
        }
    }
}
