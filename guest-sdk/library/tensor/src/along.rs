//! Computations along an axis.
//!
//! In:  a tensor, and which of its axes. Out: a tensor.

use std::cmp::Ordering;

use crate::shape::{Axis, axis, extents, replaced, room, size};
use crate::values::{Element, NotZero, Work, floats, of_any};
use crate::{Datatype, Tensor};

/// Of a length below it nothing can be divided.
const SMALLEST_LENGTH: f64 = 1e-12;

/// See `arithmetic.argmax`.
pub fn argmax(tensor: &Tensor, along: i32) -> Result<Tensor, String> {
    let found = axis(&extents(tensor)?, along)?;
    if found.extent == 0 {
        return Err("the largest of no values".to_owned());
    }
    let data = room(found.before.checked_mul(found.after), Datatype::Int64)?;
    let shape = replaced(&tensor.shape, found.at, &[]);
    Ok(Tensor { datatype: Datatype::Int64, shape, data: of_any(tensor, Largest { found, data }) })
}

struct Largest {
    found: Axis,
    data: Vec<u8>,
}

impl Work for Largest {
    type Output = Vec<u8>;

    fn with<T: Element>(mut self, values: &[T]) -> Vec<u8> {
        for line in lines(self.found, values) {
            let largest =
                line.enumerate().reduce(|one, other| if other.1.beats(one.1) { other } else { one });
            self.data.extend(place(largest.map_or(0, |(at, _)| at)));
        }
        self.data
    }
}

/// Whether a value comes before another one: it is larger, or no number.
trait Beats {
    fn beats(self, other: Self) -> bool;
}

impl<T: Element> Beats for T {
    fn beats(self, other: T) -> bool {
        self > other || self.is_nan() && !other.is_nan()
    }
}

/// See `arithmetic.top-k`.
pub fn top_k(tensor: &Tensor, count: usize, along: i32) -> Result<(Tensor, Tensor), String> {
    let found = axis(&extents(tensor)?, along)?;
    if count > found.extent {
        return Err(format!("the {count} largest of {} values", found.extent));
    }
    let elements = found.before.checked_mul(count).and_then(|elements| elements.checked_mul(found.after));
    let (data, places) = (room(elements, tensor.datatype)?, room(elements, Datatype::Int64)?);
    let (data, places) = of_any(tensor, TopK { tensor, found, count, data, places });
    let shape = replaced(&tensor.shape, found.at, &[count as u64]);
    let places = Tensor { datatype: Datatype::Int64, shape: shape.clone(), data: places };
    Ok((Tensor { datatype: tensor.datatype, shape, data }, places))
}

struct TopK<'a> {
    tensor: &'a Tensor,
    found: Axis,
    count: usize,
    data: Vec<u8>,
    places: Vec<u8>,
}

impl Work for TopK<'_> {
    type Output = (Vec<u8>, Vec<u8>);

    fn with<T: Element>(mut self, values: &[T]) -> (Vec<u8>, Vec<u8>) {
        let Axis { before, extent, after, .. } = self.found;
        // Of each line the places, the best first.
        let mut best: Vec<usize> = Vec::new();
        for line in lines(self.found, values) {
            let line: Vec<T> = line.collect();
            let order = |one: &usize, other: &usize| match (line.get(*one), line.get(*other)) {
                (Some(value), Some(rival)) if value.beats(*rival) => Ordering::Less,
                (Some(value), Some(rival)) if rival.beats(*value) => Ordering::Greater,
                _ => one.cmp(other),
            };
            let mut places: Vec<usize> = (0..extent).collect();
            if self.count > 0 && self.count < extent {
                places.select_nth_unstable_by(self.count - 1, order);
            }
            places.truncate(self.count);
            places.sort_unstable_by(order);
            best.extend(places);
        }
        let bytes = size(self.tensor.datatype);
        for outer in 0..before {
            for rank in 0..self.count {
                for inner in 0..after {
                    let at = best.get((outer * after + inner) * self.count + rank).copied().unwrap_or(0);
                    self.places.extend(place(at));
                    let element = ((outer * extent + at) * after + inner) * bytes;
                    self.data.extend(self.tensor.data.get(element..element + bytes).unwrap_or_default());
                }
            }
        }
        (self.data, self.places)
    }
}

