//! MessagePack ↔ JSON, for clients that send and expect the one where all others use the other.
//!
//! Flow: `server/http/v1 → [to_json] → handler or model → [from_json] → server/http/v1`.
//! In:   one MessagePack document, hostile; or JSON that this host or its handler wrote.
//! Out:  the same document in the other notation:
//!
//! | MessagePack | JSON |
//! |---|---|
//! | `bin`, and `str` that is no UTF-8 | a string if it is UTF-8, else `{"b64": "…"}` |
//! | a key | a string; of an integer its digits |
//! | NaN and infinities | `null`; for a model the words of [`super::special`] |
//! | an array of numpy's as msgpack-numpy packs it | nested lists; a scalar of numpy's is a bare value |
//! | an extension | refused |
//!
//! Straight from bytes to bytes, with no tree in between: a list of small numbers would take forty times its
//! own length as one.
//! Invariants: the reader is at most [`MAX_DEPTH`] deep and allocates nothing on the word of a length; the
//! JSON is valid, and no longer than the caller allows.

use std::fmt;
use std::io::{self, Write as _};

use rmp::{Marker, encode};
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};

use super::special;
use super::write::{Nested, Text};
use crate::tensor::{Datatype, Tensor};

/// Deepest nesting that is read. serde_json's own limit, to which the other direction is subject, is 128.
const MAX_DEPTH: usize = 100;

/// Why a document has no JSON. The texts are for the caller.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It is no MessagePack, or holds what JSON has no word for.
    #[error("{0}")]
    Malformed(String),
    /// Its JSON would be longer than this many bytes.
    #[error("the document is longer than {0} bytes as JSON")]
    TooLong(usize),
}

/// The form of NaN and infinities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    /// `null`: the document is valid JSON.
    Null,
    /// The words of [`super::special`]: for the built-in conversion, which reads them.
    Words,
}

/// Writes the document `bytes` as JSON of at most `limit` bytes.
///
/// # Errors
/// [`Error`].
pub fn to_json(bytes: &[u8], limit: usize, special: Special) -> Result<Vec<u8>, Error> {
    let mut reader = Reader { input: Input(bytes), json: Limited { bytes: Vec::new(), limit }, special };
    reader.value(0)?;
    match reader.input.0.len() {
        0 => Ok(reader.json.bytes),
        left => Err(Error::Malformed(format!("{left} bytes after the end of the document"))),
    }
}

/// The bytes that are left to read.
#[derive(Clone, Copy)]
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn bytes(&mut self, length: usize) -> Result<&'a [u8], Error> {
        let missing = || Error::Malformed("the document breaks off".to_owned());
        let (bytes, rest) = self.0.split_at_checked(length).ok_or_else(missing)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        Ok(self.bytes(N)?.try_into().unwrap_or([0; N]))
    }

    fn marker(&mut self) -> Result<Marker, Error> {
        self.array().map(|[byte]| Marker::from_u8(byte))
    }

    /// The next value, its contents still to be read if it is an array or a map.
    fn next(&mut self) -> Result<Item<'a>, Error> {
        Ok(match self.marker()? {
            Marker::Null => Item::Nil,
            Marker::True => Item::Bool(true),
            Marker::False => Item::Bool(false),
            Marker::FixPos(n) => Item::Integer(n.into()),
            Marker::FixNeg(n) => Item::Integer(n.into()),
            Marker::U8 => Item::Integer(u8::from_be_bytes(self.array()?).into()),
            Marker::U16 => Item::Integer(u16::from_be_bytes(self.array()?).into()),
            Marker::U32 => Item::Integer(u32::from_be_bytes(self.array()?).into()),
            Marker::U64 => Item::Integer(u64::from_be_bytes(self.array()?).into()),
            Marker::I8 => Item::Integer(i8::from_be_bytes(self.array()?).into()),
            Marker::I16 => Item::Integer(i16::from_be_bytes(self.array()?).into()),
            Marker::I32 => Item::Integer(i32::from_be_bytes(self.array()?).into()),
            Marker::I64 => Item::Integer(i64::from_be_bytes(self.array()?).into()),
            Marker::F32 => Item::Single(f32::from_be_bytes(self.array()?)),
            Marker::F64 => Item::Double(f64::from_be_bytes(self.array()?)),
            Marker::FixStr(n) => Item::Text(self.bytes(n.into())?),
            Marker::Str8 | Marker::Bin8 => self.text(1)?,
            Marker::Str16 | Marker::Bin16 => self.text(2)?,
            Marker::Str32 | Marker::Bin32 => self.text(4)?,
            Marker::FixArray(n) => Item::Array(n.into()),
            Marker::Array16 => Item::Array(self.length(2)?),
            Marker::Array32 => Item::Array(self.length(4)?),
            Marker::FixMap(n) => Item::Map(n.into()),
            Marker::Map16 => Item::Map(self.length(2)?),
            Marker::Map32 => Item::Map(self.length(4)?),
            Marker::Reserved => return Err(Error::Malformed("0xc1 begins no value".to_owned())),
            _ => return Err(Error::Malformed("an extension has no form in JSON".to_owned())),
        })
    }

    /// A length of `bytes` bytes, big-endian.
    fn length(&mut self, bytes: usize) -> Result<usize, Error> {
        Ok(self.bytes(bytes)?.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)))
    }

    fn text(&mut self, bytes: usize) -> Result<Item<'a>, Error> {
        let length = self.length(bytes)?;
        self.bytes(length).map(Item::Text)
    }
}

