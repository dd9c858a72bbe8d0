//! Documents with the numbers that JSON has no word for: bare `NaN`, `Infinity` and `-Infinity`, as Python's
//! `json`, TensorFlow Serving's and Triton's clients write them.
//!
//! Place in the flow: around the first pass over a body, which proves that it is JSON. In: text, and that
//! pass. Out: what the pass has found, where it stands in the text. Special numbers are data of FP types and
//! nothing else: [`Document::check`] refuses one anywhere else.
//!
//! serde_json takes none of the three. So the first pass is made again, over a copy in which each is a number
//! of as many bytes: every value, and every error, is at the same place in both.
//!
//! Invariants: a text that is JSON is neither copied nor read twice; who reads a body has memory for
//! [`most_copied`] first.

use std::borrow::Cow;

use half::{bf16, f16};
use serde_json::Value;

use crate::tensor::{Datatype, Tensor};

/// The special numbers, and numbers of the same lengths.
const WORDS: [(&[u8], &[u8]); 3] =
    [(b"NaN", b"100"), (b"Infinity", b"10000000"), (b"-Infinity", b"-10000000")];

/// The byte order mark of UTF-8.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// The text of a body, without the byte order mark that it may begin with (RFC 8259, section 8.1).
///
/// # Errors
/// It is not UTF-8.
pub fn text(body: &[u8]) -> Result<&str, std::str::Utf8Error> {
    str::from_utf8(without_mark(body))
}

/// A body without the byte order mark that it may begin with.
pub fn without_mark(body: &[u8]) -> &[u8] {
    body.strip_prefix(MARK).unwrap_or(body)
}

/// Whether a body begins with a byte order mark.
pub fn is_marked(body: &[u8]) -> bool {
    body.starts_with(MARK)
}

/// The value of a special number, and NaN for `null`, in the place of a number.
pub(super) fn value(token: &str) -> Option<f32> {
    match token {
        "NaN" | "null" => Some(f32::NAN),
        "Infinity" => Some(f32::INFINITY),
        "-Infinity" => Some(f32::NEG_INFINITY),
        _ => None,
    }
}

/// The word for a number that JSON does not have.
pub(super) fn word(value: f64) -> Option<&'static str> {
    match value {
        value if value.is_nan() => Some("NaN"),
        f64::INFINITY => Some("Infinity"),
        f64::NEG_INFINITY => Some("-Infinity"),
        _ => None,
    }
}

/// The elements of a tensor of an FP type.
pub(super) fn floats(tensor: &Tensor) -> impl Iterator<Item = f64> {
    let size = tensor.datatype.size().unwrap_or(1);
    tensor.data.chunks_exact(size).filter_map(|bytes| {
        Some(match tensor.datatype {
            Datatype::Fp16 => f16::from_le_bytes(bytes.try_into().ok()?).to_f64(),
            Datatype::Bf16 => bf16::from_le_bytes(bytes.try_into().ok()?).to_f64(),
            Datatype::Fp32 => f32::from_le_bytes(bytes.try_into().ok()?).into(),
            Datatype::Fp64 => f64::from_le_bytes(bytes.try_into().ok()?),
            _ => return None,
        })
    })
}

/// A document that was read: as it is written, and as it was read.
#[derive(Debug, Clone, Copy)]
pub struct Document<'a, 'c> {
    written: &'a str,
    read: &'c str,
}

/// Reads `text` by `parse`, special numbers or not; `copy` holds what is read if there are any.
///
/// # Errors
/// Those of `parse`.
pub fn read<'a: 'c, 'c, T>(
    text: &'a str,
    copy: &'c mut Option<String>,
    parse: impl Fn(&'c str) -> serde_json::Result<T>,
) -> serde_json::Result<(T, Document<'a, 'c>)> {
    let read = match parse(text) {
        Ok(found) => return Ok((found, Document { written: text, read: text })),
        Err(error) if !error.is_syntax() => return Err(error),
        Err(error) => match replaced(text) {
            None => return Err(error),
            Some(replaced) => &*copy.insert(replaced),
        },
    };
    Ok((parse(read)?, Document { written: text, read }))
}

