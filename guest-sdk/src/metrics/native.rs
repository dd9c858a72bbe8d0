//! Metrics in the memory of a thread, for unit tests: what the host's are, but for the limit of series.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::Kind;

type Label<'a> = (&'a str, &'a str);
/// The series of a sample: its name, and its labels in the order of their names.
type Place = (String, Vec<(String, String)>);

/// Beginnings and ends of the names of the host's own metrics and of a histogram's samples.
const BEGINNINGS: [&str; 2] = ["modelhost_", "process_"];
const ENDS: [&str; 4] = ["_bucket", "_count", "_sum", "_created"];
const LABELS: [&str; 3] = ["endpoint", "le", "quantile"];

thread_local! {
    static SAMPLES: RefCell<BTreeMap<Place, f64>> = RefCell::default();
}

fn place(name: &str, labels: &[Label<'_>]) -> Place {
    let mut labels: Vec<_> =
        labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    labels.sort();
    (name.to_owned(), labels)
}

/// For tests: the number of a series, `flowers_total`; of a histogram those of `words_sum` and `words_count`.
#[must_use]
pub fn value(name: &str, labels: &[Label<'_>]) -> Option<f64> {
    SAMPLES.with_borrow(|samples| samples.get(&place(name, labels)).copied())
}

fn put(name: &str, labels: &[Label<'_>], of: impl FnOnce(f64) -> f64) {
    SAMPLES.with_borrow_mut(|samples| {
        let number = samples.entry(place(name, labels)).or_default();
        *number = of(*number);
    });
}

pub fn describe(name: &str, kind: Kind, help: &str, bounds: &[f64]) -> Result<(), String> {
    named(name, kind)?;
    if help.len() > 200 || help.contains(['\n', '\r']) {
        return Err(format!("the help text of `{name}` is not one line of at most 200 bytes"));
    }
    if kind != Kind::Histogram && !bounds.is_empty() {
        return Err(format!("`{name}` has bounds, and is no histogram"));
    }
    if bounds.len() > 30 {
        return Err(format!("{} bounds of `{name}`, expected at most 30", bounds.len()));
    }
    let mut before = f64::NEG_INFINITY;
    for bound in bounds {
        if !bound.is_finite() || *bound <= before {
            return Err(format!(
                "the bound {bound} of `{name}` is not finite, or not greater than the one before"
            ));
        }
        before = *bound;
    }
    Ok(())
}

pub fn add(name: &str, by: f64, labels: &[Label<'_>]) -> Result<(), String> {
    let name = named(name, Kind::Counter)?;
    if !by.is_finite() || by < 0.0 {
        return Err(format!("{by} is not a finite number of at least 0, which `{name}` could grow by"));
    }
    labelled(&name, labels)?;
    put(&name, labels, |number| number + by);
    Ok(())
}

pub fn set(name: &str, value: f64, labels: &[Label<'_>]) -> Result<(), String> {
    let name = usable(name, Kind::Gauge, value, labels)?;
    put(&name, labels, |_| value);
    Ok(())
}

pub fn change(name: &str, by: f64, labels: &[Label<'_>]) -> Result<(), String> {
    let name = usable(name, Kind::Gauge, by, labels)?;
    put(&name, labels, |number| number + by);
    Ok(())
}

pub fn observe(name: &str, value: f64, labels: &[Label<'_>]) -> Result<(), String> {
    let name = usable(name, Kind::Histogram, value, labels)?;
    put(&format!("{name}_count"), labels, |number| number + 1.0);
    put(&format!("{name}_sum"), labels, |number| number + value);
    Ok(())
}

fn usable(name: &str, kind: Kind, number: f64, labels: &[Label<'_>]) -> Result<String, String> {
    let name = named(name, kind)?;
    if !number.is_finite() {
        return Err(format!("{number} is not a finite number, which `{name}` could have"));
    }
    labelled(&name, labels)?;
    Ok(name)
}

/// The name of the metric, a counter's with its end.
fn named(name: &str, kind: Kind) -> Result<String, String> {
    written(name, 100)?;
    if let Some(it) = BEGINNINGS.into_iter().find(|it| name.starts_with(it)) {
        return Err(format!("the metric `{name}` begins with `{it}`, which names the server's"));
    }
    if let Some(it) = ENDS.into_iter().find(|it| name.ends_with(it)) {
        return Err(format!("the metric `{name}` ends in `{it}`, which names a part of one"));
    }
    match (kind, name.ends_with("_total")) {
        (Kind::Counter, false) => Ok(format!("{name}_total")),
        (Kind::Counter, true) | (_, false) => Ok(name.to_owned()),
        (_, true) => Err(format!("the metric `{name}` ends in `_total`, which names a counter")),
    }
}

fn labelled(metric: &str, labels: &[Label<'_>]) -> Result<(), String> {
    if labels.len() > 8 {
        return Err(format!("{} labels of `{metric}`, expected at most 8", labels.len()));
    }
    for (at, (name, value)) in labels.iter().enumerate() {
        written(name, 50)?;
        if name.starts_with("__") || LABELS.contains(name) {
            return Err(format!("the label `{name}` of `{metric}` has a name of the server's"));
        }
        if labels.iter().take(at).any(|before| before.0 == *name) {
            return Err(format!("`{metric}` has the label `{name}` twice"));
        }
        if value.len() > 200 {
            return Err(format!(
                "a value of {} bytes of the label `{name}`, expected at most 200",
                value.len()
            ));
        }
    }
    Ok(())
}

/// Checks the characters of a name.
fn written(name: &str, most: usize) -> Result<(), String> {
    if name.is_empty() || name.len() > most {
        return Err(format!("a name of {} characters, expected 1 to {most}", name.chars().count()));
    }
    let is_wrong =
        |(at, c): &(usize, char)| !(c.is_ascii_alphabetic() || *c == '_' || (*at > 0 && c.is_ascii_digit()));
    match name.char_indices().find(is_wrong) {
        Some((_, c)) => Err(format!(
            "the name `{name}` has `{c}` where letters, digits and `_` are, and no digit is first"
        )),
        None => Ok(()),
    }
}
