//! `host status`: what every endpoint serves, and how.
//!
//! In: `GET /admin/v1/endpoints`, of one endpoint its errors in the log too. Out: a row for each endpoint,
//! and what an operator has to look at; of one, where its time goes and what went wrong last.

use std::collections::HashMap;
use std::time::Instant;

use serde_json::Value;

use super::logs::errors;
use super::table::table;
use super::{ago, client, endpoints, number, part, short, text, watch};
use crate::cli;
use crate::commands::{Failure, say};
use crate::error::Stage;

/// Errors of one endpoint that are shown.
const ERRORS: usize = 5;

/// Runs the command.
///
/// # Errors
/// The server cannot be reached, refuses, or has no such endpoint.
pub fn status(arguments: &cli::Status) -> Result<(), Failure> {
    let client = client(&arguments.server)?;
    let name = arguments.endpoint.as_deref();
    if arguments.json {
        let endpoints = endpoints(&client, name)?;
        return Ok(say(&Value::from(endpoints).to_string())?);
    }
    let mut before: Option<(Instant, HashMap<String, f64>)> = None;
    Ok(watch(|| {
        let endpoints = endpoints(&client, name)?;
        let now = Instant::now();
        let answered = endpoints.iter().map(|one| (text(one, "name").to_owned(), requests(one, "answered")));
        let answered: HashMap<String, f64> = answered.collect();
        let rate = |name: &str| {
            let (then, before) = before.as_ref()?;
            let more = answered.get(name)? - before.get(name)?;
            Some(more / now.duration_since(*then).as_secs_f64().max(1e-3))
        };
        let mut shown = shown(&endpoints, rate);
        if let (Some(name), Some(endpoint)) = (name, endpoints.first()) {
            shown.push_str(&stages(part(endpoint, "recent")));
            let errors = errors(&client, name, ERRORS)?;
            if !errors.is_empty() {
                shown.push_str(&format!("\n\nlast errors\n{}", errors.join("\n")));
            }
        }
        before = Some((now, answered));
        Ok((shown, !arguments.watch))
    })?)
}

fn requests(endpoint: &Value, key: &str) -> f64 {
    number(part(endpoint, "requests"), key)
}

/// The table, and a line for each thing that is not as it should be. `rate` has the answers a second, if
/// there was a look before.
fn shown(endpoints: &[Value], rate: impl Fn(&str) -> Option<f64>) -> String {
    let rows: Vec<_> = endpoints
        .iter()
        .map(|one| {
            let answered = requests(one, "answered");
            [
                text(one, "name").to_owned(),
                text(one, "path").to_owned(),
                number(one, "generation").to_string(),
                short(text(one, "digest")),
                ago(number(one, "published")),
                models(one),
                answered.to_string(),
                rate(text(one, "name")).map_or("-".to_owned(), |rate| format!("{rate:.1}")),
                requests(one, "refused").to_string(),
                requests(one, "failed").to_string(),
                if requests(one, "mean_ms") > 0.0 {
                    time(part(one, "requests"), "mean_ms")
                } else {
                    "-".to_owned()
                },
                requests(one, "in_flight").to_string(),
                requests(one, "queued").to_string(),
            ]
        })
        .collect();
    let head = [
        "endpoint", "path", "gen", "handler", "since", "models", "answered", "per s", "refused", "failed",
        "mean", "now", "queued",
    ];
    let lines = std::iter::once(table(head, &rows)).chain(endpoints.iter().flat_map(notes));
    lines.collect::<Vec<_>>().join("\n")
}

/// The percentiles of the last minute, of whole requests and of their stages; nothing without requests.
fn stages(recent: &Value) -> String {
    let row = |name: &str, times: &Value| {
        times.is_object().then(|| [name.to_owned(), time(times, "p50_ms"), time(times, "p99_ms")])
    };
    let by_name = |name| row(name, part(part(recent, "stages"), name));
    let stages = Stage::ALL.into_iter().map(Stage::name).filter_map(by_name);
    let rows: Vec<_> = row("request", recent).into_iter().chain(stages).collect();
    if rows.is_empty() {
        return String::new();
    }
    format!("\n\n{}", table(["last minute", "p50", "p99"], &rows))
}

fn time(of: &Value, key: &str) -> String {
    format!("{:.3} ms", number(of, key))
}

