//! `host test`: the golden cases of a handler project, without a server.
//!
//! Place in the flow: the samples of a gate (`rollout/gate/golden.rs`) through the pipeline that `host serve`
//! runs, held against the answers that files expect.
//! In:  the project's modelhost.toml; the cases of an endpoint are where `gate.golden` says, those of the
//!      only endpoint else in `cases/`.
//! Out: a line for each case and what differs; exit code 1 if a case fails.

mod junit;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};

use crate::app;
use crate::capture::compare::{Difference, Outcome};
use crate::cli;
use crate::commands::{Failure, environment, project_config, runtime, say, start_logs};
use crate::config;
use crate::endpoint::config::EndpointConfig;
use crate::model::Catalog;
use crate::request::Output;
use crate::rollout::deployment::Deployment;
use crate::rollout::gate::Tried;
use crate::rollout::gate::golden::{self, Golden};
use crate::telemetry::metrics::Metrics;

const CASES: &str = "cases";
const NO_ANSWER: &str = "no file says what to answer; `--update` writes the answer that it got";
const NO_REFUSAL: &str = "no file says what to answer; `--update` writes this refusal";

/// One case, and what came of it.
struct Row {
    /// Of the file; with the endpoint in front if there are several.
    name: String,
    took: Duration,
    result: CaseResult,
}

enum CaseResult {
    Passed,
    /// Its answer is what is expected from now on.
    Updated,
    /// One line for each thing that is wrong.
    Failed(Vec<String>),
}

/// Runs the command.
///
/// # Errors
/// A bad configuration, a handler or model that cannot be loaded, cases that cannot be read, or one that
/// fails.
pub fn test(arguments: &cli::Test) -> Result<(), Failure> {
    let mut config = config::serve(&project_config(&arguments.folder)?, &environment)?;
    let _logs = start_logs(&config.logs)?;
    let cases = cases(&mut config.endpoints, &arguments.folder)?;
    let rows = runtime()?.block_on(tried(config, &cases, arguments))?;
    table(&rows)?;
    if let Some(file) = &arguments.junit {
        let cannot = || format!("cannot write `{}`", file.display());
        fs::write(file, junit::report(&rows)).with_context(cannot)?;
    }
    let failed = rows.iter().filter(|row| matches!(row.result, CaseResult::Failed(_))).count();
    let cases = if rows.len() == 1 { "case" } else { "cases" };
    match failed {
        0 => Ok(say(&format!("{} {cases} passed", rows.len()))?),
        _ => Err(anyhow!("{failed} of {} {cases} failed", rows.len()).into()),
    }
}

/// The cases of one endpoint.
struct Cases {
    /// Where their files are.
    folder: PathBuf,
    cases: Vec<Golden>,
}

/// The cases of every endpoint, which are not tried while it is loaded.
fn cases(endpoints: &mut [EndpointConfig], project: &Path) -> Result<Vec<Cases>, Failure> {
    let is_only = endpoints.len() == 1;
    let read = |endpoint: &mut EndpointConfig| {
        endpoint.smoke = false;
        let default = is_only.then(|| project.join(CASES));
        let Some(folder) = endpoint.gate.golden.take().or(default) else {
            return Ok(Cases { folder: PathBuf::new(), cases: Vec::new() });
        };
        let read = golden::read(&folder, &endpoint.path, endpoint.limits.body);
        let hint = |error: &str| match error {
            _ if error.ends_with(golden::NO_SAMPLE) || !folder.exists() => hint(&folder),
            _ if error.ends_with(golden::LONE_ANSWER) => {
                "rename it after its sample, or remove it".to_owned()
            }
            _ => "correct the file; one that expects an answer may be removed, and `--update` writes it anew"
                .to_owned(),
        };
        let cases = read.map_err(|error| Failure::Input(format!("{error}\n  hint: {}", hint(&error))))?;
        let folder = if folder.is_file() { folder.parent().unwrap_or(&folder).to_owned() } else { folder };
        Ok(Cases { folder, cases })
    };
    let cases: Vec<Cases> = endpoints.iter_mut().map(read).collect::<Result<_, Failure>>()?;
    if cases.iter().all(|cases| cases.cases.is_empty()) {
        let text = "there is nothing to test\n  hint: name a folder of cases in `gate.golden` of an endpoint";
        return Err(Failure::Input(text.to_owned()));
    }
    Ok(cases)
}

