//! Keys: who may call an endpoint, or the administration.
//!
//! Place in the flow: `config` reads keys from files and variables, an endpoint and the admin listener ask
//! [`Keys::admit`], `plugin` keeps from handlers what [`is_credential`] names. No protocol's types: HTTP's
//! headers and gRPC's metadata say the same things by the same names.
//! Invariants: a key is kept as its SHA-256 only, so nothing that prints a configuration can print a key;
//! comparing takes the same time for every difference, and every key is compared.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq as _};

use crate::text;

/// The headers that may carry a key, in lower case.
pub const HEADERS: [&str; 2] = ["authorization", "x-banana-api-key"];
/// The schemes of a key in `authorization`: the standard's (RFC 6750), and that of clients of Truss.
const SCHEMES: [&str; 2] = ["bearer", "api-key"];
/// Longest key in bytes; nothing longer that a caller shows is looked at.
const LONGEST: usize = 1024;

/// Whether a header of this name, or one that is found by this name, may carry a key.
pub fn is_credential(name: &str) -> bool {
    HEADERS.iter().any(|header| text::is_similar(header, name))
}

/// The last words of names of headers, parameters and cookies that hold a secret.
const SECRET_WORDS: [&str; 15] = [
    "auth",
    "authorization",
    "authentication",
    "cookie",
    "credential",
    "jwt",
    "key",
    "passphrase",
    "passwd",
    "password",
    "pwd",
    "secret",
    "session",
    "signature",
    "token",
];

/// Whether what goes by this name looks like a secret: `x-api-key`, `access_token`, `clientSecret`,
/// `Set-Cookie`. Rather one too many: it is asked before something is written down.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
    words.any(|word| {
        let word = word.strip_suffix('s').unwrap_or(word);
        SECRET_WORDS.iter().any(|secret| word.ends_with(secret))
    })
}

/// The credentials of a request: the values of [`HEADERS`], or that it is the operator's.
#[derive(Clone, Copy, Default)]
pub struct Credentials<'a> {
    authorization: Option<&'a str>,
    api_key: Option<&'a str>,
    is_operator: bool,
}

impl<'a> Credentials<'a> {
    /// The credentials in the first header of each name; `header` gives its value.
    pub fn of(header: impl Fn(&'static str) -> Option<&'a str>) -> Credentials<'a> {
        let [authorization, api_key] = HEADERS;
        Credentials { authorization: header(authorization), api_key: header(api_key), is_operator: false }
    }

    /// A request of the operator, who was let in at the admin listener and needs no other key.
    pub fn operator() -> Credentials<'a> {
        Credentials { is_operator: true, ..Credentials::default() }
    }

    fn keys(self) -> impl Iterator<Item = &'a str> {
        let of_scheme = |value: &'a str| {
            let (scheme, key) = value.trim().split_once(' ')?;
            SCHEMES.iter().any(|known| known.eq_ignore_ascii_case(scheme)).then(|| key.trim())
        };
        let keys = [self.authorization.and_then(of_scheme), self.api_key.map(str::trim)];
        keys.into_iter().flatten().filter(|key| key.len() <= LONGEST)
    }
}

/// The keys or secrets of a text, one a line; empty lines and those that begin with `#` are none.
///
/// # Errors
/// The number of the first line, from 1, that cannot be one: it has spaces, anything but visible ASCII, or is
/// too long.
pub fn lines(text: &str) -> Result<Vec<&str>, usize> {
    Ok(numbered(text)?.into_iter().map(|(_, line)| line).collect())
}

/// The same, each with its number.
fn numbered(text: &str) -> Result<Vec<(usize, &str)>, usize> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.len() > LONGEST || !line.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(number);
        }
        found.push((number, line));
    }
    Ok(found)
}

/// Keys, each of which lets its request in. Without any, every request is let in.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Keys(Arc<[Key]>);

/// A key, of which is kept what does not open anything.
#[derive(Clone, PartialEq, Eq)]
struct Key {
    digest: [u8; 32],
    name: Arc<str>,
}

impl Keys {
    /// Reads one key a line, each named by its place: `source:LINE`.
    ///
    /// # Errors
    /// As [`lines`].
    pub fn parse(text: &str, source: &str) -> Result<Keys, usize> {
        let key = |(line, key)| Key { digest: digest(key), name: format!("{source}:{line}").into() };
        Ok(Keys(numbered(text)?.into_iter().map(key).collect()))
    }

    /// These and those of `other`.
    pub fn and(&self, other: &Keys) -> Keys {
        Keys(self.0.iter().chain(&*other.0).cloned().collect())
    }

