//! The series that a scrape gets unless it is to have all: at most 40 of an endpoint that is used.
//!
//! In: all families. Out: the same without counts that are still zero, with fewer buckets of durations, and
//! with sums and counts alone of stages and batches.
//! Invariant: a series that has begun stays, and has the value that it has among all.

use prometheus::proto::{Bucket, Metric, MetricFamily, MetricType, Summary};

/// Upper bounds, in seconds, of the buckets of a request's duration.
const BOUNDS: [f64; 10] = [0.000_05, 0.000_25, 0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 1.0, 5.0];
/// Values of the label `outcome` that begin at zero.
const FROM_ZERO: [&str; 2] = ["ok", "cancelled"];
/// Histograms that are shown by their sum and count.
const SUMMED: [&str; 2] = ["modelhost_stage_duration_seconds", "modelhost_batch_requests"];
/// The histogram that has fewer buckets.
pub(super) const DURATION: &str = "modelhost_request_duration_seconds";
/// The family of which a series that is 0 says nothing.
const INFO: &str = "modelhost_plugin_info";
/// The families of the server's own.
const OWN: &str = "modelhost_";

/// Leaves out what is not to be shown.
pub(super) fn reduce(families: &mut Vec<MetricFamily>) {
    for family in &mut *families {
        let name = family.name().to_owned();
        if SUMMED.contains(&name.as_str()) {
            family.set_field_type(MetricType::SUMMARY);
            let mut series = family.take_metric();
            series.retain(|metric| metric.get_histogram().get_sample_count() > 0);
            series.iter_mut().for_each(summed);
            family.set_metric(series);
        } else if name == DURATION {
            for metric in family.mut_metric() {
                let mut histogram = metric.get_histogram().clone();
                let kept = |bucket: &&Bucket| BOUNDS.contains(&bucket.upper_bound());
                let buckets = histogram.get_bucket().iter().filter(kept).cloned().collect();
                histogram.set_bucket(buckets);
                metric.set_histogram(histogram);
            }
        } else if name.starts_with(OWN) {
            let mut series = family.take_metric();
            let kind = family.get_field_type();
            series.retain(|metric| is_shown(&name, kind, metric));
            family.set_metric(series);
        }
    }
    families.retain(|family| !family.get_metric().is_empty());
}

/// Whether a series is shown: it counts something, or is one that every endpoint has.
fn is_shown(name: &str, kind: MetricType, metric: &Metric) -> bool {
    let of_more = metric.get_label().iter().filter(|label| label.name() != "endpoint");
    let mut of_more = of_more.map(|label| label.value()).peekable();
    let is_plain = of_more.peek().is_none() || of_more.all(|value| FROM_ZERO.contains(&value));
    match kind {
        _ if is_plain => true,
        MetricType::COUNTER => metric.get_counter().get_value() > 0.0,
        MetricType::GAUGE => name != INFO || metric.get_gauge().get_value() != 0.0,
        _ => true,
    }
}

fn summed(metric: &mut Metric) {
    let histogram = metric.get_histogram();
    let mut summary = Summary::default();
    summary.set_sample_count(histogram.get_sample_count());
    summary.set_sample_sum(histogram.get_sample_sum());
    *metric = {
        let mut summed = Metric::from_label(metric.take_label());
        summed.set_summary(summary);
        summed
    };
}
