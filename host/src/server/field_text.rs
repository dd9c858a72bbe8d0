//! Header fields as handlers read them: one value a name, and every byte of it as text.
//!
//! Place in the flow: [`ServiceSwitch`](super::switch::ServiceSwitch) has a head's fields [united] before any
//! service sees them; heads read what is no text of ASCII by way of [`OpaqueFields`].
//! In: fields as they came, over HTTP/1 and HTTP/2. Out: RFC 9110's view of them. Several lines of a name are
//! one list (section 5.3), but for `cookie` (RFC 9113, section 8.2.3); whom the request is for is `host`,
//! also where it came as `:authority` or in the target (RFC 9113, section 8.3.1; RFC 9112, section 3.2.2).
//! Bytes above 0x7F are ISO-8859-1, of which each byte is a character, so none is lost.
//!
//! [united]: unite

use std::sync::OnceLock;

use axum::http::header::{CONTENT_LENGTH, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue};
use axum::http::request::Parts;

use crate::text;

/// Makes one value of all lines of a name, and `host` of the authority.
pub(super) fn unite(parts: &mut Parts) {
    let headers = &mut parts.headers;
    if headers.len() != headers.keys_len() {
        let several: Vec<HeaderName> =
            headers.keys().filter(|name| headers.get_all(*name).iter().nth(1).is_some()).cloned().collect();
        for name in several {
            if name == CONTENT_LENGTH {
                // They are the same, or the connection would have refused them.
                let first = headers.get(&name).cloned();
                headers.extend(first.map(|first| (name, first)));
                continue;
            }
            let separator: &[u8] = if name == COOKIE { b"; " } else { b", " };
            let lines: Vec<&[u8]> = headers.get_all(&name).iter().map(HeaderValue::as_bytes).collect();
            // What was a value in parts is one as a whole.
            if let Ok(whole) = HeaderValue::from_bytes(&lines.join(separator)) {
                headers.insert(name, whole);
            }
        }
    }
    if let Some(authority) = parts.uri.authority() {
        let authority = authority.as_str();
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        if headers.get(HOST).is_none_or(|own| own != host)
            && let Ok(host) = HeaderValue::from_str(host)
        {
            headers.insert(HOST, host);
        }
    }
}

/// Text as the value of a field; `None` if it cannot be one.
pub(super) fn value(text: &str) -> Option<HeaderValue> {
    HeaderValue::from_bytes(&text::latin1(text)?).ok()
}

/// Of a head, the values that are no text of ASCII, decoded when one is asked for.
#[derive(Debug, Default)]
pub(super) struct OpaqueFields(OnceLock<Vec<(HeaderName, String)>>);

impl OpaqueFields {
    /// The value of a field of `headers`, which are always the same.
    pub(super) fn text<'a>(&'a self, headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
        let value = headers.get(name)?;
        value.to_str().ok().or_else(|| self.decoded(headers, name))
    }

    /// All fields.
    pub(super) fn all<'a>(&'a self, headers: &'a HeaderMap) -> Vec<(&'a str, &'a str)> {
        let text = |value: &'a HeaderValue, name| value.to_str().ok().or_else(|| self.decoded(headers, name));
        let pairs =
            headers.iter().filter_map(|(name, value)| Some((name.as_str(), text(value, name.as_str())?)));
        pairs.collect()
    }

    fn decoded(&self, headers: &HeaderMap, name: &str) -> Option<&str> {
        let all = self.0.get_or_init(|| {
            let opaque = headers.iter().filter(|(_, value)| value.to_str().is_err());
            opaque.map(|(name, value)| (name.clone(), text::of_latin1(value.as_bytes()))).collect()
        });
        let own = all.iter().find(|(own, _)| own.as_str().eq_ignore_ascii_case(name));
        own.map(|(_, text)| text.as_str())
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{Request, Version};

    use super::*;

    fn united(uri: &str, headers: &[(&str, &[u8])]) -> HeaderMap {
        let mut request = Request::builder().uri(uri).version(Version::HTTP_2);
        for (name, value) in headers {
            request = request.header(*name, HeaderValue::from_bytes(value).unwrap());
        }
        let (mut parts, ()) = request.body(()).unwrap().into_parts();
        unite(&mut parts);
        parts.headers
    }

    #[test]
    fn lines_of_a_name_are_one_value() {
        let headers = united(
            "/",
            &[
                ("cookie", b"a=1"),
                ("x-forwarded-for", b"1.1.1.1"),
                ("cookie", b"b=2"),
                ("x-forwarded-for", b"2.2.2.2, 3.3.3.3"),
                ("x-one", b"1"),
                ("cookie", b"c=\xe9"),
            ],
        );
        assert_eq!(headers.len(), 3);
        assert_eq!(headers["cookie"].as_bytes(), b"a=1; b=2; c=\xe9");
        assert_eq!(headers["x-forwarded-for"], "1.1.1.1, 2.2.2.2, 3.3.3.3");
        assert_eq!(headers["x-one"], "1");
    }

    #[test]
    fn the_authority_is_the_host() {
        for (uri, host, expected) in [
            ("/", Some("a"), Some("a")),
            ("/", None, None),
            ("http://a:81/", None, Some("a:81")),
            ("http://a/", Some("other"), Some("a")),
            ("http://user:secret@a/", None, Some("a")),
        ] {
            let headers: Vec<(&str, &[u8])> =
                host.map(|host| ("host", host.as_bytes())).into_iter().collect();
            let headers = united(uri, &headers);
            assert_eq!(headers.get(HOST).map(HeaderValue::as_bytes), expected.map(str::as_bytes), "{uri}");
        }
    }

    #[test]
    fn bytes_that_are_no_ascii_are_latin_1() {
        let headers = united("/", &[("x-name", b"Andr\xe9"), ("x-utf8", "é".as_bytes()), ("x-plain", b"a")]);
        let opaque = OpaqueFields::default();
        assert_eq!(opaque.text(&headers, "X-Name"), Some("André"));
        assert_eq!(opaque.text(&headers, "x-utf8"), Some("Ã©"));
        assert_eq!(opaque.text(&headers, "x-plain"), Some("a"));
        assert_eq!(opaque.text(&headers, "x-other"), None);
        assert_eq!(opaque.all(&headers), [("x-name", "André"), ("x-utf8", "Ã©"), ("x-plain", "a")]);
        for (name, text) in opaque.all(&headers) {
            assert_eq!(value(text).unwrap(), headers[name], "and back");
        }
        assert_eq!(value("€"), None);
    }
}