impl<'a> Document<'a, '_> {
    /// A part of what was read, as it is written.
    pub fn written(&self, part: &str) -> &'a str {
        let at = part.as_ptr().addr().wrapping_sub(self.read.as_ptr().addr());
        self.written.get(at..at.saturating_add(part.len())).unwrap_or_default()
    }

    /// All of it, as it is written.
    pub fn all(&self) -> &'a str {
        self.written
    }

    /// Whether it is JSON as it is written.
    pub fn is_plain(&self) -> bool {
        std::ptr::eq(self.written.as_ptr(), self.read.as_ptr())
    }

    /// Refuses a special number anywhere but in `parts`, which are written one after the other.
    ///
    /// # Errors
    /// Text for the caller: which it is, and where.
    pub fn check<'p>(&self, parts: impl IntoIterator<Item = &'p str>) -> Result<(), String> {
        if self.is_plain() {
            return Ok(());
        }
        let mut at = 0;
        for part in parts {
            let begin = part.as_ptr().addr().wrapping_sub(self.written.as_ptr().addr());
            self.none(at, begin)?;
            at = begin.saturating_add(part.len());
        }
        self.none(at, self.written.len())
    }

    /// Refuses a special number between two values.
    fn none(&self, begin: usize, end: usize) -> Result<(), String> {
        let bytes = self.written.as_bytes();
        let Some((place, word)) = Words { bytes, at: begin }.next().filter(|(place, _)| *place < end) else {
            return Ok(());
        };
        let before = bytes.get(..place).unwrap_or_default();
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        let column = 1 + before.iter().rev().take_while(|byte| **byte != b'\n').count();
        let (word, _) = WORDS.get(word).copied().unwrap_or_default();
        let word = String::from_utf8_lossy(word);
        Err(format!("{word} at line {line} column {column}, where no data of an FP type is"))
    }
}

/// A document as a tree, a number in the place of each special one; `Null` if it is no JSON.
pub fn tree(body: &[u8]) -> Value {
    let Ok(text) = text(body) else { return Value::Null };
    let mut copy = None;
    read(text, &mut copy, serde_json::from_str).map(|(tree, _)| tree).unwrap_or_default()
}

/// Most bytes of the copy that [`read`] makes of `json`: none, if a special number is nowhere in it.
pub fn most_copied(json: &[u8]) -> usize {
    let has = |word: &[u8]| memchr::memmem::find(json, word).is_some();
    if has(b"NaN") || has(b"Infinity") { json.len() } else { 0 }
}

/// `text` with a number in the place of each special one; `None` without any.
fn replaced(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut words = Words { bytes, at: 0 }.peekable();
    words.peek()?;
    let mut copy = bytes.to_vec();
    for (place, word) in words {
        let (_, number) = WORDS.get(word).copied().unwrap_or_default();
        if let Some(part) = copy.get_mut(place..place + number.len()) {
            part.copy_from_slice(number);
        }
    }
    String::from_utf8(copy).ok()
}

/// `body` with `null` in the place of each special number.
pub fn nulled(body: &[u8]) -> Cow<'_, [u8]> {
    let mut out = Vec::new();
    let mut done = 0;
    for (place, word) in (Words { bytes: body, at: 0 }) {
        out.extend_from_slice(body.get(done..place).unwrap_or_default());
        out.extend_from_slice(b"null");
        done = place + WORDS.get(word).map_or(0, |(word, _)| word.len());
    }
    if done == 0 {
        return Cow::Borrowed(body);
    }
    out.extend_from_slice(body.get(done..).unwrap_or_default());
    Cow::Owned(out)
}

