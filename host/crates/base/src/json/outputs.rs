//! A model's outputs as JSON: tensors, and what two tensors stand for together, lists of maps and lists of
//! tensors.
//!
//! Flow: `infer → verify → [outputs] → respond`.
//! In:   a model's outputs and what its signature says of them. Out: JSON, as `write` has it for each tensor.
//!
//! | the second tensor's role | together they are |
//! |---|---|
//! | [`Role::Labels`] | `[{"label": value, …}, …]`; without the first extent one such object |
//! | [`Role::Shapes`] | `[tensor, …]`, each nested by its own shape |
//!
//! Two equal labels of a map are two equal keys of an object: models do not make them.

use serde::ser::{Error, Serialize, SerializeMap, SerializeSeq, Serializer};

use super::write::Nested;
use crate::tensor::{BytesElements, Datatype, Role, Tensor, TensorSpec, element_count, elements_length};

/// Writes `tensors`, the outputs that `specs` describe, as a list with an item for each value.
pub fn list(tensors: &[Tensor], specs: &[TensorSpec]) -> Vec<u8> {
    // Cannot fail: a `Vec` takes everything, and verified outputs can be read.
    serde_json::to_vec(&List(tensors, specs)).unwrap_or_default()
}

struct List<'a>(&'a [Tensor], &'a [TensorSpec]);

impl Serialize for List<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(values(self.0, self.1))
    }
}

/// One value: a tensor, or with a second one what that makes of it.
pub struct Value<'a> {
    tensor: &'a Tensor,
    second: Option<(Role, &'a Tensor)>,
}

impl Value<'_> {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.tensor.name
    }
}

/// The values that `tensors` stand for; those that `specs` does not mention stand for themselves.
pub fn values<'a>(tensors: &'a [Tensor], specs: &'a [TensorSpec]) -> impl Iterator<Item = Value<'a>> {
    let role = |place: usize| specs.get(place).map_or(Role::Plain, |spec| spec.role);
    let first = tensors.iter().enumerate().filter(move |(place, _)| !role(*place).completes());
    first.map(move |(place, tensor)| {
        let (role, second) = (role(place + 1), tensors.get(place + 1));
        Value { tensor, second: second.filter(|_| role.completes()).map(|second| (role, second)) }
    })
}

impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.second {
            None => Nested(self.tensor).serialize(serializer),
            Some((Role::Labels, labels)) => maps(self.tensor, labels, serializer),
            Some((_, shapes)) => tensors(self.tensor, shapes, serializer),
        }
    }
}

fn maps<S: Serializer>(values: &Tensor, labels: &Tensor, serializer: S) -> Result<S::Ok, S::Error> {
    let (numbers, _) = values.data.as_chunks::<4>();
    match labels.datatype {
        Datatype::Int64 => {
            let (labels, _) = labels.data.as_chunks::<8>();
            let labels: Vec<i64> = labels.iter().copied().map(i64::from_le_bytes).collect();
            of_labels(&values.shape, &labels, numbers, serializer)
        }
        _ => {
            let text = |label: Result<_, _>| label.map(String::from_utf8_lossy);
            let labels = BytesElements::new(&labels.data).map(text).collect::<Result<Vec<_>, _>>();
            of_labels(&values.shape, &labels.map_err(S::Error::custom)?, numbers, serializer)
        }
    }
}

fn of_labels<L: Serialize, S: Serializer>(
    shape: &[u64],
    labels: &[L],
    numbers: &[[u8; 4]],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match shape {
        [maps, width] => {
            let width = usize::try_from(*width).map_err(S::Error::custom)?;
            let mut list = serializer.serialize_seq(None)?;
            for map in 0..usize::try_from(*maps).map_err(S::Error::custom)? {
                let range = map * width..(map + 1) * width;
                let (labels, numbers) = (labels.get(range.clone()), numbers.get(range));
                list.serialize_element(&Map(labels.unwrap_or_default(), numbers.unwrap_or_default()))?;
            }
            list.end()
        }
        _ => Map(labels, numbers).serialize(serializer),
    }
}

struct Map<'a, L>(&'a [L], &'a [[u8; 4]]);

impl<L: Serialize> Serialize for Map<'_, L> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (label, number) in self.0.iter().zip(self.1) {
            map.serialize_entry(label, &f32::from_le_bytes(*number))?;
        }
        map.end()
    }
}