enum Item<'a> {
    Nil,
    Bool(bool),
    Integer(i128),
    Single(f32),
    Double(f64),
    Text(&'a [u8]),
    Array(usize),
    Map(usize),
}

struct Reader<'a> {
    input: Input<'a>,
    json: Limited,
    special: Special,
}

impl Reader<'_> {
    fn value(&mut self, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(Error::Malformed(format!("nested deeper than {MAX_DEPTH}")));
        }
        match self.input.next()? {
            Item::Nil => self.json.put("null"),
            Item::Bool(value) => self.json.put(if value { "true" } else { "false" }),
            Item::Integer(value) => self.json.serialize(&value),
            Item::Single(value) => self.number(value, value.into()),
            Item::Double(value) => self.number(value, value),
            Item::Text(bytes) => self.json.serialize(&Text(bytes)),
            Item::Array(length) => {
                self.json.put("[")?;
                for index in 0..length {
                    if index > 0 {
                        self.json.put(",")?;
                    }
                    self.value(depth + 1)?;
                }
                self.json.put("]")
            }
            Item::Map(length) => {
                let mut ahead = self.input;
                if let Some(array) = Array::read(&mut ahead, length) {
                    self.input = ahead;
                    let tensor = array.tensor().map_err(Error::Malformed)?;
                    return self.array(&tensor);
                }
                self.json.put("{")?;
                for index in 0..length {
                    if index > 0 {
                        self.json.put(",")?;
                    }
                    self.key()?;
                    self.json.put(":")?;
                    self.value(depth + 1)?;
                }
                self.json.put("}")
            }
        }
    }

    /// A number, `value` if it is a special one.
    fn number(&mut self, number: impl serde::Serialize, value: f64) -> Result<(), Error> {
        match special::word(value).filter(|_| self.special == Special::Words) {
            Some(word) => self.json.put(word),
            None => self.json.serialize(&number),
        }
    }

    fn array(&mut self, tensor: &Tensor) -> Result<(), Error> {
        if self.special == Special::Null || !tensor.datatype.is_float() {
            return self.json.serialize(&Nested(tensor));
        }
        // At once as text, which has `null` in the place of each of them, in the same order.
        let from = self.json.bytes.len();
        self.json.serialize(&Nested(tensor))?;
        let written = self.json.bytes.split_off(from);
        let mut words = special::floats(tensor).filter_map(special::word);
        let mut rest = written.as_slice();
        while let Some(at) = rest.iter().position(|byte| *byte == b'n') {
            self.json.put_bytes(rest.get(..at).unwrap_or_default())?;
            self.json.put(words.next().unwrap_or("null"))?;
            rest = rest.get(at + "null".len()..).unwrap_or_default();
        }
        self.json.put_bytes(rest)
    }

    fn key(&mut self) -> Result<(), Error> {
        match self.input.next()? {
            Item::Text(key) => match str::from_utf8(key) {
                Ok(key) => self.json.serialize(key),
                Err(_) => Err(Error::Malformed("a key is not UTF-8".to_owned())),
            },
            Item::Integer(key) => self.json.put(&format!("\"{key}\"")),
            _ => Err(Error::Malformed("a key is neither text nor an integer".to_owned())),
        }
    }
}

/// JSON that may not grow beyond a limit.
struct Limited {
    bytes: Vec<u8>,
    limit: usize,
}

impl Limited {
    fn put(&mut self, text: &str) -> Result<(), Error> {
        self.put_bytes(text.as_bytes())
    }

    fn put_bytes(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.write_all(bytes).map_err(|_| Error::TooLong(self.limit))
    }

    fn serialize(&mut self, value: &(impl serde::Serialize + ?Sized)) -> Result<(), Error> {
        // What is written here fails for no other reason.
        serde_json::to_writer(&mut *self, value).map_err(|_| Error::TooLong(self.limit))
    }
}

impl io::Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An array of numpy's, as msgpack-numpy packs it: `{nd: true, type: "<f4", kind: "", shape: […], data: …}`;
/// a scalar has `nd: false` and no shape.
struct Array<'a> {
    kind: &'a [u8],
    shape: Vec<u64>,
    data: &'a [u8],
}