/// Places of special numbers outside of strings, each with the index of its word; begins outside of a string.
struct Words<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Iterator for Words<'_> {
    type Item = (usize, usize);

    fn next(&mut self) -> Option<(usize, usize)> {
        loop {
            let rest = self.bytes.get(self.at..)?;
            let skipped = rest.iter().position(|byte| matches!(byte, b'"' | b'N' | b'I' | b'-'))?;
            let place = self.at + skipped;
            let rest = rest.get(skipped..)?;
            if rest.first() == Some(&b'"') {
                self.at = place + string(rest);
                continue;
            }
            let begins = match place.checked_sub(1).and_then(|before| self.bytes.get(before)) {
                None => true,
                Some(byte) => matches!(byte, b'[' | b',' | b':' | b' ' | b'\t' | b'\n' | b'\r'),
            };
            let is_whole = |word: &[u8]| {
                rest.strip_prefix(word).is_some_and(|rest| match rest.first() {
                    None => true,
                    Some(byte) => matches!(byte, b']' | b'}' | b',' | b' ' | b'\t' | b'\n' | b'\r'),
                })
            };
            let word = WORDS.iter().position(|(word, _)| begins && is_whole(word));
            self.at = place + word.and_then(|word| WORDS.get(word)).map_or(1, |(word, _)| word.len());
            if let Some(word) = word {
                return Some((place, word));
            }
        }
    }
}

/// Bytes of the string that `text` begins with.
fn string(text: &[u8]) -> usize {
    let mut escaped = false;
    let end = text.iter().skip(1).position(|byte| {
        let end = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        end
    });
    end.map_or(text.len(), |end| end + 2)
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    #[test]
    fn a_special_number_is_one_outside_of_strings_and_whole() {
        for (text, expected) in [
            ("NaN", Some("100")),
            ("[NaN, Infinity,\n-Infinity]", Some("[100, 10000000,\n-10000000]")),
            (r#"{"NaN":NaN,"b\"":"NaN"}"#, Some(r#"{"NaN":100,"b\"":"NaN"}"#)),
            ("[1NaN]", None),
            ("[NaN1]", None),
            ("[-NaN]", None),
            ("[--Infinity]", None),
            ("[Infinityx]", None),
            ("[nan,inf,-inf,infinity]", None),
            ("[\"NaN", None),
            ("[\"\\\\\",NaN]", Some("[\"\\\\\",100]")),
            ("", None),
        ] {
            assert_eq!(replaced(text).as_deref(), expected, "{text}");
            assert!(most_copied(text.as_bytes()) >= expected.map_or(0, str::len), "{text}");
        }
        assert_eq!(most_copied(b"[-1,\"nan\"]"), 0);
        assert_eq!(nulled(b"[NaN,\"NaN\",-Infinity ]").as_ref(), b"[null,\"NaN\",null ]");
    }

    #[test]
    fn what_is_found_is_where_it_is_written() {
        let of = |text: &'static str| {
            let mut copy = None;
            let parse = serde_json::from_str::<Vec<&RawValue>>;
            let (found, document) = read(text, &mut copy, parse).map_err(|error| error.to_string())?;
            let parts: Vec<&str> = found.iter().map(|part| document.written(part.get())).collect();
            document.check(parts.iter().take(1).copied())?;
            Ok::<_, String>(parts.join(" "))
        };
        assert_eq!(of("[1, 2]").as_deref(), Ok("1 2"));
        assert_eq!(of("[[ NaN,-Infinity], 2]").as_deref(), Ok("[ NaN,-Infinity] 2"));
        let elsewhere = "Infinity at line 2 column 2, where no data of an FP type is";
        assert_eq!(of("[NaN,\n Infinity]"), Err(elsewhere.to_owned()));
        assert_eq!(of("[NaN,]"), Err("trailing comma at line 1 column 6".to_owned()));
        assert_eq!(of("[{NaN:1}]"), Err("key must be a string at line 1 column 3".to_owned()));
    }
}
