//! Durations, counted: as exact as percentiles need, in little memory however many there are.
//!
//! In: durations. Out: percentiles to within half a percent, the extremes exactly, counts of ranges.
//! Each power of two is divided into [`PARTS`] buckets of the same width (HdrHistogram's layout).

use std::time::Duration;

/// Buckets of a power of two.
const PARTS: u64 = 128;

/// Counts by nanoseconds.
#[derive(Debug, Clone, Default)]
pub(super) struct Histogram {
    counts: Vec<u64>,
    len: u64,
    min: Option<u64>,
    max: u64,
}

impl Histogram {
    pub(super) fn record(&mut self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.add_to(bucket(nanos), 1);
        self.min = Some(self.min.map_or(nanos, |min| min.min(nanos)));
        self.max = self.max.max(nanos);
    }

    /// Adds all that the other has counted.
    pub(super) fn add(&mut self, other: &Histogram) {
        for (bucket, count) in other.counts.iter().enumerate() {
            self.add_to(bucket, *count);
        }
        self.min = self.min.into_iter().chain(other.min).min();
        self.max = self.max.max(other.max);
    }

    fn add_to(&mut self, bucket: usize, count: u64) {
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        if let Some(counted) = self.counts.get_mut(bucket) {
            *counted += count;
            self.len += count;
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The least duration that is not exceeded by this part of all; zero without any.
    pub(super) fn quantile(&self, part: f64) -> Duration {
        let rank = ((self.len as f64 * part).ceil() as u64).clamp(1, self.len.max(1));
        let mut below = 0;
        let bucket = self.counts.iter().position(|count| {
            below += count;
            below >= rank
        });
        let nanos = bucket.map_or(0, middle);
        Duration::from_nanos(nanos.clamp(self.min.unwrap_or(0), self.max))
    }

    pub(super) fn min(&self) -> Duration {
        Duration::from_nanos(self.min.unwrap_or(0))
    }

    pub(super) fn max(&self) -> Duration {
        Duration::from_nanos(self.max)
    }

    /// How many are less than this, to within a bucket.
    pub(super) fn below(&self, limit: Duration) -> u64 {
        let limit = bucket(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX));
        self.counts.iter().take(limit).sum()
    }
}

/// The bucket of a duration.
fn bucket(nanos: u64) -> usize {
    let shift = u64::from(nanos.checked_ilog2().unwrap_or(0)).saturating_sub(7);
    // Up to twice as many as there are parts, each has its own.
    usize::try_from(shift * PARTS + (nanos >> shift)).unwrap_or(usize::MAX)
}

/// The duration in the middle of a bucket.
fn middle(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let shift = (bucket / PARTS).saturating_sub(1);
    let start = (bucket - shift * PARTS) << shift;
    start + ((1 << shift) >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_its_middle_and_is_half_a_percent_wide_at_most() {
        for nanos in (0..64).flat_map(|power| [1_u64 << power, (1 << power) + 1, (1 << power) - 1]) {
            let (bucket, middle) = (bucket(nanos), middle(bucket(nanos)));
            assert_eq!(super::bucket(middle), bucket, "{nanos}");
            assert!((middle as f64 - nanos as f64).abs() <= nanos as f64 * 0.004, "{nanos}: {middle}");
        }
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_durations() {
        let mut histogram = Histogram::default();
        let mut sorted: Vec<u64> = (0..10_007).map(|n: u64| 50_000 + n * n % 9_973 * 1_000).collect();
        sorted.iter().for_each(|nanos| histogram.record(Duration::from_nanos(*nanos)));
        sorted.sort_unstable();
        for (part, index) in [(0.0, 0), (0.5, 5_003), (0.9, 9_006), (0.99, 9_906), (1.0, 10_006)] {
            let (found, exact) = (histogram.quantile(part).as_nanos() as f64, sorted[index] as f64);
            assert!((found / exact - 1.0).abs() < 5e-3, "{part}: {found}, not {exact}");
        }
        assert_eq!(histogram.max().as_nanos(), u128::from(sorted[10_006]));
        assert_eq!(histogram.min().as_nanos(), u128::from(sorted[0]));
        let half = histogram.below(Duration::from_nanos(sorted[5_003])) as f64;
        assert!((half / 5_003.0 - 1.0).abs() < 0.02, "{half}");
        let mut twice = histogram.clone();
        twice.add(&histogram);
        assert_eq!((twice.len(), twice.quantile(0.9)), (20_014, histogram.quantile(0.9)));
        assert_eq!(Histogram::default().quantile(0.5), Duration::ZERO);
    }
}
