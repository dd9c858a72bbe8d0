//! Holds tensors against the model's signature, on the way in and on the way out.
//!
//! Flow: `pre-inference → [verify] → infer → [verify] → post-inference`.
//! In:   what a handler or `json::read` made; later, what the engine made.
//! Out:  one tensor per input that has to be given or was, in signature order, named as the signature names
//!       it; later, nothing.
//!
//! Invariant: nothing that does not fit the signature reaches the engine, so a wrong shape is the caller's or
//! the handler's error and never the model's. Data is never copied: reshaping changes only the extents.

use std::sync::Arc;

use crate::tensor::{Datatype, Extent, ShownShape, Signature, Tensor, TensorSpec, element_count};
use crate::text::shown;

/// Most elements of an input of strings.
const MOST_TEXTS: usize = 1 << 20;

/// Binds `tensors` to the model's inputs.
///
/// - A tensor binds to the input of its name; one that names no input binds to the only one that has to be
///   given.
/// - An optional input may be left out; the model has a value for it.
/// - A shape that does not fit is replaced by the input's own, free extents counting as one, if that has as
///   many elements. A flat list is the free extent of an input whose other extents are 1: `[n]` of `[-1, 1]`.
/// - An input without extents takes any shape: models say the same for a scalar and for "any".
///
/// # Errors
/// Text that names the input, what it expects and what it got. Fit for the side that made the tensors.
pub fn inputs(tensors: Vec<Tensor>, signature: &Signature) -> Result<Vec<Tensor>, String> {
    let specs = &signature.inputs;
    let mut bound: Vec<Option<Tensor>> = specs.iter().map(|_| None).collect();
    for (position, mut tensor) in tensors.into_iter().enumerate() {
        let named = |spec: &TensorSpec| spec.name == tensor.name;
        // Most come in order; only the others are looked for.
        let index = match specs.get(position) {
            Some(spec) if named(spec) => Some(position),
            _ => specs.iter().position(named).or((signature.required().len() == 1).then_some(0)),
        };
        let Some((spec, slot)) = index.and_then(|index| Some((specs.get(index)?, bound.get_mut(index)?)))
        else {
            let (name, names) = (shown(&tensor.name), names(specs));
            return Err(format!("tensor `{name}` names no input; the model takes {names}"));
        };
        if slot.is_some() {
            return Err(format!("input `{}`: given twice", spec.name));
        }
        fit(&mut tensor, spec)?;
        *slot = Some(tensor);
    }
    let missing = |spec: &TensorSpec| format!("input `{}`: missing, expected {spec}", spec.name);
    let bound = bound.into_iter().zip(specs).filter(|(tensor, spec)| tensor.is_some() || !spec.is_optional());
    bound.map(|(tensor, spec)| tensor.ok_or_else(|| missing(spec))).collect()
}

/// Checks that the engine returned what the signature promises.
///
/// # Errors
/// Text that names the output, what was expected and what came.
pub fn outputs(outputs: &[Tensor], signature: &Signature) -> Result<(), String> {
    let specs = &signature.outputs;
    if outputs.len() != specs.len() {
        return Err(format!("expected {} outputs, got {}", specs.len(), outputs.len()));
    }
    for (output, spec) in outputs.iter().zip(specs) {
        if output.name != spec.name {
            return Err(format!("output `{}`: expected, got `{}`", spec.name, output.name));
        }
        // Not the shape: many exported models name wrong output extents, engines only warn of it, and the
        // tensor says its own shape anyway.
        if output.datatype != spec.datatype {
            return Err(mismatch("output", output, spec));
        }
    }
    Ok(())
}

/// Gives `tensor` the name and a shape that `spec` accepts.
fn fit(tensor: &mut Tensor, spec: &TensorSpec) -> Result<(), String> {
    if tensor.datatype != spec.datatype {
        return Err(mismatch("input", tensor, spec));
    }
    // Each is an object of the engine's, however short it is.
    if tensor.datatype == Datatype::Bytes && tensor.elements() > MOST_TEXTS {
        return Err(format!("input `{}`: more than {MOST_TEXTS} elements of BYTES", spec.name));
    }
    if !spec.shape.is_empty() && !spec.accepts(&tensor.shape) {
        tensor.shape = reshaped(tensor, spec).ok_or_else(|| mismatch("input", tensor, spec))?;
    }
    tensor.name = Arc::clone(&spec.name);
    Ok(())
}

