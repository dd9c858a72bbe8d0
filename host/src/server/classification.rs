//! Triton's classification extension: an output as the classes with the highest values.
//!
//! Place in the flow: after the pipeline, for the Open Inference Protocol over HTTP and gRPC.
//! In:   an output, and how many classes are wanted. Out: BYTES, each `VALUE:INDEX` or `VALUE:INDEX:LABEL`.
//! A model that takes batches is classified row by row. The output of any other one is a row as a whole: its
//! configuration tells Triton's clients that it has no batches, and they expect it so.
//! Invariants: at most as many classes as there are values; values are looked at one row at a time, and of a
//! row only the numbers of twice as many are held as are wanted.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use half::{bf16, f16};

use crate::blocking;
use crate::tensor::{Datatype, Tensor, element_count, push_bytes_element};

/// The classes of a model's outputs, as far as they are known.
#[derive(Debug, Default)]
pub(super) struct Classes {
    /// Whether the first extent of an output counts rows.
    pub is_batched: bool,
    /// The names of classes, by their numbers; those beyond have none.
    pub labels: Arc<[String]>,
}

impl Classes {
    /// The `most` highest values of each row, the highest first; of equal ones that of the lowest number.
    ///
    /// # Errors
    /// Text for the caller: the output's values have no order.
    pub(super) fn of(&self, output: &Tensor, most: usize) -> Result<Tensor, String> {
        let Tensor { name, datatype, shape, data } = output;
        let about = |problem: &str| format!("output `{name}`: {problem}");
        let size = datatype.size().filter(|_| *datatype != Datatype::Bool);
        let size = size.ok_or_else(|| about(&format!("{datatype} has no classes, only numbers have")))?;
        let (rows, row) = match shape.split_first() {
            Some((rows, row)) if self.is_batched => (Some(*rows), row),
            _ => (None, shape.as_slice()),
        };
        let width = element_count(row).unwrap_or_default();
        let most = most.min(width);
        let classes = || {
            let mut classes = Vec::new();
            for row in data.chunks(width.saturating_mul(size).max(1)) {
                let read = |index: usize| {
                    row.chunks_exact(size).nth(index).and_then(|bytes| Value::read(*datatype, bytes))
                };
                for index in highest(row.len() / size, most, read) {
                    let Some(value) = read(index) else { continue };
                    let label = self.labels.get(index).map(String::as_str).unwrap_or_default();
                    let colon = if label.is_empty() { "" } else { ":" };
                    let class = format!("{value}:{index}{colon}{label}");
                    if !push_bytes_element(&mut classes, class.as_bytes()) {
                        return Err(about("a label of 4 GiB or more"));
                    }
                }
            }
            Ok(classes)
        };
        let classes = blocking::if_large(data.len(), classes)?;
        let shape = rows.into_iter().chain([most as u64]).collect();
        let classes = Tensor::new(name.clone(), Datatype::Bytes, shape, classes.into());
        classes.map_err(|error| about(&error.to_string()))
    }
}

/// A value of an output, in the precision that it has.
#[derive(Debug, Clone, Copy)]
enum Value {
    Integer(i128),
    Float(f64),
}

impl Value {
    /// One element; `None` for what is no number.
    fn read(datatype: Datatype, bytes: &[u8]) -> Option<Value> {
        macro_rules! number {
            ($type:ty) => {
                <$type>::from_le_bytes(bytes.try_into().ok()?)
            };
        }
        Some(match datatype {
            Datatype::Uint8 => Value::Integer(number!(u8).into()),
            Datatype::Uint16 => Value::Integer(number!(u16).into()),
            Datatype::Uint32 => Value::Integer(number!(u32).into()),
            Datatype::Uint64 => Value::Integer(number!(u64).into()),
            Datatype::Int8 => Value::Integer(number!(i8).into()),
            Datatype::Int16 => Value::Integer(number!(i16).into()),
            Datatype::Int32 => Value::Integer(number!(i32).into()),
            Datatype::Int64 => Value::Integer(number!(i64).into()),
            Datatype::Fp16 => Value::Float(number!(f16).into()),
            Datatype::Bf16 => Value::Float(number!(bf16).into()),
            Datatype::Fp32 => Value::Float(number!(f32).into()),
            Datatype::Fp64 => Value::Float(number!(f64)),
            Datatype::Bool | Datatype::Bytes => return None,
        })
    }

    /// The higher one first, and what is no number last.
    fn before(&self, other: &Value) -> Ordering {
        match (self, other) {
            (Value::Integer(one), Value::Integer(other)) => other.cmp(one),
            (Value::Float(one), Value::Float(other)) => match (one.is_nan(), other.is_nan()) {
                (false, false) => other.partial_cmp(one).unwrap_or(Ordering::Equal),
                (is_last, other_is) => is_last.cmp(&other_is),
            },
            // Values of one output are of one kind.
            _ => Ordering::Equal,
        }
    }
}

