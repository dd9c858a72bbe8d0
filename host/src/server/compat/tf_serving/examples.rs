//! Examples as rows of a model's inputs, and the method that a model answers them by.
//!
//! Place in the flow: inside the protocols of TensorFlow Serving, over gRPC and REST, which read features.
//! In:   the values of one feature of one example after the other. Out: the tensor of an input, a row for
//! each example.
//! How examples are read, the model's signature says. One whose method is classification or regression has
//! one input of BYTES, and gets them encoded, to be parsed by itself. Any other gets the feature of an
//! input's name as the rows of that input.

use crate::error::{RequestError, Stage};
use crate::model::{CLASSIFY_METHOD, PREDICT_METHOD, REGRESS_METHOD};
use crate::server::models::Entry;
use crate::tensor::{Datatype, Extent, Tensor, TensorSpec};
use crate::text;

/// The call that was made: classes with scores, or a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum Method {
    Classify,
    Regress,
}

impl Method {
    /// The name of it in a signature.
    pub(in crate::server) fn name(self) -> &'static str {
        match self {
            Method::Classify => CLASSIFY_METHOD,
            Method::Regress => REGRESS_METHOD,
        }
    }
}

/// Whether a model is served by the signature of this name, which may be empty.
///
/// # Errors
/// `invalid_input` that names the one that is.
pub(in crate::server) fn check_signature(entry: &Entry<'_>, name: &str) -> Result<(), RequestError> {
    let key = entry.signature_key();
    if name.is_empty() || name == key {
        return Ok(());
    }
    Err(invalid(format!("there is no signature `{}`; the model is served by `{key}`", text::shown(name))))
}

/// The input of a model that parses examples by itself, among its `inputs`; `None` for any other model.
///
/// # Errors
/// `invalid_input`: a signature of one method does not answer the other.
pub(in crate::server) fn parsed<'a>(
    entry: &Entry<'_>,
    inputs: &'a [TensorSpec],
    wanted: Method,
) -> Result<Option<&'a TensorSpec>, RequestError> {
    let method = entry.method_name();
    match inputs {
        [only] if method != PREDICT_METHOD && only.datatype == Datatype::Bytes => {
            if method == wanted.name() {
                return Ok(Some(only));
            }
            let wanted = wanted.name();
            Err(invalid(format!("the method of the model's signature is `{method}`, not `{wanted}`")))
        }
        [] => Err(invalid(format!(
            "`{}` takes no examples: no signature names its inputs; hint: ask for a prediction",
            entry.name
        ))),
        _ => Ok(None),
    }
}

/// The rows of one input, which come one after the other.
#[derive(Debug)]
pub(in crate::server) struct Rows<'a> {
    spec: &'a TensorSpec,
    /// Examples, if the input has an extent that counts them.
    rows: Vec<u64>,
    /// The shape of one row.
    row: &'a [Extent],
    /// Values of each example.
    length: Option<usize>,
    data: Vec<u8>,
}

