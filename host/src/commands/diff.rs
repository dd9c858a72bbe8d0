//! `host diff`: two versions of a handler, side by side on samples, without a server.
//!
//! Place in the flow: the gate of a swap (`rollout/gate.rs`) on the very code `host serve` runs, before
//! anything is deployed.
//! Out: a line for each sample, and what differs; exit code 0 if nothing does, 1 if something does or cannot
//! be compared, or if both fail on every sample.

use std::sync::Arc;

use anyhow::{Context as _, anyhow};

use crate::app;
use crate::cli;
use crate::commands::{Failure, environment, runtime, say, start_logs};
use crate::config::{self, settings};
use crate::endpoint::config::Bounds;
use crate::model::Catalog;
use crate::plugin::Binary;
use crate::rollout::deployment::Deployment;
use crate::rollout::gate::golden;
use crate::rollout::gate_report::{Report, Row, RunCost, readable};
use crate::telemetry::metrics::Metrics;
use crate::text::on_one_line;

/// Runs the command.
///
/// # Errors
/// A bad configuration, a handler or model that cannot be loaded, samples that cannot be read, or answers
/// that differ.
pub fn diff(arguments: &cli::Diff) -> Result<(), Failure> {
    if let Some(path) = [&arguments.old, &arguments.new].into_iter().find(|path| path.is_dir()) {
        let text =
            format!("`{}` is a folder\n  hint: give the handler's component, a `.wasm` file", path.display());
        return Err(Failure::Input(text));
    }
    let mut overrides = arguments.settings.0.clone();
    overrides.set(&settings::PLUGIN, vec![arguments.old.display().to_string()]);
    let mut config = config::run(&overrides, &environment)?;
    let _logs = start_logs(&config.logs)?;
    for endpoint in &mut config.endpoints {
        let (tolerance, ignore) = (arguments.tolerance.0, arguments.ignore.clone());
        endpoint.gate.bounds = Bounds { tolerance, ignore };
        // The samples are what is to be tried.
        endpoint.smoke = false;
    }
    let endpoint = config.endpoints.first().context("no endpoint is configured")?;
    let cases =
        golden::read(&arguments.samples, &endpoint.path, endpoint.limits.body).map_err(Failure::Input)?;
    let report = runtime()?.block_on(compared(config, arguments, &cases))?;
    if arguments.json {
        say(&serde_json::to_string(&report).context("cannot write the report")?)?;
    } else {
        table(&report)?;
    }
    match report {
        Report { compared: 0, .. } => Err(anyhow!("no sample could be compared").into()),
        Report { failing, compared, .. } if failing == compared => {
            let hint = "are they requests for this handler? An example of its input schema is one";
            Err(anyhow!("both handlers fail on every sample\n  hint: {hint}").into())
        }
        Report { differing: 0, .. } => Ok(()),
        Report { differing, compared, .. } => {
            Err(anyhow!("{differing} of {compared} samples are answered otherwise").into())
        }
    }
}

async fn compared(
    config: app::Config,
    arguments: &cli::Diff,
    cases: &[golden::Golden],
) -> anyhow::Result<Report> {
    let new = Binary::read(&arguments.new)
        .await
        .with_context(|| format!("cannot read handler `{}`", arguments.new.display()))?;
    let sandbox = app::sandbox(&config.plugin, &config.endpoints)?;
    let endpoint = config.endpoints.into_iter().next().context("no endpoint is configured")?;
    let catalog = Arc::new(Catalog::new(config.model));
    let endpoint = Deployment::first(endpoint, &catalog, &sandbox, &Metrics::new()?).await?;
    Ok(endpoint.diff(new, cases).await?)
}

fn table(report: &Report) -> anyhow::Result<()> {
    let names = report.results.iter().map(|row| row.sample.chars().count());
    let width = names.max().unwrap_or(0).max("sample".len());
    let line = |cells: [&str; 6]| {
        let [sample, answer, old_time, new_time, old_memory, new_memory] = cells;
        let line = format!(
            "{sample:width$}  {answer:8} {old_time:>12} {new_time:>12} {old_memory:>11} {new_memory:>11}"
        );
        say(line.trim_end())
    };
    line(["sample", "answer", "old time", "new time", "old memory", "new memory"])?;
    for row in &report.results {
        let [old_time, new_time] = [row.old, row.new].map(time);
        let [old_memory, new_memory] = [row.old, row.new].map(memory);
        line([&row.sample, answer(row), &old_time, &new_time, &old_memory, &new_memory])?;
        if let Some(reason) = &row.skipped {
            say(&format!("    {reason}"))?;
        }
        if let Some(error) = &row.failed {
            say(&format!("    both fail: {}", on_one_line(error)))?;
        }
        for difference in &row.differences {
            say(&format!("    {difference}"))?;
        }
    }
    say(&report.to_string())
}

fn answer(row: &Row) -> &'static str {
    match row {
        Row { skipped: Some(_), .. } => "skipped",
        Row { failed: Some(_), .. } => "fails",
        Row { differences, .. } if differences.is_empty() => "same",
        _ => "differs",
    }
}

fn time(taken: Option<RunCost>) -> String {
    taken.map_or_else(|| "-".to_owned(), |taken| format!("{:.1} µs", taken.time_us))
}

fn memory(taken: Option<RunCost>) -> String {
    taken.map_or_else(|| "-".to_owned(), |taken| readable(taken.memory))
}
