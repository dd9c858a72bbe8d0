//! Outputs that are more than a tensor: lists of tensors, and lists of maps as scikit-learn's models return
//! them.
//!
//! Flow: `ONNX Runtime → api → [compound] → session`.
//! In:   a sequence that the engine made. Out: two tensors, of which the second completes the first, see
//!       [`Role`].
//!
//! What is copied: everything; the parts lie apart in the engine's memory.
//!
//! | the engine's type | first tensor `NAME` | second tensor |
//! |---|---|---|
//! | sequence of maps | `[maps, keys]`: the values | `NAME.labels`, `[maps, keys]`: the keys |
//! | sequence of tensors | `[elements]`: of all of them, one after the other | `NAME.shapes`, `[tensors, extents]` |

use bytes::Bytes;
use ort::value::{TensorElementType, ValueType};

use super::api::{Output, Value};
use super::value::{known, spec, text, text_elements};
use crate::tensor::{Datatype, Extent, Role, Tensor, TensorSpec};

/// The tensors that stand for one output of the engine: one, or two.
///
/// # Errors
/// Text for the operator: the type that no tensor stands for.
pub fn specs(name: &str, value: &ValueType) -> Result<Vec<TensorSpec>, String> {
    let new = |name: &str, datatype, rank: usize, role| TensorSpec {
        name: name.into(),
        datatype,
        shape: vec![Extent::Free(None); rank],
        role,
    };
    let ValueType::Sequence(part) = value else { return Ok(vec![spec("output", name, value)?]) };
    match &**part {
        ValueType::Map { key, value: TensorElementType::Float32 }
            if matches!(key, TensorElementType::Int64 | TensorElementType::String) =>
        {
            let labels = new(&format!("{name}.labels"), known("output", name, *key)?, 2, Role::Labels);
            Ok(vec![new(name, Datatype::Fp32, 2, Role::Plain), labels])
        }
        ValueType::Tensor { ty, .. } => {
            let shapes = new(&format!("{name}.shapes"), Datatype::Int64, 2, Role::Shapes);
            Ok(vec![new(name, known("output", name, *ty)?, 1, Role::Plain), shapes])
        }
        _ => Ok(vec![spec("output", name, value)?]),
    }
}

/// A sequence as the tensors that stand for it.
///
/// # Errors
/// The engine's words, or what is not as its type says.
pub fn tensors(sequence: &Value<'_>, first: &TensorSpec, second: &TensorSpec) -> Result<[Tensor; 2], String> {
    let parts = sequence.parts().map_err(text)?;
    match second.role {
        Role::Labels => maps(&parts, first, second),
        _ => list(parts, first, second),
    }
}

fn maps(maps: &[Value<'static>], values: &TensorSpec, labels: &TensorSpec) -> Result<[Tensor; 2], String> {
    let (mut all_labels, mut all_values) = (Elements::new(labels), Elements::new(values));
    let mut width = 0;
    for (place, map) in maps.iter().enumerate() {
        let parts = map.parts().map_err(text)?;
        let Ok([keys, numbers]) = <[Value<'static>; 2]>::try_from(parts) else {
            return Err(format!("map {place} does not consist of keys and values"));
        };
        let count = all_labels.add(keys)?.0;
        if all_values.add(numbers)?.0 != count || (place > 0 && count != width) {
            return Err(format!("map {place} has {count} keys, and the first has {width}"));
        }
        width = count;
    }
    let shape = vec![maps.len() as u64, width as u64];
    Ok([all_values.tensor(shape.clone())?, all_labels.tensor(shape)?])
}

fn list(
    parts: Vec<Value<'static>>,
    elements: &TensorSpec,
    shapes: &TensorSpec,
) -> Result<[Tensor; 2], String> {
    let mut all = Elements::new(elements);
    let added = parts.into_iter().map(|part| all.add(part)).collect::<Result<Vec<_>, _>>()?;
    let rank = added.iter().map(|(_, shape)| shape.len()).max().unwrap_or(0);
    let count: usize = added.iter().map(|(count, _)| count).sum();
    // An extent of the engine fits i64; -1 fills up.
    let extents = added.iter().flat_map(|(_, shape)| {
        let fill = std::iter::repeat_n(u64::MAX, rank - shape.len());
        shape.iter().copied().chain(fill).flat_map(u64::to_le_bytes)
    });
    let data: Vec<u8> = extents.collect();
    let shape = vec![added.len() as u64, rank as u64];
    let shapes = Tensor::new(shapes.name.clone(), shapes.datatype, shape, data.into());
    Ok([all.tensor(vec![count as u64])?, shapes.map_err(|error| error.to_string())?])
}

/// Elements of several tensors of the engine's, one after the other.
struct Elements<'a> {
    spec: &'a TensorSpec,
    data: Vec<u8>,
}

impl<'a> Elements<'a> {
    fn new(spec: &'a TensorSpec) -> Elements<'a> {
        Elements { spec, data: Vec::new() }
    }

    /// Adds those of `value`: how many, and its shape.
    fn add(&mut self, value: Value<'static>) -> Result<(usize, Vec<u64>), String> {
        let part = Output::new(value).map_err(text)?;
        let datatype = known("part of", &self.spec.name, part.element())?;
        if datatype != self.spec.datatype {
            return Err(format!("expected elements of {}, got {datatype}", self.spec.datatype));
        }
        match datatype {
            Datatype::Bytes => self.data.extend_from_slice(&text_elements(&part)?),
            _ => self.data.extend_from_slice(part.numbers().map_err(text)?),
        }
        Ok((part.count().map_err(text)?, part.shape().to_vec()))
    }

    fn tensor(self, shape: Vec<u64>) -> Result<Tensor, String> {
        let data = Bytes::from(self.data);
        Tensor::new(self.spec.name.clone(), self.spec.datatype, shape, data)
            .map_err(|error| error.to_string())
    }
}
