//! `host apply` and `host diff-config`: what another configuration changes, and its order to a server.
//!
//! In: a config file, or two. Out: a line for each endpoint that comes, changes or goes, and for each setting
//! that takes a restart; of `apply` then the order, on the condition that nothing else was ordered meanwhile.

use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::cli;
use crate::commands::admin::Client;
use crate::commands::{Failure, environment, say};
use crate::config;
use crate::file;

/// New endpoints may have large components to compile, and large models to load.
const PATIENCE: Duration = Duration::from_secs(600);

/// Shows what serving one config file in place of another changes.
///
/// # Errors
/// A file cannot be read, or the two differ.
pub fn diff_config(arguments: &cli::DiffConfig) -> Result<(), Failure> {
    let plan = json!(config::differences(&arguments.old, &arguments.new, &environment)?);
    let shown = shown(&plan);
    say(&if arguments.json { plan.to_string() } else { shown.clone() })?;
    match shown == SAME {
        true => Ok(()),
        false => Err(Failure::Differs),
    }
}

/// Orders a running server to serve a config file, or its own as that is now.
///
/// # Errors
/// The file cannot be read, the server cannot be reached, or it refuses.
pub fn apply(arguments: &cli::Apply) -> Result<(), Failure> {
    let client = Client::new(&arguments.server, PATIENCE)?;
    let text = match &arguments.file {
        Some(path) => {
            let text = file::text(path).with_context(|| format!("cannot read `{}`", path.display()))?;
            if text.is_empty() {
                return Err(Failure::Input(format!("`{}` is empty", path.display())));
            }
            text
        }
        None => String::new(),
    };
    let (method, path) = match &arguments.file {
        Some(_) => ("PUT", "/admin/v1/config"),
        None => ("POST", "/admin/v1/config/reload"),
    };
    let mut query = form_urlencoded::Serializer::new(String::new());
    if arguments.persist {
        query.append_pair("persist", "true");
    }
    if let Some(note) = &arguments.note {
        query.append_pair("note", note);
    }
    let query = query.finish();
    let current = client.get("/admin/v1/config")?;
    let digest = current.get("digest").and_then(Value::as_str).unwrap_or_default();
    let condition = [("if-match", format!("\"{digest}\""))];
    let dry_run = format!("{path}?dry_run=true&{query}");
    let plan = client.send(method, &dry_run, &condition, text.clone().into_bytes())?;
    say(&shown(&plan))?;
    if arguments.dry_run {
        return Ok(());
    }
    let outcome = client.send(method, &format!("{path}?{query}"), &condition, text.into_bytes())?;
    let text = |key: &str| outcome.get(key).and_then(Value::as_str).unwrap_or_default();
    say(&format!("{} in {} ms", text("outcome"), outcome.get("duration_ms").unwrap_or(&Value::Null)))?;
    match text("outcome") {
        "incomplete" => Err(anyhow::anyhow!("{}", text("error")).into()),
        _ => Ok(()),
    }
}

/// The line for a plan without changes.
const SAME: &str = "nothing changes";

/// A plan as a person reads it.
fn shown(plan: &Value) -> String {
    let list = |key: &str| plan.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let names = |of: &[Value]| of.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>();
    let mut lines = String::new();
    let mut line = |what: &str, text: &str| lines.push_str(&format!("{what:<8} {text}\n"));
    for name in names(list("added")) {
        line("added", &name);
    }
    for changed in list("changed") {
        let name = changed.get("endpoint").and_then(Value::as_str).unwrap_or_default();
        let settings = changed.get("settings").and_then(Value::as_array).map(Vec::as_slice);
        match names(settings.unwrap_or_default()).as_slice() {
            [] => line("changed", &format!("{name}: the content of a file")),
            settings => line("changed", &format!("{name}: {}", settings.join(", "))),
        }
    }
    for name in names(list("removed")) {
        line("removed", &name);
    }
    if plan.get("splits").and_then(Value::as_bool) == Some(true) {
        line("changed", "splits");
    }
    for setting in names(list("restart")) {
        line("restart", &setting);
    }
    if lines.is_empty() { SAME.to_owned() } else { lines.trim_end().to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_a_line_for_each_endpoint_and_setting() {
        let plan = json!({
            "added": ["b"], "removed": ["c"], "splits": true, "restart": ["server.listen"],
            "changed": [{"endpoint": "a", "settings": ["limits.queue", "path"]}, {"endpoint": "d", "settings": []}],
        });
        let expected = "\
added    b
changed  a: limits.queue, path
changed  d: the content of a file
removed  c
changed  splits
restart  server.listen";
        assert_eq!(shown(&plan), expected);
        assert_eq!(shown(&json!({"added": [], "splits": false})), SAME);
    }
}
