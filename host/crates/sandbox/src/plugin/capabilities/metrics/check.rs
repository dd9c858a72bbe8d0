//! Whether a metric can be one: its name, its labels, its numbers.
//!
//! Place in the flow: before anything that a guest says comes to the metrics of its endpoint. In: a series, a
//! number, a description. Out: the reason why it cannot be used, for the author of the handler.
//! Source: Prometheus, <https://prometheus.io/docs/practices/naming/> and
//! <https://prometheus.io/docs/instrumenting/exposition_formats/>.

use crate::telemetry::metrics::{CustomChange, CustomKind, CustomSeries};
use crate::text::shown;

const LONGEST_NAME: usize = 100;
const LONGEST_LABEL: usize = 50;
const LONGEST_VALUE: usize = 200;
const LONGEST_HELP: usize = 200;
const MOST_LABELS: usize = 8;
const MOST_BOUNDS: usize = 30;

/// The end of a counter's name.
const TOTAL: &str = "_total";
/// Beginnings of names that the server has.
const OF_SERVER: [&str; 2] = ["modelhost_", "process_"];
/// Ends of names that a histogram's lines have.
const OF_LINES: [&str; 4] = ["_bucket", "_count", "_sum", "_created"];
/// Labels that the server, or a line of a histogram, has.
const OF_SERIES: [&str; 3] = ["endpoint", "le", "quantile"];

/// The name with the end that a counter's has.
pub(super) fn completed(kind: CustomKind, mut name: String) -> String {
    if kind == CustomKind::Counter && !name.ends_with(TOTAL) && name.len() <= LONGEST_NAME {
        name.push_str(TOTAL);
    }
    name
}

/// Whether the number can be counted.
pub(super) fn change(kind: CustomKind, change: CustomChange) -> Result<(), String> {
    let (CustomChange::Add(number) | CustomChange::Set(number) | CustomChange::Observe(number)) = change;
    if !number.is_finite() {
        return Err(format!("{number} is no finite number"));
    }
    if kind == CustomKind::Counter && number < 0.0 {
        return Err(format!("a counter only grows, and {number} is negative; a gauge may fall"));
    }
    Ok(())
}

/// Whether a series can have this name and these labels, which are sorted.
pub(super) fn series(series: &CustomSeries) -> Result<(), String> {
    name(series.kind, &series.name)?;
    let labels = &series.labels;
    if labels.len() > MOST_LABELS {
        return Err(format!("{} labels, and a series has at most {MOST_LABELS}", labels.len()));
    }
    for (name, value) in labels {
        let text = shown(name);
        if !is_name(name) || name.len() > LONGEST_LABEL || name.starts_with("__") {
            return Err(format!(
                "label `{text}`: a label's name has 1 to {LONGEST_LABEL} characters, [a-zA-Z_][a-zA-Z0-9_]*, and does \
                 not begin with `__`"
            ));
        }
        if OF_SERIES.contains(&name.as_str()) {
            return Err(format!("label `{text}` is the server's own: choose another name"));
        }
        if value.len() > LONGEST_VALUE {
            return Err(format!(
                "label `{text}` has {} bytes, and a value at most {LONGEST_VALUE}",
                value.len()
            ));
        }
    }
    let twice = labels.windows(2).find_map(|two| match two {
        [(one, _), (other, _)] if one == other => Some(one),
        _ => None,
    });
    twice.map_or(Ok(()), |name| Err(format!("label `{}` is there twice", shown(name))))
}

/// Whether a metric can be described so.
pub(super) fn description(kind: CustomKind, metric: &str, help: &str, bounds: &[f64]) -> Result<(), String> {
    name(kind, metric)?;
    if help.len() > LONGEST_HELP || help.contains(['\n', '\r']) {
        return Err(format!("a help text is one line of at most {LONGEST_HELP} bytes"));
    }
    if kind != CustomKind::Histogram && !bounds.is_empty() {
        return Err("only a histogram has bounds".to_owned());
    }
    let do_rise = bounds.windows(2).all(|two| two.first() < two.last());
    if bounds.len() > MOST_BOUNDS || !do_rise || bounds.iter().any(|bound| !bound.is_finite()) {
        return Err(format!(
            "bounds are at most {MOST_BOUNDS} finite numbers, each greater than the one before"
        ));
    }
    Ok(())
}

fn name(kind: CustomKind, name: &str) -> Result<(), String> {
    let text = shown(name);
    if !is_name(name) || name.len() > LONGEST_NAME {
        return Err(format!(
            "metric `{text}`: a name has 1 to {LONGEST_NAME} characters, [a-zA-Z_][a-zA-Z0-9_]*"
        ));
    }
    if let Some(start) = OF_SERVER.iter().find(|start| name.starts_with(**start)) {
        return Err(format!("metric `{text}`: names that begin with `{start}` are the server's"));
    }
    if let Some(end) = OF_LINES.iter().find(|end| name.ends_with(**end)) {
        return Err(format!("metric `{text}`: names that end in `{end}` are those of a histogram's lines"));
    }
    if kind != CustomKind::Counter && name.ends_with(TOTAL) {
        return Err(format!("metric `{text}`: names that end in `{TOTAL}` are those of counters"));
    }
    Ok(())
}