/// The names of the models, with what is not usual about them.
fn models(endpoint: &Value) -> String {
    let models = part(endpoint, "models").as_array().map(Vec::as_slice).unwrap_or_default();
    let one = |model: &Value| {
        let version = model.get("version").and_then(Value::as_u64);
        let others = part(model, "other_versions").as_array().map(Vec::as_slice).unwrap_or_default();
        let numbers = version.into_iter().chain(others.iter().filter_map(Value::as_u64));
        let numbers = numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(",");
        let version = if numbers.is_empty() { numbers } else { format!(":{numbers}") };
        let unloaded = if part(model, "loaded") == false { " (unloaded)" } else { "" };
        format!("{}{version}{unloaded}", text(model, "name"))
    };
    if models.is_empty() { "none".to_owned() } else { models.iter().map(one).collect::<Vec<_>>().join(", ") }
}

/// A line for each thing that an operator has to look at.
fn notes(endpoint: &Value) -> Vec<String> {
    let name = text(endpoint, "name");
    let mut notes = Vec::new();
    let trial = part(endpoint, "trial");
    if trial.is_object() {
        notes.push(format!(
            "{name}: handler {} on trial as {} with a share of {}",
            short(text(trial, "digest")),
            text(trial, "mode"),
            number(trial, "share")
        ));
    }
    let breaker = text(endpoint, "breaker");
    if !["", "closed"].contains(&breaker) {
        notes.push(format!("{name}: the breaker is {breaker}: the handler failed too often"));
    }
    let swap = part(endpoint, "last_swap");
    if text(swap, "outcome") == "refused" {
        let error = text(swap, "error").lines().next().unwrap_or_default();
        notes.push(format!("{name}: the last swap was refused {} ago: {error}", ago(number(swap, "at"))));
    }
    notes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_row_for_each_endpoint_and_a_line_for_what_is_not_usual() {
        let usual = json!({
            "name": "iris", "path": "/iris", "generation": 2, "digest": "0123456789abcdef", "published": 0,
            "models": [{"name": "default", "loaded": true, "version": 3}], "breaker": "closed", "trial": null,
            "requests": {"answered": 12, "refused": 3, "failed": 1, "mean_ms": 0.25, "in_flight": 1, "queued": 0},
            "last_swap": {"outcome": "published", "at": 1, "error": null},
        });
        let mut other = usual.clone();
        other["name"] = json!("wine");
        other["models"] = json!([]);
        other["breaker"] = json!("open");
        other["requests"]["answered"] = json!(0);
        other["requests"]["mean_ms"] = json!(0.0);
        other["trial"] = json!({"mode": "canary", "share": 0.05, "digest": "fedcba9876543210"});
        other["last_swap"] = json!({"outcome": "refused", "at": 1, "error": "it traps\n  hint: fix it"});
        let text = shown(&[usual, other], |name| (name == "iris").then_some(2.5));
        let lines: Vec<&str> = text.lines().collect();
        let cells = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
        assert!(cells(lines[1]).starts_with("iris /iris 2 0123456789ab "), "{text}");
        assert!(cells(lines[1]).ends_with(" d default:3 12 2.5 3 1 0.250 ms 1 0"), "{text}");
        assert!(cells(lines[2]).ends_with(" d none 0 - 3 1 - 1 0"), "{text}");
        assert_eq!(lines[3], "wine: handler fedcba987654 on trial as canary with a share of 0.05");
        assert_eq!(lines[4], "wine: the breaker is open: the handler failed too often");
        assert!(lines[5].starts_with("wine: the last swap was refused "), "{text}");
        assert!(lines[5].ends_with(" ago: it traps"), "{text}");
        assert_eq!(lines.len(), 6, "{text}");
    }

    #[test]
    fn the_last_minute_is_told_by_stage() {
        let recent = json!({
            "p50_ms": 1.5, "p99_ms": 20.25,
            "stages": {"pre_inference": {"p50_ms": 0.125, "p99_ms": 0.5}, "queue": null,
                "infer": {"p50_ms": 1.2, "p99_ms": 19.0}},
        });
        let expected = "

last minute         p50        p99
request        1.500 ms  20.250 ms
pre_inference  0.125 ms   0.500 ms
infer          1.200 ms  19.000 ms";
        assert_eq!(stages(&recent), expected);
        assert_eq!(stages(&Value::Null), "");
    }
}
