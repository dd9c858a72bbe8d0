//! Makes metrics, as the body says: a list of operations, each with the metric's name and what it needs, done `times` times.
//! Answers with a list of errors, null for what was done.

use std::collections::BTreeMap;

use modelhost_guest::metrics::{self, Kind, MetricError};
use modelhost_guest::{Context, Handler, Response, Result, Sample, Tensor, export};
use serde::Deserialize;

/// How an operation changes a metric.
type Change = fn(&str, f64, &[(&str, &str)]) -> Result<(), MetricError>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Operation {
    op: String,
    name: String,
    #[serde(default = "one")]
    value: Number,
    /// In the order of their names.
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    help: String,
    #[serde(default)]
    bounds: Vec<Number>,
    times: Option<u64>,
}

/// JSON has no infinity and no NaN: they are texts.
#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Finite(f64),
    Text(String),
}

fn one() -> Number {
    Number::Finite(1.0)
}

impl Number {
    fn get(&self) -> f64 {
        match self {
            Number::Finite(number) => *number,
            Number::Text(text) => text.parse().unwrap_or(f64::NAN),
        }
    }
}

struct Metrics;

export!(Metrics: pre_inference);

impl Handler for Metrics {
    fn new() -> Self {
        Metrics
    }

    fn pre_inference(&mut self, sample: Sample, _context: &Context) -> Result<Vec<Tensor>> {
        let operations: Vec<Operation> = sample.json()?;
        let errors: Vec<Option<String>> = operations
            .iter()
            .map(|it| {
                let times = 0..it.times.unwrap_or(1);
                times.map(|_| done(it)).find_map(std::result::Result::err).map(|error| error.to_string())
            })
            .collect();
        Err(Response::json(&errors)?.into())
    }
}

fn done(it: &Operation) -> Result<(), MetricError> {
    let change: Change = match it.op.as_str() {
        "add" => metrics::add,
        "set" => metrics::set,
        "change" => metrics::change,
        "observe" => metrics::observe,
        _ => return described(it),
    };
    let labels: Vec<(&str, &str)> =
        it.labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    change(&it.name, it.value.get(), &labels)
}

fn described(it: &Operation) -> Result<(), MetricError> {
    let kind = match it.kind.as_str() {
        "gauge" => Kind::Gauge,
        "histogram" => Kind::Histogram,
        _ => Kind::Counter,
    };
    let bounds: Vec<f64> = it.bounds.iter().map(Number::get).collect();
    metrics::describe(&it.name, kind, &it.help, &bounds)
}
