//! Outputs of a model as classes with their scores, and as one number for each example.
//!
//! Place in the flow: the last step of classifications and regressions, over gRPC and REST.
//! Which output is which: by the names of TensorFlow's signatures, `scores`, `classes` and `outputs`; a model
//! that has none of these is taken by what its outputs are. Its scores are then its only output of
//! floating-point numbers, its classes the keys that complete it, if it is a list of maps; without names, a
//! class is called by its number. Its regressions are its only output of floating-point numbers too.

use std::borrow::Cow;

use half::{bf16, f16};

use crate::error::{RequestError, Stage};
use crate::server::grpc::elements::each;
use crate::tensor::{BytesElements, Datatype, Role, Signature, Tensor};

/// The name of an output of scores.
const SCORES: &str = "scores";
/// The name of an output of classes.
const CLASSES: &str = "classes";
/// The name of an output of regressions.
const OUTPUTS: &str = "outputs";

/// Classes and their scores, a row of them for each example.
#[derive(Debug)]
pub(in crate::server) struct Classes<'a> {
    count: usize,
    /// Classes of a row.
    width: usize,
    /// Of each row, or of all of them; a class without a label is called by its number.
    labels: Option<Vec<Cow<'a, str>>>,
    /// `None`: they are all 0.
    scores: Option<Vec<f32>>,
}

impl<'a> Classes<'a> {
    /// Those of `count` examples.
    ///
    /// # Errors
    /// `invalid_input`: none can be made of these outputs.
    pub(in crate::server) fn of(
        outputs: &'a [Tensor],
        signature: &Signature,
        count: usize,
    ) -> Result<Classes<'a>, RequestError> {
        let scores = named(outputs, SCORES).or_else(|| only_floats(outputs));
        let classes = named(outputs, CLASSES).or_else(|| {
            let completing =
                signature.values().find(|(value, _)| scores.is_some_and(|it| it.name == value.name));
            let labels = completing.and_then(|(_, labels)| labels).filter(|it| it.role == Role::Labels)?;
            named(outputs, &labels.name)
        });
        let Some(shaped) = scores.or(classes) else { return Err(none("classification", SCORES, outputs)) };
        let width = per_example(shaped, count)?;
        let scores = match scores {
            Some(scores) => Some(numbers(scores).ok_or_else(|| no_numbers(scores))?),
            None => None,
        };
        let labels = classes.map(|classes| labels(classes, count, width)).transpose()?;
        Ok(Classes { count, width, labels, scores })
    }

    /// Each row: labels and scores.
    pub(in crate::server) fn rows(&self) -> impl Iterator<Item = impl Iterator<Item = (Cow<'_, str>, f32)>> {
        let width = self.width;
        (0..self.count).map(move |row| (row * width..(row + 1) * width).map(|at| self.class(at)))
    }

    fn class(&self, at: usize) -> (Cow<'_, str>, f32) {
        let label = match &self.labels {
            Some(labels) => {
                labels.get(at % labels.len().max(1)).map_or(Cow::Borrowed(""), |it| Cow::Borrowed(&**it))
            }
            None => Cow::Owned((at % self.width.max(1)).to_string()),
        };
        let score = self.scores.as_ref().and_then(|scores| scores.get(at).copied()).unwrap_or_default();
        (label, score)
    }
}

/// One number for each of `count` examples.
///
/// # Errors
/// `invalid_input`: none can be made of these outputs.
pub(in crate::server) fn regressions(outputs: &[Tensor], count: usize) -> Result<Vec<f32>, RequestError> {
    let output = named(outputs, OUTPUTS).or_else(|| only_floats(outputs));
    let output = output.ok_or_else(|| none("regression", OUTPUTS, outputs))?;
    let values = numbers(output).ok_or_else(|| no_numbers(output))?;
    if per_example(output, count)? != 1 {
        let Tensor { name, shape, .. } = output;
        let text = format!("output `{name}` of shape {shape:?} is no number for each of {count} examples");
        return Err(invalid(text));
    }
    Ok(values)
}

fn invalid(text: String) -> RequestError {
    RequestError::invalid(Stage::PostInference, text)
}

fn none(what: &str, name: &str, outputs: &[Tensor]) -> RequestError {
    let names: Vec<String> = outputs.iter().map(|output| format!("`{}`", output.name)).collect();
    invalid(format!(
        "the model makes no {what}: it has no output `{name}`, and not exactly one of floating-point numbers, \
         but {}; hint: ask for a prediction",
        names.join(", ")
    ))
}

fn no_numbers(output: &Tensor) -> RequestError {
    invalid(format!("output `{}` is {}, no floating-point numbers", output.name, output.datatype))
}

fn named<'a>(outputs: &'a [Tensor], name: &str) -> Option<&'a Tensor> {
    outputs.iter().find(|output| *output.name == *name)
}

fn only_floats(outputs: &[Tensor]) -> Option<&Tensor> {
    let mut found = outputs.iter().filter(|output| output.datatype.is_float());
    found.next().filter(|_| found.next().is_none())
}

/// How many elements an output has for each example: its shape is `[count]` or `[count, elements]`.
fn per_example(output: &Tensor, count: usize) -> Result<usize, RequestError> {
    let count = count as u64;
    match output.shape.as_slice() {
        [rows] if *rows == count => Ok(1),
        [rows, elements] if *rows == count => Ok(usize::try_from(*elements).unwrap_or(usize::MAX)),
        shape => {
            let name = &output.name;
            Err(invalid(format!(
                "output `{name}` of shape {shape:?} has no row for each of {count} examples"
            )))
        }
    }
}

/// The names of classes: one for each score, or the same for every example.
fn labels(classes: &Tensor, count: usize, width: usize) -> Result<Vec<Cow<'_, str>>, RequestError> {
    let labels: Vec<Cow<'_, str>> = match classes.datatype {
        Datatype::Bytes => BytesElements::new(&classes.data).flatten().map(String::from_utf8_lossy).collect(),
        Datatype::Int64 => each(&classes.data, |number| i64::from_le_bytes(number).to_string().into()),
        datatype => {
            let text =
                format!("output `{}` names no classes: it is {datatype}, not BYTES or INT64", classes.name);
            return Err(invalid(text));
        }
    };
    if labels.len() == width || labels.len() == count.saturating_mul(width) {
        return Ok(labels);
    }
    let (name, shape) = (&classes.name, &classes.shape);
    Err(invalid(format!("output `{name}` of shape {shape:?} has no name for each of {width} scores")))
}

/// Floating-point numbers of any precision.
fn numbers(tensor: &Tensor) -> Option<Vec<f32>> {
    let data = &tensor.data;
    Some(match tensor.datatype {
        Datatype::Fp32 => each(data, f32::from_le_bytes),
        #[expect(clippy::cast_possible_truncation, reason = "the message has no more digits")]
        Datatype::Fp64 => each(data, |bytes| f64::from_le_bytes(bytes) as f32),
        Datatype::Fp16 => each(data, |bytes| f16::from_le_bytes(bytes).to_f32()),
        Datatype::Bf16 => each(data, |bytes| bf16::from_le_bytes(bytes).to_f32()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
