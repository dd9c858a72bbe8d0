//! JSON as tensors whose datatypes are known: a body as the model's inputs, or a protocol's own list of
//! values.
//!
//! Flow: `admit → [read] → verify → infer`.
//! In:   JSON text, and the model's signature or a datatype.
//! Out:  one tensor per input that is given, in signature order, of the input's datatype and the shape the
//!       JSON has; giving it the shape the model wants is `verify`'s business.
//!
//! The body is an object keyed by input, or for a model of one input the bare value. Extra keys are ignored;
//! a key of `null` is missing. Nested lists give the shape, a bare number is a tensor without extents. An
//! element of BYTES is a string, a number as it is written, or `{"b64": "…"}`. An element of FP16, BF16, FP32
//! or FP64 may also be `null`, which is NaN, and one of the [special] numbers; a key of `null` is one where a
//! single value has to be given.
//!
//! Two passes over the text, no tree in between: serde finds the inputs and proves the whole body to be JSON;
//! then each input is read by `Reader`, which may take that for granted and writes little-endian elements
//! straight into the tensor's buffer. Reading from the text itself keeps numbers exact: no detour by `f64`
//! for a decimal that becomes FP32, none for a 64-bit integer, and BYTES keep a number as it was written.
//!
//! Invariants: neither pass recurses, so nesting costs no stack; memory is in proportion to the body. Errors
//! are for the caller: they name key, position, datatype and value.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use half::{bf16, f16};
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::base64;
use super::special::{self, Document};
use crate::error::{ValueError, ValueErrorKind};
use crate::tensor::{Datatype, Signature, Tensor, TensorSpec, element_count, push_bytes_element};

/// Deepest nesting of lists; no engine has tensors of more extents.
const MAX_DEPTH: usize = 32;

/// Most bytes of a value that an error repeats.
const MAX_QUOTE: usize = 40;

/// Makes one tensor per input of `signature` from `body`; optional ones may be left out.
///
/// # Errors
/// Text for the caller: `malformed json: …`, `missing key "input"`,
/// `key "b": element 0: cannot convert "x" to FP32`, …
pub fn tensors(body: &[u8], signature: &Signature) -> Result<Vec<Tensor>, String> {
    let specs = match signature.required() {
        // Without an object there is one value, that of the only input that has to be given.
        required @ [_] if !special::without_mark(body).trim_ascii_start().starts_with(b"{") => required,
        _ => &signature.inputs,
    };
    let values = values(body, specs, |spec| &spec.name, Repeated::Last)?;
    let tensor = |(spec, value): (&TensorSpec, Option<&str>)| match given(value, spec) {
        None if spec.is_optional() => None,
        None => Some(Err(format!("missing key {:?}", spec.name))),
        Some(value) => {
            let tensor = tensor(value, &spec.name, spec.datatype);
            Some(tensor.map_err(|error| format!("key {:?}: {error}", spec.name)))
        }
    };
    specs.iter().zip(values).filter_map(tensor).collect()
}

/// Most bytes of the tensors that JSON stands for, of any datatypes, and of the copy by which [special]
/// numbers are read.
pub fn most(json: &[u8]) -> usize {
    // Between two elements there is a comma. A number takes eight bytes at the most, a text a length of four
    // beside its own.
    let elements = memchr::memchr_iter(b',', json).count() + 1;
    let tensors = elements.saturating_mul(8).max(elements.saturating_mul(4).saturating_add(json.len()));
    tensors.saturating_add(special::most_copied(json))
}

/// A value that is there: not `null`, but where that is the one element of an input that has to be given.
pub(super) fn given<'a>(value: Option<&'a str>, spec: &TensorSpec) -> Option<&'a str> {
    let is_one = || {
        spec.datatype.is_float() && !spec.is_optional() && element_count(&spec.smallest_shape()) == Some(1)
    };
    value.filter(|value| *value != "null" || is_one())
}

