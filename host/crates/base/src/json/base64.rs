//! Bytes as text within JSON: base64, standard alphabet (RFC 4648, section 4).
//!
//! Place in the flow: BYTES that are no text are `{"b64": "…"}` in every JSON this host reads and writes, as
//! in TensorFlow Serving's; bytes of a recording stand so as well.

use std::fmt;

use ::base64::Engine as _;
use ::base64::alphabet::STANDARD as ALPHABET;
use ::base64::display::Base64Display;
use ::base64::engine::general_purpose::STANDARD;
use ::base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::de::{Deserialize as _, Deserializer, Error as _};
use serde::ser::Serializer;

/// Padding may be left out; the bits that are left over mean nothing.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &ALPHABET,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Bytes that are shown as base64, padded.
pub struct Base64<'a>(pub &'a [u8]);

impl fmt::Display for Base64<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Base64Display::new(self.0, &STANDARD).fmt(f)
    }
}

/// The bytes that `text` stands for; padding may be left out. `None` for what is no base64.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    // All of it or nothing.
    if text.ends_with('=') && !text.len().is_multiple_of(4) {
        return None;
    }
    LENIENT.decode(text).ok()
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
    fn bits_that_are_left_over_mean_nothing() {
        for (text, bytes) in
            [("/x==", &b"\xff"[..]), ("/x", b"\xff"), ("//9=", b"\xff\xff"), ("//9", b"\xff\xff")]
        {
            assert_eq!(decode(text).as_deref(), Some(bytes), "{text}");
        }
        let long: Vec<u8> = (0..100_000_u32).map(|n| (n % 251) as u8).collect();
        assert_eq!(decode(&Base64(&long).to_string()), Some(long));
    }

    #[test]
    fn what_is_no_base64() {
        for text in [
            "A", "AAAAA", "AA=", "AAA==", "=", "====", "AA=A", "AA A", "AA-_", "é", "AAAA====", "AAAA=",
            "AA\n",
        ] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
