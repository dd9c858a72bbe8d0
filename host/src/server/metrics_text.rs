//! The texts of the metrics that are given out on the address of the endpoints.
//!
//! Place in the flow: `http/metrics.rs` asks for one. In: a function that writes the metrics. Out: a text, as
//! long as there are endpoints: 15 MB of a thousand whose series are all shown.
//! Invariants: of each format one is written at most every [`PAUSE`], and [`MOST`] are in memory, however
//! many clients do not read theirs.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use crate::telemetry::metrics::MetricsFormat;

/// How long a text is given out.
const PAUSE: Duration = Duration::from_secs(1);
/// Texts that clients may be reading at a time; while they are so many, the last one is given out.
const MOST: usize = 4;

/// The texts of one process, of each format its own.
#[derive(Clone, Default)]
pub struct MetricsTexts {
    prometheus: Arc<Mutex<LastTexts>>,
    openmetrics: Arc<Mutex<LastTexts>>,
}

impl MetricsTexts {
    /// Those of a format.
    pub(super) fn of(&self, format: MetricsFormat) -> Arc<Mutex<LastTexts>> {
        match format {
            MetricsFormat::Prometheus => self.prometheus.clone(),
            MetricsFormat::OpenMetrics => self.openmetrics.clone(),
        }
    }
}

/// A text, and those before it that are still being read.
#[derive(Default)]
pub(super) struct LastTexts {
    last: Option<(Instant, MetricsText)>,
    /// All that are in memory.
    all: Vec<Weak<String>>,
}

/// A text that many clients may be reading.
#[derive(Clone)]
pub(super) struct MetricsText(Arc<String>);

impl MetricsText {
    pub(super) fn new(text: String) -> MetricsText {
        MetricsText(Arc::new(text))
    }
}

impl AsRef<[u8]> for MetricsText {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl LastTexts {
    /// A text, new unless the last one will do.
    pub(super) fn text(&mut self, render: impl FnOnce() -> String) -> MetricsText {
        self.all.retain(|text| text.strong_count() > 0);
        let has_room = self.all.len() < MOST;
        // Before the next one is written: its memory is free then, unless it is being read.
        drop(self.last.take_if(|(made, _)| has_room && made.elapsed() >= PAUSE));
        if let Some((_, text)) = &self.last {
            return text.clone();
        }
        let text = MetricsText::new(render());
        self.all.push(Arc::downgrade(&text.0));
        self.last = Some((Instant::now(), text.clone()));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_given_out_for_a_time_and_longer_while_many_are_read() {
        let mut kept = LastTexts::default();
        let mut number = 0;
        let mut next = |kept: &mut LastTexts, is_old: bool| {
            if let Some((made, _)) = kept.last.as_mut().filter(|_| is_old) {
                *made = made.checked_sub(PAUSE).unwrap();
            }
            let text = kept.text(|| {
                number += 1;
                number.to_string()
            });
            (text.0.as_str().to_owned(), text)
        };
        let (first, _) = next(&mut kept, false);
        assert_eq!((first, next(&mut kept, false).0), ("1".to_owned(), "1".to_owned()));
        // Nothing that clients have read is kept.
        for expected in 2..20 {
            assert_eq!(next(&mut kept, true).0, expected.to_string());
        }
        let mut read = Vec::new();
        for expected in 20..23 {
            let (text, shared) = next(&mut kept, true);
            assert_eq!(text, expected.to_string());
            read.push(shared);
        }
        assert_eq!(next(&mut kept, true).0, "23");
        assert_eq!(next(&mut kept, true).0, "23", "four are in memory");
        read.clear();
        assert_eq!(next(&mut kept, true).0, "24");
    }
}
