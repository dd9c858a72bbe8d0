//! Reads JSON piece by piece, without a tree.
//!
//! Place in the flow: below what looks at two documents side by side, or at a few places of one.
//! In:   text that [`Cursor::proven`] has proved to be JSON. Out: kinds, keys, and values as they are
//!       written.
//!
//! Every value begins with [`Cursor::kind`]; then either [`Cursor::skip`] gives its text, or
//! [`Cursor::enter`] goes into it and [`Cursor::key`] or [`Cursor::element`] says whether another member or
//! element follows.
//!
//! Invariants: nothing here recurses and nothing is copied but keys with escapes; a document of any size
//! costs no memory.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::special;

/// The kind of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `{…}`
    Object,
    /// `[…]`
    Array,
    /// `"…"`
    String,
    /// A number, of any length.
    Number,
    /// `true`, `false` or `null`.
    Word,
}

/// A place in a text that is JSON.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    rest: &'a str,
}

impl<'a> Cursor<'a> {
    /// At the start of `body`; `None` if that is not JSON.
    pub fn proven(body: &'a [u8]) -> Option<Cursor<'a>> {
        // Not `IgnoredAny`, which takes strings of bytes that are no UTF-8.
        let document: &RawValue = serde_json::from_slice(body).ok()?;
        Some(Cursor { rest: document.get() })
    }

    /// The same, where the document may begin with a byte order mark and have [special] numbers, which are
    /// words.
    pub fn lenient(body: &'a [u8]) -> Option<Cursor<'a>> {
        let text = special::text(body).ok()?;
        let mut copy = None;
        let (_, document) = special::read(text, &mut copy, serde_json::from_str::<&RawValue>).ok()?;
        Some(Cursor { rest: document.all().trim_ascii() })
    }

    /// At the start of a value that is known to be JSON, but for [special] numbers.
    pub fn at(value: &'a str) -> Cursor<'a> {
        Cursor { rest: value }
    }

    /// At the start of a value that another cursor has [skipped](Cursor::skip).
    pub fn of(value: Raw<'a>) -> Cursor<'a> {
        Cursor { rest: value.0 }
    }

    /// The kind of the next value.
    pub fn kind(&mut self) -> Kind {
        self.rest = self.rest.trim_ascii_start();
        match self.rest.bytes().next() {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'"') => Kind::String,
            Some(b'-' | b'0'..=b'9') => Kind::Number,
            _ => Kind::Word,
        }
    }

    /// Goes past the next value.
    pub fn skip(&mut self) -> Raw<'a> {
        let length = match self.kind() {
            Kind::String => string(self.rest.as_bytes()),
            Kind::Object | Kind::Array => nested(self.rest.as_bytes()),
            Kind::Number | Kind::Word => {
                let ends = |byte: u8| byte.is_ascii_whitespace() || matches!(byte, b',' | b']' | b'}');
                self.rest.bytes().position(ends).unwrap_or(self.rest.len())
            }
        };
        let (value, rest) = self.rest.split_at_checked(length).unwrap_or((self.rest, ""));
        self.rest = rest;
        Raw(value)
    }

    /// Goes into the next value, an object or a list.
    pub fn enter(&mut self) {
        self.kind();
        self.bump();
    }

    /// Whether another element follows; its value is next then. After the last one the list is behind the
    /// cursor.
    pub fn element(&mut self) -> bool {
        self.rest = self.rest.trim_ascii_start();
        match self.rest.bytes().next() {
            Some(b',') => {
                self.bump();
                true
            }
            Some(b']' | b'}') | None => {
                self.bump();
                false
            }
            Some(_) => true,
        }
    }

    /// The next member's key; its value is next then. After the last one, `None`, the object is behind the
    /// cursor.
    pub fn key(&mut self) -> Option<Raw<'a>> {
        if !self.element() {
            return None;
        }
        let written = self.skip();
        self.rest = self.rest.trim_ascii_start();
        // The colon.
        self.bump();
        Some(written)
    }

    fn bump(&mut self) {
        self.rest = self.rest.get(1..).unwrap_or_default();
    }
}

/// One value as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Raw<'a>(&'a str);

impl<'a> Raw<'a> {
    /// Its text.
    pub fn text(self) -> &'a str {
        self.0
    }

    /// The text of a string; anything else, and a string that no text can express (half a surrogate pair), as
    /// it is written.
    pub fn string(self) -> Cow<'a, str> {
        let inner = self.0.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        match inner {
            Some(inner) if !inner.contains('\\') => Cow::Borrowed(inner),
            Some(_) => serde_json::from_str(self.0).map_or(Cow::Borrowed(self.0), Cow::Owned),
            None => Cow::Borrowed(self.0),
        }
    }
}

/// Bytes of the string that `text` begins with.
fn string(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = text.get(at) {
        at += match byte {
            b'"' => return at + 1,
            b'\\' => 2,
            _ => 1,
        };
    }
    text.len()
}

/// Bytes of the object or list that `text` begins with.
fn nested(text: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => {
                at += string(text.get(at..).unwrap_or_default());
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The document again, as the cursor sees it.
    fn walked(cursor: &mut Cursor<'_>, out: &mut String) {
        match cursor.kind() {
            Kind::Object => {
                cursor.enter();
                out.push('{');
                while let Some(key) = cursor.key() {
                    out.push_str(&key.string());
                    out.push('=');
                    walked(cursor, out);
                    out.push(' ');
                }
                out.push('}');
            }
            Kind::Array => {
                cursor.enter();
                out.push('[');
                while cursor.element() {
                    walked(cursor, out);
                    out.push(' ');
                }
                out.push(']');
            }
            _ => out.push_str(cursor.skip().text()),
        }
    }

    #[test]
    fn every_piece_comes_in_its_turn() {
        for (text, expected) in [
            ("1", "1"),
            (" null ", "null"),
            ("[]", "[]"),
            ("{ }", "{}"),
            (" [ 1 , [] , {} ,-2.5e3,true]", "[1 [] {} -2.5e3 true ]"),
            (r#"{"a":1,"b" : [ "x,]}" ] , "":{"c":false}}"#, r#"{a=1 b=["x,]}" ] ={c=false } }"#),
            (r#"{"\u0061\"":"\\\"]"}"#, r#"{a"="\\\"]" }"#),
            (r#"{"\ud800":1}"#, r#"{"\ud800"=1 }"#),
        ] {
            let mut out = String::new();
            walked(&mut Cursor::proven(text.as_bytes()).unwrap(), &mut out);
            assert_eq!(out, expected, "{text}");
        }
    }

    #[test]
    fn a_value_is_skipped_as_a_whole() {
        for (text, value) in [
            ("[1,[2,{\"a\":[\"]\"]}],3]", "[1,[2,{\"a\":[\"]\"]}],3]"),
            ("  \"a\\\\\" ", "\"a\\\\\""),
            ("12 ", "12"),
            ("{\"}\":\"{\"}\n", "{\"}\":\"{\"}"),
        ] {
            assert_eq!(Cursor::proven(text.as_bytes()).unwrap().skip().text(), value, "{text}");
        }
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert_eq!(Cursor::proven(deep.as_bytes()).unwrap().skip().text(), deep, "no stack is needed");
    }

    #[test]
    fn what_is_no_json_is_not_read() {
        for body in [&b""[..], b"{", b"[1,]", b"1 2", b"\"\xff\"", b"NaN"] {
            assert!(Cursor::proven(body).is_none(), "{body:?}");
        }
    }
}
