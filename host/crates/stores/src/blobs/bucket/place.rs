//! A bucket: `s3://BUCKET[/PREFIX]`, `gs://BUCKET[/PREFIX]` or `az://CONTAINER[/PREFIX]`, with all that it
//! takes to use it.
//!
//! Place in the flow: `config/` makes it, [`super::client`] sends to it. Invariant: no text of this file's
//! holds a secret.

use std::fmt;
use std::time::Duration;

use http::Uri;

use super::keys::{CredentialFiles, Credentials};

/// The protocol of a server of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cloud {
    /// Amazon S3, and servers that speak its protocol.
    S3,
    /// Google Cloud Storage.
    Gcs,
    /// Azure Blob Storage.
    Azure,
}

impl Cloud {
    const ALL: [Cloud; 3] = [Cloud::S3, Cloud::Gcs, Cloud::Azure];

    /// How an address begins.
    pub fn scheme(self) -> &'static str {
        match self {
            Cloud::S3 => "s3://",
            Cloud::Gcs => "gs://",
            Cloud::Azure => "az://",
        }
    }

    /// As in errors.
    pub fn name(self) -> &'static str {
        match self {
            Cloud::S3 => "S3",
            Cloud::Gcs => "Google Cloud Storage",
            Cloud::Azure => "Azure Blob Storage",
        }
    }

    /// The one that an address is meant for.
    fn of(text: &str) -> Option<Cloud> {
        let begins = |cloud: &Cloud| {
            let scheme = cloud.scheme();
            text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        };
        Cloud::ALL.into_iter().find(begins)
    }
}

/// Where the name of a bucket, or of Azure's account, stands in a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addressing {
    /// In the path.
    Path,
    /// Before the server's name.
    Host,
}

/// A bucket, and how to use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketPlace {
    /// The protocol of its server.
    pub cloud: Cloud,
    /// Its name.
    pub bucket: String,
    /// The beginning of all keys, without `/` at its ends; may be empty.
    pub prefix: String,
    /// Scheme, host and port; `None` for the cloud's own server.
    pub server: Option<String>,
    /// The region, which is part of each signature of S3's.
    pub region: String,
    /// Azure's storage account.
    pub account: String,
    /// Where the name stands; `None`: before the cloud's own name, and in the path of another server.
    pub addressing: Option<Addressing>,
    /// How long an answer may take.
    pub timeout: Duration,
    /// The key; `None` for what the platform gives to this machine or pod.
    pub credentials: Option<Credentials>,
    /// Where the key is read again.
    pub credential_files: CredentialFiles,
}

/// As in logs.
impl fmt::Display for BucketPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.cloud.scheme(), self.bucket)?;
        if self.prefix.is_empty() { Ok(()) } else { write!(f, "/{}", self.prefix) }
    }
}

impl BucketPlace {
    /// Whether a text is meant to be an address of a bucket.
    pub fn is_one(text: &str) -> bool {
        Cloud::of(text).is_some()
    }

