//! A path whose requests go to one of several endpoints, by weight.
//!
//! In: a place in [0, 1), see [`bucketing`](crate::bucketing). Out: which endpoint. No protocol's types.

use crate::bucketing::Sticky;

/// One split, as configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// Where it is called; no endpoint's.
    pub path: String,
    /// Names of endpoints with their weights, which are more than 0; not empty.
    pub endpoints: Vec<(String, u32)>,
    /// By what requests are drawn; `None`: by chance.
    pub sticky: Option<Sticky>,
}

impl Split {
    /// Which of the endpoints a place belongs to.
    pub fn of(&self, place: f64) -> usize {
        let all: f64 = self.endpoints.iter().map(|(_, weight)| f64::from(*weight)).sum();
        let wanted = place * all;
        let mut end = 0.0;
        let found = self.endpoints.iter().position(|(_, weight)| {
            end += f64::from(*weight);
            wanted < end
        });
        // Only a place that is none, or rounding, is beyond the last.
        found.unwrap_or(self.endpoints.len().saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_endpoint_has_as_much_as_it_weighs() {
        let split = |weights: &[u32]| Split {
            path: "/both".to_owned(),
            endpoints: weights.iter().map(|weight| (weight.to_string(), *weight)).collect(),
            sticky: None,
        };
        for (weights, place, expected) in [
            (&[90, 10][..], 0.0, 0),
            (&[90, 10], 0.899, 0),
            (&[90, 10], 0.9, 1),
            (&[90, 10], 0.999_999, 1),
            (&[1, 2, 1], 0.25, 1),
            (&[1, 2, 1], 0.75, 2),
            (&[7], 0.5, 0),
            (&[1, 1], 1.0, 1),
        ] {
            assert_eq!(split(weights).of(place), expected, "{weights:?} {place}");
        }
    }
}
