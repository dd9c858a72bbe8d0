//! `host trial`: how a candidate does beside the current handler.
//!
//! In: `GET /admin/v1/endpoints/{endpoint}/plugin/candidate`, then the endpoint's history. Out: both sides in
//! a table, where the answers differ; with `--watch` until the trial is over, and how it ended.

use anyhow::{anyhow, bail};
use serde_json::Value;

use super::table::table;
use super::{ago, client, endpoint, number, part, short, text, watch};
use crate::cli;
use crate::commands::admin::{Client, endpoint_path};
use crate::commands::{Failure, say};

/// Differences that are shown.
const SHOWN: usize = 5;

/// Runs the command.
///
/// # Errors
/// The server cannot be reached, refuses, or has no such endpoint; there is no trial; or, watched, the
/// candidate was dropped.
pub fn trial(arguments: &cli::Trial) -> Result<(), Failure> {
    let client = client(&arguments.server)?;
    let name = endpoint(&client, arguments.endpoint.as_deref())?;
    let Some(first) = candidate(&client, &name)? else {
        let text = format!(
            "endpoint `{name}` has no handler on trial\n  hint: `{} swap {name} --plugin FILE --canary 0.05,0.25,1`",
            cli::program()
        );
        return Err(anyhow!(text).into());
    };
    if arguments.json && !arguments.watch {
        return Ok(say(&first.to_string())?);
    }
    let digest = text(&first, "digest").to_owned();
    watch(|| {
        let now = candidate(&client, &name)?.filter(|now| text(now, "digest") == digest);
        Ok(match now {
            Some(now) => {
                let shown = if arguments.json { now.to_string() } else { shown(&name, &now) };
                (shown, !arguments.watch)
            }
            None => (format!("{name}: the trial of {} is over", short(&digest)), true),
        })
    })?;
    match arguments.watch {
        true => Ok(say(&outcome(&client, &name, &digest)?)?),
        false => Ok(()),
    }
}

/// The trial of an endpoint, if there is one.
fn candidate(client: &Client, name: &str) -> anyhow::Result<Option<Value>> {
    let answer = client.get(&endpoint_path(name))?;
    match part(&answer, "trial").is_object() {
        // It may end meanwhile: then there is none.
        true => Ok(client.get(&format!("{}/plugin/candidate", endpoint_path(name))).ok()),
        false => Ok(None),
    }
}

/// How the trial of a handler ended.
///
/// # Errors
/// The candidate was dropped.
fn outcome(client: &Client, name: &str, digest: &str) -> anyhow::Result<String> {
    let answer = client.get(&endpoint_path(name))?;
    let attempts = part(&answer, "history").as_array().map(Vec::as_slice).unwrap_or_default();
    let Some(last) = attempts.iter().find(|attempt| text(attempt, "digest") == digest) else {
        bail!("{name}: the server does not say how the trial ended\n  hint: has it been started again?");
    };
    match text(last, "outcome") {
        "published" => Ok(format!("{name}: generation {} serves it", number(last, "generation"))),
        _ => bail!("{}", text(last, "error")),
    }
}

fn shown(name: &str, trial: &Value) -> String {
    let mode = text(trial, "mode");
    let steps = part(trial, "steps").as_array().map(Vec::as_slice).unwrap_or_default();
    let mut head =
        format!("{name}: {mode} since {}, share {}", ago(number(trial, "since")), number(trial, "share"));
    if let Some(time) = trial.get("step_time_seconds").and_then(Value::as_f64) {
        let (step, held) = (number(trial, "step"), number(trial, "held_seconds"));
        head.push_str(&format!(", step {step} of {}, held {held:.0} s of {time:.0} s", steps.len()));
    }
    let side = |side: &str| {
        let figures = part(trial, side);
        let ms = |key: &str| format!("{:.3} ms", number(figures, key));
        let count = |key: &str| number(figures, key).to_string();
        let [requests, errors, faults] = ["requests", "errors", "faults"].map(count);
        let [mean, p50, p99] = ["mean_ms", "p50_ms", "p99_ms"].map(ms);
        [side.to_owned(), short(text(figures, "digest")), requests, errors, faults, mean, p50, p99]
    };
    let columns = ["", "handler", "requests", "errors", "faults", "mean", "p50", "p99"];
    let mut lines = vec![head, table(columns, &[side("current"), side("candidate")])];
    let compared = part(trial, "compared").as_object();
    let compared = compared.into_iter().flatten().filter(|(_, count)| **count != 0);
    let compared: Vec<String> = compared.map(|(what, count)| format!("{count} {what}")).collect();
    if !compared.is_empty() {
        lines.push(format!("compared: {}", compared.join(", ")));
    }
    let failures = part(trial, "failures").as_object().into_iter().flatten();
    lines.extend(failures.map(|(code, count)| format!("candidate: {count} × {code}")));
    let differences = part(trial, "differences").as_array().map(Vec::as_slice).unwrap_or_default();
    for difference in differences.iter().take(SHOWN) {
        let places = part(difference, "differences").as_array().map(Vec::as_slice).unwrap_or_default();
        let places: Vec<String> =
            places.iter().map(|one| format!("{} {}", text(one, "place"), text(one, "change"))).collect();
        let (id, outcome) = (text(difference, "request_id"), text(difference, "outcome"));
        lines.push(format!("  {id}: {outcome}: {}", places.join("; ")));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_sides_stand_beside_each_other_with_what_differs() {
        let side = |digest: &str, requests: u64| {
            json!({"digest": digest, "requests": requests, "errors": 0, "faults": 0, "mean_ms": 0.5, "p50_ms": 0.25,
                   "p99_ms": 12.0})
        };
        let trial = json!({
            "mode": "canary", "since": 0, "share": 0.25, "steps": [0.05, 0.25, 1.0], "step": 2,
            "step_time_seconds": 60.0, "held_seconds": 12.4,
            "current": side("0123456789abcdef", 300), "candidate": side("fedcba9876543210", 100),
            "compared": {"same": 9, "differs": 1, "failed": 0, "dropped": 0}, "failures": {"plugin_trap": 2},
            "differences": [{"request_id": "r1", "outcome": "differs",
                             "differences": [{"place": "/label", "change": "\"a\" became \"b\""}]}],
        });
        let text = shown("iris", &trial);
        let (head, rest) = text.split_once('\n').unwrap();
        assert!(head.ends_with(" d, share 0.25, step 2 of 3, held 12 s of 60 s"), "{head}");
        let expected = "           handler       requests  errors  faults      mean       p50        p99
current    0123456789ab       300       0       0  0.500 ms  0.250 ms  12.000 ms
candidate  fedcba987654       100       0       0  0.500 ms  0.250 ms  12.000 ms
compared: 1 differs, 9 same
candidate: 2 × plugin_trap
  r1: differs: /label \"a\" became \"b\"";
        assert_eq!(rest, expected);
    }
}
