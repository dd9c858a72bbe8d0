//! Durations and points in time as the numbers of records, counters and answers.
//!
//! Place in the flow: below everything. In: a duration, a time of the system's clock. Out: a number, the
//! largest there is for what is longer, 0 for what was before 1970.

use std::time::{Duration, SystemTime};

/// Time since 1970.
#[inline]
pub fn since_1970(time: SystemTime) -> Duration {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// Seconds since 1970.
#[inline]
pub fn unix_seconds(time: SystemTime) -> u64 {
    since_1970(time).as_secs()
}

/// Milliseconds since 1970.
#[inline]
pub fn unix_milliseconds(time: SystemTime) -> u64 {
    milliseconds(since_1970(time))
}

/// A duration in milliseconds.
#[inline]
pub fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A duration in milliseconds, to the microsecond.
pub fn rounded_milliseconds(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1000.0
}

/// Milliseconds of this many nanoseconds.
pub fn milliseconds_of(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e6
}

/// A duration in nanoseconds.
#[inline]
pub fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_the_nearest_number() {
        let before = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!((unix_seconds(before), unix_milliseconds(before)), (0, 0));
        assert_eq!(unix_milliseconds(SystemTime::UNIX_EPOCH + Duration::from_micros(1_500)), 1);
        assert_eq!((milliseconds(Duration::MAX), nanoseconds(Duration::MAX)), (u64::MAX, u64::MAX));
    }
}
