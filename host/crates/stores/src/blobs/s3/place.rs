//! A bucket of S3: `s3://BUCKET[/PREFIX]`, with all that it takes to use it.
//!
//! Place in the flow: `config/` makes it, [`super::client`] sends to it. Invariant: no text of this file's
//! holds a secret.

use std::fmt;
use std::time::Duration;

use http::Uri;

use super::credentials::{CredentialFiles, Credentials};

/// How an address begins.
const SCHEME: &str = "s3://";

/// Where a bucket's name stands in a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addressing {
    /// In the path.
    Path,
    /// Before the server's name.
    Host,
}

/// A bucket, and how to use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct S3Place {
    /// Its name.
    pub bucket: String,
    /// The beginning of all keys, without `/` at its ends; may be empty.
    pub prefix: String,
    /// Scheme, host and port; `None` for Amazon's server of the region.
    pub server: Option<String>,
    /// The region, which is part of each signature.
    pub region: String,
    /// Where the bucket's name stands; `None`: before Amazon's name, and in the path of another server.
    pub addressing: Option<Addressing>,
    /// How long an answer may take.
    pub timeout: Duration,
    /// The key; none before the configuration has read them.
    pub credentials: Option<Credentials>,
    /// Where the key is read again.
    pub credential_files: CredentialFiles,
}

/// As in logs.
impl fmt::Display for S3Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.bucket)?;
        if self.prefix.is_empty() { Ok(()) } else { write!(f, "/{}", self.prefix) }
    }
}

impl S3Place {
    /// Whether a text is meant to be an address of a bucket.
    pub fn is_one(text: &str) -> bool {
        text.get(..SCHEME.len()).is_some_and(|scheme| scheme.eq_ignore_ascii_case(SCHEME))
    }

    /// Reads an address.
    ///
    /// # Errors
    /// Text that says what is wrong with it.
    pub fn parse(text: &str) -> Result<S3Place, &'static str> {
        let rest =
            text.get(SCHEME.len()..).filter(|_| Self::is_one(text)).ok_or("does not begin with `s3://`")?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_tame = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
        if !(3..=63).contains(&bucket.len()) || !bucket.bytes().all(is_tame) {
            return Err("has no bucket's name: 3 to 63 lower-case letters, digits, `-` and `.`");
        }
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
        let is_part = |part: &str| {
            let is_tame = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            !part.is_empty() && !part.starts_with('.') && part.bytes().all(is_tame)
        };
        if prefix.len() > 128 || !prefix.is_empty() && !prefix.split('/').all(is_part) {
            return Err("has a prefix that is none: letters, digits, `-`, `_`, `.` and `/`, 128 at most");
        }
        Ok(S3Place {
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
            server: None,
            region: String::new(),
            addressing: None,
            timeout: Duration::ZERO,
            credentials: None,
            credential_files: CredentialFiles::default(),
        })
    }

    /// Reads the address of a server: scheme, host and port.
    ///
    /// # Errors
    /// Text that says what is wrong with it.
    pub fn server(text: &str) -> Result<String, &'static str> {
        let uri: Uri = text.parse().map_err(|_| "is no URL")?;
        let has_scheme = uri.scheme_str().is_some_and(|scheme| ["http", "https"].contains(&scheme));
        let is_bare = uri.path_and_query().is_none_or(|path| path.as_str() == "/") && !text.contains('@');
        match uri
            .authority()
            .filter(|_| has_scheme && is_bare && uri.host().is_some_and(|host| !host.is_empty()))
        {
            Some(authority) => Ok(format!("{}://{authority}", uri.scheme_str().unwrap_or("https"))),
            None => Err("is not scheme, host and port"),
        }
    }

    /// Scheme and authority of its URLs, and the path before a key.
    pub(super) fn base(&self) -> (String, String, String) {
        let amazon = || format!("https://s3.{}.amazonaws.com", self.region);
        let server = self.server.clone().unwrap_or_else(amazon);
        let default = if self.server.is_some() { Addressing::Path } else { Addressing::Host };
        let (scheme, authority) = server.split_once("://").unwrap_or(("https", &server));
        let (scheme, authority) = (scheme.to_owned(), authority.trim_end_matches('/'));
        match self.addressing.unwrap_or(default) {
            Addressing::Path => (scheme, authority.to_owned(), format!("/{}/", self.bucket)),
            Addressing::Host => (scheme, format!("{}.{authority}", self.bucket), "/".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_whole_or_refused() {
        for (text, expected) in [
            ("s3://objects", Ok(("objects", ""))),
            ("S3://objects/", Ok(("objects", ""))),
            ("s3://my.objects/fleet-a/b", Ok(("my.objects", "fleet-a/b"))),
            ("s3://", Err("has no bucket's name")),
            ("s3://Objects", Err("has no bucket's name")),
            ("s3://me:secret@objects", Err("has no bucket's name")),
            ("s3://objects/../x", Err("has a prefix that is none")),
            ("s3://objects//x", Err("has a prefix that is none")),
            ("s3://objects/a?b", Err("has a prefix that is none")),
            ("https://objects", Err("does not begin with")),
        ] {
            match (S3Place::parse(text), expected) {
                (Ok(place), Ok((bucket, prefix))) => {
                    assert_eq!((&*place.bucket, &*place.prefix), (bucket, prefix), "{text}");
                }
                (Err(found), Err(expected)) => assert!(found.starts_with(expected), "{text}: {found}"),
                (found, expected) => panic!("{text}: {found:?}, expected {expected:?}"),
            }
        }
    }

    #[test]
    fn urls_are_those_of_the_server_and_the_way_of_addressing() {
        let place = S3Place { region: "eu-north-1".to_owned(), ..S3Place::parse("s3://objects").unwrap() };
        let own = Some("http://127.0.0.1:9000".to_owned());
        for (server, addressing, expected) in [
            (None, None, ("https", "objects.s3.eu-north-1.amazonaws.com", "/")),
            (None, Some(Addressing::Path), ("https", "s3.eu-north-1.amazonaws.com", "/objects/")),
            (own.clone(), None, ("http", "127.0.0.1:9000", "/objects/")),
            (own, Some(Addressing::Host), ("http", "objects.127.0.0.1:9000", "/")),
        ] {
            let (scheme, authority, path) = S3Place { server, addressing, ..place.clone() }.base();
            assert_eq!((&*scheme, &*authority, &*path), expected);
        }
        for (text, expected) in [
            ("https://s3.example.com", Some("https://s3.example.com")),
            ("http://[::1]:9000/", Some("http://[::1]:9000")),
            ("https://me:secret@s3.example.com", None),
            ("https://s3.example.com/path", None),
            ("ftp://s3.example.com", None),
            ("s3.example.com", None),
        ] {
            assert_eq!(S3Place::server(text).ok().as_deref(), expected, "{text}");
        }
    }
}
