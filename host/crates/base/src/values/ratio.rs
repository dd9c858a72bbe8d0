//! A part of a whole, from 0 to 1: of the requests, of the samples.
//!
//! Place in the flow: read from settings and orders, compared with what was counted.

use std::fmt;

use serde::Serialize;

/// A number from 0 to 1.
#[derive(Clone, Copy, PartialEq, PartialOrd, Default, Serialize)]
pub struct Ratio(f64);

/// It is a number: [`Ratio::new`] lets no other in.
impl Eq for Ratio {}

impl Ratio {
    /// Nothing.
    pub const ZERO: Ratio = Ratio(0.0);
    /// All of it.
    pub const ONE: Ratio = Ratio(1.0);

    /// From 0 to 1; `None` for anything else.
    pub fn new(number: f64) -> Option<Ratio> {
        (0.0..=1.0).contains(&number).then_some(Ratio(number))
    }

    /// So many hundredths; no more than all of it.
    pub const fn percent(hundredths: u8) -> Ratio {
        if hundredths < 100 { Ratio(hundredths as f64 / 100.0) } else { Ratio::ONE }
    }

    /// The part that `part` is of `whole`; nothing of nothing is 0, and more than the whole is all of it.
    pub fn of(part: u64, whole: u64) -> Ratio {
        if whole == 0 { Ratio::ZERO } else { Ratio((part as f64 / whole as f64).min(1.0)) }
    }

    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl fmt::Debug for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_from_0_to_1() {
        assert!([-0.1, 1.1, f64::NAN, f64::INFINITY].into_iter().all(|number| Ratio::new(number).is_none()));
        for (part, whole, expected) in [(0, 0, 0.0), (7, 100, 0.07), (3, 2, 1.0), (1, 1, 1.0)] {
            assert_eq!(Some(Ratio::of(part, whole)), Ratio::new(expected), "{part} of {whole}");
        }
    }
}
