//! Which traces are recorded: as the parent says, else a share of them by their ids.
//!
//! In: the names and the argument that OpenTelemetry has for this (`OTEL_TRACES_SAMPLER`). Out: a decision,
//! the same on every server that has the same ratio.

use super::context::{TraceContext, TraceId};

/// A way to decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampler {
    /// Whether the decision of a parent holds.
    by_parent: bool,
    /// Traces whose id is below are recorded; of all that 63 bits can say.
    below: u64,
}

/// A ratio of 1 in [`Sampler::below`].
const ALL: u64 = 1 << 63;

/// As OpenTelemetry has it: by the parent, else all.
impl Default for Sampler {
    fn default() -> Sampler {
        Sampler { by_parent: true, below: ALL }
    }
}

impl Sampler {
    /// The sampler of this name. `ratio`: its argument, 0 to 1.
    pub fn named(name: &str, ratio: f64) -> Option<Sampler> {
        let (by_parent, root) = match name.strip_prefix("parentbased_") {
            Some(root) => (true, root),
            None => (false, name),
        };
        let below = match root {
            "always_on" => ALL,
            "always_off" => 0,
            // Exact for 0 and 1; what lies between loses bits that no share needs.
            "traceidratio" => (ratio.clamp(0.0, 1.0) * ALL as f64) as u64,
            _ => return None,
        };
        Some(Sampler { by_parent, below })
    }

    /// Whether the trace of this id is recorded.
    pub fn samples(self, trace: TraceId, parent: Option<&TraceContext>) -> bool {
        match parent {
            Some(parent) if self.by_parent => parent.sampled,
            _ => trace.low() >> 1 < self.below,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::context::SpanId;
    use super::*;

    #[test]
    fn by_parent_then_by_ratio() {
        let id = |low: u64| TraceId(((1_u128 << 64) | u128::from(low)).to_be_bytes());
        let context = |sampled| TraceContext { trace: id(0), span: SpanId([1; 8]), sampled, state: None };
        let (low, middle, high) = (id(0), id(u64::MAX / 2), id(u64::MAX));
        let decisions = |name: &str, ratio: f64| {
            let sampler = Sampler::named(name, ratio).unwrap();
            let parents = [None, Some(context(true)), Some(context(false))];
            let of = |parent: &Option<TraceContext>| {
                [low, middle, high].map(|id| u8::from(sampler.samples(id, parent.as_ref())))
            };
            parents.each_ref().map(of)
        };
        let (none, low_half, all) = ([0; 3], [1, 1, 0], [1; 3]);
        for (name, ratio, expected) in [
            ("always_on", 0.0, [all; 3]),
            ("always_off", 1.0, [none; 3]),
            ("traceidratio", 1.0, [all; 3]),
            ("traceidratio", 0.5, [low_half; 3]),
            ("traceidratio", 0.0, [none; 3]),
            ("parentbased_always_on", 0.0, [all, all, none]),
            ("parentbased_always_off", 1.0, [none, all, none]),
            ("parentbased_traceidratio", 0.5, [low_half, all, none]),
        ] {
            assert_eq!(decisions(name, ratio), expected, "{name} {ratio}");
        }
        assert_eq!(Sampler::named("parentbased_always_on", 1.0), Some(Sampler::default()));
        assert_eq!([Sampler::named("xray", 1.0), Sampler::named("", 1.0)], [None, None]);
    }

    #[test]
    fn a_ratio_is_the_share_of_new_ids() {
        let sampler = Sampler::named("traceidratio", 0.25).unwrap();
        let sampled = (0..20_000).filter(|_| sampler.samples(TraceId::random(), None)).count();
        // Ten standard deviations.
        assert!((4_400..=5_600).contains(&sampled), "{sampled} of 20000");
    }
}
