//! Tests of outputs as classes.

use super::*;
use crate::tensor::{Extent, TensorSpec, push_bytes_element};

fn floats(name: &str, shape: &[u64], values: &[f32]) -> Tensor {
    let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor::new(name.into(), Datatype::Fp32, shape.to_vec(), data.into()).unwrap()
}

fn texts(name: &str, shape: &[u64], values: &[&str]) -> Tensor {
    let mut data = Vec::new();
    values.iter().for_each(|value| assert!(push_bytes_element(&mut data, value.as_bytes())));
    Tensor::new(name.into(), Datatype::Bytes, shape.to_vec(), data.into()).unwrap()
}

fn of(outputs: &[Tensor], signature: &Signature, count: usize) -> Result<Vec<String>, String> {
    let classes = Classes::of(outputs, signature, count).map_err(|error| error.message.clone())?;
    let class = |(label, score)| format!("{label}={score}");
    Ok(classes.rows().map(|row| row.map(class).collect::<Vec<_>>().join(" ")).collect())
}

#[test]
fn outputs_are_found_by_name_or_by_what_they_are() {
    let plain = Signature::default();
    let scores = || floats("scores", &[2, 2], &[0.5, 1.0, 1.5, 2.0]);
    let other = || floats("other", &[1], &[0.0]);
    let shared = || texts("classes", &[2], &["a", "b"]);
    let each = || texts("classes", &[2, 2], &["a", "b", "b", "a"]);
    for (outputs, expected) in [
        (vec![scores()], ["0=0.5 1=1", "0=1.5 1=2"]),
        (vec![other(), scores(), shared()], ["a=0.5 b=1", "a=1.5 b=2"]),
        (vec![scores(), each()], ["a=0.5 b=1", "b=1.5 a=2"]),
        (vec![each()], ["a=0 b=0", "b=0 a=0"]),
        (vec![floats("any", &[2], &[0.5, 1.0])], ["0=0.5", "0=1"]),
    ] {
        assert_eq!(of(&outputs, &plain, 2).unwrap(), expected, "{outputs:?}");
    }
    // The keys of a list of maps.
    let spec = |name: &str, datatype, role| TensorSpec {
        name: name.into(),
        datatype,
        shape: vec![Extent::Free(None); 2],
        role,
    };
    let map = Signature {
        inputs: Vec::new(),
        outputs: vec![spec("p", Datatype::Fp32, Role::Plain), spec("p.keys", Datatype::Bytes, Role::Labels)],
    };
    let outputs = [floats("p", &[1, 2], &[0.5, 1.0]), texts("p.keys", &[1, 2], &["a", "b"])];
    assert_eq!(of(&outputs, &map, 1).unwrap(), ["a=0.5 b=1"]);
}

#[test]
fn what_makes_no_classes_is_named() {
    let two = [floats("a", &[1], &[0.0]), floats("b", &[1], &[0.0])];
    for (outputs, expected) in [
        (
            &two[..],
            "the model makes no classification: it has no output `scores`, and not exactly one of \
             floating-point numbers, but `a`, `b`; hint: ask for a prediction",
        ),
        (&two[..1], "output `a` of shape [1] has no row for each of 2 examples"),
        (
            &[floats("a", &[2, 1, 1], &[0.0; 2])],
            "output `a` of shape [2, 1, 1] has no row for each of 2 examples",
        ),
        (&[texts("scores", &[2, 1], &["x"; 2])], "output `scores` is BYTES, no floating-point numbers"),
        (
            &[floats("a", &[2, 2], &[0.0; 4]), texts("classes", &[3], &["x"; 3])],
            "output `classes` of shape [3] has no name for each of 2 scores",
        ),
    ] {
        assert_eq!(of(outputs, &Signature::default(), 2).unwrap_err(), expected);
    }
}