/// See `arithmetic.softmax`.
pub fn softmax(tensor: &Tensor, along: i32) -> Result<Tensor, String> {
    each_line(tensor, along, |line| {
        let largest = line.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let mut sum = 0.0;
        for value in line.iter_mut() {
            *value = (*value - largest).exp();
            sum += f64::from(*value);
        }
        divide(line, sum);
    })
}

/// See `arithmetic.normalise`.
pub fn normalise(tensor: &Tensor, along: i32) -> Result<Tensor, String> {
    each_line(tensor, along, |line| {
        let length: f64 = line.iter().map(|value| f64::from(*value) * f64::from(*value)).sum();
        divide(line, length.sqrt().max(SMALLEST_LENGTH));
    })
}

fn divide(line: &mut [f32], by: f64) {
    for value in line {
        *value = (f64::from(*value) / by) as f32;
    }
}

/// A tensor of floats, whose values along an axis are changed together.
fn each_line(tensor: &Tensor, along: i32, change: impl Fn(&mut [f32])) -> Result<Tensor, String> {
    let found = axis(&extents(tensor)?, along)?;
    let mut values = floats(tensor, "values")?;
    let mut data = room(Some(values.len()), Datatype::Fp32)?;
    if found.after == 1 && found.extent > 0 {
        values.chunks_exact_mut(found.extent).for_each(change);
    } else {
        let changed: Vec<Vec<f32>> = lines(found, &values)
            .map(|line| {
                let mut line: Vec<f32> = line.collect();
                change(&mut line);
                line
            })
            .collect();
        for (at, value) in values.iter_mut().enumerate() {
            let (outer, inner) = (at / (found.extent * found.after), at % found.after);
            let line = changed.get(outer * found.after + inner);
            *value =
                line.and_then(|line| line.get(at / found.after % found.extent)).copied().unwrap_or(*value);
        }
    }
    data.extend(values.into_iter().flat_map(f32::to_le_bytes));
    Ok(Tensor { datatype: Datatype::Fp32, shape: tensor.shape.clone(), data })
}

/// See `arithmetic.mean-pool`.
pub fn mean_pool(tensor: &Tensor, mask: &Tensor) -> Result<Tensor, String> {
    let (of_tensor, of_mask) = (extents(tensor)?, extents(mask)?);
    let (&[texts, length, width], true) = (of_tensor.as_slice(), of_tensor.starts_with(&of_mask)) else {
        return Err(format!("a tensor of {of_tensor:?} with a mask of {of_mask:?}"));
    };
    if of_mask.len() != 2 {
        return Err(format!("a mask of {of_mask:?}, expected [{texts}, {length}]"));
    }
    let (values, counts) = (floats(tensor, "values")?, of_any(mask, NotZero));
    let mut data = room(texts.checked_mul(width), Datatype::Fp32)?;
    let rows = if width == 0 { 0 } else { texts };
    for text in 0..rows {
        let mut sums = vec![0f64; width];
        let mut count = 0f64;
        for at in text * length..(text + 1) * length {
            if counts.get(at) == Some(&true) {
                count += 1.0;
                let row = values.get(at * width..(at + 1) * width).unwrap_or_default();
                sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += f64::from(*value));
            }
        }
        data.extend(sums.into_iter().flat_map(|sum| ((sum / count.max(1.0)) as f32).to_le_bytes()));
    }
    let shape = vec![texts as u64, width as u64];
    Ok(Tensor { datatype: Datatype::Fp32, shape, data })
}

/// The elements along an axis, for each place of the other axes.
fn lines<T: Copy>(axis: Axis, values: &[T]) -> impl Iterator<Item = impl Iterator<Item = T>> {
    (0..axis.before * axis.after).map(move |line| {
        let (outer, inner) = (line / axis.after, line % axis.after);
        let begin = outer * axis.extent * axis.after + inner;
        let range = values.get(begin..(outer + 1) * axis.extent * axis.after).unwrap_or_default();
        range.iter().step_by(axis.after).copied()
    })
}

fn place(at: usize) -> [u8; 8] {
    (at as i64).to_le_bytes()
}
