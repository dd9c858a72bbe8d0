//! `host swap`: an order to a running server, over its admin address.
//!
//! In: an endpoint and what it is to serve. Out: a line that says what it serves now; exit code 1 with the
//! server's reason if the server refused.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::cli::{self, Tolerance};
use crate::commands::admin::{Client, endpoint_path};
use crate::commands::{Failure, say};
use crate::file;
use crate::plugin::Binary;

/// A swap may compile a large component, load a large model, and compare many answers.
const PATIENCE: Duration = Duration::from_secs(600);

/// Runs the command.
///
/// # Errors
/// The handler cannot be read, the server cannot be reached, or it refuses.
pub fn swap(arguments: &cli::Swap) -> Result<(), Failure> {
    let client = Client::new(&arguments.server, PATIENCE)?;
    let is_trial = arguments.shadow.is_some() || arguments.canary.is_some();
    let (method, call, body) = match &arguments.plugin {
        Some(path) if is_trial => ("PUT", "plugin/candidate", read(path)?),
        Some(path) => ("PUT", "plugin", read(path)?),
        None if arguments.promote => ("POST", "plugin/candidate/promote", Vec::new()),
        None if arguments.drop_candidate => ("DELETE", "plugin/candidate", Vec::new()),
        None if arguments.rollback => ("POST", "rollback", Vec::new()),
        None => ("POST", "reload", Vec::new()),
    };
    let condition = arguments.if_match.iter().map(|digest| ("if-match", format!("\"{digest}\"")));
    let answer = client.send(method, &path(arguments, call), &condition.collect::<Vec<_>>(), body)?;
    Ok(report(&arguments.endpoint, &answer)?)
}

fn path(arguments: &cli::Swap, call: &str) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for model in &arguments.models {
        query.append_pair("model", model);
    }
    if arguments.persist {
        query.append_pair("persist", "true");
    }
    if let Some(note) = &arguments.note {
        query.append_pair("note", note);
    }
    if let Some(share) = &arguments.shadow {
        query.append_pair("mode", "shadow").append_pair("share", share);
    }
    if let Some(shares) = &arguments.canary {
        // One is held until an order, several are steps.
        let name = if shares.contains(',') { "steps" } else { "share" };
        query.append_pair("mode", "canary").append_pair(name, shares);
    }
    for pattern in &arguments.ignore {
        query.append_pair("ignore", &pattern.to_string());
    }
    if let Some(Tolerance(number)) = arguments.tolerance {
        query.append_pair("tolerance", &number.to_string());
    }
    if let Some(share) = &arguments.mismatches {
        query.append_pair("mismatches", share);
    }
    if arguments.accept_differences {
        query.append_pair("accept_differences", "true");
    }
    for (name, value) in &arguments.terms {
        query.append_pair(name, value);
    }
    format!("{}/{call}?{}", endpoint_path(&arguments.endpoint), query.finish())
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let shown = path.display();
    let bytes = file::read(path, Binary::LARGEST as u64).with_context(|| format!("cannot read `{shown}`"))?;
    // An order without a handler would be another one.
    ensure!(!bytes.is_empty(), "`{shown}` is empty\n  hint: is it still being written?");
    Ok(bytes)
}

fn report(endpoint: &str, answer: &Value) -> anyhow::Result<()> {
    let value = |key: &str| answer.get(key).unwrap_or(&Value::Null);
    let text = |key: &str| value(key).as_str();
    let digest = text("digest").unwrap_or("none");
    if let Some(mode) = text("mode") {
        let share = value("share");
        return say(&format!("{endpoint}: on trial as {mode} with a share of {share}, handler {digest}"));
    }
    if text("outcome") == Some("dropped") {
        let generation = value("generation");
        return say(&format!(
            "{endpoint}: candidate dropped; generation {generation} serves, handler {digest}"
        ));
    }
    say(&format!(
        "{endpoint}: generation {} {}, handler {digest}",
        value("generation"),
        text("outcome").unwrap_or_default()
    ))
}
