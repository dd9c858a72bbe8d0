//! Elements of any type, moved.
//!
//! In:  tensors. Out: a tensor of the same datatype.

use crate::Tensor;
use crate::shape::{axis, extents, name, replaced, room, size};
use crate::values::integers;

/// See `arithmetic.concat`.
pub fn concat(tensors: &[Tensor], along: i32) -> Result<Tensor, String> {
    let first = tensors.first().ok_or("no tensors to put one after the other")?;
    let at = axis(&extents(first)?, along)?.at;
    let (mut total, mut before) = (0u64, 0);
    let mut parts = Vec::with_capacity(tensors.len());
    for tensor in tensors {
        let found = axis(&extents(tensor)?, along)?;
        let (shape, expected) = (replaced(&tensor.shape, at, &[]), replaced(&first.shape, at, &[]));
        if tensor.datatype != first.datatype || shape != expected || tensor.shape.len() != first.shape.len() {
            return Err(format!(
                "{}{:?} after {}{:?}: they differ beside axis {at}",
                name(tensor.datatype),
                tensor.shape,
                name(first.datatype),
                first.shape
            ));
        }
        total = total.saturating_add(found.extent as u64);
        // The same in all that have elements. Where the axis has no entries nothing is taken.
        before = before.max(found.before);
        parts.push(tensor.data.chunks(tensor.data.len().checked_div(found.before).unwrap_or(0).max(1)));
    }
    let all: usize = tensors.iter().map(|tensor| tensor.data.len()).sum();
    let mut data = room(Some(all / size(first.datatype)), first.datatype)?;
    for _ in 0..before {
        for part in &mut parts {
            data.extend(part.next().unwrap_or_default());
        }
    }
    Ok(Tensor { datatype: first.datatype, shape: replaced(&first.shape, at, &[total]), data })
}

/// See `arithmetic.gather`.
pub fn gather(tensor: &Tensor, places: &Tensor, along: i32) -> Result<Tensor, String> {
    extents(places)?;
    let found = axis(&extents(tensor)?, along)?;
    let places_of: Result<Vec<usize>, String> = integers(places, "places")?
        .into_iter()
        .map(|place| {
            let back = if place < 0 { found.extent as i64 } else { 0 };
            let at = place.checked_add(back).and_then(|at| usize::try_from(at).ok());
            at.filter(|at| *at < found.extent)
                .ok_or_else(|| format!("place {place} of an axis with {} entries", found.extent))
        })
        .collect();
    let places_of = places_of?;
    let elements = found.before.checked_mul(found.after).and_then(|rest| rest.checked_mul(places_of.len()));
    let mut data = room(elements, tensor.datatype)?;
    let entry = found.after * size(tensor.datatype);
    for outer in 0..found.before {
        for at in &places_of {
            let begin = (outer * found.extent + at) * entry;
            data.extend(tensor.data.get(begin..begin + entry).unwrap_or_default());
        }
    }
    Ok(Tensor { datatype: tensor.datatype, shape: replaced(&tensor.shape, found.at, &places.shape), data })
}
