//! What an answer depends on beside its request and the generation that gives it.
//!
//! Place in the flow: noted by the sandbox while a handler calls the host, carried by the report of the run,
//! read by the endpoint's response cache.
//! Invariant: a host call whose result two equal requests may get differently is noted before it returns.

/// One thing that a handler may ask the host for and that is no part of its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dependency {
    /// A clock, or a timer.
    Clock,
    /// Random bytes, or a seed.
    Random,
    /// The id of the request.
    RequestId,
    /// A header that is no part of the cache's key.
    Header,
    /// A value that handlers keep.
    Kv,
    /// The answer of another server.
    Outbound,
    /// A job of its endpoint.
    Jobs,
    /// A model that did not answer: the next request may find it well.
    Failure,
}

impl Dependency {
    /// Those that an operator may allow, and as they are configured.
    pub const ALLOWABLE: [(&str, Dependency); 5] = [
        ("clock", Dependency::Clock),
        ("random", Dependency::Random),
        ("request_id", Dependency::RequestId),
        ("kv", Dependency::Kv),
        ("outbound", Dependency::Outbound),
    ];

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of dependencies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dependencies(u8);

impl Dependencies {
    /// Adds one.
    pub fn add(&mut self, dependency: Dependency) {
        self.0 |= dependency.bit();
    }

    /// Whether any of these is one of `others` too.
    pub fn has_any(self, others: Dependencies) -> bool {
        self.0 & others.0 != 0
    }

    /// Whether each of these is one of `allowed` too.
    pub fn are_within(self, allowed: Dependencies) -> bool {
        self.0 & !allowed.0 == 0
    }
}

impl FromIterator<Dependency> for Dependencies {
    fn from_iter<I: IntoIterator<Item = Dependency>>(dependencies: I) -> Dependencies {
        dependencies.into_iter().fold(Dependencies::default(), |mut all, dependency| {
            all.add(dependency);
            all
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_within_another_if_that_has_all_of_it() {
        let set = |these: &[Dependency]| these.iter().copied().collect::<Dependencies>();
        let all: Vec<Dependency> = Dependency::ALLOWABLE.iter().map(|(_, dependency)| *dependency).collect();
        assert!(set(&[]).are_within(set(&[])));
        assert!(set(&[Dependency::Clock]).are_within(set(&all)));
        assert!(set(&all).has_any(set(&[Dependency::Kv])));
        assert!(!set(&[Dependency::Clock]).has_any(set(&[Dependency::Kv])) && !set(&[]).has_any(set(&all)));
        assert!(!set(&[Dependency::Clock, Dependency::Kv]).are_within(set(&[Dependency::Clock])));
        // No operator can allow these.
        assert!(!set(&[Dependency::Header]).are_within(set(&all)));
        assert!(!set(&[Dependency::Failure]).are_within(set(&all)));
        assert!(!set(&[Dependency::Jobs]).are_within(set(&all)));
    }
}
