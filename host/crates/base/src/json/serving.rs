//! TensorFlow Serving's JSON: what the built-in conversion reads and writes on `/v1/models/…:predict`.
//!
//! Flow: `server/http/v1 → [Serving::scan] → pre_inference: [tensors] → infer → post_inference: [outputs]`.
//!
//! | body | what it holds | answer |
//! |---|---|---|
//! | `{"instances": […]}` | a value for each instance, or an object with one for each input |
//! `{"predictions": […]}` |
//! | `{"inputs": …}` | the bare value of the only input, or an object of inputs | `{"outputs": …}` |
//! | anything else | see [`read`] | see [`super::write`] |
//!
//! `signature_name` may stand beside the first two. Instances are stacked: they are the rows of the inputs. A
//! prediction, and `outputs`, is the bare value of a model's only output, or an object with a key for each.
//!
//! Two passes over the text, as in `read`: [`Serving::scan`] proves it to be JSON and remembers where the
//! values are, so that neither has to be done again. Invariants: as in `read`, and no copy of the body is
//! made.

use std::fmt;
use std::sync::OnceLock;

use bytes::Bytes;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;

use super::outputs::values;
use super::read::{self, Key, Mode, Reader, Repeated};
use super::special;
use super::write::Nested;
use crate::tensor::{Datatype, Role, Signature, Tensor, TensorSpec, elements_length};
use crate::text::shown;

/// A body that is JSON, and where in it TensorFlow Serving's keys are; each is a part of the body, not a
/// copy.
#[derive(Debug, Default)]
pub struct Serving {
    instances: Option<Bytes>,
    inputs: Option<Bytes>,
    signature_name: Option<Bytes>,
    /// Whether it has a [special] number.
    has_special: bool,
    layout: OnceLock<Layout>,
}

/// How a body's tensors were laid out, and so how the answer's will be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// So many instances.
    Rows(usize),
    /// Whole inputs.
    Columns,
}

impl Serving {
    /// Proves that `body` is JSON, but for [special] numbers, and finds the keys.
    ///
    /// # Errors
    /// serde_json's words for a body that is none.
    pub fn scan(body: &Bytes) -> Result<Serving, String> {
        let text = special::text(body).map_err(|error| error.to_string())?;
        let mut copy = None;
        let found = special::read(text, &mut copy, |text| {
            let mut deserializer = serde_json::Deserializer::from_str(text);
            let found = match text.trim_ascii_start().starts_with('{') {
                true => deserializer.deserialize_map(Keys)?,
                false => deserializer.deserialize_ignored_any(IgnoredAny).map(|_| [None; 3])?,
            };
            deserializer.end().map(|()| found)
        });
        let (found, document) = found.map_err(|error| error.to_string())?;
        let written = |text: Option<&str>| text.map(|text| document.written(text));
        let [instances, inputs, signature_name] = found.map(written);
        if instances.is_some() || inputs.is_some() {
            let mut parts: Vec<&str> = instances.into_iter().chain(inputs).collect();
            parts.sort_unstable_by_key(|part| part.as_ptr());
            document.check(parts)?;
        }
        let part = |text: Option<&str>| {
            text.filter(|text| *text != "null").map(|text| body.slice_ref(text.as_bytes()))
        };
        Ok(Serving {
            instances: part(instances),
            inputs: part(inputs),
            signature_name: part(signature_name),
            has_special: !document.is_plain(),
            layout: OnceLock::new(),
        })
    }

    /// Whether the body has a [special] number, so that it is no valid JSON.
    pub fn has_special(&self) -> bool {
        self.has_special
    }

    /// The layout, if [`Serving::tensors`] has read the body and it had one.
    pub fn layout(&self) -> Option<Layout> {
        self.layout.get().copied()
    }

    /// Makes one tensor per input of `signature` from `body`, the one that was scanned. `key` is the
    /// signature's name.
    ///
    /// # Errors
    /// Text for the caller that names instance and input:
    /// `instance 1: key "b": element 0: cannot convert "x" to FP32`.
    pub fn tensors(&self, body: &[u8], signature: &Signature, key: &str) -> Result<Vec<Tensor>, String> {
        let (tensors, layout) = match (&self.instances, &self.inputs) {
            (None, None) => return read::tensors(body, signature),
            (Some(_), Some(_)) => return Err("expected one of `instances` and `inputs`, got both".to_owned()),
            (Some(instances), None) => {
                let (rows, tensors) = rows(text(instances), signature)?;
                (tensors, Layout::Rows(rows))
            }
            (None, Some(inputs)) => (columns(text(inputs), signature)?, Layout::Columns),
        };
        self.check_name(key)?;
        // Asked again, the answer is the same.
        let _ = self.layout.set(layout);
        Ok(tensors)
    }