/// The text of each input's value in `body`, which all of is JSON then but for [special] numbers in these
/// values; `None` if there is none. It may be `null` in an object, and is `None` in its place.
///
/// # Errors
/// Text for the caller: `malformed json: …`, a key that is `repeated` against the wish, or that there is no
/// object where several inputs need one.
pub fn values<'a, T>(
    body: &'a [u8],
    inputs: &[T],
    name: fn(&T) -> &str,
    repeated: Repeated,
) -> Result<Vec<Option<&'a str>>, String> {
    let malformed = |error: &dyn fmt::Display| format!("malformed json: {error}");
    let text = special::text(body).map_err(|error| malformed(&error))?;
    let mut copy = None;
    if text.trim_ascii_start().starts_with('{') {
        let found = special::read(text, &mut copy, |text| {
            let mut deserializer = serde_json::Deserializer::from_str(text);
            let values = deserializer.deserialize_map(Inputs { inputs, name, repeated })?;
            deserializer.end().map(|()| values)
        });
        let told = |error: serde_json::Error| match error.is_data() {
            true => error.to_string(),
            false => malformed(&error),
        };
        let (values, document) = found.map_err(told)?;
        return in_text(&values, document);
    }
    let found = special::read(text, &mut copy, serde_json::from_str::<&RawValue>);
    let (value, document) = found.map_err(|error| malformed(&error))?;
    match inputs {
        [] => document.check([]).map(|()| Vec::new()).map_err(|error| malformed(&error)),
        [_] => Ok(vec![Some(document.written(value.get())).filter(|value| *value != "null")]),
        _ => {
            let keys: Vec<_> = inputs.iter().map(|input| format!("{:?}", name(input))).collect();
            Err(format!("expected sample to be a dictionary with keys {}", keys.join(", ")))
        }
    }
}

/// The values of a document as they are written, if there is no special number beside them.
fn in_text<'a>(values: &[Option<&str>], document: Document<'a, '_>) -> Result<Vec<Option<&'a str>>, String> {
    let values: Vec<_> = values.iter().map(|value| value.map(|value| document.written(value))).collect();
    if !document.is_plain() {
        let mut parts: Vec<&str> = values.iter().copied().flatten().collect();
        parts.sort_unstable_by_key(|part| part.as_ptr());
        document.check(parts).map_err(|error| format!("malformed json: {error}"))?;
    }
    Ok(values)
}

/// The treatment of a key that comes twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeated {
    /// Its last value counts, as in most parsers.
    Last,
    /// An error: another parser, the handler's, may take the value that is not looked at.
    Refused,
}

/// Picks the text of each input out of an object.
struct Inputs<'a, T> {
    inputs: &'a [T],
    name: fn(&T) -> &str,
    repeated: Repeated,
}

impl<'de, T> Visitor<'de> for Inputs<'_, T> {
    type Value = Vec<Option<&'de str>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut values = vec![None; self.inputs.len()];
        while let Some(Key(key)) = map.next_key()? {
            match self.inputs.iter().zip(&mut values).find(|(input, _)| (self.name)(input) == key) {
                Some((_, Some(_))) if self.repeated == Repeated::Refused => {
                    return Err(A::Error::custom(format_args!("key {key:?} is given twice")));
                }
                Some((_, value)) => *value = Some(map.next_value::<&RawValue>()?.get()),
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(values)
    }
}

/// A key, borrowed unless it holds escapes.
#[derive(serde::Deserialize)]
pub(super) struct Key<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// BYTES that are no text, as `write` puts them: an object of this one key.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Encoded<'a> {
    #[serde(borrow)]
    b64: Cow<'a, str>,
}

/// Makes a tensor from the text of one value, which must be known to be JSON; its shape is that of the lists.
///
/// # Errors
/// Text for the caller: `element 0: cannot convert "x" to FP32`, …
pub fn tensor(text: &str, name: &Arc<str>, datatype: Datatype) -> Result<Tensor, String> {
    let mut reader = Reader::new(datatype, Mode::Lenient);
    reader.read(text).map_err(|error| error.text)?;
    reader.finish(name, None)
}

