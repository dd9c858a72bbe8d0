//! The coding that a client would like an answer in: `accept-encoding` (RFC 9110, section 12.5.3).
//!
//! Place in the flow: for answers that may be packed. In: the header. Out: a [`Coding`], or none.
//! The coding with the highest weight is taken; of those with the same, the first one that is named.

use super::coding::Coding;

/// A weight in thousandths.
type Weight = u32;
const FULL: Weight = 1000;

/// Preferences of a header.
#[derive(Default)]
struct Wishes {
    /// By [`Coding::ALL`]: the weight, and the position in the header.
    known: [Option<(Weight, usize)>; Coding::ALL.len()],
    /// Of an answer as it is.
    identity: Option<Weight>,
    /// Of all that is not named.
    others: Option<Weight>,
}

/// The coding to take.
pub(super) fn best<'a>(values: impl Iterator<Item = &'a str>) -> Option<Coding> {
    let mut wishes = Wishes::default();
    for (position, element) in values.flat_map(|value| value.split(',')).enumerate() {
        wishes.note(position, element);
    }
    // Those that no element names stand behind those that one does.
    let others = wishes.others.map(|weight| (weight, usize::MAX));
    let weighed = Coding::ALL.into_iter().zip(wishes.known);
    let weighed = weighed.filter_map(|(coding, own)| Some((coding, own.or(others)?)));
    let wanted = weighed.filter(|(_, (weight, _))| *weight > 0);
    let (coding, (weight, _)) =
        wanted.reduce(|best, next| if precedes(next.1, best.1) { next } else { best })?;
    // An answer that is not packed is worth as much as its client says, and less than any other where it says
    // nothing.
    wishes.identity.is_none_or(|identity| identity <= weight).then_some(coding)
}

fn precedes(one: (Weight, usize), other: (Weight, usize)) -> bool {
    one.0 > other.0 || one.0 == other.0 && one.1 < other.1
}

impl Wishes {
    fn note(&mut self, position: usize, element: &str) {
        let mut parts = element.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let Some(weight) = weight(parts) else { return };
        if name == "*" {
            self.others.get_or_insert(weight);
        } else if name.eq_ignore_ascii_case("identity") {
            self.identity.get_or_insert(weight);
        } else if let Some(coding) = Coding::named(name)
            && let Some(own) = self.known.get_mut(coding as usize)
        {
            own.get_or_insert((weight, position));
        }
    }
}

/// The weight among an element's parameters; `None` if it is none.
fn weight<'a>(parameters: impl Iterator<Item = &'a str>) -> Option<Weight> {
    for parameter in parameters {
        let Some((name, value)) = parameter.split_once('=') else { continue };
        if name.trim().eq_ignore_ascii_case("q") {
            let weight: f32 = value.trim().parse().ok()?;
            return (0.0..=1.0).contains(&weight).then(|| (weight * 1000.0).round() as Weight);
        }
    }
    Some(FULL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_weight_wins() {
        use Coding::{Brotli, Deflate, Gzip, Zstd};
        for (values, expected) in [
            (&[][..], None),
            (&[""], None),
            (&["gzip"], Some(Gzip)),
            (&["X-Gzip"], Some(Gzip)),
            (&["br, deflate, gzip"], Some(Brotli)),
            (&["gzip, deflate, br, zstd"], Some(Gzip)),
            (&["zstd;q=0.9, gzip;q=0.8, br;q=0.95"], Some(Brotli)),
            (&["gzip;q=0, deflate;q=0.5"], Some(Deflate)),
            (&["gzip;q=0.1", "deflate"], Some(Deflate)),
            (&["gzip;Q=0, deflate; q =0 , zstd ; q= 0.000"], None),
            (&["gzip;q=0.001"], Some(Gzip)),
            (&["gzip;q=0.0004"], None),
            (&["br", "gzip; q=1"], Some(Brotli)),
            (&["unknown, zstd;q=0.5"], Some(Zstd)),
            (&["*"], Some(Gzip)),
            (&["*, gzip;q=0"], Some(Deflate)),
            (&["*;q=0"], None),
            (&["*;q=0, br;q=0.2"], Some(Brotli)),
            (&["*;q=0.5, br;q=0.2"], Some(Gzip)),
            (&["identity"], None),
            (&["identity, *"], Some(Gzip)),
            (&["identity;q=1, gzip;q=0.5"], None),
            (&["identity;q=0.5, gzip;q=0.5"], Some(Gzip)),
            (&["identity;q=0, gzip;q=0.1"], Some(Gzip)),
            (&["identity;q=0"], None),
            (&["gzip;q=nonsense, deflate"], Some(Deflate)),
            (&["gzip;q=2, deflate"], Some(Deflate)),
            (&["gzip;q=-1"], None),
            (&["gzip;q=nan"], None),
            (&["gzip;level=9;q=0.5"], Some(Gzip)),
        ] {
            assert_eq!(best(values.iter().copied()), expected, "{values:?}");
        }
    }
}