/// The shape that `spec` accepts of a tensor of another one.
fn reshaped(tensor: &Tensor, spec: &TensorSpec) -> Option<Vec<u64>> {
    let own = spec.smallest_shape();
    if element_count(&own) == Some(tensor.elements()) {
        return Some(own);
    }
    // A list for the only extent that is not 1.
    let free = spec.shape.iter().position(|extent| matches!(extent, Extent::Free(_)));
    let others = spec.shape.iter().filter(|extent| **extent == Extent::Fixed(1)).count();
    match tensor.shape.as_slice() {
        &[extent] if extent > 0 && others + 1 == spec.shape.len() => {
            let place = free?;
            let mut shape = vec![1; spec.shape.len()];
            *shape.get_mut(place)? = extent;
            Some(shape)
        }
        _ => None,
    }
}

fn mismatch(kind: &str, tensor: &Tensor, spec: &TensorSpec) -> String {
    let shape = ShownShape(&tensor.shape);
    format!("{kind} `{}`: expected {spec}, got {} {shape}", spec.name, tensor.datatype)
}

/// "`a`, `b`"
fn names(specs: &[TensorSpec]) -> String {
    if specs.is_empty() {
        return "no inputs".to_owned();
    }
    specs.iter().map(|spec| format!("`{}`", spec.name)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Role;

    fn spec(name: &str, datatype: Datatype, shape: &[i64]) -> TensorSpec {
        let extent =
            |extent: &i64| u64::try_from(*extent).map_or(Extent::Free(Some("N".into())), Extent::Fixed);
        TensorSpec {
            name: name.into(),
            datatype,
            shape: shape.iter().map(extent).collect(),
            role: Role::Plain,
        }
    }

    fn tensor(name: &str, datatype: Datatype, shape: &[u64]) -> Tensor {
        let length = element_count(shape).unwrap() * datatype.size().unwrap_or(4);
        Tensor::new(name.into(), datatype, shape.to_vec(), vec![0; length].into()).unwrap()
    }

    fn iris() -> Signature {
        Signature { inputs: vec![spec("input", Datatype::Fp32, &[-1, 4])], outputs: Vec::new() }
    }

    fn pair() -> Signature {
        let inputs = vec![spec("a", Datatype::Fp32, &[2]), spec("b", Datatype::Int64, &[2, 1])];
        Signature { inputs, outputs: Vec::new() }
    }

    /// `"name: FP32 [1, 4]"` for each bound tensor, or the error.
    fn check(signature: &Signature, tensors: &[Tensor]) -> String {
        match inputs(tensors.to_vec(), signature) {
            Ok(bound) => {
                let shown =
                    |tensor: &Tensor| format!("{}: {} {:?}", tensor.name, tensor.datatype, tensor.shape);
                bound.iter().map(shown).collect::<Vec<_>>().join("; ")
            }
            Err(error) => error,
        }
    }

    #[test]
    fn strings_are_so_many_at_the_most() {
        let signature = Signature { inputs: vec![spec("x", Datatype::Bytes, &[-1])], outputs: Vec::new() };
        for (elements, expected) in [
            (MOST_TEXTS, "x: BYTES [1048576]"),
            (MOST_TEXTS + 1, "input `x`: more than 1048576 elements of BYTES"),
        ] {
            assert_eq!(check(&signature, &[tensor("x", Datatype::Bytes, &[elements as u64])]), expected);
        }
    }

    #[test]
    fn shapes_are_kept_reshaped_or_refused() {
        let cases: &[(&[u64], &str)] = &[
            (&[4], "input: FP32 [1, 4]"),
            (&[1, 4], "input: FP32 [1, 4]"),
            (&[2, 4], "input: FP32 [2, 4]"),
            (&[0, 4], "input: FP32 [0, 4]"),
            (&[2, 2], "input: FP32 [1, 4]"),
            (&[1, 1, 4, 1], "input: FP32 [1, 4]"),
            (&[3], "input `input`: expected FP32 [N, 4], got FP32 [3]"),
            (&[8], "input `input`: expected FP32 [N, 4], got FP32 [8]"),
            (&[], "input `input`: expected FP32 [N, 4], got FP32 []"),
        ];
        for (shape, expected) in cases {
            assert_eq!(check(&iris(), &[tensor("input", Datatype::Fp32, shape)]), *expected);
        }
        let any = Signature { inputs: vec![spec("x", Datatype::Fp32, &[])], outputs: Vec::new() };
        assert_eq!(check(&any, &[tensor("x", Datatype::Fp32, &[])]), "x: FP32 []");
        assert_eq!(check(&any, &[tensor("x", Datatype::Fp32, &[2, 3])]), "x: FP32 [2, 3]");
    }

    #[test]
    fn names_bind() {
        let (a, b) = (tensor("a", Datatype::Fp32, &[2]), tensor("b", Datatype::Int64, &[2]));
        let bound = "a: FP32 [2]; b: INT64 [2, 1]";
        assert_eq!(check(&pair(), &[a.clone(), b.clone()]), bound);
        assert_eq!(check(&pair(), &[b.clone(), a.clone()]), bound);
        assert_eq!(check(&pair(), std::slice::from_ref(&b)), "input `a`: missing, expected FP32 [2]");
        assert_eq!(check(&pair(), &[a.clone(), a.clone()]), "input `a`: given twice");
        let z = tensor("z", Datatype::Fp32, &[2]);
        assert_eq!(check(&pair(), &[a.clone(), z]), "tensor `z` names no input; the model takes `a`, `b`");
        // Any other name means the only input.
        for name in ["", "x", "input"] {
            assert_eq!(check(&iris(), &[tensor(name, Datatype::Fp32, &[4])]), "input: FP32 [1, 4]");
        }
        let twice = [tensor("input", Datatype::Fp32, &[4]), tensor("x", Datatype::Fp32, &[4])];
        assert_eq!(check(&iris(), &twice), "input `input`: given twice");
        let none = Signature::default();
        assert_eq!(check(&none, &[]), "");
        assert_eq!(check(&none, &[a]), "tensor `a` names no input; the model takes no inputs");
    }

    #[test]
    fn datatypes_are_not_converted() {
        let expected = "input `input`: expected FP32 [N, 4], got INT64 [1, 4]";
        assert_eq!(check(&iris(), &[tensor("input", Datatype::Int64, &[1, 4])]), expected);
    }

    #[test]
    fn data_is_not_copied() {
        let tensor = tensor("x", Datatype::Fp32, &[4]);
        let bound = inputs(vec![tensor.clone()], &iris()).unwrap();
        assert_eq!(bound[0].data.as_ptr(), tensor.data.as_ptr());
    }

    #[test]
    fn an_engine_that_breaks_its_word_is_found_out() {
        let outputs_of = |shape: &[i64]| Signature {
            inputs: Vec::new(),
            outputs: vec![spec("y", Datatype::Fp32, shape), spec("z", Datatype::Int64, &[])],
        };
        let signature = outputs_of(&[-1, 3]);
        let (y, z) = (tensor("y", Datatype::Fp32, &[2, 3]), tensor("z", Datatype::Int64, &[5]));
        let check = |tensors: &[&Tensor], signature: &Signature| {
            let tensors: Vec<Tensor> = tensors.iter().copied().cloned().collect();
            outputs(&tensors, signature).err().unwrap_or_default()
        };
        assert_eq!(check(&[&y, &z], &signature), "");
        assert_eq!(check(&[&y], &signature), "expected 2 outputs, got 1");
        assert_eq!(check(&[&z, &y], &signature), "output `y`: expected, got `z`");
        // Another shape than the model announces is the model's own business.
        assert_eq!(check(&[&y, &z], &outputs_of(&[1, 3])), "");
        let wide = tensor("y", Datatype::Fp64, &[2, 3]);
        assert_eq!(check(&[&wide, &z], &signature), "output `y`: expected FP32 [N, 3], got FP64 [2, 3]");
    }

    #[test]
    fn a_list_is_a_column_or_a_row() {
        for (declared, given, expected) in [
            (&[-1, 1][..], &[3][..], "x: FP32 [3, 1]"),
            (&[1, -1], &[3], "x: FP32 [1, 3]"),
            (&[1, -1, 1], &[3], "x: FP32 [1, 3, 1]"),
            (&[-1, 1], &[1], "x: FP32 [1, 1]"),
            (&[-1, 1], &[], "x: FP32 [1, 1]"),
            (&[-1, 1], &[1, 3], "input `x`: expected FP32 [N, 1], got FP32 [1, 3]"),
            (&[-1, 2], &[4], "input `x`: expected FP32 [N, 2], got FP32 [4]"),
            (&[-1, 1], &[0], "input `x`: expected FP32 [N, 1], got FP32 [0]"),
        ] {
            let signature =
                Signature { inputs: vec![spec("x", Datatype::Fp32, declared)], outputs: Vec::new() };
            assert_eq!(check(&signature, &[tensor("x", Datatype::Fp32, given)]), expected, "{declared:?}");
        }
    }
}