/// The elements that are taken, and their conversion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// BYTES may be numbers too; a tensor's data.
    Lenient,
    /// BYTES are text; a tensor's data.
    Strict,
    /// As [`Mode::Strict`], but nothing is kept.
    Check,
}

/// Shape and data of the value in `text`, which must be known to be JSON.
///
/// # Errors
/// The first thing that is no element of `datatype`, or no regular nest of lists.
pub fn elements(text: &str, datatype: Datatype, mode: Mode) -> Result<(Vec<u64>, Vec<u8>), ValueError> {
    let mut reader = Reader::new(datatype, mode);
    reader.read(text)?;
    let shape = reader.extents.into_iter().map(Option::unwrap_or_default).collect();
    Ok((shape, reader.data))
}

/// Collects the elements of nested lists and finds out their shape.
pub(super) struct Reader {
    datatype: Datatype,
    mode: Mode,
    data: Vec<u8>,
    /// Whether there has been an element.
    any: bool,
    /// For every list that is open, outermost first: how many of its items are complete.
    counts: Vec<u64>,
    /// For every depth at which there are lists: the length they all have, once the first of them is
    /// complete.
    extents: Vec<Option<u64>>,
}

impl Reader {
    pub(super) fn new(datatype: Datatype, mode: Mode) -> Reader {
        Reader { datatype, mode, data: Vec::new(), any: false, counts: Vec::new(), extents: Vec::new() }
    }

    /// Reads one value, which must be known to be JSON. Another one after it has to have the same shape.
    pub(super) fn read(&mut self, text: &str) -> Result<(), ValueError> {
        let mut rest = text;
        while let Some(byte) = rest.bytes().next() {
            let length = match byte {
                b'[' => self.open().map(|()| 1),
                b']' => self.close().map(|()| 1),
                b',' | b' ' | b'\t' | b'\n' | b'\r' => Ok(1),
                _ => {
                    let length = value_length(rest);
                    self.element(rest.get(..length).unwrap_or(rest)).map(|()| length)
                }
            };
            rest = rest.get(length?..).unwrap_or_default();
        }
        Ok(())
    }

    /// The tensor of what was read: of one value, or of so many rows of one value each.
    pub(super) fn finish(self, name: &Arc<str>, rows: Option<u64>) -> Result<Tensor, String> {
        let extents = self.extents.into_iter().map(Option::unwrap_or_default);
        let shape = rows.into_iter().chain(extents).collect();
        Tensor::new(Arc::clone(name), self.datatype, shape, self.data.into())
            .map_err(|error| error.to_string())
    }

    fn open(&mut self) -> Result<(), ValueError> {
        let depth = self.counts.len();
        if depth == MAX_DEPTH {
            let text = format!("lists nested deeper than {MAX_DEPTH}");
            return Err(ValueError { kind: ValueErrorKind::Lists, value: String::new(), text });
        }
        if self.extents.len() == depth {
            // The first list this deep. Elements beside it would have been read already.
            if self.any {
                return Err(self.lists("a list where the elements before are single values"));
            }
            self.extents.push(None);
        }
        self.counts.push(0);
        Ok(())
    }

    fn close(&mut self) -> Result<(), ValueError> {
        let length = self.counts.pop().unwrap_or_default();
        let expected = self.extents.get(self.counts.len()).copied().flatten();
        if let Some(expected) = expected
            && expected != length
        {
            return Err(self.lists(format_args!("a list of {length} where the ones before have {expected}")));
        }
        if let Some(extent) = self.extents.get_mut(self.counts.len()) {
            *extent = Some(length);
        }
        self.complete();
        Ok(())
    }