    /// Whether there are none, so that every caller is let in.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a request with these credentials is let in. They are read only if there are keys.
    pub fn admit<'a>(&self, credentials: impl FnOnce() -> Credentials<'a>) -> bool {
        if self.is_empty() {
            return true;
        }
        let credentials = credentials();
        credentials.is_operator || credentials.keys().any(|key| self.contain(key))
    }

    /// The name of the key that lets a request with these credentials in; `None` if it needs none.
    pub fn name<'a>(&self, credentials: impl FnOnce() -> Credentials<'a>) -> Option<Arc<str>> {
        if self.is_empty() {
            return None;
        }
        let shown: Vec<_> = credentials().keys().map(digest).collect();
        let found = self.0.iter().fold(None, |found, known| {
            let is_it = shown.iter().fold(Choice::from(0), |is_it, key| is_it | known.digest.ct_eq(key));
            found.or(bool::from(is_it).then_some(known))
        });
        found.map(|key| key.name.clone())
    }

    fn contain(&self, key: &str) -> bool {
        let digest = digest(key);
        let found = self.0.iter().fold(Choice::from(0), |found, known| found | known.digest.ct_eq(&digest));
        found.into()
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys({})", self.0.len())
    }
}

fn digest(key: &str) -> [u8; 32] {
    Sha256::digest(key).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether keys from `text` let in who sends these headers (`NAME: VALUE`).
    fn admits(text: &str, headers: &[&str]) -> bool {
        let header = |name: &str| {
            headers.iter().find_map(|header| {
                let (found, value) = header.split_once(": ")?;
                (found == name).then_some(value)
            })
        };
        Keys::parse(text, "keys").unwrap().admit(|| Credentials::of(header))
    }

    #[test]
    fn every_form_of_a_right_key_is_let_in_and_nothing_else() {
        let keys = "# comment\n\n  first-key \nsecond\r\n";
        for (headers, expected) in [
            (&["authorization: Bearer first-key"][..], true),
            (&["authorization: bearer  second"], true),
            (&["authorization: Api-Key second"], true),
            (&["x-banana-api-key: first-key"], true),
            (&["authorization: Basic xyz", "x-banana-api-key: second"], true),
            (&[], false),
            (&["authorization: first-key"], false),
            (&["authorization: Basic first-key"], false),
            (&["authorization: Bearer first-ke"], false),
            (&["authorization: Bearer first-keyy"], false),
            (&["authorization: Bearer # comment"], false),
            (&["authorization: Bearer "], false),
            (&["x-banana-api-key: "], false),
            (&["x-banana-api-key: Bearer second"], false),
        ] {
            assert_eq!(admits(keys, headers), expected, "{headers:?}");
        }
        assert!(admits("# none\n", &[]), "without keys every caller is let in");
        assert!(Keys::parse(keys, "keys").unwrap().admit(Credentials::operator));
        let longest = "k".repeat(LONGEST);
        assert!(admits(&longest, &[&format!("authorization: Bearer {longest}")]));
    }

    #[test]
    fn what_cannot_be_a_key_is_named_by_its_line() {
        let too_long = "k".repeat(LONGEST + 1);
        for (text, line) in [("a\nb c", 2), ("\u{e9}", 1), ("# x\n\na\tb", 3), (too_long.as_str(), 1)] {
            assert_eq!(Keys::parse(text, "keys"), Err(line), "{text:.20}");
        }
        let both = Keys::parse("a", "one").unwrap().and(&Keys::parse("# it\nb\nc", "two").unwrap());
        assert_eq!(format!("{both:?}"), "Keys(3)");
        assert!(both.contain("a") && both.contain("c") && !both.contain("d"));
        let api_key = |key| Credentials { api_key: Some(key), ..Credentials::default() };
        for (key, name) in [("a", Some("one:1")), ("c", Some("two:3")), ("d", None)] {
            assert_eq!(both.name(|| api_key(key)).as_deref(), name);
        }
        assert_eq!(Keys::default().name(|| api_key("a")), None);
    }

    #[test]
    fn names_of_secrets_are_known() {
        for (name, expected) in [
            ("Authorization", true),
            ("proxy-authorization", true),
            ("Cookie", true),
            ("set-cookie", true),
            ("x-api-key", true),
            ("api_keys", true),
            ("apiKey", true),
            ("access_token", true),
            ("clientSecret", true),
            ("X-Amz-Signature", true),
            ("password[old]", true),
            ("content-type", false),
            ("accept", false),
            ("author", false),
            ("tokens_per_second", true),
            ("tokenizer", false),
            ("model", false),
            ("", false),
        ] {
            assert_eq!(is_secret_name(name), expected, "{name}");
        }
        assert!(HEADERS.iter().all(|header| is_secret_name(header)));
    }

    #[test]
    fn credentials_are_known_in_any_case() {
        for name in ["Authorization", "X-BANANA-API-KEY", "x_banana-Api_key"] {
            assert!(is_credential(name), "{name}");
        }
        assert!(!is_credential("x-request-id") && !is_credential("xbanana-api-key"));
    }
}
