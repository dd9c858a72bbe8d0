//! What an endpoint predicts: how often each class, or how the values are spread.
//!
//! Place in the flow: told by the endpoint's tracker when a response is whole.
//! Invariants: a prediction costs a request atomics, and a class one lookup besides, none of it behind a
//! lock, but for the first of its kind; the number of classes, which callers have a part in, is bounded,
//! and an endpoint without a tracker has no series.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use prometheus::{Gauge, GaugeVec, Histogram, HistogramVec, IntCounter, IntCounterVec};

/// Most classes that are told apart; all later ones are counted together.
const MOST_CLASSES: usize = 1000;
/// The class of those.
const OTHER: &str = "(other)";

/// The families of all endpoints.
#[derive(Clone)]
pub(super) struct PredictionFamilies {
    pub(super) classes: IntCounterVec,
    pub(super) values: HistogramVec,
    pub(super) least: GaugeVec,
    pub(super) greatest: GaugeVec,
    pub(super) untracked: IntCounterVec,
}

/// The predictions of one endpoint.
pub struct Predictions {
    families: PredictionFamilies,
    endpoint: String,
    classes: ArcSwap<HashMap<Box<str>, IntCounter>>,
    values: OnceLock<Values>,
    untracked: OnceLock<IntCounter>,
}

/// The spread of values, from the first one on.
struct Values {
    all: Histogram,
    least: Extreme,
    greatest: Extreme,
}

/// The least or the greatest value; its gauge shows it from [`Predictions::refresh`] on.
struct Extreme {
    /// Of a number of 64 bits.
    bits: AtomicU64,
    gauge: Gauge,
}

impl Extreme {
    fn new(first: f64, gauge: Gauge) -> Extreme {
        Extreme { bits: AtomicU64::new(first.to_bits()), gauge }
    }

    fn take_in(&self, value: f64, is_beyond: fn(&f64, &f64) -> bool) {
        let beyond = |bits| is_beyond(&value, &f64::from_bits(bits)).then(|| value.to_bits());
        let _ = self.bits.fetch_update(Ordering::Relaxed, Ordering::Relaxed, beyond);
    }

    fn refresh(&self) {
        self.gauge.set(f64::from_bits(self.bits.load(Ordering::Relaxed)));
    }
}

impl Predictions {
    pub(super) fn new(families: &PredictionFamilies, endpoint: &str) -> Predictions {
        Predictions {
            families: families.clone(),
            endpoint: endpoint.to_owned(),
            classes: ArcSwap::default(),
            values: OnceLock::new(),
            untracked: OnceLock::new(),
        }
    }

    /// Counts a prediction of this class.
    pub fn class(&self, class: &str) {
        let classes = self.classes.load();
        let is_full = classes.len() >= MOST_CLASSES;
        let known = classes.get(class).or_else(|| classes.get(OTHER).filter(|_| is_full));
        match known {
            Some(counter) => counter.inc(),
            None => self.new_class(if is_full { OTHER } else { class }).inc(),
        }
    }

    /// The counter of a class that was not known a moment ago.
    fn new_class(&self, class: &str) -> IntCounter {
        let counter = self.families.classes.with_label_values(&[self.endpoint.as_str(), class]);
        self.classes.rcu(|classes| {
            let mut classes = HashMap::clone(classes);
            classes.insert(class.into(), counter.clone());
            classes
        });
        counter
    }

    /// Counts a prediction of this value.
    pub fn value(&self, value: f64) {
        let values = self.values.get_or_init(|| {
            let label = &[self.endpoint.as_str()];
            Values {
                all: self.families.values.with_label_values(label),
                least: Extreme::new(value, self.families.least.with_label_values(label)),
                greatest: Extreme::new(value, self.families.greatest.with_label_values(label)),
            }
        });
        values.all.observe(value);
        values.least.take_in(value, f64::lt);
        values.greatest.take_in(value, f64::gt);
    }

    /// Brings the gauges up to date, before they are rendered.
    pub fn refresh(&self) {
        if let Some(Values { least, greatest, .. }) = self.values.get() {
            least.refresh();
            greatest.refresh();
        }
    }

    /// Counts a response in which there was no prediction. Gives how many there were before.
    pub fn untracked(&self) -> u64 {
        let new = || self.families.untracked.with_label_values(&[self.endpoint.as_str()]);
        let counter = self.untracked.get_or_init(new);
        let before = counter.get();
        counter.inc();
        before
    }
}

#[cfg(test)]
mod tests {
    use super::super::Metrics;
    use super::super::tests::WHOLE;
    use super::*;

    #[test]
    fn classes_are_counted_up_to_a_bound() {
        let metrics = Metrics::new().unwrap();
        let endpoint = metrics.endpoint("iris");
        for class in 0..MOST_CLASSES + 10 {
            endpoint.predictions.class(&class.to_string());
        }
        endpoint.predictions.class("7");
        let text = metrics.render(WHOLE);
        let series =
            |class: &str| format!(r#"modelhost_predictions_total{{class="{class}",endpoint="iris"}}"#);
        assert!(text.contains(&format!("{} 2\n", series("7"))));
        assert!(text.contains(&format!("{} 10\n", series(OTHER))));
        assert_eq!(text.matches("modelhost_predictions_total{").count(), MOST_CLASSES + 1);
    }

    #[test]
    fn values_have_a_sum_and_extremes() {
        let metrics = Metrics::new().unwrap();
        let endpoint = metrics.endpoint("price");
        [2.5, -1.0, 40.0].into_iter().for_each(|value| endpoint.predictions.value(value));
        endpoint.predictions.refresh();
        let text = metrics.render(WHOLE);
        for line in [
            "_value_sum{endpoint=\"price\"} 41.5",
            "_value_min{endpoint=\"price\"} -1",
            "_value_max{endpoint=\"price\"} 40",
        ] {
            assert!(text.contains(&format!("modelhost_prediction{line}\n")), "{line} in {text}");
        }
    }
}
