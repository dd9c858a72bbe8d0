//! The few things that S3 says in XML, and its dates.
//!
//! In: a document of S3's, none of whose elements that are asked for has another one within. Out: their
//! texts.

use crate::time::unix_seconds;

/// The texts of all elements of this name, in order.
pub(super) fn all<'a>(document: &'a str, name: &str) -> impl Iterator<Item = String> + use<'a> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let mut rest = document;
    std::iter::from_fn(move || {
        let (_, after) = rest.split_once(&open)?;
        let (text, after) = after.split_once(&close)?;
        rest = after;
        Some(unescaped(text))
    })
}

/// The text of the first one.
pub(super) fn first(document: &str, name: &str) -> Option<String> {
    all(document, name).next()
}

fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        plain += before;
        let (name, behind) = after.split_once(';').unwrap_or((after, ""));
        let number = name.strip_prefix('#').and_then(|digits| match digits.strip_prefix('x') {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => digits.parse().ok(),
        });
        plain.extend(match name {
            "amp" => Some('&'),
            "lt" => Some('<'),
            "gt" => Some('>'),
            "quot" => Some('"'),
            "apos" => Some('\''),
            _ => number.and_then(char::from_u32),
        });
        rest = behind;
    }
    plain + rest
}

/// A text as it may stand within an element.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Seconds since 1970 of a date as HTTP has it: `Fri, 24 May 2013 00:00:00 GMT`.
pub(super) fn http_date(text: &str) -> Option<u64> {
    httpdate::parse_http_date(text).ok().map(unix_seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_dates_are_read() {
        let document = "<?xml version=\"1.0\"?><ListBucketResult><Contents><Key>a&amp;b&#x2F;&lt;</Key>\
            <Size>5</Size></Contents><Contents><Key>c</Key><Size>7</Size></Contents></ListBucketResult>";
        assert_eq!(all(document, "Key").collect::<Vec<_>>(), ["a&b/<", "c"]);
        assert_eq!(all(document, "Size").collect::<Vec<_>>(), ["5", "7"]);
        assert_eq!(first(document, "NextContinuationToken"), None);
        assert_eq!(unescaped(&escaped("\"a<&>b\"")), "\"a<&>b\"");
        for (text, expected) in [
            ("Fri, 24 May 2013 00:00:00 GMT", Some(1_369_353_600)),
            ("Thu, 01 Jan 1970 00:00:01 GMT", Some(1)),
            ("yesterday", None),
        ] {
            assert_eq!(http_date(text), expected, "{text}");
        }
    }
}