    fn element(&mut self, token: &str) -> Result<(), ValueError> {
        if self.counts.len() < self.extents.len() {
            return Err(self.lists(format_args!("{} where the elements before are lists", quote(token))));
        }
        let is_number = !token.starts_with('"');
        let appended = match self.datatype == Datatype::Bytes && self.mode != Mode::Lenient && is_number {
            true => Err(ValueErrorKind::Type),
            false => append(&mut self.data, self.datatype, token),
        };
        match appended {
            Ok(()) => self.complete(),
            Err(kind) => {
                let text = self.at(describe(kind, token, self.datatype));
                return Err(ValueError { kind, value: quote(token).into_owned(), text });
            }
        }
        self.any = true;
        if self.mode == Mode::Check {
            self.data.clear();
        }
        Ok(())
    }

    fn complete(&mut self) {
        if let Some(count) = self.counts.last_mut() {
            *count += 1;
        }
    }

    fn lists(&self, problem: impl fmt::Display) -> ValueError {
        ValueError { kind: ValueErrorKind::Lists, value: String::new(), text: self.at(problem) }
    }

    /// `problem` with the position of the item that is being read: `element 3: …`, `element [1, 3]: …`.
    fn at(&self, problem: impl fmt::Display) -> String {
        match self.counts.as_slice() {
            [] => problem.to_string(),
            [index] => format!("element {index}: {problem}"),
            path => format!("element {path:?}: {problem}"),
        }
    }
}

/// Length of the string, number or word that `text` starts with.
pub(super) fn scalar_length(text: &str) -> usize {
    let bytes = text.bytes();
    if text.starts_with('"') {
        let mut escaped = false;
        let end = bytes.skip(1).position(|byte| {
            let end = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            end
        });
        return end.map_or(text.len(), |end| end + 2);
    }
    let mut bytes = bytes;
    bytes.position(|byte| matches!(byte, b',' | b']' | b' ' | b'\t' | b'\n' | b'\r')).unwrap_or(text.len())
}

/// Length of the value that `text`, known to be JSON, starts with.
pub(super) fn value_length(text: &str) -> usize {
    if !text.starts_with(['{', '[']) {
        return scalar_length(text);
    }
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 1 => return at + 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

/// Whether `text` is an object that stands for BYTES.
pub(super) fn is_encoded(text: &str) -> bool {
    text.starts_with('{') && serde_json::from_str::<Encoded<'_>>(text).is_ok()
}

/// Why `token` is no element of `datatype`.
fn describe(kind: ValueErrorKind, token: &str, datatype: Datatype) -> String {
    let value = quote(token);
    match kind {
        ValueErrorKind::Type | ValueErrorKind::Lists => format!("cannot convert {value} to {datatype}"),
        ValueErrorKind::Inexact => format!("{value} is not an exact integer, which {datatype} needs"),
        ValueErrorKind::Range => format!("{value} is out of range for {datatype}"),
        ValueErrorKind::Base64 => "`b64` is not base64 (RFC 4648, section 4)".to_owned(),
    }
}

/// The value as an error repeats it: cut to be readable.
fn quote(token: &str) -> Cow<'_, str> {
    if token.starts_with('{') {
        return "an object".into();
    }
    if token.len() <= MAX_QUOTE {
        return token.into();
    }
    let end = token.floor_char_boundary(MAX_QUOTE);
    format!("{}…", token.get(..end).unwrap_or_default()).into()
}

