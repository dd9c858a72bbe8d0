//! Shapes of tensors, held against their data, and the axes of them.
//!
//! In:  tensors of a caller. Out: extents that fit the data.
//! Invariant: a product of extents that is not in memory is an error, never a wrapped number.

use crate::{Datatype, Tensor};

/// A tensor's elements as `[before, extent, after]`, the middle one its axis. Of a tensor without elements,
/// whose other extents may be any, `before` is 0 and `after` is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Axis {
    pub at: usize,
    pub before: usize,
    pub extent: usize,
    pub after: usize,
}

/// Bytes of an element.
pub fn size(datatype: Datatype) -> usize {
    match datatype {
        Datatype::Boolean | Datatype::Uint8 | Datatype::Int8 => 1,
        Datatype::Uint16 | Datatype::Int16 | Datatype::Fp16 | Datatype::Bf16 => 2,
        Datatype::Uint32 | Datatype::Int32 | Datatype::Fp32 => 4,
        Datatype::Uint64 | Datatype::Int64 | Datatype::Fp64 => 8,
    }
}

/// As the contract has it.
pub fn name(datatype: Datatype) -> &'static str {
    match datatype {
        Datatype::Boolean => "BOOL",
        Datatype::Uint8 => "UINT8",
        Datatype::Uint16 => "UINT16",
        Datatype::Uint32 => "UINT32",
        Datatype::Uint64 => "UINT64",
        Datatype::Int8 => "INT8",
        Datatype::Int16 => "INT16",
        Datatype::Int32 => "INT32",
        Datatype::Int64 => "INT64",
        Datatype::Fp16 => "FP16",
        Datatype::Bf16 => "BF16",
        Datatype::Fp32 => "FP32",
        Datatype::Fp64 => "FP64",
    }
}

/// The extents of a tensor whose data they fit.
///
/// # Errors
/// They do not.
pub fn extents(tensor: &Tensor) -> Result<Vec<usize>, String> {
    let extents: Option<Vec<usize>> =
        tensor.shape.iter().map(|extent| usize::try_from(*extent).ok()).collect();
    extents
        .filter(|extents| {
            let bytes = match extents.contains(&0) {
                true => Some(0),
                false => {
                    extents.iter().try_fold(size(tensor.datatype), |all, extent| all.checked_mul(*extent))
                }
            };
            bytes == Some(tensor.data.len())
        })
        .ok_or_else(|| {
            format!("{} bytes are no {}{:?}", tensor.data.len(), name(tensor.datatype), tensor.shape)
        })
}

/// The axis that a caller means, negative ones from the end.
///
/// # Errors
/// There is none.
pub fn axis(extents: &[usize], axis: i32) -> Result<Axis, String> {
    let rank = extents.len();
    let at = match usize::try_from(axis) {
        Ok(at) => Some(at),
        Err(_) => usize::try_from(axis.unsigned_abs()).ok().and_then(|back| rank.checked_sub(back)),
    };
    let found = at.and_then(|at| Some((at, *extents.get(at)?, extents.get(..at)?, extents.get(at + 1..)?)));
    let (at, extent, before, after) =
        found.ok_or_else(|| format!("axis {axis} of a tensor that has {rank}"))?;
    // Where there are elements, the product of all extents is in memory.
    let (before, after) = match extents.contains(&0) {
        true => (0, 1),
        false => (before.iter().product(), after.iter().product()),
    };
    Ok(Axis { at, before, extent, after })
}

/// Room for a result of this many elements.
///
/// # Errors
/// There is no memory for it.
pub fn room(elements: Option<usize>, datatype: Datatype) -> Result<Vec<u8>, String> {
    let mut room = Vec::new();
    let bytes = elements.and_then(|elements| elements.checked_mul(size(datatype)));
    match bytes.map(|bytes| room.try_reserve_exact(bytes)) {
        Some(Ok(())) => Ok(room),
        _ => Err("no memory for the result".to_owned()),
    }
}

/// A shape with other extents in an axis' place.
pub fn replaced(shape: &[u64], at: usize, with: &[u64]) -> Vec<u64> {
    let (before, after) = shape.split_at(at.min(shape.len()));
    before.iter().chain(with).chain(after.iter().skip(1)).copied().collect()
}
