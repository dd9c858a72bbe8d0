//! Tests of features as rows of inputs.

use std::collections::BTreeMap;

use super::super::pb::{BytesList, Feature, Features, FloatList, Int64List};
use super::*;
use crate::tensor::{Extent, Role};

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
    TensorSpec { name: "x".into(), datatype, shape, role: Role::Plain }
}

fn read(spec: TensorSpec, kinds: Vec<Option<Kind>>) -> Result<Vec<u64>, String> {
    let list = List { examples: kinds.into_iter().map(example).collect(), context: Example::default() };
    let tensors = list.features(&[spec], 100).map_err(|error| error.message.clone())?;
    Ok(tensors.first().map(|tensor| tensor.shape.clone()).unwrap_or_default())
}

#[test]
fn features_become_rows() {
    let two = || floats(&[1.0, 2.0]);
    assert_eq!(read(spec(Datatype::Fp32, &[-1, 2]), vec![two(), two()]).as_deref(), Ok(&[2, 2][..]));
    for (kinds, expected) in [
        (vec![two(), None], "example 1: feature `x`: it is missing"),
        (vec![two(); 13], "the inputs are longer than 100 bytes"),
    ] {
        assert_eq!(read(spec(Datatype::Fp32, &[-1, 2]), kinds).unwrap_err(), expected);
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
