//! `host inspect`: what a component is, without running it.

use std::fmt::Write as _;
use std::num::NonZeroUsize;

use anyhow::Context as _;

use crate::commands::{Failure, environment, say};
use crate::plugin::{self, Binary, Inspection, Sandbox};
use crate::{cli, config};

/// Runs the command.
///
/// # Errors
/// The file cannot be read or is no component.
pub fn inspect(arguments: &cli::Inspect) -> Result<(), Failure> {
    let path = &arguments.component;
    let binary = Binary::read_now(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let sandbox =
        Sandbox::new(&config::sandbox(&environment)?, NonZeroUsize::MIN).map_err(anyhow::Error::from)?;
    let inspection = plugin::inspect(&sandbox, &binary)
        .map_err(|error| anyhow::anyhow!("`{}` {error}", path.display()))?;
    let text = if arguments.json {
        serde_json::to_string_pretty(&inspection).map_err(anyhow::Error::from)?
    } else {
        readable(&path.display().to_string(), &inspection)
    };
    Ok(say(&text)?)
}

fn readable(path: &str, it: &Inspection) -> String {
    let mut text = format!("{path}\n");
    let mut row = |name: &str, value: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {name:<15} {value}");
    };
    row("digest", &format!("sha256:{}", it.digest));
    let compiled = it.compiled_bytes.map_or(String::new(), |compiled| format!(", {compiled} compiled"));
    let shared = it.shared_bytes.filter(|shared| *shared > 0);
    let shared = shared
        .map_or(String::new(), |shared| format!(", {shared} of them shared with handlers of its language"));
    row("size", &format!("{} bytes{compiled}{shared}", it.bytes));
    let contract = if it.contract.is_empty() { "none".to_owned() } else { it.contract.join(", ") };
    row("contract", &format!("{contract} (this host has {})", it.host_contract));
    if it.only_websocket {
        row("websocket", "yes: it serves WebSockets on its endpoint's path, and nothing else");
    } else if it.application {
        row("application", "yes: it answers every method and path below its endpoint's");
    } else {
        let (pre, post) = (it.pre_inference, it.post_inference);
        row("pre-inference", if pre { "yes" } else { "no: the JSON body is the model's input" });
        row("post-inference", if post { "yes" } else { "no: the outputs are the JSON response" });
    }
    if it.concurrent {
        row(
            "wasi:http",
            "0.3: its bodies and tasks may wait at the same time; an instance serves one request at a time",
        );
    }
    if it.websocket && !it.only_websocket {
        row("websocket", "yes: it serves WebSockets on its endpoint's path");
    }
    for (name, text) in it.capabilities.rows() {
        row(name, text);
    }
    for (name, has) in [
        ("pre-tensors", it.pre_inference_tensors),
        ("post-tensors", it.post_inference_tensors),
        ("input-schema", it.input_schema),
        ("init", it.init),
    ] {
        if has {
            row(name, "yes");
        }
    }
    for (title, names) in [("exports", &it.exports), ("imports", &it.imports)] {
        for (index, name) in names.iter().enumerate() {
            row(if index == 0 { title } else { "" }, name);
        }
    }
    match &it.refused {
        None => row("verdict", "this host serves it"),
        Some(why) => row("verdict", &format!("this host refuses it: {why}")),
    }
    text.truncate(text.trim_end().len());
    text
}
