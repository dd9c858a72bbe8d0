//! Values of headers that have parameters: `text/plain; charset=utf-8`, `form-data; name="file"`.
//!
//! In: a header's value. Out: what stands before the first semicolon, and parameters by name (RFC 9110,
//! section 5.6.6).

use std::borrow::Cow;

/// A header's value and its parameters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parameterised<'a> {
    /// Without white space around it; as it was written.
    pub(crate) essence: &'a str,
    parameters: &'a str,
}

impl<'a> Parameterised<'a> {
    pub(crate) fn new(value: &'a str) -> Parameterised<'a> {
        let (essence, parameters) = value.split_once(';').unwrap_or((value, ""));
        Parameterised { essence: essence.trim(), parameters }
    }

    pub(crate) fn is(&self, essence: &str) -> bool {
        self.essence.eq_ignore_ascii_case(essence)
    }

    /// The first parameter of this name; `None` if there is none, or nothing but nonsense before it.
    pub(crate) fn parameter(&self, name: &str) -> Option<Cow<'a, str>> {
        let mut rest = self.parameters;
        loop {
            rest = rest.trim_start_matches([' ', '\t', ';']);
            let (key, after) = rest.split_once('=')?;
            let (value, after) = match after.strip_prefix('"') {
                Some(quoted) => unquoted(quoted)?,
                None => {
                    let end = after.find(';').unwrap_or(after.len());
                    let (token, after) = after.split_at(end);
                    (token.trim_end().into(), after)
                }
            };
            if key.eq_ignore_ascii_case(name) {
                return Some(value);
            }
            rest = after;
        }
    }
}

/// The text of a quoted string, whose opening quote is gone, and what comes after it. A backslash protects a
/// quote or another backslash; before anything else it is one, for there are clients that send paths of
/// Windows as they are.
fn unquoted(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let mut escaped = false;
    let end = text.bytes().position(|byte| {
        let end = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        end
    })?;
    let (quoted, after) = (text.get(..end)?, text.get(end + 1..)?);
    if !quoted.contains('\\') {
        return Some((quoted.into(), after));
    }
    let mut plain = String::with_capacity(quoted.len());
    let mut letters = quoted.chars().peekable();
    while let Some(letter) = letters.next() {
        let protected =
            if letter == '\\' { letters.next_if(|next| ['"', '\\'].contains(next)) } else { None };
        plain.push(protected.unwrap_or(letter));
    }
    Some((plain.into(), after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_parameters() {
        for (value, name, expected) in [
            ("text/plain", "charset", None),
            ("text/plain; charset=utf-8", "charset", Some("utf-8")),
            ("text/plain;CharSet=utf-8 ; x=1", "charset", Some("utf-8")),
            ("text/plain; x=1; charset=\"utf-8\"", "charset", Some("utf-8")),
            ("text/plain; x=\"a;charset=no\"; charset=yes", "charset", Some("yes")),
            (r#"form-data; name="a\"b\\c\d""#, "name", Some(r#"a"b\c\d"#)),
            ("form-data; name=", "name", Some("")),
            ("form-data; filename=x", "name", None),
            ("form-data; name=\"open", "name", None),
            ("form-data; nonsense; name=a", "name", None),
            ("form-data;;; name=a", "name", Some("a")),
        ] {
            assert_eq!(Parameterised::new(value).parameter(name).as_deref(), expected, "{value}");
        }
        assert!(Parameterised::new(" Text/PLAIN ;x").is("text/plain"));
    }
}