impl<'a> Array<'a> {
    /// Reads a map that has these keys; `None`, after not much work, for any other.
    fn read(input: &mut Input<'a>, length: usize) -> Option<Array<'a>> {
        if !(3..=5).contains(&length) {
            return None;
        }
        let (mut nd, mut kind, mut shape, mut data) = (None, None, None, None);
        for _ in 0..length {
            let Item::Text(key) = input.next().ok()? else { return None };
            match (key, input.next().ok()?) {
                (b"nd", Item::Bool(value)) => nd = Some(value),
                (b"type", Item::Text(value)) => kind = Some(value),
                (b"kind", Item::Text(_)) => {}
                (b"shape", Item::Array(rank)) if rank <= crate::tensor::LARGEST_RANK => {
                    let extent = |_| match input.next() {
                        Ok(Item::Integer(extent)) => u64::try_from(extent).ok(),
                        _ => None,
                    };
                    shape = Some((0..rank).map(extent).collect::<Option<Vec<u64>>>()?);
                }
                (b"data", Item::Text(value)) => data = Some(value),
                _ => return None,
            }
        }
        let shape = if nd? { shape? } else { Vec::new() };
        Some(Array { kind: kind?, shape, data: data? })
    }

    fn tensor(&self) -> Result<Tensor, String> {
        let (order, kind) = match self.kind {
            [order @ (b'<' | b'>' | b'|' | b'='), kind @ ..] => (*order, kind),
            kind => (b'<', kind),
        };
        let datatype = match kind {
            b"b1" | b"?" => Datatype::Bool,
            b"u1" => Datatype::Uint8,
            b"u2" => Datatype::Uint16,
            b"u4" => Datatype::Uint32,
            b"u8" => Datatype::Uint64,
            b"i1" => Datatype::Int8,
            b"i2" => Datatype::Int16,
            b"i4" => Datatype::Int32,
            b"i8" => Datatype::Int64,
            b"f2" => Datatype::Fp16,
            b"f4" => Datatype::Fp32,
            b"f8" => Datatype::Fp64,
            _ => {
                let kind = String::from_utf8_lossy(self.kind).chars().take(40).collect::<String>();
                return Err(format!(
                    "an array of numpy's type `{kind}`, which is neither number nor boolean"
                ));
            }
        };
        let mut data = self.data.to_vec();
        if let (b'>', Some(size)) = (order, datatype.size()) {
            data.chunks_exact_mut(size).for_each(<[u8]>::reverse);
        }
        let tensor = Tensor::new("".into(), datatype, self.shape.clone(), data.into());
        tensor.map_err(|error| format!("an array of numpy's: {error}"))
    }
}

/// Writes the JSON text `json` as MessagePack, every value in its shortest form.
///
/// # Errors
/// serde_json's words, for what is no JSON or nested deeper than 128.
pub fn from_json(json: &[u8]) -> Result<Vec<u8>, String> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let mut bytes = Vec::new();
    let written = Writer(&mut bytes).deserialize(&mut deserializer).and_then(|()| deserializer.end());
    written.map(|()| bytes).map_err(|error| error.to_string())
}

/// Appends one value.
struct Writer<'a>(&'a mut Vec<u8>);

impl Writer<'_> {
    /// Puts the header of an array or a map, whose length is known only now, before its contents.
    fn insert<E: serde::de::Error>(self, at: usize, length: usize, header: Header) -> Result<(), E> {
        let length = u32::try_from(length).map_err(E::custom)?;
        let mut bytes = Vec::with_capacity(5);
        header(&mut bytes, length).map_err(E::custom)?;
        self.0.splice(at..at, bytes);
        Ok(())
    }
}

type Header = fn(&mut Vec<u8>, u32) -> Result<Marker, encode::ValueWriteError>;

impl<'de> DeserializeSeed<'de> for Writer<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Writer<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        encode::write_nil(self.0).map_err(E::custom)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<(), E> {
        encode::write_bool(self.0, value).map_err(E::custom)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        encode::write_uint(self.0, value).map(drop).map_err(E::custom)
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        encode::write_sint(self.0, value).map(drop).map_err(E::custom)
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        encode::write_f64(self.0, value).map_err(E::custom)
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<(), E> {
        encode::write_str(self.0, value).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let (at, mut length) = (self.0.len(), 0);
        while items.next_element_seed(Writer(self.0))?.is_some() {
            length += 1;
        }
        self.insert(at, length, encode::write_array_len)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let (at, mut length) = (self.0.len(), 0);
        while entries.next_key_seed(Writer(self.0))?.is_some() {
            entries.next_value_seed(Writer(self.0))?;
            length += 1;
        }
        self.insert(at, length, encode::write_map_len)
    }
}

#[cfg(test)]
mod tests;
