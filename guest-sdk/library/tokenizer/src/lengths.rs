//! How many tokens of a text stay, and of the two texts of a pair.
//!
//! In:  how many there are, how many may stay. Out: the same for each text.
//! Invariant: what stays of both is at most what may.

use crate::Error;

/// Of which text of a pair is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// The longer one, and both when they are as long.
    LongestFirst,
    OnlyFirst,
    OnlySecond,
}

/// What stays of a text of `first` tokens and, in a pair, one of `second`.
///
/// # Errors
/// The text that is to be cut has too few tokens for it.
pub fn lengths(
    first: usize,
    second: Option<usize>,
    most: usize,
    strategy: Strategy,
) -> Result<(usize, usize), Error> {
    let others = second.unwrap_or(0);
    let excess = (first + others).saturating_sub(most);
    if excess == 0 {
        return Ok((first, others));
    }
    let without = |length: usize| {
        let stays = length.checked_sub(excess).filter(|stays| *stays > 0);
        stays.ok_or_else(|| {
            Error::Text(format!(
                "a text of {length} tokens is to lose {excess}, so that at most {most} are left"
            ))
        })
    };
    match (strategy, second) {
        (Strategy::LongestFirst, None) => Ok((most, 0)),
        (Strategy::LongestFirst, Some(second)) => {
            let smaller = first.min(second).min(most / 2);
            let larger = most - smaller;
            Ok(if first > second { (larger, smaller) } else { (smaller, larger) })
        }
        (Strategy::OnlyFirst, _) => Ok((without(first)?, others)),
        (Strategy::OnlySecond, Some(second)) => Ok((first, without(second)?)),
        (Strategy::OnlySecond, None) => {
            let text = format!(
                "a text of {first} tokens, expected at most {most}: only the second of a pair is cut"
            );
            Err(Error::Text(text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_is_what_may() {
        use Strategy::{LongestFirst, OnlyFirst, OnlySecond};
        for (first, second, most, strategy, expected) in [
            (3, None, 3, LongestFirst, Some((3, 0))),
            (4, None, 3, LongestFirst, Some((3, 0))),
            (4, None, 0, LongestFirst, Some((0, 0))),
            (2, Some(3), 5, LongestFirst, Some((2, 3))),
            (1, Some(9), 6, LongestFirst, Some((1, 5))),
            (9, Some(1), 6, LongestFirst, Some((5, 1))),
            (9, Some(8), 5, LongestFirst, Some((3, 2))),
            (8, Some(9), 5, LongestFirst, Some((2, 3))),
            (8, Some(8), 5, LongestFirst, Some((2, 3))),
            (8, Some(8), 0, LongestFirst, Some((0, 0))),
            (8, Some(3), 6, OnlyFirst, Some((3, 3))),
            (3, Some(8), 6, OnlyFirst, None),
            (3, Some(8), 6, OnlySecond, Some((3, 3))),
            (8, Some(3), 8, OnlySecond, None),
            (8, None, 7, OnlyFirst, Some((7, 0))),
            (8, None, 7, OnlySecond, None),
        ] {
            let stays = lengths(first, second, most, strategy).ok();
            assert_eq!(stays, expected, "{first}, {second:?} of {most}, {strategy:?}");
        }
    }
}