/// Appends the element that `token` stands for.
fn append(data: &mut Vec<u8>, datatype: Datatype, token: &str) -> Result<(), ValueErrorKind> {
    match datatype {
        Datatype::Bool => match token {
            "true" => data.push(1),
            "false" => data.push(0),
            _ => return Err(ValueErrorKind::Type),
        },
        Datatype::Uint8 => data.extend_from_slice(&integer::<u8>(token)?.to_le_bytes()),
        Datatype::Uint16 => data.extend_from_slice(&integer::<u16>(token)?.to_le_bytes()),
        Datatype::Uint32 => data.extend_from_slice(&integer::<u32>(token)?.to_le_bytes()),
        Datatype::Uint64 => data.extend_from_slice(&integer::<u64>(token)?.to_le_bytes()),
        Datatype::Int8 => data.extend_from_slice(&integer::<i8>(token)?.to_le_bytes()),
        Datatype::Int16 => data.extend_from_slice(&integer::<i16>(token)?.to_le_bytes()),
        Datatype::Int32 => data.extend_from_slice(&integer::<i32>(token)?.to_le_bytes()),
        Datatype::Int64 => data.extend_from_slice(&integer::<i64>(token)?.to_le_bytes()),
        Datatype::Fp16 => {
            data.extend_from_slice(&float(token, f16::from_f64, f16::is_finite)?.to_le_bytes());
        }
        Datatype::Bf16 => {
            data.extend_from_slice(&float(token, bf16::from_f64, bf16::is_finite)?.to_le_bytes());
        }
        Datatype::Fp32 => {
            data.extend_from_slice(&float(token, |value: f32| value, f32::is_finite)?.to_le_bytes());
        }
        Datatype::Fp64 => {
            data.extend_from_slice(&float(token, |value: f64| value, f64::is_finite)?.to_le_bytes());
        }
        Datatype::Bytes => {
            let kind = |_| ValueErrorKind::Type;
            let bytes = match token.bytes().next() {
                Some(b'"') => match serde_json::from_str::<Key<'_>>(token).map_err(kind)?.0 {
                    Cow::Borrowed(text) => text.as_bytes().into(),
                    Cow::Owned(text) => text.into_bytes().into(),
                },
                Some(b'-' | b'0'..=b'9') if special::value(token).is_none() => token.as_bytes().into(),
                Some(b'{') => {
                    let encoded = serde_json::from_str::<Encoded<'_>>(token).map_err(kind)?;
                    Cow::Owned(base64::decode(&encoded.b64).ok_or(ValueErrorKind::Base64)?)
                }
                _ => return Err(ValueErrorKind::Type),
            };
            if !push_bytes_element(data, &bytes) {
                return Err(ValueErrorKind::Range);
            }
        }
    }
    Ok(())
}

/// A number of JSON. Rust's grammar has more (`inf`, `+1`), but nothing more that comes to here.
fn number<T: std::str::FromStr>(token: &str) -> Result<T, ValueErrorKind> {
    token.parse().map_err(|_| ValueErrorKind::Type)
}

/// A number of an FP type: one in its range, a special one, or `null`.
fn float<N: std::str::FromStr + From<f32>, T: Copy>(
    token: &str,
    convert: impl Fn(N) -> T,
    is_finite: impl Fn(T) -> bool,
) -> Result<T, ValueErrorKind> {
    let value = number(token).map(&convert);
    match value {
        Ok(value) if is_finite(value) => Ok(value),
        _ => match special::value(token) {
            Some(special) => Ok(convert(special.into())),
            None => value.and(Err(ValueErrorKind::Range)),
        },
    }
}

/// An integer, also in the form `3.0` or `1e3`, in which some languages write integers.
fn integer<T: std::str::FromStr + TryFrom<i128>>(token: &str) -> Result<T, ValueErrorKind> {
    /// From here on `f64` skips integers, so that the number may have been another one in the text.
    const EXACT: f64 = 9_007_199_254_740_992.0;

    if let Ok(value) = token.parse() {
        return Ok(value);
    }
    let float: f64 = match special::value(token) {
        Some(_) => return Err(ValueErrorKind::Type),
        None => number(token)?,
    };
    let value = if token.contains(['.', 'e', 'E']) {
        if float.fract() != 0.0 || EXACT <= float.abs() {
            return Err(ValueErrorKind::Inexact);
        }
        // Exact, as just checked.
        float as i128
    } else {
        token.parse().map_err(|_| ValueErrorKind::Range)?
    };
    T::try_from(value).map_err(|_| ValueErrorKind::Range)
}