    fn check_name(&self, key: &str) -> Result<(), String> {
        let Some(name) = &self.signature_name else { return Ok(()) };
        match serde_json::from_slice::<Key<'_>>(name) {
            Ok(Key(name)) if name.is_empty() || name == key => Ok(()),
            Ok(Key(name)) => {
                Err(format!("there is no signature `{}`; the model is served by `{key}`", shown(&name)))
            }
            Err(_) => Err("`signature_name` is no string".to_owned()),
        }
    }
}

/// Picks the values of the three keys out of an object.
struct Keys;

impl<'de> Visitor<'de> for Keys {
    type Value = [Option<&'de str>; 3];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let [mut instances, mut inputs, mut signature_name] = [None; 3];
        while let Some(Key(key)) = map.next_key()? {
            let value = match &*key {
                "instances" => &mut instances,
                "inputs" => &mut inputs,
                "signature_name" => &mut signature_name,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            *value = Some(map.next_value::<&RawValue>()?.get());
        }
        Ok([instances, inputs, signature_name])
    }
}

/// A part of a body that was text as a whole.
fn text(part: &[u8]) -> &str {
    str::from_utf8(part).unwrap_or_default()
}

/// Whether `value` is the value of a model's only input, not an object of inputs.
fn is_bare(value: &str, signature: &Signature) -> bool {
    match signature.required() {
        [spec] if spec.datatype == Datatype::Bytes && read::is_encoded(value) => *spec.name != *"b64",
        [_] => !value.starts_with('{'),
        _ => false,
    }
}

/// Stacks instances; how many there were, too. An optional input is given with every instance or with none.
fn rows(list: &str, signature: &Signature) -> Result<(usize, Vec<Tensor>), String> {
    let specs = &signature.inputs;
    if !list.starts_with('[') {
        return Err("`instances` is no list".to_owned());
    }
    let reader = |spec: &TensorSpec| (Reader::new(spec.datatype, Mode::Lenient), 0_usize);
    let mut readers: Vec<(Reader, usize)> = specs.iter().map(reader).collect();
    let mut count = 0;
    for instance in items(list) {
        stack(instance, signature, &mut readers).map_err(|error| format!("instance {count}: {error}"))?;
        count += 1;
    }
    if count == 0 {
        return Err("`instances` is empty".to_owned());
    }
    let tensor = |(spec, (reader, given)): (&TensorSpec, (Reader, usize))| match given {
        0 => None,
        _ if given < count => {
            Some(Err(format!("key {:?}: given with {given} of {count} instances", spec.name)))
        }
        _ => {
            let tensor = reader.finish(&spec.name, Some(count as u64));
            Some(tensor.map_err(|error| format!("key {:?}: {error}", spec.name)))
        }
    };
    Ok((count, specs.iter().zip(readers).filter_map(tensor).collect::<Result<_, _>>()?))
}

/// Reads one instance.
fn stack(instance: &str, signature: &Signature, readers: &mut [(Reader, usize)]) -> Result<(), String> {
    let specs = &signature.inputs;
    let values = if is_bare(instance, signature) {
        vec![Some(instance)]
    } else if instance.starts_with('{') {
        read::values(instance.as_bytes(), specs, |spec| &spec.name, Repeated::Last)?
    } else {
        let keys: Vec<_> = signature.required().iter().map(|spec| format!("{:?}", spec.name)).collect();
        return Err(format!("expected an object with keys {}", keys.join(", ")));
    };
    for ((spec, (reader, given)), value) in specs.iter().zip(readers).zip(values) {
        let Some(value) = read::given(value, spec) else {
            if spec.is_optional() {
                continue;
            }
            return Err(format!("missing key {:?}", spec.name));
        };
        reader.read(value).map_err(|error| format!("key {:?}: {error}", spec.name))?;
        *given += 1;
    }
    Ok(())
}

/// The items of a list that is known to be JSON.
fn items(list: &str) -> impl Iterator<Item = &str> {
    let mut rest = list.strip_prefix('[').unwrap_or_default();
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches([',', ' ', '\t', '\n', '\r']);
        if rest.starts_with(']') || rest.is_empty() {
            return None;
        }
        let (item, after) = rest.split_at_checked(read::value_length(rest))?;
        rest = after;
        Some(item)
    })
}

