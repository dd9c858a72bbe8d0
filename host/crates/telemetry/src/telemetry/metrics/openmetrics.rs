//! The metrics as OpenMetrics 1.0 has them, with the traces of single requests beside their buckets.
//!
//! In: families, [`Exemplars`]. Out: text, of the media type `application/openmetrics-text`.
//! Invariant: the samples are those of Prometheus' own format, by the same names.

use std::collections::HashMap;
use std::fmt::Write as _;

use prometheus::proto::{Metric, MetricFamily, MetricType};

use super::exemplars::Exemplar;
use super::lean::DURATION;

/// The exemplars of an endpoint's durations, by the upper bounds of their buckets, in seconds.
pub(super) type Exemplars = HashMap<String, Vec<(f64, Exemplar)>>;

/// The end of a counter's name, which its family does not have.
const TOTAL: &str = "_total";

/// The text of these families.
pub(super) fn text(families: &[MetricFamily], exemplars: &Exemplars) -> String {
    let mut text = String::new();
    for family in families {
        write_family(&mut text, family, exemplars);
    }
    text.push_str("# EOF\n");
    text
}

fn write_family(text: &mut String, family: &MetricFamily, exemplars: &Exemplars) {
    let (name, kind) = (family.name(), family.get_field_type());
    let is_counter = kind == MetricType::COUNTER;
    let base = if is_counter { name.strip_suffix(TOTAL).unwrap_or(name) } else { name };
    let kind_name = match kind {
        MetricType::COUNTER => "counter",
        MetricType::GAUGE => "gauge",
        MetricType::HISTOGRAM => "histogram",
        MetricType::SUMMARY => "summary",
        MetricType::UNTYPED => "unknown",
    };
    // A text takes everything, here and below.
    let _ = write!(text, "# TYPE {base} {kind_name}\n# HELP {base} {}\n", escaped(family.help()));
    for metric in family.get_metric() {
        match kind {
            MetricType::COUNTER => {
                line(text, &format!("{base}{TOTAL}"), metric, None, metric.get_counter().get_value(), None);
            }
            MetricType::HISTOGRAM => {
                let known = if name == DURATION { exemplars_of(metric, exemplars) } else { &[] };
                histogram(text, name, metric, known);
            }
            MetricType::SUMMARY => {
                let summary = metric.get_summary();
                let count = summary.sample_count() as f64;
                line(text, &format!("{name}_sum"), metric, None, summary.sample_sum(), None);
                line(text, &format!("{name}_count"), metric, None, count, None);
            }
            MetricType::GAUGE | MetricType::UNTYPED => {
                line(text, name, metric, None, metric.get_gauge().get_value(), None);
            }
        }
    }
}

fn histogram(text: &mut String, name: &str, metric: &Metric, known: &[(f64, Exemplar)]) {
    let histogram = metric.get_histogram();
    let count = histogram.get_sample_count();
    let bounds = histogram.get_bucket().iter().map(|it| (it.upper_bound(), it.cumulative_count()));
    let bucket = format!("{name}_bucket");
    let mut lower = f64::NEG_INFINITY;
    for (bound, below) in bounds.filter(|(bound, _)| bound.is_finite()).chain([(f64::INFINITY, count)]) {
        // The latest of those that fell into it.
        let within = known.iter().filter(|(upper, _)| lower < *upper && *upper <= bound);
        let latest = within.map(|(_, exemplar)| exemplar).max_by(|one, other| one.at.cmp(&other.at));
        line(text, &bucket, metric, Some(bound), below as f64, latest);
        lower = bound;
    }
    line(text, &format!("{name}_sum"), metric, None, histogram.get_sample_sum(), None);
    line(text, &format!("{name}_count"), metric, None, count as f64, None);
}

fn exemplars_of<'a>(metric: &Metric, exemplars: &'a Exemplars) -> &'a [(f64, Exemplar)] {
    let endpoint = metric.get_label().iter().find(|label| label.name() == "endpoint");
    endpoint.and_then(|label| exemplars.get(label.value())).map(Vec::as_slice).unwrap_or_default()
}

fn line(
    text: &mut String,
    name: &str,
    metric: &Metric,
    bound: Option<f64>,
    value: f64,
    exemplar: Option<&Exemplar>,
) {
    text.push_str(name);
    let labels = metric.get_label().iter().map(|label| (label.name(), escaped(label.value())));
    let bound = bound.map(|bound| ("le", number(bound)));
    let mut before = '{';
    for (label, value) in labels.chain(bound) {
        let _ = write!(text, "{before}{label}=\"{value}\"");
        before = ',';
    }
    if before == ',' {
        text.push('}');
    }
    let _ = write!(text, " {}", number(value));
    if let Some(Exemplar { trace, seconds, at }) = exemplar {
        let at = at.as_secs_f64();
        let _ = write!(text, " # {{trace_id=\"{trace}\"}} {} {at:.3}", number(*seconds));
    }
    text.push('\n');
}

/// A number in the form that OpenMetrics calls canonical.
fn number(number: f64) -> String {
    if number == f64::INFINITY {
        return "+Inf".to_owned();
    }
    let text = number.to_string();
    let is_whole = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    if is_whole { text + ".0" } else { text }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('"', "\\\"")
}
