//! Holds a request against the schema: everything that is wrong with it at once.
//!
//! Flow: `admit → [check] → pre_inference`, beside it whatever a schema's own example must fit.
//! In:   a JSON body, or tensors. Out: nothing, the tensors that the body stands for, or its faults.
//!
//! In JSON the body is an object keyed by input, or the bare value if there is only one. Keys that nobody declared are
//! ignored, `null` is an input that is not there. A scalar may be a list of one. A number where text belongs is a fault, as
//! is text where a number belongs; whole numbers may be written `3.0`.
//! A tensor has to have the name, the datatype and the shape that are declared.
//!
//! Invariants: of a body nothing is copied and no tree is built: its values are read where they stand. At most
//! [`MOST_FAULTS`] faults are collected, and what they repeat of a request is short.

use std::sync::Arc;

use super::{Input, Schema};
use crate::error::{Expected, Fault, FaultKind, MOST_FAULTS};
use crate::json::read::{self, Mode};
use crate::tensor::Tensor;

/// Why a request does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Misfit {
    /// The body is no JSON, or not an object where it has to be. The text is for the caller.
    Body(String),
    /// Inputs are not as declared; never empty.
    Inputs(Vec<Fault>),
}

/// Whether a JSON body fits.
///
/// # Errors
/// [`Misfit`].
pub fn body(schema: &Schema, body: &[u8]) -> Result<(), Misfit> {
    each(schema, body, value).map(drop)
}

/// The tensors that a JSON body stands for, in the schema's order; optional ones only if they are there.
///
/// # Errors
/// [`Misfit`].
pub fn body_tensors(schema: &Schema, body: &[u8]) -> Result<Vec<Tensor>, Misfit> {
    each(schema, body, tensor)
}

/// Whether tensors fit.
///
/// # Errors
/// The faults; never empty.
pub fn tensors(schema: &Schema, tensors: &[Tensor]) -> Result<(), Vec<Fault>> {
    let mut given = vec![false; schema.inputs.len()];
    let mut faults = Vec::new();
    for tensor in tensors {
        if faults.len() == MOST_FAULTS {
            return Err(faults);
        }
        let declared = schema.inputs.iter().zip(&mut given).find(|(input, _)| input.name == tensor.name);
        let fault = match declared {
            None => Some(Fault { input: shown(&tensor.name), kind: FaultKind::Unknown }),
            Some((input, given)) if *given => Some(input.fault(FaultKind::Repeated)),
            Some((input, given)) => {
                *given = true;
                (tensor.datatype != input.datatype || !input.accepts(&tensor.shape)).then(|| {
                    input.fault(FaultKind::Misfit {
                        expected: input.expected(),
                        datatype: tensor.datatype,
                        shape: tensor.shape.clone(),
                    })
                })
            }
        };
        faults.extend(fault);
    }
    let missing = schema.inputs.iter().zip(given).filter(|(input, given)| input.required && !given);
    faults.extend(missing.map(|(input, _)| input.missing()));
    faults.truncate(MOST_FAULTS);
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

/// Whether a JSON value fits an input.
///
/// # Errors
/// What is wrong with it.
pub fn value(input: &Input, json: &str) -> Result<(), Fault> {
    elements(input, json, Mode::Check).map(drop)
}

/// The tensor that a JSON value stands for.
fn tensor(input: &Input, json: &str) -> Result<Tensor, Fault> {
    let (shape, data) = elements(input, json, Mode::Strict)?;
    // A scalar has the shape that is declared, however it was written.
    let shape = if input.is_scalar() { vec![1; input.shape.len()] } else { shape };
    // As long as the shape says, for both come from the same lists.
    Ok(Tensor { name: input.name.clone(), datatype: input.datatype, shape, data: data.into() })
}

/// Does `read` to each input that is there.
fn each<T>(
    schema: &Schema,
    body: &[u8],
    read: impl Fn(&Input, &str) -> Result<T, Fault>,
) -> Result<Vec<T>, Misfit> {
    let values = read::values(body, &schema.inputs, |input| &input.name).map_err(Misfit::Body)?;
    let (mut found, mut faults) = (Vec::new(), Vec::new());
    for (input, value) in schema.inputs.iter().zip(values) {
        match value.map(|value| read(input, value)) {
            Some(Ok(value)) => found.push(value),
            Some(Err(fault)) => faults.push(fault),
            None if input.required => faults.push(input.missing()),
            None => {}
        }
        if faults.len() == MOST_FAULTS {
            break;
        }
    }
    if faults.is_empty() { Ok(found) } else { Err(Misfit::Inputs(faults)) }
}

/// Shape and data of a JSON value.
fn elements(input: &Input, json: &str, mode: Mode) -> Result<(Vec<u64>, Vec<u8>), Fault> {
    let (shape, data) = read::elements(json, input.datatype, mode)
        .map_err(|mistake| input.fault(FaultKind::Value { expected: input.expected(), mistake }))?;
    if !input.accepts(&shape) {
        let (expected, datatype) = (input.expected(), input.datatype);
        return Err(input.fault(FaultKind::Misfit { expected, datatype, shape }));
    }
    Ok((shape, data))
}

impl Input {
    /// Whether a value of this shape fits; a scalar may be one of no extents, or of the one extent 1.
    fn accepts(&self, shape: &[u64]) -> bool {
        if self.is_scalar() {
            return matches!(shape, [] | [1]);
        }
        self.shape.len() == shape.len()
            && self.shape.iter().zip(shape).all(|(declared, extent)| {
                // Less than 0 is -1: any extent.
                u64::try_from(*declared).is_err() || u64::try_from(*declared) == Ok(*extent)
            })
    }

    fn expected(&self) -> Expected {
        Expected { datatype: self.datatype, shape: self.shape.clone() }
    }

    fn missing(&self) -> Fault {
        self.fault(FaultKind::Missing { expected: self.expected() })
    }

    fn fault(&self, kind: FaultKind) -> Fault {
        Fault { input: self.name.clone(), kind }
    }
}

/// A name that somebody else chose, fit for a message: short, one line, nothing that steers a terminal.
pub(super) fn shown(name: &str) -> Arc<str> {
    const LONGEST: usize = 64;
    let mut shown: String = name.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if name.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown.into()
}

#[cfg(test)]
mod tests;