fn tensors<S: Serializer>(all: &Tensor, shapes: &Tensor, serializer: S) -> Result<S::Ok, S::Error> {
    let (extents, _) = shapes.data.as_chunks::<8>();
    let [count, rank] = *shapes.shape.as_slice() else {
        return Err(S::Error::custom("shapes without a row for each tensor"));
    };
    let rank = usize::try_from(rank).map_err(S::Error::custom)?;
    let mut list = serializer.serialize_seq(None)?;
    let mut start = 0;
    for place in 0..usize::try_from(count).map_err(S::Error::custom)? {
        let own = extents.get(place * rank..(place + 1) * rank).unwrap_or_default();
        // -1 fills up.
        let own = own.iter().map_while(|extent| u64::try_from(i64::from_le_bytes(*extent)).ok());
        let shape: Vec<u64> = own.collect();
        let rest = all.data.get(start..).unwrap_or_default();
        let elements = element_count(&shape).ok_or_else(|| S::Error::custom("a shape that is too large"))?;
        let end = start + elements_length(all.datatype, rest, elements);
        let data = all.data.get(start..end).map(|data| all.data.slice_ref(data));
        let data = data.ok_or_else(|| S::Error::custom("fewer elements than the shapes say"))?;
        list.serialize_element(&Nested(&Tensor { shape, data, ..all.clone() }))?;
        start = end;
    }
    list.end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::{Extent, push_bytes_element};

    fn spec(role: Role) -> TensorSpec {
        TensorSpec { name: "y".into(), datatype: Datatype::Fp32, shape: vec![Extent::Free(None)], role }
    }

    fn tensor(datatype: Datatype, shape: &[u64], data: Vec<u8>) -> Tensor {
        Tensor::new("y".into(), datatype, shape.to_vec(), data.into()).unwrap()
    }

    fn floats(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn integers(values: &[i64]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn texts(values: &[&str]) -> Vec<u8> {
        let mut data = Vec::new();
        assert!(values.iter().all(|value| push_bytes_element(&mut data, value.as_bytes())));
        data
    }

    fn json(tensors: &[Tensor], role: Role) -> String {
        String::from_utf8(list(tensors, &[spec(Role::Plain), spec(role)])).unwrap()
    }

    #[test]
    fn maps_are_objects() {
        let values = || tensor(Datatype::Fp32, &[2, 2], floats(&[0.5, f32::NAN, 0.0, 1.0]));
        let numbers = tensor(Datatype::Int64, &[2, 2], integers(&[-1, 2, -1, 2]));
        let expected = r#"[[{"-1":0.5,"2":null},{"-1":0.0,"2":1.0}]]"#;
        assert_eq!(json(&[values(), numbers], Role::Labels), expected);
        let names = tensor(Datatype::Bytes, &[2, 2], texts(&["a", "\"é", "a", ""]));
        let expected = r#"[[{"a":0.5,"\"é":null},{"a":0.0,"":1.0}]]"#;
        assert_eq!(json(&[values(), names], Role::Labels), expected);
        // One row of several.
        let one =
            [tensor(Datatype::Fp32, &[1], floats(&[0.5])), tensor(Datatype::Int64, &[1], integers(&[7]))];
        assert_eq!(json(&one, Role::Labels), r#"[{"7":0.5}]"#);
        for (shape, expected) in [([0, 0], "[[]]"), ([2, 0], "[[{},{}]]")] {
            let empty = [tensor(Datatype::Fp32, &shape, vec![]), tensor(Datatype::Int64, &shape, vec![])];
            assert_eq!(json(&empty, Role::Labels), expected);
        }
        // Without a signature they are two tensors.
        assert_eq!(list(&one, &[]), b"[[0.5],[7]]");
    }

    #[test]
    fn tensors_of_a_list_have_their_own_shapes() {
        let elements = tensor(Datatype::Fp32, &[5], floats(&[1.0, 2.0, 3.0, 4.0, 5.0]));
        let shapes = tensor(Datatype::Int64, &[4, 2], integers(&[1, 2, 2, -1, 0, 3, -1, -1]));
        let expected = "[[[[1.0,2.0]],[3.0,4.0],[],5.0]]";
        assert_eq!(json(&[elements.clone(), shapes], Role::Shapes), expected);
        let words = tensor(Datatype::Bytes, &[3], texts(&["a", "", "ccc"]));
        let shapes = tensor(Datatype::Int64, &[2, 1], integers(&[2, 1]));
        assert_eq!(json(&[words, shapes], Role::Shapes), r#"[[["a",""],["ccc"]]]"#);
        let empty = [tensor(Datatype::Fp32, &[0], vec![]), tensor(Datatype::Int64, &[0, 0], vec![])];
        assert_eq!(json(&empty, Role::Shapes), "[[]]");
    }
}
