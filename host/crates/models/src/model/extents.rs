//! Extents that the model calls by one name, compared between its inputs.
//!
//! Place in the flow: after a run of one request that failed. In: its inputs, which fit the signature. Out:
//! the caller's error, if they disagree.
//! A name is documentation to engines (ONNX, "Optional Shape Annotations"), and exporters give one name to
//! extents that have nothing to do with each other, `?` among them: a model that runs is never in the wrong.

use std::sync::Arc;

use super::error::ModelError;
use crate::tensor::{Extent, ShownShape, Tensor, TensorSpec};

/// The error of a run of one request: the caller's, if that may be why the engine failed.
pub(super) fn explained(error: ModelError, specs: &[TensorSpec], inputs: &[Tensor]) -> ModelError {
    match error {
        ModelError::Run(text) => disagreement(specs, inputs).map_or(ModelError::Run(text), ModelError::Input),
        other => other,
    }
}

/// The first two inputs of which one extent of a name differs, and that extent.
fn disagreement(specs: &[TensorSpec], inputs: &[Tensor]) -> Option<String> {
    let mut known: Vec<(&Arc<str>, u64, &Tensor)> = Vec::new();
    let mut specs = specs.iter();
    for input in inputs {
        // In the signature's order; optional ones may be left out.
        let spec = specs.find(|spec| spec.name == input.name)?;
        for (extent, got) in spec.shape.iter().zip(&input.shape) {
            let Extent::Free(Some(name)) = extent else { continue };
            let Some((_, expected, other)) = known.iter().find(|(known, ..)| *known == name) else {
                known.push((name, *got, input));
                continue;
            };
            if expected != got && other.name != input.name {
                let (one, two) = (ShownShape(&other.shape), ShownShape(&input.shape));
                return Some(format!(
                    "inputs `{}` and `{}` disagree: `{name}` is {expected} of {} {one} and {got} of {} {two}",
                    other.name, input.name, other.datatype, input.datatype
                ));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::{Datatype, Role};

    #[test]
    fn extents_of_one_name_agree_among_inputs() {
        let spec = |name: &str, shape: &[&str]| {
            let extent = |name: &&str| match name.parse() {
                Ok(fixed) => Extent::Fixed(fixed),
                Err(_) => Extent::Free((!name.is_empty()).then(|| (*name).into())),
            };
            let shape = shape.iter().map(extent).collect();
            TensorSpec { name: name.into(), datatype: Datatype::Int64, shape, role: Role::Plain }
        };
        let specs = [
            spec("input_ids", &["batch", "sequence"]),
            spec("attention_mask", &["batch", "sequence"]),
            spec("any", &["", ""]),
            spec("square", &["n", "n"]),
        ];
        let input = |name: &str, shape: &[u64]| {
            let data = vec![0; shape.iter().product::<u64>() as usize * 8].into();
            Tensor { name: name.into(), datatype: Datatype::Int64, shape: shape.to_vec(), data }
        };
        let of = |ids: &[u64], mask: &[u64]| {
            let (any, square) = (input("any", &[3, 9]), input("square", &[2, 3]));
            disagreement(&specs, &[input("input_ids", ids), input("attention_mask", mask), any, square])
        };
        assert_eq!(of(&[2, 5], &[2, 5]), None);
        for (ids, mask, expected) in [
            ([1, 5], [1, 4], "`sequence` is 5 of INT64 [1, 5] and 4 of INT64 [1, 4]"),
            ([2, 5], [1, 5], "`batch` is 2 of INT64 [2, 5] and 1 of INT64 [1, 5]"),
        ] {
            let expected = format!("inputs `input_ids` and `attention_mask` disagree: {expected}");
            assert_eq!(of(&ids, &mask), Some(expected));
        }
        // The optional one between them is left out.
        let apart = disagreement(&specs, &[input("input_ids", &[1, 5]), input("any", &[1, 4])]);
        assert_eq!(apart, None);
    }
}
