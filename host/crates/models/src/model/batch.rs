//! Joins the inputs of several requests into one run's, and splits the run's outputs into each request's.
//!
//! Flow: `queue → [join] → session → [split] → each request`.
//! In:   verified inputs in signature order. Out: tensors of the same names and datatypes, with more or fewer
//!       rows.
//!
//! A *row* is one entry along the first axis; requests are joined along it. Joining copies every input once,
//! because an engine reads one buffer; splitting copies nothing.
//!
//! Invariant: what is split is in the order of what was joined, row by row.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::tensor::{BytesElements, Tensor};

/// How many rows a request has; `None` if it cannot share a run: no inputs, a scalar or nothing among them,
/// different numbers of rows.
pub fn rows(inputs: &[Tensor]) -> Option<usize> {
    let rows = *inputs.first()?.shape.first()?;
    let alike = inputs.iter().all(|input| input.shape.first() == Some(&rows) && input.elements() > 0);
    (alike && rows > 0).then(|| usize::try_from(rows).ok()).flatten()
}

/// Whether two requests that have rows can share a run: all their other extents are equal.
pub fn fit(one: &[Tensor], other: &[Tensor]) -> bool {
    one.len() == other.len()
        && one
            .iter()
            .zip(other)
            .all(|(one, other)| one.datatype == other.datatype && one.shape.get(1..) == other.shape.get(1..))
}

/// The inputs of one run for `members`, of which each [`fit`]s the first, and `padding` more rows: copies of
/// the last one. No padding for text.
pub fn join(members: &[&[Tensor]], padding: usize) -> Vec<Tensor> {
    let Some(first) = members.first() else { return Vec::new() };
    let input = |(index, model): (usize, &Tensor)| {
        let parts = || members.iter().filter_map(|member| member.get(index));
        let rows: u64 = parts().filter_map(|part| part.shape.first()).sum();
        let size: usize = parts().map(|part| part.data.len()).sum();
        let row = usize::try_from(rows).ok().and_then(|rows| size.checked_div(rows)).unwrap_or(0);
        let mut data = Vec::with_capacity(size + padding * row);
        parts().for_each(|part| data.extend_from_slice(&part.data));
        for _ in 0..padding {
            data.extend_from_within(data.len() - row..);
        }
        let mut shape = model.shape.clone();
        if let Some(extent) = shape.first_mut() {
            *extent = rows + padding as u64;
        }
        Tensor { name: Arc::clone(&model.name), datatype: model.datatype, shape, data: data.into() }
    };
    first.iter().enumerate().map(input).collect()
}

/// The outputs of each member of a run, whose members had `rows` rows.
///
/// # Errors
/// An output does not have one row for each row of input. The text is for the log.
pub fn split(outputs: &[Tensor], rows: &[usize]) -> Result<Vec<Vec<Tensor>>, String> {
    let total: usize = rows.iter().sum();
    let mut members: Vec<Vec<Tensor>> = rows.iter().map(|_| Vec::with_capacity(outputs.len())).collect();
    for output in outputs {
        if output.shape.first().and_then(|rows| usize::try_from(*rows).ok()) != Some(total) {
            return Err(format!(
                "output `{}` has shape {:?} in a batch of {total}, so its rows belong to no request",
                output.name, output.shape
            ));
        }
        let mut cut = Cut::new(output, total);
        for (member, rows) in members.iter_mut().zip(rows) {
            let range = cut.next(*rows).ok_or_else(|| format!("output `{}` is cut short", output.name))?;
            let mut shape = output.shape.clone();
            if let Some(extent) = shape.first_mut() {
                *extent = *rows as u64;
            }
            let data = output.data.slice(range);
            member.push(Tensor { name: Arc::clone(&output.name), datatype: output.datatype, shape, data });
        }
    }
    Ok(members)
}

/// Finds where rows end in a tensor's data.
struct Cut<'a> {
    data: &'a Bytes,
    at: usize,
    /// Bytes of a row; `None` where elements say their own length.
    row: Option<usize>,
    /// Elements of a row.
    elements: usize,
}