fn columns(value: &str, signature: &Signature) -> Result<Vec<Tensor>, String> {
    match signature.required() {
        // By the plain rule every object is one of inputs.
        [spec] if value.starts_with('{') && is_bare(value, signature) => {
            let tensor = read::tensor(value, &spec.name, spec.datatype);
            Ok(vec![tensor.map_err(|error| format!("key {:?}: {error}", spec.name))?])
        }
        _ => read::tensors(value.as_bytes(), signature),
    }
}

/// Writes `outputs` in the layout that the inputs had; `specs` is what a model's signature says of them.
///
/// # Errors
/// Text for the caller: an output that has no row for each instance.
pub fn outputs(outputs: &[Tensor], specs: &[TensorSpec], layout: Layout) -> Result<Vec<u8>, String> {
    let mut json = Vec::new();
    match layout {
        Layout::Columns => {
            json.extend_from_slice(b"{\"outputs\":");
            append(&mut json, &Values(outputs, specs));
        }
        Layout::Rows(count) => {
            json.extend_from_slice(b"{\"predictions\":");
            predictions(&mut json, outputs, specs, count)?;
        }
    }
    json.push(b'}');
    Ok(json)
}

fn predictions(
    json: &mut Vec<u8>,
    outputs: &[Tensor],
    specs: &[TensorSpec],
    count: usize,
) -> Result<(), String> {
    let role = |place: usize| specs.get(place).map_or(Role::Plain, |spec| spec.role);
    let rows = outputs.iter().enumerate().map(|(place, output)| {
        // A list of tensors, in two of them.
        let is_list = role(place) == Role::Shapes || role(place + 1) == Role::Shapes;
        Rows::of(output, is_list, count)
    });
    let mut rows = rows.collect::<Result<Vec<_>, _>>()?;
    // The usual case needs no cutting: one output's rows are what it nests.
    if let ([output], [Rows { split: true, .. }]) = (outputs, rows.as_slice())
        && !output.data.is_empty()
    {
        append(json, &Nested(output));
        return Ok(());
    }
    for number in 0..count {
        json.push(if number == 0 { b'[' } else { b',' });
        let row: Vec<Tensor> = rows.iter_mut().map(Rows::next).collect();
        append(json, &Values(&row, specs));
    }
    json.push(b']');
    Ok(())
}

fn append(json: &mut Vec<u8>, value: &impl Serialize) {
    // Cannot fail: a `Vec` takes everything, and verified BYTES can be read.
    let _ = serde_json::to_writer(json, value);
}

/// The rows of an output, one after the other.
struct Rows<'a> {
    output: &'a Tensor,
    /// Whether its first extent counts the instances; if not, it is as a whole the only instance's.
    split: bool,
    /// Of one row.
    shape: &'a [u64],
    rest: &'a [u8],
}

impl<'a> Rows<'a> {
    /// The rows of an output. A part of a list is not cut.
    fn of(output: &'a Tensor, is_list: bool, count: usize) -> Result<Rows<'a>, String> {
        let (split, shape) = match output.shape.as_slice() {
            [rows, shape @ ..] if *rows == count as u64 && !is_list => (true, shape),
            shape if count == 1 => (false, shape),
            shape => {
                return Err(format!(
                    "output {:?} of shape {shape:?} has no row for each of {count} instances: send `inputs` instead",
                    output.name
                ));
            }
        };
        Ok(Rows { output, split, shape, rest: &output.data })
    }

    /// The next row, as a tensor that shares the output's bytes.
    fn next(&mut self) -> Tensor {
        let shape = self.shape.to_vec();
        let mut row = Tensor { shape, data: Bytes::new(), ..self.output.clone() };
        let length = elements_length(row.datatype, self.rest, row.elements());
        if let Some((data, rest)) = self.rest.split_at_checked(length) {
            row.data = self.output.data.slice_ref(data);
            self.rest = rest;
        }
        row
    }
}

/// The bare value of an only output, or an object of outputs.
struct Values<'a>(&'a [Tensor], &'a [TensorSpec]);

impl Serialize for Values<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let values = || values(self.0, self.1);
        let mut first = values();
        if let (Some(only), None) = (first.next(), first.next()) {
            return only.serialize(serializer);
        }
        let mut object = serializer.serialize_map(None)?;
        for value in values() {
            object.serialize_entry(value.name(), &value)?;
        }
        object.end()
    }
}

#[cfg(test)]
mod tests;
