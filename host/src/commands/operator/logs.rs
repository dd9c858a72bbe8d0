//! `host logs`: the last lines of the server's log, of an endpoint or a request.
//!
//! In: `GET /admin/v1/logs`. Out: a line for each, as on the server's stderr; those that come, as they come.

use std::io::{IsTerminal as _, stdout};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::{client, endpoints, number, part, text, time};
use crate::cli;
use crate::commands::admin::Client;
use crate::commands::{Failure, write};
use crate::text::below_the_line;

/// Between two looks for lines that have come.
const PAUSE: Duration = Duration::from_millis(300);

/// Runs the command.
///
/// # Errors
/// The server cannot be reached, or refuses.
pub fn logs(arguments: &cli::Logs) -> Result<(), Failure> {
    let client = client(&arguments.server)?;
    let mut before = None;
    while let Some(now) = show(&client, arguments, before)? {
        if !arguments.follow {
            break;
        }
        // Another process has fewer: its lines have begun again.
        before = Some(if before.is_some_and(|before| now < before) { 0 } else { now });
        thread::sleep(PAUSE);
    }
    Ok(())
}

/// The last errors of an endpoint, as [`logs`] shows them.
///
/// # Errors
/// As [`Client::get`].
pub(super) fn errors(client: &Client, endpoint: &str, most: usize) -> anyhow::Result<Vec<String>> {
    let limit = most.to_string();
    let answer = client.get(&path([
        ("endpoint", Some(endpoint)),
        ("level", Some("error")),
        ("limit", Some(&limit)),
    ]))?;
    let is_terminal = stdout().is_terminal();
    Ok(lines(&answer).iter().map(|line| shown(line, is_terminal)).collect())
}

/// Prints the lines after a number, else the last; gives the number to go on from, or `None` if nothing reads
/// them any more.
fn show(client: &Client, arguments: &cli::Logs, after: Option<u64>) -> anyhow::Result<Option<u64>> {
    let answer = client.get(&path_of(arguments, after))?;
    let lines = lines(&answer);
    if let (true, None, Some(name)) = (lines.is_empty(), after, &arguments.endpoint) {
        // One that was there may have left lines; of another name there are none.
        endpoints(client, Some(name))?;
    }
    let is_terminal = stdout().is_terminal();
    for line in lines {
        let line = if arguments.json { line.to_string() } else { shown(line, is_terminal) };
        if !write(format!("{line}\n"))? {
            return Ok(None);
        }
    }
    Ok(Some(part(&answer, "last").as_u64().unwrap_or_default()))
}

fn lines(answer: &Value) -> &[Value] {
    part(answer, "lines").as_array().map(Vec::as_slice).unwrap_or_default()
}

fn path_of(arguments: &cli::Logs, after: Option<u64>) -> String {
    let after = after.map(|number| number.to_string());
    let limit = after.is_none().then(|| arguments.lines.to_string());
    path([
        ("endpoint", arguments.endpoint.as_deref()),
        ("request_id", arguments.request.as_deref()),
        ("level", arguments.level.as_deref()),
        ("after", after.as_deref()),
        ("limit", limit.as_deref()),
    ])
}

fn path<const N: usize>(given: [(&str, Option<&str>); N]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, value) in given {
        query.extend_pairs(value.map(|value| (name, value)));
    }
    format!("/admin/v1/logs?{}", query.finish())
}

/// A line for a person: when, how bad, where, what; then the fields. In a terminal a detail of several lines
/// goes on below.
fn shown(line: &Value, is_terminal: bool) -> String {
    let mut shown = format!("{} {:5}", time(number(line, "at")), text(line, "level"));
    for key in ["endpoint", "request_id", "message"] {
        if !text(line, key).is_empty() {
            shown.push(' ');
            shown.push_str(text(line, key));
        }
    }
    let fields = part(line, "fields").as_object();
    let mut below = "";
    for (name, value) in fields.into_iter().flatten() {
        let value = match value.as_str().and_then(|text| text.split_once('\n')) {
            Some((first, rest)) if is_terminal && name == "detail" => {
                below = rest;
                Value::from(first).to_string()
            }
            _ => value.to_string(),
        };
        shown.push_str(&format!(" {name}={value}"));
    }
    shown + &below_the_line(below)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_says_when_how_bad_where_and_what() {
        let line = json!({
            "number": 3, "at": 1_764_000_000.25, "level": "WARN", "endpoint": "iris", "request_id": "r1",
            "message": "it failed", "fields": {"code": "plugin_trap", "duration_ms": 1.5},
        });
        let expected =
            "2025-11-24T16:00:00.250Z WARN  iris r1 it failed code=\"plugin_trap\" duration_ms=1.5";
        assert_eq!(shown(&line, true), expected);
        let line = json!({"at": 1_764_000_000, "level": "INFO", "endpoint": null, "message": "ready"});
        assert_eq!(shown(&line, true), "2025-11-24T16:00:00.000Z INFO  ready");
    }

    #[test]
    fn in_a_terminal_a_detail_goes_on_below() {
        let line = json!({"at": 1_764_000_000, "level": "ERROR", "message": "it failed",
            "fields": {"detail": "ValueError: \u{1b}[2J\n  app.py:3\n", "stage": "respond"}});
        let at = "2025-11-24T16:00:00.000Z ERROR it failed";
        let below = r#" detail="ValueError: \u001b[2J" stage="respond""#;
        assert_eq!(shown(&line, true), format!("{at}{below}\n      app.py:3"));
        let one = r#" detail="ValueError: \u001b[2J\n  app.py:3\n" stage="respond""#;
        assert_eq!(shown(&line, false), format!("{at}{one}"));
    }
}
