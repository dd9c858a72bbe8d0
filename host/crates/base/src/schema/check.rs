//! Holds a request against the schema: everything that is wrong with it at once.
//!
//! Flow: `admit → [check] → pre_inference`, beside it the check of a schema's own example.
//! In:   a JSON body, or tensors. Out: nothing, the tensors that the body stands for, or its violations.
//!
//! In JSON the body is an object keyed by input, or the bare value if there is only one. Keys that are not
//! declared are ignored, `null` is an input that is not there. A scalar may be a list of one. A number where
//! text belongs is a violation, as is text where a number belongs; whole numbers may be written `3.0`, and
//! elements of FP types `null`, `NaN`, `Infinity` and `-Infinity`. A tensor has to have the name, the
//! datatype and the shape that are declared.
//!
//! Invariants: of a body nothing is copied and no tree is built: its values are read where they stand. At
//! most [`MAX_VIOLATIONS`] violations are collected, and what they repeat of a request is short.

use std::sync::Arc;

use super::{Input, Schema};
use crate::error::{Expected, MAX_VIOLATIONS, Violation, ViolationKind};
use crate::json::read::{self, Mode, Repeated};
use crate::tensor::Tensor;

/// Why a request does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValidationError {
    /// The body is no JSON, or not an object where it has to be. The text is for the caller.
    Body(String),
    /// Inputs are not as declared; never empty.
    Inputs(Vec<Violation>),
}

/// Whether a JSON body fits.
///
/// # Errors
/// [`ValidationError`].
pub fn body(schema: &Schema, body: &[u8]) -> Result<(), ValidationError> {
    each(schema, body, value).map(drop)
}

/// The tensors that a JSON body stands for, in the schema's order; optional ones only if they are there.
///
/// # Errors
/// [`ValidationError`].
pub fn body_tensors(schema: &Schema, body: &[u8]) -> Result<Vec<Tensor>, ValidationError> {
    each(schema, body, tensor)
}

/// Whether tensors fit.
///
/// # Errors
/// The violations; never empty.
pub fn tensors(schema: &Schema, tensors: &[Tensor]) -> Result<(), Vec<Violation>> {
    let mut given = vec![false; schema.inputs.len()];
    let mut violations = Vec::new();
    for tensor in tensors {
        if violations.len() == MAX_VIOLATIONS {
            return Err(violations);
        }
        let declared = schema.inputs.iter().zip(&mut given).find(|(input, _)| input.name == tensor.name);
        let violation = match declared {
            None => Some(Violation { input: printable(&tensor.name), kind: ViolationKind::Unknown }),
            Some((input, given)) if *given => Some(input.violation(ViolationKind::Repeated)),
            Some((input, given)) => {
                *given = true;
                (tensor.datatype != input.datatype || !input.accepts(&tensor.shape)).then(|| {
                    input.violation(ViolationKind::Mismatch {
                        expected: input.expected(),
                        datatype: tensor.datatype,
                        shape: tensor.shape.clone(),
                    })
                })
            }
        };
        violations.extend(violation);
    }
    let missing = schema.inputs.iter().zip(given).filter(|(input, given)| input.required && !given);
    violations.extend(missing.map(|(input, _)| input.missing()));
    violations.truncate(MAX_VIOLATIONS);
    if violations.is_empty() { Ok(()) } else { Err(violations) }
}

/// Takes the axis of a batch of one from tensors that fit an input only without it: declared shapes are those
/// of one request, and Inferless's client with `is_batch=True` sends `[1, …]`, as Triton wants it of models
/// that take batches.
pub fn strip_batch_axis(schema: &Schema, tensors: &mut [Tensor]) {
    for tensor in tensors {
        let declared = schema.inputs.iter().find(|input| input.name == tensor.name);
        if let Some(input) = declared
            && let Some((1, rest)) = tensor.shape.split_first()
            && !input.accepts(&tensor.shape)
            && input.accepts(rest)
        {
            tensor.shape.remove(0);
        }
    }
}

/// Whether a JSON value fits an input.
///
/// # Errors
/// The first violation.
pub fn value(input: &Input, json: &str) -> Result<(), Violation> {
    elements(input, json, Mode::Check).map(drop)
}

/// The tensor that a JSON value stands for.
fn tensor(input: &Input, json: &str) -> Result<Tensor, Violation> {
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
    read: impl Fn(&Input, &str) -> Result<T, Violation>,
) -> Result<Vec<T>, ValidationError> {
    let values = read::values(body, &schema.inputs, |input| &input.name, Repeated::Refused)
        .map_err(ValidationError::Body)?;
    let (mut found, mut violations) = (Vec::new(), Vec::new());
    for (input, value) in schema.inputs.iter().zip(values) {
        match value.filter(|value| *value != "null").map(|value| read(input, value)) {
            Some(Ok(value)) => found.push(value),
            Some(Err(violation)) => violations.push(violation),
            None if input.required => violations.push(input.missing()),
            None => {}
        }
        if violations.len() == MAX_VIOLATIONS {
            break;
        }
    }
    if violations.is_empty() { Ok(found) } else { Err(ValidationError::Inputs(violations)) }
}

/// Shape and data of a JSON value.
fn elements(input: &Input, json: &str, mode: Mode) -> Result<(Vec<u64>, Vec<u8>), Violation> {
    let (shape, data) = read::elements(json, input.datatype, mode)
        .map_err(|error| input.violation(ViolationKind::Value { expected: input.expected(), error }))?;
    if !input.accepts(&shape) {
        let (expected, datatype) = (input.expected(), input.datatype);
        return Err(input.violation(ViolationKind::Mismatch { expected, datatype, shape }));
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

    fn missing(&self) -> Violation {
        self.violation(ViolationKind::Missing { expected: self.expected() })
    }

    fn violation(&self, kind: ViolationKind) -> Violation {
        Violation { input: self.name.clone(), kind }
    }
}

/// A caller's or author's name, fit for a message: short, one line, nothing that steers a terminal.
pub(super) fn printable(name: &str) -> Arc<str> {
    const LONGEST: usize = 64;
    let mut printable: String = name.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if name.chars().nth(LONGEST).is_some() {
        printable.push('…');
    }
    printable.into()
}

#[cfg(test)]
mod tests;
