//! The commands of an operator that only look: `host status`, `history`, `logs`, `trial`.
//!
//! Place in the flow: clients of a running server's admin address.
//! In: an address. Out: tables that a person reads, or the server's own JSON.
//! Invariant: nothing on the server changes.

mod history;
mod logs;
mod status;
mod table;
mod trial;

use std::io::{IsTerminal as _, stdout};
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::bail;
use serde_json::Value;

pub use self::history::history;
pub use self::logs::logs;
pub use self::status::status;
pub use self::trial::trial;
use crate::cli;
use crate::commands::admin::Client;
use crate::commands::write;
use crate::time::since_1970;

/// The server answers from what it has in memory.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks.
const PAUSE: Duration = Duration::from_secs(1);
/// Characters of a digest that tell it from others.
const SHORT: usize = 12;

fn client(server: &cli::Admin) -> anyhow::Result<Client> {
    Client::new(server, PATIENCE)
}

/// The endpoints that the server tells of; one of them if it is named.
///
/// # Errors
/// As [`Client::get`]; or there is no endpoint of this name.
fn endpoints(client: &Client, name: Option<&str>) -> anyhow::Result<Vec<Value>> {
    let mut answer = client.get("/admin/v1/endpoints")?;
    let Some(Value::Array(mut endpoints)) = answer.get_mut("endpoints").map(Value::take) else {
        bail!("the server tells of no endpoints\n  hint: is `--admin` the admin address of a host?");
    };
    if let Some(name) = name {
        let names: Vec<String> = endpoints.iter().map(|one| format!("`{}`", text(one, "name"))).collect();
        endpoints.retain(|one| text(one, "name") == name);
        if endpoints.is_empty() {
            bail!("there is no endpoint `{name}`\n  hint: there are {}", names.join(", "));
        }
    }
    Ok(endpoints)
}

/// The name of the endpoint that is meant: the only one by itself.
///
/// # Errors
/// As [`endpoints`]; or there are several and none is named.
fn endpoint(client: &Client, name: Option<&str>) -> anyhow::Result<String> {
    let endpoints = endpoints(client, name)?;
    match endpoints.as_slice() {
        [only] => Ok(text(only, "name").to_owned()),
        all => {
            let names: Vec<&str> = all.iter().map(|one| text(one, "name")).collect();
            bail!("which endpoint?\n  hint: name one of {}", names.join(", "))
        }
    }
}

/// A text in an answer; empty if it is not there.
fn text<'a>(of: &'a Value, key: &str) -> &'a str {
    of.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// A number in an answer; 0 if it is not there.
fn number(of: &Value, key: &str) -> f64 {
    of.get(key).and_then(Value::as_f64).unwrap_or_default()
}

/// A part of an answer; `null` if it is not there.
fn part<'a>(of: &'a Value, key: &str) -> &'a Value {
    of.get(key).unwrap_or(&Value::Null)
}

/// The beginning of a digest.
fn short(digest: &str) -> String {
    if digest.is_empty() { "none".to_owned() } else { digest.chars().take(SHORT).collect() }
}

/// How long ago a time in seconds since 1970 was, in its largest unit.
pub(super) fn ago(seconds: f64) -> String {
    let now = since_1970(SystemTime::now()).as_secs_f64();
    let ago = (now - seconds).max(0.0);
    let units = [("d", 86_400.0), ("h", 3_600.0), ("m", 60.0)];
    let unit = units.into_iter().find(|(_, length)| ago >= *length);
    let (unit, length) = unit.unwrap_or(("s", 1.0));
    format!("{:.0} {unit}", (ago / length).floor())
}

/// A time in seconds since 1970, in UTC.
fn time(seconds: f64) -> String {
    let since = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    humantime::format_rfc3339_millis(SystemTime::UNIX_EPOCH + since).to_string()
}

/// Shows what `look` finds, again and again until it says that this was the last, or nothing reads it any
/// more; on a terminal in the place of what it showed before.
fn watch(mut look: impl FnMut() -> anyhow::Result<(String, bool)>) -> anyhow::Result<()> {
    let is_terminal = stdout().is_terminal();
    loop {
        let (shown, is_last) = look()?;
        // To the top, and what was there is gone.
        let place = if is_terminal { "\x1b[H\x1b[2J" } else { "" };
        let is_read = write(format!("{place}{shown}\n"))?;
        if is_last || !is_read {
            return Ok(());
        }
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_words_of_their_size() {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
        for (before, expected) in
            [(0.5, "0 s"), (59.5, "59 s"), (60.5, "1 m"), (7_300.0, "2 h"), (200_000.0, "2 d"), (-5.0, "0 s")]
        {
            assert_eq!(ago(now - before), expected);
        }
        assert_eq!(time(1_764_000_000.25), "2025-11-24T16:00:00.250Z");
        assert_eq!((short(""), short("0123456789abcdef")), ("none".to_owned(), "0123456789ab".to_owned()));
    }
}