    /// Reads an address.
    ///
    /// # Errors
    /// Text that says what is wrong with it.
    pub fn parse(text: &str) -> Result<BucketPlace, &'static str> {
        let cloud = Cloud::of(text).ok_or("does not begin with `s3://`, `gs://` or `az://`")?;
        let rest = text.get(cloud.scheme().len()..).unwrap_or_default();
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_tame = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-._".contains(&byte);
        if !(3..=63).contains(&bucket.len()) || !bucket.bytes().all(is_tame) {
            return Err("has no bucket's name: 3 to 63 lower-case letters, digits, `-`, `_` and `.`");
        }
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
        let is_part = |part: &str| {
            let is_tame = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            !part.is_empty() && !part.starts_with('.') && part.bytes().all(is_tame)
        };
        if prefix.len() > 128 || !prefix.is_empty() && !prefix.split('/').all(is_part) {
            return Err("has a prefix that is none: letters, digits, `-`, `_`, `.` and `/`, 128 at most");
        }
        Ok(BucketPlace {
            cloud,
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
            server: None,
            region: String::new(),
            account: String::new(),
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

    /// Scheme and authority of its URLs, and the path before what `object_store` adds to them: of S3 the key,
    /// of the others the bucket's name.
    pub(super) fn base(&self) -> (String, String) {
        let own = || match self.cloud {
            Cloud::S3 => format!("https://s3.{}.amazonaws.com", self.region),
            Cloud::Gcs => "https://storage.googleapis.com".to_owned(),
            Cloud::Azure => "https://blob.core.windows.net".to_owned(),
        };
        let server = self.server.clone().unwrap_or_else(own);
        let server = server.trim_end_matches('/');
        let name = match self.cloud {
            Cloud::S3 => &self.bucket,
            Cloud::Gcs => return (server.to_owned(), String::new()),
            Cloud::Azure => &self.account,
        };
        let default = if self.server.is_some() { Addressing::Path } else { Addressing::Host };
        match self.addressing.unwrap_or(default) {
            Addressing::Path => (server.to_owned(), format!("/{name}")),
            Addressing::Host => {
                let (scheme, authority) = server.split_once("://").unwrap_or(("https", server));
                (format!("{scheme}://{name}.{authority}"), String::new())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_whole_or_refused() {
        for (text, expected) in [
            ("s3://objects", Ok((Cloud::S3, "objects", ""))),
            ("S3://objects/", Ok((Cloud::S3, "objects", ""))),
            ("s3://my.objects/fleet-a/b", Ok((Cloud::S3, "my.objects", "fleet-a/b"))),
            ("gs://my_objects/fleet-a", Ok((Cloud::Gcs, "my_objects", "fleet-a"))),
            ("az://objects/fleet-a", Ok((Cloud::Azure, "objects", "fleet-a"))),
            ("s3://", Err("has no bucket's name")),
            ("s3://Objects", Err("has no bucket's name")),
            ("s3://me:secret@objects", Err("has no bucket's name")),
            ("s3://objects/../x", Err("has a prefix that is none")),
            ("gs://objects//x", Err("has a prefix that is none")),
            ("az://objects/a?b", Err("has a prefix that is none")),
            ("https://objects", Err("does not begin with")),
        ] {
            match (BucketPlace::parse(text), expected) {
                (Ok(place), Ok((cloud, bucket, prefix))) => {
                    assert_eq!(
                        (place.cloud, &*place.bucket, &*place.prefix),
                        (cloud, bucket, prefix),
                        "{text}"
                    );
                }
                (Err(found), Err(expected)) => assert!(found.starts_with(expected), "{text}: {found}"),
                (found, expected) => panic!("{text}: {found:?}, expected {expected:?}"),
            }
        }
    }

    #[test]
    fn urls_are_those_of_the_server_and_the_way_of_addressing() {
        let place = |scheme: &str| BucketPlace {
            region: "eu-north-1".to_owned(),
            account: "fleet".to_owned(),
            ..BucketPlace::parse(&format!("{scheme}://objects")).unwrap()
        };
        let own = Some("http://127.0.0.1:9000".to_owned());
        for (scheme, server, addressing, expected) in [
            ("s3", None, None, ("https://objects.s3.eu-north-1.amazonaws.com", "")),
            ("s3", None, Some(Addressing::Path), ("https://s3.eu-north-1.amazonaws.com", "/objects")),
            ("s3", own.clone(), None, ("http://127.0.0.1:9000", "/objects")),
            ("s3", own.clone(), Some(Addressing::Host), ("http://objects.127.0.0.1:9000", "")),
            ("gs", None, None, ("https://storage.googleapis.com", "")),
            ("gs", own.clone(), None, ("http://127.0.0.1:9000", "")),
            ("az", None, None, ("https://fleet.blob.core.windows.net", "")),
            ("az", own, None, ("http://127.0.0.1:9000", "/fleet")),
        ] {
            let (origin, path) = BucketPlace { server, addressing, ..place(scheme) }.base();
            assert_eq!((&*origin, &*path), expected);
        }
        for (text, expected) in [
            ("https://s3.example.com", Some("https://s3.example.com")),
            ("http://[::1]:9000/", Some("http://[::1]:9000")),
            ("https://me:secret@s3.example.com", None),
            ("https://s3.example.com/path", None),
            ("ftp://s3.example.com", None),
            ("s3.example.com", None),
        ] {
            assert_eq!(BucketPlace::server(text).ok().as_deref(), expected, "{text}");
        }
    }
}
