//! `host history`: every attempt to serve another generation of an endpoint.
//!
//! In: `GET /admin/v1/endpoints/{endpoint}`. Out: a row for each attempt, the latest first, and below it why
//! it was refused.

use serde_json::Value;

use super::table::table;
use super::{client, endpoint, number, part, short, text, time};
use crate::cli;
use crate::commands::admin::endpoint_path;
use crate::commands::{Failure, say};

/// Runs the command.
///
/// # Errors
/// The server cannot be reached, refuses, or has no such endpoint.
pub fn history(arguments: &cli::History) -> Result<(), Failure> {
    let client = client(&arguments.server)?;
    let name = endpoint(&client, arguments.endpoint.as_deref())?;
    let answer = client.get(&endpoint_path(&name))?;
    let history = part(&answer, "history");
    Ok(say(&if arguments.json { history.to_string() } else { shown(history) })?)
}

fn shown(history: &Value) -> String {
    let attempts = history.as_array().map(Vec::as_slice).unwrap_or_default();
    let rows: Vec<_> = attempts
        .iter()
        .map(|attempt| {
            let generation = attempt.get("generation").and_then(Value::as_u64);
            [
                time(number(attempt, "at")).replace(".000Z", "Z"),
                generation.map_or("-".to_owned(), |number| number.to_string()),
                text(attempt, "outcome").to_owned(),
                text(attempt, "origin").to_owned(),
                short(text(attempt, "digest")),
                format!("{} ms", number(attempt, "duration_ms")),
                [text(attempt, "note").to_owned(), by(attempt)].concat(),
            ]
        })
        .collect();
    let table = table(["time", "gen", "outcome", "origin", "handler", "took", "note"], &rows);
    let mut lines = table.lines();
    let mut shown: Vec<String> = lines.next().into_iter().map(str::to_owned).collect();
    for (row, attempt) in lines.zip(attempts) {
        shown.push(row.to_owned());
        let step = text(attempt, "step");
        let error = text(attempt, "error");
        shown.extend(error.lines().take(1).map(|line| format!("    {step}: {line}")));
        shown.extend(error.lines().skip(1).map(|line| format!("    {line}")));
    }
    shown.join("\n")
}

/// Who ordered an attempt, after its note.
fn by(attempt: &Value) -> String {
    match (text(attempt, "by"), text(attempt, "note")) {
        ("", _) => String::new(),
        (by, "") => format!("by {by}"),
        (by, _) => format!(" (by {by})"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_refused_says_why() {
        let history = json!([
            {"at": 1_764_000_001, "origin": "admin", "outcome": "refused", "digest": "0123456789abcdef",
             "step": "smoke", "error": "it traps\n  hint: fix it", "duration_ms": 7, "note": "try", "by": "alice"},
            {"at": 1_764_000_000, "origin": "start", "outcome": "published", "generation": 1, "digest": null,
             "error": null, "duration_ms": 12},
        ]);
        let expected = "\
time                  gen  outcome    origin  handler        took  note
2025-11-24T16:00:01Z    -  refused    admin   0123456789ab   7 ms  try (by alice)
    smoke: it traps
      hint: fix it
2025-11-24T16:00:00Z    1  published  start   none          12 ms";
        assert_eq!(shown(&history), expected);
    }
}