impl<'a> Cut<'a> {
    /// `rows` is at least 1.
    fn new(tensor: &'a Tensor, rows: usize) -> Cut<'a> {
        let elements = tensor.elements().checked_div(rows).unwrap_or(0);
        let row = tensor.datatype.size().map(|size| size * elements);
        Cut { data: &tensor.data, at: 0, row, elements }
    }

    /// Where the next `rows` rows lie; `None` if the data ends before.
    fn next(&mut self, rows: usize) -> Option<Range<usize>> {
        let start = self.at;
        let rest = self.data.get(start..)?;
        let length = match self.row {
            Some(row) => rows * row,
            None => {
                let mut length = 0;
                let mut elements = BytesElements::new(rest);
                for _ in 0..rows * self.elements {
                    length += 4 + elements.next()?.ok()?.len();
                }
                length
            }
        };
        self.at = start.checked_add(length).filter(|end| *end <= self.data.len())?;
        Some(start..self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::{Datatype, element_count, push_bytes_element};

    fn numbers(name: &str, shape: &[u64], values: &[f32]) -> Tensor {
        let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Tensor::new(name.into(), Datatype::Fp32, shape.to_vec(), data.into()).unwrap()
    }

    fn texts(shape: &[u64], values: &[&str]) -> Tensor {
        let mut data = Vec::new();
        assert!(values.iter().all(|value| push_bytes_element(&mut data, value.as_bytes())));
        Tensor::new("s".into(), Datatype::Bytes, shape.to_vec(), data.into()).unwrap()
    }

    fn same(one: &Tensor, other: &Tensor) -> bool {
        (&one.name, one.datatype, &one.shape, &one.data)
            == (&other.name, other.datatype, &other.shape, &other.data)
    }

    #[test]
    fn rows_are_the_first_extent_of_every_input() {
        let x = |shape: &[u64]| numbers("x", shape, &vec![0.0; element_count(shape).unwrap()]);
        for (inputs, expected) in [
            (vec![], None),
            (vec![x(&[])], None),
            (vec![x(&[0, 4])], None),
            (vec![x(&[3])], Some(3)),
            (vec![x(&[3, 2]), x(&[3])], Some(3)),
            (vec![x(&[3, 2]), x(&[2])], None),
            (vec![x(&[3, 2]), x(&[])], None),
            (vec![x(&[u64::MAX, 0])], None),
        ] {
            assert_eq!(rows(&inputs), expected, "{inputs:?}");
        }
    }

    #[test]
    fn requests_fit_if_only_their_rows_differ() {
        let x = |shape: &[u64]| vec![numbers("x", shape, &vec![0.0; shape.iter().product::<u64>() as usize])];
        for (one, other, expected) in [
            (x(&[1, 2]), x(&[5, 2]), true),
            (x(&[1, 2]), x(&[1, 3]), false),
            (x(&[1, 2]), x(&[1, 2, 1]), false),
            (x(&[2]), x(&[1]), true),
            (x(&[1, 2]), vec![], false),
            (x(&[1]), vec![texts(&[1], &["a"])], false),
        ] {
            assert_eq!(fit(&one, &other), expected, "{one:?} {other:?}");
        }
    }

    #[test]
    fn what_was_joined_is_split_again() {
        let members = [
            vec![numbers("x", &[1, 2], &[1.0, 2.0]), texts(&[1, 1], &["one"])],
            vec![numbers("x", &[3, 2], &[3.0, 4.0, 5.0, 6.0, 7.0, 8.0]), texts(&[3, 1], &["", "zwei", "3"])],
            vec![numbers("x", &[1, 2], &[9.0, 10.0]), texts(&[1, 1], &[""])],
        ];
        let joined = join(&members.each_ref().map(Vec::as_slice), 0);
        assert_eq!(joined[0].shape, [5, 2]);
        assert!(same(&joined[1], &texts(&[5, 1], &["one", "", "zwei", "3", ""])));
        let parts = split(&joined, &[1, 3, 1]).unwrap();
        for (part, member) in parts.iter().flatten().zip(members.iter().flatten()) {
            assert!(same(part, member), "{part:?} {member:?}");
        }
        // Nothing was copied on the way back.
        assert_eq!(parts[0][0].data.as_ptr(), joined[0].data.as_ptr());
    }

    #[test]
    fn padding_repeats_the_last_row() {
        let members =
            [vec![numbers("x", &[1, 2], &[1.0, 2.0])], vec![numbers("x", &[2, 2], &[3.0, 4.0, 5.0, 6.0])]];
        let joined = join(&members.each_ref().map(Vec::as_slice), 2);
        let expected = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 5.0, 6.0, 5.0, 6.0];
        assert!(same(&joined[0], &numbers("x", &[5, 2], &expected)), "{joined:?}");
        // The parts of the members are what they were; that of the padding is last.
        let parts = split(&joined, &[1, 2, 2]).unwrap();
        assert!(same(&parts[1][0], &members[1][0]));
    }

    #[test]
    fn outputs_without_a_row_for_each_row_are_refused() {
        let error = |output: Tensor| split(&[output], &[1, 2]).unwrap_err();
        for output in
            [numbers("y", &[2], &[0.0; 2]), numbers("y", &[], &[0.0]), numbers("y", &[1, 3], &[0.0; 3])]
        {
            let shape = output.shape.clone();
            assert_eq!(
                error(output),
                format!("output `y` has shape {shape:?} in a batch of 3, so its rows belong to no request")
            );
        }
        // Rows of nothing are rows.
        let empty = split(&[numbers("y", &[3, 0], &[])], &[1, 2]).unwrap();
        assert_eq!((&*empty[1][0].shape, empty[1][0].data.len()), (&[2, 0][..], 0));
    }
}