impl<'a> Rows<'a> {
    /// None yet of so many.
    ///
    /// # Errors
    /// `invalid_input`: the input takes one at a time.
    pub(in crate::server) fn new(spec: &'a TensorSpec, count: usize) -> Result<Rows<'a>, RequestError> {
        let count = count as u64;
        // The shape of one example's input need not have an extent that counts them.
        let (rows, row) = match spec.shape.split_first() {
            Some((Extent::Free(_), row)) => (vec![count], row),
            Some((Extent::Fixed(rows), row)) if *rows == count => (vec![count], row),
            _ if count == 1 => (Vec::new(), spec.shape.as_slice()),
            _ => {
                let name = &spec.name;
                return Err(invalid(format!("input `{name}` takes one example at a time, got {count}")));
            }
        };
        Ok(Rows { spec, rows, row, length: None, data: Vec::new() })
    }

    /// Bytes of all that have come.
    pub(in crate::server) fn bytes(&self) -> usize {
        self.data.len()
    }

    /// The next one: the feature of the example of this number, which has `length` values.
    ///
    /// # Errors
    /// `invalid_input`: the first example has another number of values, or the values do not fit the input.
    pub(in crate::server) fn push(
        &mut self,
        number: usize,
        length: usize,
        values: impl FnOnce() -> Result<Vec<u8>, String>,
    ) -> Result<(), RequestError> {
        let first = *self.length.get_or_insert(length);
        if length != first {
            let text = format!("the first example has {first} values, this one {length}");
            return Err(self.refusal(number, &text));
        }
        let mut values = values().map_err(|text| self.refusal(number, &text))?;
        self.data.append(&mut values);
        Ok(())
    }

    /// The refusal of the feature of the example of this number.
    pub(in crate::server) fn refusal(&self, number: usize, text: &str) -> RequestError {
        invalid(format!("example {number}: feature `{}`: {text}", self.spec.name))
    }

    /// The input.
    ///
    /// # Errors
    /// `invalid_input`: a row has another number of values than an example.
    pub(in crate::server) fn tensor(self) -> Result<Tensor, RequestError> {
        let Rows { spec: TensorSpec { name, datatype, .. }, rows, row, length, data } = self;
        let failed = |text: String| invalid(format!("feature `{name}`: {text}"));
        let extents = extents(row, length.unwrap_or_default()).map_err(failed)?;
        let shape = [rows, extents].concat();
        Tensor::new(name.clone(), *datatype, shape, data.into()).map_err(|error| failed(error.to_string()))
    }
}

/// The feature of an input that the example of this number does not have.
pub(in crate::server) fn missing(spec: &TensorSpec, number: usize) -> RequestError {
    invalid(format!("example {number}: feature `{}`: it is missing", spec.name))
}

/// The extents of a row of so many values; a free one is what the fixed ones leave.
fn extents(row: &[Extent], values: usize) -> Result<Vec<u64>, String> {
    let values = values as u64;
    let fixed = |extent: &Extent| match extent {
        Extent::Fixed(fixed) => *fixed,
        Extent::Free(_) => 1,
    };
    let product = row.iter().map(fixed).fold(1, u64::saturating_mul);
    match row.iter().filter(|extent| matches!(extent, Extent::Free(_))).count() {
        0 if product != values => Err(format!("{product} values are expected, got {values}")),
        0 | 1 if product == 0 || !values.is_multiple_of(product) => {
            Err(format!("a multiple of {product} values is expected, got {values}"))
        }
        0 | 1 => Ok(row
            .iter()
            .map(|extent| match extent {
                Extent::Fixed(fixed) => *fixed,
                Extent::Free(_) => values / product,
            })
            .collect()),
        _ => Err("the input has several extents of any length; hint: ask for a prediction".to_owned()),
    }
}

fn invalid(text: String) -> RequestError {
    RequestError::invalid(Stage::Admit, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(shape: &[i64]) -> TensorSpec {
        let extent = |size: &i64| u64::try_from(*size).map_or(Extent::Free(None), Extent::Fixed);
        let shape = shape.iter().map(extent).collect();
        TensorSpec { name: "x".into(), datatype: Datatype::Uint8, shape, role: crate::tensor::Role::Plain }
    }

    /// The shape of examples of so many values each, or why there is none.
    fn shape(shape: &[i64], lengths: &[usize]) -> Result<Vec<u64>, String> {
        let spec = spec(shape);
        let made = Rows::new(&spec, lengths.len()).and_then(|mut rows| {
            let mut numbered = lengths.iter().enumerate();
            numbered.try_for_each(|(at, length)| rows.push(at, *length, || Ok(vec![1; *length])))?;
            rows.tensor()
        });
        made.map(|tensor| tensor.shape).map_err(|error| error.message.clone())
    }

    #[test]
    fn a_row_has_the_shape_of_its_input() {
        for (declared, lengths, expected) in [
            (&[-1, 4][..], &[4, 4][..], &[2, 4][..]),
            (&[2, 4], &[4, 4], &[2, 4]),
            (&[-1, 2, 2], &[4, 4], &[2, 2, 2]),
            (&[-1, -1], &[4, 4], &[2, 4]),
            (&[-1, 2, -1], &[4, 4], &[2, 2, 2]),
            (&[-1], &[1, 1], &[2]),
            // One example for an input that counts none.
            (&[4], &[4], &[4]),
            (&[], &[1], &[]),
        ] {
            assert_eq!(shape(declared, lengths).as_deref(), Ok(expected), "{declared:?}");
        }
    }

    #[test]
    fn what_does_not_fit_is_named() {
        for (declared, lengths, expected) in [
            (&[-1, 4][..], &[2][..], "feature `x`: 4 values are expected, got 2"),
            (&[-1, 4, -1], &[2], "feature `x`: a multiple of 4 values is expected, got 2"),
            (&[-1, 0, -1], &[2], "feature `x`: a multiple of 0 values is expected, got 2"),
            (
                &[-1, -1, -1],
                &[2],
                "feature `x`: the input has several extents of any length; hint: ask for a prediction",
            ),
            (&[4], &[2, 2], "input `x` takes one example at a time, got 2"),
            (&[], &[2, 2], "input `x` takes one example at a time, got 2"),
            (&[-1, -1], &[2, 1], "example 1: feature `x`: the first example has 2 values, this one 1"),
        ] {
            assert_eq!(shape(declared, lengths).unwrap_err(), expected, "{declared:?}");
        }
    }
}
