//! To which of several sides a request goes, each with a share of them.
//!
//! Place in the flow: a trial asks for the candidate's share, a split for the weights of its endpoints, the
//! recorder whether it is a request's turn.
//! In:   a request's headers. Out: its place in [0, 1); a side has a part of that as long as its share.
//! Invariants: no state is shared by threads; equal keys have equal places, today and after a restart, so a
//! side that only grows keeps every caller it has.

use std::cell::Cell;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use crate::text::is_token;

/// The header whose value decides, so that equal values stay on one side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sticky(Box<str>);

impl Sticky {
    /// Reads `header:NAME`.
    ///
    /// # Errors
    /// The text that was expected.
    pub fn parse(text: &str) -> Result<Sticky, String> {
        match text.strip_prefix("header:") {
            Some(name) if is_token(name) => Ok(Sticky(name.to_ascii_lowercase().into())),
            _ => Err(format!("`{text}`: expected `header:NAME`")),
        }
    }

    /// The header's name, in lower case.
    pub fn header(&self) -> &str {
        &self.0
    }
}

/// The way requests get their places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucketing {
    sticky: Option<Sticky>,
    /// Keys that are first by one seed are not first by every other.
    seed: u64,
}

impl Bucketing {
    /// By chance, or by a key. Bucketings of different names are independent of each other.
    pub fn new(sticky: Option<Sticky>, name: &str) -> Bucketing {
        Bucketing { sticky, seed: hash(0, name) }
    }

    /// The place of a request in [0, 1). Without a header that decides it is drawn by chance.
    pub fn place<'a>(&self, header: impl FnOnce(&str) -> Option<&'a str>) -> f64 {
        let key = self.sticky.as_ref().and_then(|sticky| header(&sticky.0));
        key.map_or_else(by_chance, |key| place(hash(self.seed, key)))
    }
}

/// A place in [0, 1) that cannot be foreseen.
pub fn by_chance() -> f64 {
    place(random())
}

/// As many bits as the number has.
fn place(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

/// FNV-1a, then mixed: keys that differ in their last letter are to be far from each other.
fn hash(seed: u64, key: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    mix(key.bytes().fold(0xcbf2_9ce4_8422_2325 ^ seed, step))
}

/// SplitMix64, a sequence of its own for each thread.
fn random() -> u64 {
    thread_local! {
        static STATE: Cell<u64> = Cell::new(RandomState::new().build_hasher().finish());
    }
    STATE.with(|state| {
        let next = state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        state.set(next);
        mix(next)
    })
}

/// Every bit of the result depends on every bit of `bits`.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: u32 = 10_000;

    /// How many of [`PLACES`] places are below `share`.
    fn below(share: f64, place: impl Fn(u32) -> f64) -> u32 {
        (0..PLACES).filter(|&n| place(n) < share).count().try_into().unwrap()
    }

    #[test]
    fn a_share_is_had_by_chance_and_by_keys() {
        let by_chance = Bucketing::new(None, "a");
        let by_key = Bucketing::new(Some(Sticky::parse("header:X-User").unwrap()), "a");
        for share in [0.0, 0.01, 0.1, 0.5, 0.9, 1.0] {
            let spread = 5.0 * (f64::from(PLACES) * share * (1.0 - share)).sqrt();
            let around = |count: u32| (f64::from(count) - f64::from(PLACES) * share).abs() <= spread;
            let chance = below(share, |_| by_chance.place(|_| None));
            let missing = below(share, |_| by_key.place(|_| None));
            let keys: Vec<String> = (0..PLACES).map(|n| format!("user-{n}")).collect();
            let key = below(share, |n| by_key.place(|_| Some(&keys[n as usize])));
            assert!(around(chance) && around(missing) && around(key), "{share}: {chance} {missing} {key}");
        }
    }

    #[test]
    fn a_key_has_one_place_in_a_draw_and_another_in_another() {
        let bucketing = |name: &str| Bucketing::new(Some(Sticky::parse("header:x-user").unwrap()), name);
        let place = |name: &str| {
            bucketing(name).place(|header| {
                assert_eq!(header, "x-user");
                Some("anna")
            })
        };
        assert_eq!(place("a").to_bits(), place("a").to_bits());
        // Written down: it has to be the same in the next version.
        assert_eq!(format!("{:.6}", place("a")), "0.670580");
        assert!((place("a") - place("b")).abs() > 1e-6);
        // The other half is not the other half of every bucketing.
        let keys: Vec<String> = (0..PLACES).map(|n| n.to_string()).collect();
        let half = |name: &str, n: u32| bucketing(name).place(|_| Some(&keys[n as usize])) < 0.5;
        let both = (0..PLACES).filter(|&n| half("a", n) && half("b", n)).count();
        assert!((2_250..2_750).contains(&both), "{both}");
    }

    #[test]
    fn what_decides_is_a_header() {
        assert_eq!(Sticky::parse("header:X-User").unwrap().header(), "x-user");
        for text in ["", "x-user", "header:", "header:a b", "client"] {
            assert!(Sticky::parse(text).is_err(), "{text}");
        }
    }
}
