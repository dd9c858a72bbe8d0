//! Rows of tokens, as long as each other, as tensors.
//!
//! In:  the tokens of each text. Out: INT64, little-endian.
//! Invariant: the length and the memory of all rows are checked before one is written.

use crate::{Encoding, Error, Padding, has_memory};

/// The tokens of a text, or of a pair.
#[derive(Debug, Default)]
pub struct Row {
    pub ids: Vec<u32>,
    pub types: Vec<u32>,
    /// Begin and end of each, if asked for.
    pub offsets: Vec<(usize, usize)>,
}

/// What fills a row.
#[derive(Debug, Clone, Copy)]
pub struct Filling {
    pub id: u32,
    pub kind: u32,
    pub is_before: bool,
    /// To a multiple of this length; 0 for any.
    pub multiple: usize,
}

/// The rows, as long as `padding` says.
///
/// # Errors
/// They have different lengths and are not to be filled, one is too long, or there is no memory for them.
pub fn encoding(
    rows: &[Row],
    padding: Padding,
    filling: Filling,
    with_offsets: bool,
) -> Result<Encoding, Error> {
    let longest = rows.iter().map(|row| row.ids.len()).max().unwrap_or(0);
    let length = match padding {
        Padding::To(length) => length as usize,
        Padding::Off => longest,
        // A multiple of 0 has none.
        Padding::Longest | Padding::AsFile => {
            longest.checked_next_multiple_of(filling.multiple).unwrap_or(longest)
        }
    };
    if longest > length {
        let text = format!("a text of {longest} tokens, expected at most {length}");
        return Err(Error::Text(text));
    }
    if matches!(padding, Padding::Off)
        && let Some(row) = rows.iter().find(|row| row.ids.len() != length)
    {
        let shorter = row.ids.len();
        let text = format!("rows of {shorter} and {length} tokens, which no padding makes as long");
        return Err(Error::Options(text));
    }
    let size = rows.len().checked_mul(length).and_then(|tokens| tokens.checked_mul(size_of::<i64>()));
    let parts = if with_offsets { 5 } else { 3 };
    let fits = |size: &usize| size.checked_mul(parts).is_some_and(has_memory);
    let (Some(size), Ok(texts), Ok(extent)) =
        (size.filter(fits), u32::try_from(rows.len()), u32::try_from(length))
    else {
        return Err(Error::Text(format!("no memory for {} rows of {length} tokens", rows.len())));
    };
    let tensor = |values: fn(&Row) -> &[u32], fill: u32| {
        let mut bytes = Vec::with_capacity(size);
        for row in rows {
            let values = values(row);
            let (before, after) = around(length - values.len(), filling);
            bytes.extend(std::iter::repeat_n(number(fill), before).flatten());
            bytes.extend(values.iter().flat_map(|value| number(*value)));
            bytes.extend(std::iter::repeat_n(number(fill), after).flatten());
        }
        bytes
    };
    let mut mask = Vec::with_capacity(size);
    let mut offsets = Vec::new();
    if with_offsets {
        offsets.reserve_exact(2 * size);
    }
    for row in rows {
        let (before, after) = around(length - row.ids.len(), filling);
        mask.extend(std::iter::repeat_n(number(0), before).flatten());
        mask.extend(std::iter::repeat_n(number(1), row.ids.len()).flatten());
        mask.extend(std::iter::repeat_n(number(0), after).flatten());
        if with_offsets {
            let pairs = std::iter::repeat_n(&(0, 0), before).chain(&row.offsets);
            for (begin, end) in pairs.chain(std::iter::repeat_n(&(0, 0), after)) {
                offsets.extend((*begin as u64).to_le_bytes());
                offsets.extend((*end as u64).to_le_bytes());
            }
        }
    }
    Ok(Encoding {
        texts,
        length: extent,
        ids: tensor(|row| &row.ids, filling.id),
        mask,
        types: tensor(|row| &row.types, filling.kind),
        offsets,
    })
}

/// How much is missing before the tokens, and how much after them.
fn around(missing: usize, filling: Filling) -> (usize, usize) {
    if filling.is_before { (missing, 0) } else { (0, missing) }
}

fn number(value: u32) -> [u8; 8] {
    i64::from(value).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILLING: Filling = Filling { id: 9, kind: 3, is_before: false, multiple: 0 };

    fn rows() -> Vec<Row> {
        let row = |ids: &[u32]| Row {
            ids: ids.to_vec(),
            types: vec![1; ids.len()],
            offsets: ids.iter().map(|id| (*id as usize, *id as usize + 1)).collect(),
        };
        vec![row(&[1, 2, 3]), row(&[4])]
    }

    fn numbers(bytes: &[u8]) -> Vec<i64> {
        bytes.chunks_exact(8).map(|value| i64::from_le_bytes(value.try_into().unwrap())).collect()
    }

    #[test]
    fn rows_are_filled_on_the_side_and_to_the_length_that_is_said() {
        let made = encoding(&rows(), Padding::Longest, FILLING, true).unwrap();
        assert_eq!((made.texts, made.length), (2, 3));
        assert_eq!(numbers(&made.ids), [1, 2, 3, 4, 9, 9]);
        assert_eq!(numbers(&made.mask), [1, 1, 1, 1, 0, 0]);
        assert_eq!(numbers(&made.types), [1, 1, 1, 1, 3, 3]);
        assert_eq!(numbers(&made.offsets), [1, 2, 2, 3, 3, 4, 4, 5, 0, 0, 0, 0]);
        let before = Filling { is_before: true, multiple: 4, ..FILLING };
        let made = encoding(&rows(), Padding::AsFile, before, false).unwrap();
        assert_eq!((made.length, made.offsets.len()), (4, 0));
        assert_eq!(numbers(&made.ids), [9, 1, 2, 3, 9, 9, 9, 4]);
        assert_eq!(numbers(&made.mask), [0, 1, 1, 1, 0, 0, 0, 1]);
        let made = encoding(&rows(), Padding::To(5), before, false).unwrap();
        assert_eq!((made.length, made.ids.len()), (5, 80));
        let made = encoding(&[], Padding::Off, FILLING, true).unwrap();
        assert_eq!((made.texts, made.length, made.ids.len()), (0, 0, 0));
    }

    #[test]
    fn rows_that_do_not_fit_are_refused() {
        let error = |padding| encoding(&rows(), padding, FILLING, true).unwrap_err();
        assert!(matches!(error(Padding::Off), Error::Options(_)));
        assert!(matches!(error(Padding::To(2)), Error::Text(_)));
    }
}