/// As Triton writes it: six digits after the point, none of an integer.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Integer(value) => write!(f, "{value}"),
            Value::Float(value) if value.is_nan() => f.write_str("nan"),
            Value::Float(value) => write!(f, "{value:.6}"),
        }
    }
}

/// The numbers of the `most` highest of `count` values, in order.
fn highest(count: usize, most: usize, read: impl Fn(usize) -> Option<Value>) -> Vec<usize> {
    let order = |one: &usize, other: &usize| {
        let values = read(*one).zip(read(*other));
        values.map_or(Ordering::Equal, |(one, other)| one.before(&other)).then(one.cmp(other))
    };
    let room = most.saturating_mul(2);
    let mut found: Vec<usize> = Vec::with_capacity(room.saturating_add(1).min(count));
    // The first of those that were left out: what belongs behind it is left out as well.
    let mut bar: Option<usize> = None;
    for index in 0..count {
        if bar.is_some_and(|bar| order(&bar, &index).is_lt()) {
            continue;
        }
        found.push(index);
        if found.len() > room {
            // Everything before this place belongs before it.
            let (_, first, _) = found.select_nth_unstable_by(most, order);
            bar = Some(*first);
            found.truncate(most);
        }
    }
    found.sort_unstable_by(order);
    found.truncate(most);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::BytesElements;

    fn floats(shape: &[u64], values: &[f32]) -> Tensor {
        let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Tensor::new("y".into(), Datatype::Fp32, shape.to_vec(), data.into()).unwrap()
    }

    fn texts(tensor: &Tensor) -> Vec<&str> {
        BytesElements::new(&tensor.data).map(|element| str::from_utf8(element.unwrap()).unwrap()).collect()
    }

    #[test]
    fn the_highest_come_first() {
        let output = floats(&[2, 3], &[0.25, 0.5, -1.0, 3.0, f32::NAN, 3.0]);
        let labels = ["a", "", "c"].map(str::to_owned);
        for (is_batched, labels, most, shape, expected) in [
            (true, &[][..], 1, &[2, 1][..], &["0.500000:1", "3.000000:0"][..]),
            (true, &labels, 2, &[2, 2], &["0.500000:1", "0.250000:0:a", "3.000000:0:a", "3.000000:2:c"]),
            (false, &labels, 3, &[3], &["3.000000:3", "3.000000:5", "0.500000:1"]),
            (
                true,
                &[],
                9,
                &[2, 3],
                &["0.500000:1", "0.250000:0", "-1.000000:2", "3.000000:0", "3.000000:2", "nan:1"],
            ),
        ] {
            let classes = Classes { is_batched, labels: labels.into() }.of(&output, most).unwrap();
            assert_eq!((classes.shape.as_slice(), texts(&classes).as_slice()), (shape, expected));
        }
    }

    #[test]
    fn a_few_of_many_are_the_first_of_all() {
        let value = |at: u16| if at.is_multiple_of(13) { f32::NAN } else { f32::from(at * 37 % 50) };
        let output = floats(&[200], &(0..200).map(value).collect::<Vec<f32>>());
        let all = Classes::default().of(&output, 1000).unwrap();
        for most in [0, 1, 2, 7, 99, 100, 101, 199, 200] {
            let few = Classes::default().of(&output, most).unwrap();
            assert_eq!(texts(&few), texts(&all)[..most], "{most}");
        }
    }

    #[test]
    fn every_number_keeps_its_precision() {
        for datatype in Datatype::ALL {
            let Some(size) = datatype.size() else { continue };
            let data = [vec![0; size], vec![1; size]].concat();
            let output = Tensor::new("y".into(), datatype, vec![2], data.into()).unwrap();
            let classes = Classes::default().of(&output, 1);
            match datatype {
                Datatype::Bool => {
                    assert_eq!(classes.unwrap_err(), "output `y`: BOOL has no classes, only numbers have");
                }
                _ => assert!(texts(&classes.unwrap())[0].ends_with(":1"), "{datatype}"),
            }
        }
        let data = [u64::MAX - 1, u64::MAX].map(u64::to_le_bytes).concat();
        let output = Tensor::new("y".into(), Datatype::Uint64, vec![2], data.into()).unwrap();
        assert_eq!(texts(&Classes::default().of(&output, 1).unwrap()), ["18446744073709551615:1"]);
        for shape in [&[0][..], &[0, 3], &[2, 0]] {
            for is_batched in [false, true] {
                let classes =
                    Classes { is_batched, ..Classes::default() }.of(&floats(shape, &[]), 2).unwrap();
                assert_eq!(classes.elements(), 0, "{shape:?}");
            }
        }
    }
}