fn is_name(name: &str) -> bool {
    let is_letter = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
    let (first, rest) = (name.as_bytes().first(), name.bytes().skip(1));
    first.is_some_and(is_letter) && rest.into_iter().all(|byte| is_letter(&byte) || byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTER: CustomKind = CustomKind::Counter;
    const GAUGE: CustomKind = CustomKind::Gauge;
    const HISTOGRAM: CustomKind = CustomKind::Histogram;

    /// The error of a series; empty if there is none.
    fn said(kind: CustomKind, name: &str, labels: &[(&str, &str)]) -> String {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let checked = series(&CustomSeries { kind, name: completed(kind, name.to_owned()), labels });
        checked.err().unwrap_or_default()
    }

    #[test]
    fn names_and_labels_are_those_that_a_scrape_can_have() {
        let (long, longest) = ("a".repeat(101), "a".repeat(100));
        for (kind, name, expected) in [
            (COUNTER, "flowers", ""),
            (COUNTER, "flowers_total", ""),
            (GAUGE, &longest, ""),
            (HISTOGRAM, "_Words9", ""),
            (GAUGE, "", "metric ``: a name has 1 to 100"),
            (GAUGE, &long, "a name has 1 to 100"),
            (COUNTER, &long, "a name has 1 to 100"),
            (GAUGE, "9a", "metric `9a`: a name has"),
            (GAUGE, "a-b", "a name has"),
            (GAUGE, "a\n# TYPE b counter\nb", "a name has"),
            (GAUGE, "größe", "a name has"),
            (COUNTER, "modelhost_requests", "`modelhost_` are the server's"),
            (GAUGE, "process_cpu", "`process_` are the server's"),
            (GAUGE, "a_bucket", "`_bucket` are those of a histogram's lines"),
            (HISTOGRAM, "a_total", "`_total` are those of counters"),
        ] {
            let text = said(kind, name, &[]);
            assert!(text.contains(expected) && text.is_empty() == expected.is_empty(), "{name}: {text}");
            assert!(text.len() < 300, "{text}");
        }
        let (long, longest) = ("a".repeat(51), "v".repeat(201));
        let nine: Vec<(&str, &str)> =
            ["a", "b", "c", "d", "e", "f", "g", "h", "i"].map(|name| (name, "")).into();
        for (labels, expected) in [
            (&[("species", "a \"quoted\"\nvalue")][..], ""),
            (&nine[..8], ""),
            (&nine, "9 labels, and a series has at most 8"),
            (&[("a", "1"), ("a", "2")], "label `a` is there twice"),
            (&[("endpoint", "other")], "label `endpoint` is the server's own"),
            (&[("le", "1")], "label `le` is"),
            (&[("__name__", "a")], "does not begin with `__`"),
            (&[("a=\"", "1")], "a label's name has"),
            (&[(&long, "")], "a label's name has"),
            (&[("a", &longest)], "label `a` has 201 bytes, and a value at most 200"),
        ] {
            let text = said(GAUGE, "a", labels);
            assert!(text.contains(expected) && text.is_empty() == expected.is_empty(), "{labels:?}: {text}");
        }
    }

    /// The SDKs have the same rules: their tests read the same file.
    #[test]
    fn names_and_labels_are_those_that_the_sdks_take() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/languages/metrics.json");
        let rules: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        for case in rules["names"].as_array().unwrap() {
            let kind = match case["kind"].as_str().unwrap() {
                "counter" => COUNTER,
                "gauge" => GAUGE,
                _ => HISTOGRAM,
            };
            let times = case["times"].as_u64().unwrap_or(1) as usize;
            let text = said(kind, &case["name"].as_str().unwrap().repeat(times), &[]);
            assert_eq!(text.is_empty(), case["good"].as_bool().unwrap(), "{case}: {text}");
        }
        for case in rules["labels"].as_array().unwrap() {
            let labels: Vec<(&str, &str)> =
                case["labels"].as_array().unwrap().iter().map(|name| (name.as_str().unwrap(), "")).collect();
            let text = said(GAUGE, "a", &labels);
            assert_eq!(text.is_empty(), case["good"].as_bool().unwrap(), "{case}: {text}");
        }
    }

    #[test]
    fn numbers_are_finite_and_counters_only_grow() {
        for (kind, it, is_good) in [
            (COUNTER, CustomChange::Add(0.0), true),
            (COUNTER, CustomChange::Add(-1.0), false),
            (GAUGE, CustomChange::Add(-1.0), true),
            (GAUGE, CustomChange::Set(f64::NAN), false),
            (HISTOGRAM, CustomChange::Observe(f64::INFINITY), false),
            (HISTOGRAM, CustomChange::Observe(-5.0), true),
        ] {
            assert_eq!(change(kind, it).is_ok(), is_good, "{kind:?} {it:?}");
        }
    }

    #[test]
    fn a_description_is_short_and_bounds_rise() {
        let many: Vec<f64> = (0..31_u8).map(f64::from).collect();
        for (kind, help, bounds, is_good) in [
            (HISTOGRAM, "Words.", &[0.5, 1.0][..], true),
            (HISTOGRAM, "", &many[..30], true),
            (HISTOGRAM, "", &many, false),
            (HISTOGRAM, "", &[1.0, 1.0], false),
            (HISTOGRAM, "", &[f64::NAN], false),
            (HISTOGRAM, "", &[0.0, f64::INFINITY], false),
            (GAUGE, "", &[1.0], false),
            (GAUGE, "two\nlines", &[], false),
            (GAUGE, &"h".repeat(201), &[], false),
        ] {
            assert_eq!(description(kind, "a", help, bounds).is_ok(), is_good, "{help} {bounds:?}");
        }
    }
}
