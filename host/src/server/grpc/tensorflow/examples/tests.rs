//! Tests of features as rows of inputs.

use std::collections::BTreeMap;

use super::super::pb::{BytesList, Feature, Features, FloatList, Int64List};
use super::*;

fn example(kind: Option<Kind>) -> Example {
    let feature = kind.map(|kind| ("x".to_owned(), Feature { kind: Some(kind) }));
    Example { features: Some(Features { feature: feature.into_iter().collect::<BTreeMap<_, _>>() }) }
}

fn floats(values: &[f32]) -> Option<Kind> {
    Some(Kind::FloatList(FloatList { value: values.to_vec() }))
}

fn spec(datatype: Datatype, shape: &[i64]) -> TensorSpec {
    let extent = |size: &i64| u64::try_from(*size).map_or(Extent::Free(None), Extent::Fixed);
    let shape = shape.iter().map(extent).collect();
    TensorSpec { name: "x".into(), datatype, shape, role: crate::tensor::Role::Plain }
}

fn read(spec: TensorSpec, kinds: Vec<Option<Kind>>) -> Result<Vec<u64>, String> {
    let list = List { examples: kinds.into_iter().map(example).collect(), context: Example::default() };
    let tensors = list.features("m", &[spec], 100).map_err(|error| error.message.clone())?;
    Ok(tensors.first().map(|tensor| tensor.shape.clone()).unwrap_or_default())
}

#[test]
fn a_row_has_the_shape_of_its_input() {
    let four = || floats(&[1.0, 2.0, 3.0, 4.0]);
    for (shape, expected) in [
        (&[-1, 4][..], &[2, 4][..]),
        (&[2, 4], &[2, 4]),
        (&[-1, 2, 2], &[2, 2, 2]),
        (&[-1, -1], &[2, 4]),
        (&[-1, 2, -1], &[2, 2, 2]),
    ] {
        let read = read(spec(Datatype::Fp32, shape), vec![four(), four()]);
        assert_eq!(read.as_deref(), Ok(expected), "{shape:?}");
    }
    // One example for an input that counts none.
    for (shape, values, expected) in [(&[4][..], four(), &[4][..]), (&[], floats(&[1.0]), &[])] {
        assert_eq!(read(spec(Datatype::Fp32, shape), vec![values]).as_deref(), Ok(expected), "{shape:?}");
    }
}

#[test]
fn what_does_not_fit_is_named() {
    let two = || floats(&[1.0, 2.0]);
    for (shape, kinds, expected) in [
        (&[-1, 4][..], vec![two()], "feature `x`: 4 values are expected, got 2"),
        (&[-1, 4, -1], vec![two()], "feature `x`: a multiple of 4 values is expected, got 2"),
        (&[-1, 0, -1], vec![two()], "feature `x`: a multiple of 0 values is expected, got 2"),
        (
            &[-1, -1, -1],
            vec![two()],
            "feature `x`: the input has several extents of any length; use `Predict`",
        ),
        (&[4], vec![two(), two()], "input `x` takes one example at a time, got 2"),
        (&[], vec![two(), two()], "input `x` takes one example at a time, got 2"),
        (&[-1, 2], vec![two(), None], "example 1: feature `x`: it is missing"),
        (&[-1, 2], vec![two(); 13], "the inputs are longer than 100 bytes"),
    ] {
        assert_eq!(read(spec(Datatype::Fp32, shape), kinds).unwrap_err(), expected, "{shape:?}");
    }
}

#[test]
fn values_have_the_datatype_of_their_input() {
    let numbers = |value| Kind::Int64List(Int64List { value });
    let texts = || Kind::BytesList(BytesList { value: vec!["a".into()] });
    for datatype in Datatype::ALL {
        let (right, wrong) = match datatype {
            Datatype::Bytes => (texts(), numbers(vec![1])),
            Datatype::Fp16 | Datatype::Bf16 | Datatype::Fp32 | Datatype::Fp64 => {
                (floats(&[1.0]).unwrap(), texts())
            }
            _ => (numbers(vec![1]), texts()),
        };
        let length = values(datatype, &right).unwrap().len();
        assert_eq!(length, datatype.size().unwrap_or(5), "{datatype}");
        let refusal = values(datatype, &wrong).unwrap_err();
        assert!(refusal.starts_with(&format!("{datatype} comes in `")), "{refusal}");
    }
    assert_eq!(
        values(Datatype::Uint8, &numbers(vec![1, -1])).unwrap_err(),
        "element 1: -1 is out of range for UINT8"
    );
}
