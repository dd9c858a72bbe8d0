//! Two lists of tensors, name by name.
//!
//! Values of floating-point datatypes are the same if they are close enough, NaN and NaN included; of any
//! other datatype if they are equal. The place of a value is `/NAME/INDEX`, its index in row-major order.

use std::borrow::Cow;

use half::{bf16, f16};

use super::{Difference, MOST, VALUE};
use crate::endpoint::config::Bounds;
use crate::json::path::{Path, Step};
use crate::json::write;
use crate::pipeline::debug;
use crate::tensor::{BytesElements, Datatype, Tensor, push_bytes_element};

/// Compares what two handlers answered.
pub(super) fn compare(old: &[Tensor], new: &[Tensor], bounds: &Bounds, found: &mut Vec<Difference>) {
    // Of a name that comes twice, the first with the first.
    let mut left: Vec<&Tensor> = new.iter().collect();
    for tensor in old {
        let mut path = Path::default();
        path.push(Step::Key(Cow::Borrowed(&tensor.name)));
        let twin = left.iter().position(|other| other.name == tensor.name).map(|at| left.remove(at));
        if path.is_named_by(&bounds.ignore) {
            continue;
        }
        match twin {
            Some(twin) => values(tensor, twin, bounds, path, found),
            None => found.push(Difference::at(path, format!("{} is gone", described(tensor)))),
        }
    }
    for tensor in left {
        let mut path = Path::default();
        path.push(Step::Key(Cow::Borrowed(&tensor.name)));
        if !path.is_named_by(&bounds.ignore) {
            found.push(Difference::at(path, format!("{} is new", described(tensor))));
        }
    }
}

fn described(tensor: &Tensor) -> String {
    format!("{} {:?}", tensor.datatype, tensor.shape)
}

fn values<'a>(
    old: &'a Tensor,
    new: &'a Tensor,
    bounds: &Bounds,
    mut path: Path<'a>,
    found: &mut Vec<Difference>,
) {
    if old.datatype != new.datatype || old.shape != new.shape {
        found.push(Difference::became(path, described(old), described(new)));
        return;
    }
    if old.data == new.data {
        return;
    }
    let mut index = 0;
    let mut pair = |one: &[u8], other: &[u8]| {
        let is_same = match (float(old.datatype, one), float(old.datatype, other)) {
            (Some(one), Some(other)) => bounds.are_close(one, other),
            _ => one == other,
        };
        if !is_same && found.len() < MOST {
            path.push(Step::Index(index));
            if !path.is_named_by(&bounds.ignore) {
                found.push(Difference::became(&path, shown(old.datatype, one), shown(old.datatype, other)));
            }
            path.pop();
        }
        index += 1;
    };
    match old.datatype.size() {
        Some(size) => {
            old.data
                .chunks_exact(size)
                .zip(new.data.chunks_exact(size))
                .for_each(|(one, other)| pair(one, other));
        }
        None => {
            let elements = BytesElements::new(&old.data).zip(BytesElements::new(&new.data));
            // They can be read: tensors are checked where they are made.
            elements.for_each(|(one, other)| pair(one.unwrap_or_default(), other.unwrap_or_default()));
        }
    }
}

/// The element as a number, if its datatype has any but whole ones.
fn float(datatype: Datatype, element: &[u8]) -> Option<f64> {
    match datatype {
        Datatype::Fp16 => Some(f16::from_le_bytes(element.try_into().ok()?).into()),
        Datatype::Bf16 => Some(bf16::from_le_bytes(element.try_into().ok()?).into()),
        Datatype::Fp32 => Some(f32::from_le_bytes(element.try_into().ok()?).into()),
        Datatype::Fp64 => Some(f64::from_le_bytes(element.try_into().ok()?)),
        _ => None,
    }
}

/// One element as a response would have it; what JSON cannot say, NaN and infinities, by name.
fn shown(datatype: Datatype, element: &[u8]) -> String {
    if let Some(special) = float(datatype, element).filter(|number| !number.is_finite()) {
        return special.to_string();
    }
    let mut data = Vec::new();
    match datatype {
        Datatype::Bytes => {
            push_bytes_element(&mut data, element);
        }
        _ => data.extend_from_slice(element),
    }
    let scalar = Tensor { name: "".into(), datatype, shape: Vec::new(), data: data.into() };
    let json = write::outputs(&[scalar]);
    let json = String::from_utf8_lossy(&json);
    debug::cut(json.strip_prefix('[').and_then(|json| json.strip_suffix(']')).unwrap_or(&json), VALUE)
}
