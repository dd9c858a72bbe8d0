//! What an endpoint predicts: how often each class, or how the values are spread.
//!
//! Place in the flow: told by the endpoint's tracker when a response is whole.
//! Invariants: a class that is known costs a request one lookup without a lock and one atomic; the number of
//! classes, which callers have a part in, is bounded, and an endpoint without a tracker has no series.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use arc_swap::ArcSwap;
use prometheus::{Gauge, GaugeVec, Histogram, HistogramVec, IntCounter, IntCounterVec};

/// Most classes that are told apart; all later ones are counted together.
const MOST_CLASSES: usize = 1000;
/// The class of those.
const OTHER: &str = "(other)";

/// The families of all endpoints.
#[derive(Clone)]
pub(super) struct Families {
    pub(super) classes: IntCounterVec,
    pub(super) values: HistogramVec,
    pub(super) least: GaugeVec,
    pub(super) greatest: GaugeVec,
    pub(super) untracked: IntCounterVec,
}

/// The predictions of one endpoint.
pub struct Predictions {
    families: Families,
    endpoint: String,
    classes: ArcSwap<HashMap<Box<str>, IntCounter>>,
    values: Mutex<Option<Values>>,
}

/// The spread of values, from the first one on.
struct Values {
    all: Histogram,
    least: Gauge,
    greatest: Gauge,
}

impl Predictions {
    pub(super) fn new(families: &Families, endpoint: &str) -> Predictions {
        Predictions {
            families: families.clone(),
            endpoint: endpoint.to_owned(),
            classes: ArcSwap::default(),
            values: Mutex::default(),
        }
    }

    /// Counts a prediction of this class.
    pub fn class(&self, class: &str) {
        match self.classes.load().get(class) {
            Some(counter) => counter.inc(),
            None => self.new_class(class).inc(),
        }
    }

    /// The counter of a class that was not known a moment ago.
    fn new_class(&self, class: &str) -> IntCounter {
        let class = if self.classes.load().len() < MOST_CLASSES { class } else { OTHER };
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
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        let values = values.get_or_insert_with(|| {
            let label = &[self.endpoint.as_str()];
            let (least, greatest) = (
                self.families.least.with_label_values(label),
                self.families.greatest.with_label_values(label),
            );
            least.set(value);
            greatest.set(value);
            Values { all: self.families.values.with_label_values(label), least, greatest }
        });
        values.all.observe(value);
        values.least.set(values.least.get().min(value));
        values.greatest.set(values.greatest.get().max(value));
    }

    /// Counts a response in which there was no prediction. Gives how many there were before.
    pub fn untracked(&self) -> u64 {
        let counter = self.families.untracked.with_label_values(&[self.endpoint.as_str()]);
        let before = counter.get();
        counter.inc();
        before
    }
}

#[cfg(test)]
mod tests {
    use super::super::Metrics;
    use super::*;

    #[test]
    fn classes_are_counted_up_to_a_bound() {
        let metrics = Metrics::new().unwrap();
        let endpoint = metrics.endpoint("iris");
        for class in 0..MOST_CLASSES + 10 {
            endpoint.predictions.class(&class.to_string());
        }
        endpoint.predictions.class("7");
        let text = metrics.render();
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
        let text = metrics.render();
        for line in [
            "_value_sum{endpoint=\"price\"} 41.5",
            "_value_min{endpoint=\"price\"} -1",
            "_value_max{endpoint=\"price\"} 40",
        ] {
            assert!(text.contains(&format!("modelhost_prediction{line}\n")), "{line} in {text}");
        }
    }
}
