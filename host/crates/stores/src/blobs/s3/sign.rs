//! The signature of a request: AWS Signature Version 4.
//!
//! In: a request's method, path, query and headers, the hash of its body, who asks and when. Out: the header
//! `authorization`. Source: Amazon's description of the signature, "Authenticating Requests (AWS Signature
//! Version 4)"; the tests are its published examples.

use std::fmt::Write as _;

use ring::hmac;
use sha2::{Digest as _, Sha256};

use super::credentials::Credentials;
use crate::text::hex;

/// The parts of a request that are signed.
pub(super) struct Signed<'a> {
    pub(super) method: &'a str,
    /// Escaped.
    pub(super) path: &'a str,
    /// As [`query`] writes it.
    pub(super) query: &'a str,
    /// Names in lower case; in any order.
    pub(super) headers: &'a [(&'a str, String)],
    /// As [`hash`] writes it.
    pub(super) body: &'a str,
    pub(super) region: &'a str,
    pub(super) service: &'a str,
    /// `20150830T123600Z`.
    pub(super) time: &'a str,
}

/// The value of `authorization`.
pub(super) fn authorization(signed: &Signed<'_>, credentials: &Credentials) -> String {
    let mut headers: Vec<(&str, &str)> =
        signed.headers.iter().map(|(name, value)| (*name, value.trim())).collect();
    headers.sort_unstable();
    let names = headers.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
    let mut request = format!("{}\n{}\n{}\n", signed.method, signed.path, signed.query);
    for (name, value) in headers {
        request += &format!("{name}:{value}\n");
    }
    request += &format!("\n{names}\n{}", signed.body);

    let date = signed.time.split('T').next().unwrap_or_default();
    let scope = format!("{date}/{}/{}/aws4_request", signed.region, signed.service);
    let text = format!("AWS4-HMAC-SHA256\n{}\n{scope}\n{}", signed.time, hash(request.as_bytes()));
    let first = format!("AWS4{}", credentials.secret_key).into_bytes();
    let parts = [date, signed.region, signed.service, "aws4_request"];
    let key = parts.iter().fold(first, |key, part| keyed(&key, part.as_bytes()));
    let signature = hex(&keyed(&key, text.as_bytes()));
    let who = &credentials.access_key;
    format!("AWS4-HMAC-SHA256 Credential={who}/{scope}, SignedHeaders={names}, Signature={signature}")
}

fn keyed(key: &[u8], text: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text).as_ref().to_vec()
}

/// SHA-256 in hexadecimal digits.
pub(super) fn hash(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// A text with all escaped but what needs no escape; in a path, `/` stays.
pub(super) fn escaped(text: &str, is_path: bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        let is_plain = byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) || is_path && byte == b'/';
        match is_plain {
            true => escaped.push(char::from(byte)),
            false => {
                let _ = write!(escaped, "%{byte:02X}");
            }
        }
    }
    escaped
}

/// A query in the order of its names, and of the values of one name; escaped.
pub(super) fn query(pairs: &[(&str, &str)]) -> String {
    let mut pairs: Vec<(String, String)> =
        pairs.iter().map(|(name, value)| (escaped(name, false), escaped(value, false))).collect();
    // Not as texts with `=` between: that is behind `-` and digits.
    pairs.sort_unstable();
    pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn credentials(access_key: &str, secret_key: &str) -> Credentials {
        Credentials {
            access_key: access_key.to_owned(),
            secret_key: secret_key.to_owned(),
            session_token: None,
        }
    }

    #[test]
    fn signatures_are_those_of_the_published_examples() {
        assert_eq!(hash(b""), EMPTY);
        let suite = credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");
        let s3 = credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY");
        let host = ("host", "examplebucket.s3.amazonaws.com");
        let date = ("x-amz-date", "20130524T000000Z");
        let body = |hash: &'static str| ("x-amz-content-sha256", hash);
        let put = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072";
        assert_eq!(hash(b"Welcome to Amazon S3."), put);
        for (who, service, method, path, pairs, headers, expected) in [
            (
                &suite,
                "service",
                "GET",
                "/",
                &[][..],
                &[("host", "example.amazonaws.com"), ("x-amz-date", "20150830T123600Z")][..],
                "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
            ),
            (
                &s3,
                "s3",
                "GET",
                "/test.txt",
                &[],
                &[host, date, body(EMPTY), ("range", "bytes=0-9")],
                "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
            ),
            (
                &s3,
                "s3",
                "PUT",
                "/test$file.text",
                &[],
                &[
                    host,
                    ("date", "Fri, 24 May 2013 00:00:00 GMT"),
                    ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
                    date,
                    body(put),
                ],
                "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
            ),
            (
                &s3,
                "s3",
                "GET",
                "/",
                &[("lifecycle", "")],
                &[host, date, body(EMPTY)],
                "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
            ),
            (
                &s3,
                "s3",
                "GET",
                "/",
                &[("prefix", "J"), ("max-keys", "2")],
                &[host, date, body(EMPTY)],
                "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
            ),
        ] {
            let value =
                |name: &str| headers.iter().find(|(other, _)| *other == name).map(|(_, value)| *value);
            let own: Vec<(&str, String)> =
                headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
            let authorization = authorization(
                &Signed {
                    method,
                    path: &escaped(path, true),
                    query: &query(pairs),
                    headers: &own,
                    body: value("x-amz-content-sha256").unwrap_or(EMPTY),
                    region: "us-east-1",
                    service,
                    time: value("x-amz-date").unwrap(),
                },
                who,
            );
            let (_, signature) = authorization.split_once("Signature=").unwrap();
            assert_eq!(signature, expected, "{method} {path} {pairs:?}");
        }
    }

    #[test]
    fn escapes_are_those_of_the_signature() {
        assert_eq!(escaped("a b/=ä~", true), "a%20b/%3D%C3%A4~");
        let pairs = [("b", "1/2"), ("a-b", ""), ("a1", "z"), ("a", "x y"), ("a", "b")];
        assert_eq!(query(&pairs), "a=b&a=x%20y&a-b=&a1=z&b=1%2F2");
    }
}
