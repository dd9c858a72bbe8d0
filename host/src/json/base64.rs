//! Bytes as text within JSON: base64, standard alphabet (RFC 4648, section 4).
//!
//! Place in the flow: BYTES that are no text are `{"b64": "…"}` in every JSON this host reads and writes, as
//! in TensorFlow Serving's; bytes of a recording stand so as well.

use std::fmt::{self, Write};

use serde::de::{Deserialize as _, Deserializer, Error as _};
use serde::ser::Serializer;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Bytes that are shown as base64, padded.
pub struct Base64<'a>(pub &'a [u8]);

impl fmt::Display for Base64<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for group in self.0.chunks(3) {
            let missing = 3 - group.len();
            let bits = group.iter().fold(0, |bits, byte| bits << 8 | usize::from(*byte)) << (8 * missing);
            for position in 0..4 {
                let letter =
                    ALPHABET.get(bits >> (18 - 6 * position) & 63).filter(|_| position < 4 - missing);
                f.write_char(letter.map_or('=', |letter| char::from(*letter)))?;
            }
        }
        Ok(())
    }
}

/// The bytes that `text` stands for; padding may be left out. `None` for what is no base64.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=').as_bytes();
    let padding = text.len() - digits.len();
    if padding > 2 || padding > 0 && !text.len().is_multiple_of(4) || digits.len() % 4 == 1 {
        return None;
    }
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    for group in digits.chunks(4) {
        let mut bits = 0;
        for digit in group {
            bits = bits << 6 | value(*digit)?;
        }
        // Two digits hold one byte, three hold two; what is left over means nothing.
        let [_, whole @ ..] = (bits << (6 * (4 - group.len()))).to_be_bytes();
        bytes.extend_from_slice(whole.get(..group.len() - 1)?);
    }
    Some(bytes)
}

/// For `#[serde(with = "base64")]`.
///
/// # Errors
/// The serializer's own.
pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&Base64(bytes))
}

/// For `#[serde(with = "base64")]`.
///
/// # Errors
/// The value is no text, or no base64.
pub fn deserialize<'de, D: Deserializer<'de>, B: From<Vec<u8>>>(deserializer: D) -> Result<B, D::Error> {
    let text = String::deserialize(deserializer)?;
    decode(&text).map(B::from).ok_or_else(|| D::Error::custom("the text is no base64"))
}

fn value(digit: u8) -> Option<u32> {
    let value = match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(value.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for (bytes, text) in [
            (&b""[..], ""),
            (b"\xff", "/w=="),
            (b"\xff\xfe", "//4="),
            (b"\xff\xfe\xfd", "//79"),
            (b"hello \x00", "aGVsbG8gAA=="),
        ] {
            assert_eq!(Base64(bytes).to_string(), text);
            assert_eq!(decode(text).as_deref(), Some(bytes), "{text}");
            assert_eq!(decode(text.trim_end_matches('=')).as_deref(), Some(bytes), "{text} unpadded");
        }
    }

    #[test]
    fn what_is_no_base64() {
        for text in ["A", "AAAAA", "AA=", "AAA==", "=", "====", "AA=A", "AA A", "AA-_", "é"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