fn hint(folder: &Path) -> String {
    format!(
        "put the body of a request into `{}`; `--update` writes the answer beside it",
        folder.join("NAME.json").display()
    )
}

async fn tried(config: app::Config, cases: &[Cases], arguments: &cli::Test) -> anyhow::Result<Vec<Row>> {
    let sandbox = app::sandbox(&config.plugin, &config.endpoints)?;
    let catalog = Arc::new(Catalog::new(config.model));
    let metrics = Metrics::new()?;
    let is_only = config.endpoints.len() == 1;
    let mut rows = Vec::new();
    for (endpoint, Cases { folder, cases }) in config.endpoints.into_iter().zip(cases) {
        if cases.is_empty() {
            continue;
        }
        let endpoint = Deployment::first(endpoint, &catalog, &sandbox, &metrics).await?;
        for case in cases {
            let started = Instant::now();
            let Tried { outcome, differences, objects } = endpoint.tried(case, arguments.debug).await;
            let took = started.elapsed();
            let mut differences = lines(differences, &outcome);
            if !differences.is_empty() {
                differences.extend(objects.iter().map(|(stage, object)| format!("{stage}: {object}")));
            }
            let result = match differences.is_empty() {
                true => CaseResult::Passed,
                false if arguments.update => updated(&folder.join(&case.sample.name), &outcome)?,
                false => CaseResult::Failed(differences),
            };
            let case = &case.sample.name;
            let name = if is_only { case.clone() } else { format!("{}/{case}", endpoint.config.name) };
            rows.push(Row { name, took, result });
        }
    }
    Ok(rows)
}

/// The differences from what a case expects, one a line.
fn lines(differences: Option<Vec<Difference>>, outcome: &Outcome) -> Vec<String> {
    let Some(differences) = differences else { return unexpected(outcome) };
    let mut lines: Vec<String> = differences.iter().map(ToString::to_string).collect();
    if !lines.is_empty() {
        lines.extend(detail(outcome));
    }
    lines
}

/// The lines of an outcome that no file expects.
fn unexpected(outcome: &Outcome) -> Vec<String> {
    let Err(error) = outcome else { return vec![NO_ANSWER.to_owned()] };
    let failed = format!("{} in {}: {error}", error.code.name(), error.stage);
    let hint = golden::is_refusal(error).then(|| NO_REFUSAL.to_owned());
    [failed].into_iter().chain(detail(outcome)).chain(hint).collect()
}

/// The detail of a failure, which an operator would find in the log.
fn detail(outcome: &Outcome) -> Option<String> {
    outcome.as_ref().err()?.detail.clone()
}

/// Writes an answer as the one that `sample` expects.
fn updated(sample: &Path, outcome: &Outcome) -> anyhow::Result<CaseResult> {
    let failed = |text: String| Ok(CaseResult::Failed(vec![text]));
    let Some((file, content)) = golden::expecting(sample, outcome) else {
        return match outcome {
            // A sample is a body, and so is the answer to it.
            Ok(Output::Tensors(_) | Output::Response(_)) => failed("it is answered by tensors".to_owned()),
            Ok(Output::Streamed { status }) => failed(format!("status {status}, streamed")),
            Err(_) => Ok(CaseResult::Failed(unexpected(outcome))),
        };
    };
    fs::write(&file, content).with_context(|| format!("cannot write `{}`", file.display()))?;
    // An answer of another kind was expected before.
    for other in golden::answer_files(sample).iter().filter(|other| **other != file && other.exists()) {
        fs::remove_file(other).with_context(|| format!("cannot remove `{}`", other.display()))?;
    }
    Ok(CaseResult::Updated)
}

fn table(rows: &[Row]) -> anyhow::Result<()> {
    let width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0).max("case".len());
    say(&format!("{:width$}  result   {:>10}", "case", "time"))?;
    for Row { name, took, result } in rows {
        let (word, lines) = match result {
            CaseResult::Passed => ("passed", &[][..]),
            CaseResult::Updated => ("updated", &[][..]),
            CaseResult::Failed(lines) => ("failed", lines.as_slice()),
        };
        say(&format!("{name:width$}  {word:7}  {:>7.1} ms", took.as_secs_f64() * 1e3))?;
        for line in lines.iter().flat_map(|text| text.lines()) {
            say(&format!("    {line}"))?;
        }
    }
    Ok(())
}
