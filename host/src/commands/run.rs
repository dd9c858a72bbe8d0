//! `host run`: one sample through handler and model, without a server.
//!
//! Place in the flow: the whole pipeline, on the very code `host serve` runs. What a handler's author uses to
//! try things.
//! In: a sample; an endpoint, of flags or of a config file.
//! Out: the response, what every stage made (cut to be readable) and how long it took.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use modelhost_project::CONFIG;

use crate::app;
use crate::cli;
use crate::commands::{Failure, environment, runtime, say, start_logs};
use crate::config::{self, settings};
use crate::endpoint::config::EndpointConfig;
use crate::error::RequestError;
use crate::file;
use crate::model::Catalog;
use crate::pipeline::debug;
use crate::pipeline::plan::{HostCalls, RunPlan};
use crate::pipeline::report::RunReport;
use crate::request::{Caller, Form, Input, Output, PlainHead, Request, is_json_type, without_mark};
use crate::rollout::deployment::Deployment;
use crate::telemetry::metrics::Metrics;

/// Most bytes of a sample.
const LARGEST: u64 = 256 << 20;

/// Runs the command.
///
/// # Errors
/// A bad configuration, a handler or model that cannot be loaded, or a request that failed.
pub fn run(arguments: &cli::Run) -> Result<(), Failure> {
    let mut overrides = arguments.settings.0.clone();
    let config = match config_file(arguments) {
        Some(file) => {
            overrides.set(&settings::CONFIG, vec![file.display().to_string()]);
            config::serve(&overrides, &environment)?
        }
        None => config::run(&overrides, &environment)?,
    };
    let _logs = start_logs(&config.logs)?;
    let mut body = read(&arguments.sample)?;
    if is_json_type(&arguments.content_type) {
        body = without_mark(body);
    }
    runtime()?.block_on(async {
        let endpoint = load(config, arguments.endpoint.as_deref()).await?;
        for _ in 0..arguments.repeat {
            send(&endpoint, arguments, body.clone()).await?;
        }
        Ok(())
    })
}

fn read(path: &Path) -> anyhow::Result<Bytes> {
    if path == Path::new("-") {
        let mut body = Vec::new();
        std::io::stdin().take(LARGEST).read_to_end(&mut body).context("cannot read the sample from stdin")?;
        return Ok(body.into());
    }
    let body =
        file::read(path, LARGEST).with_context(|| format!("cannot read sample `{}`", path.display()))?;
    Ok(body.into())
}

/// The file that has the endpoint: the one that is given, or the project's where no flag says what to run.
fn config_file(arguments: &cli::Run) -> Option<PathBuf> {
    let is_given = arguments.settings.0.has_any(&[&settings::PLUGIN, &settings::MODEL]);
    let project = Some(PathBuf::from(CONFIG)).filter(|file| !is_given && file.is_file());
    arguments.config.clone().or(project)
}

/// The endpoint of this name, or the only one.
fn chosen(mut endpoints: Vec<EndpointConfig>, name: Option<&str>) -> anyhow::Result<EndpointConfig> {
    let names: Vec<String> = endpoints.iter().map(|endpoint| format!("`{}`", endpoint.name)).collect();
    let hint = format!("`--endpoint` takes one of {}", names.join(", "));
    endpoints.retain(|endpoint| name.is_none_or(|name| name == endpoint.name));
    match (endpoints.pop(), name) {
        (Some(only), _) if endpoints.is_empty() => Ok(only),
        (Some(_), _) => bail!("the config file has {} endpoints\n  hint: {hint}", names.len()),
        (None, Some(name)) if !names.is_empty() => bail!("there is no endpoint `{name}`\n  hint: {hint}"),
        (None, _) => bail!("no endpoint is configured"),
    }
}

async fn load(config: app::Config, name: Option<&str>) -> anyhow::Result<Deployment> {
    let sandbox = app::sandbox(&config.plugin, &config.endpoints)?;
    let mut endpoint = chosen(config.endpoints, name)?;
    // The sample is what is to be tried.
    endpoint.smoke = false;
    let catalog = Arc::new(Catalog::new(config.model));
    Ok(Deployment::first(endpoint, &catalog, &sandbox, &Metrics::new()?).await?)
}

async fn send(endpoint: &Deployment, arguments: &cli::Run, body: Bytes) -> anyhow::Result<()> {
    let mut headers = vec![("content-type".to_owned(), arguments.content_type.clone())];
    headers.extend(arguments.headers.iter().cloned());
    let head = PlainHead {
        method: "POST".to_owned(),
        path: endpoint.config.path.clone(),
        query: arguments.query.clone(),
        headers,
    };
    let arrived = Instant::now();
    let request = Arc::new(Request {
        id: "run".into(),
        trace: None,
        caller: Caller::Client,
        head: Box::new(head),
        input: Input::Body(body, Form::Plain),
        model: None,
        arrived,
        deadline: arrived + endpoint.config.limits.request_timeout,
        debug: true,
        body_limit: endpoint.config.limits.body,
        memory: crate::memory::Account::default(),
    });
    let plan = RunPlan { calls: HostCalls::LogCalls, ..RunPlan::default() };
    let mut report = RunReport::unqueued(arrived, &plan);
    let outcome = endpoint.current().pipeline.run(&request, &plan, &mut report).await.map_err(Into::into);
    show(&request, &report, outcome)
}

fn show(request: &Request, report: &RunReport, outcome: Result<Output, RequestError>) -> anyhow::Result<()> {
    for (stage, object) in debug::objects(request, report, &outcome) {
        say(&format!("{stage}: {object}"))?;
    }
    let mut timings: Vec<String> =
        report.durations().map(|(stage, duration)| format!("{stage} {}", microseconds(duration))).collect();
    timings.push(format!("total {}", microseconds(report.elapsed())));
    say(&format!("timings: {}", timings.join(", ")))?;
    match outcome {
        // A sample is a body, and so is the answer to it.
        Ok(Output::Tensors(_)) => Ok(()),
        Ok(Output::Streamed { status }) => say(&format!("response: {status}")),
        Ok(Output::Response(response)) => {
            let content_type =
                if response.content_type.is_empty() { "no content type" } else { &response.content_type };
            say(&format!("response: {} {content_type}", response.status))?;
            for (name, value) in &response.headers {
                say(&format!("{name}: {value}"))?;
            }
            say(&String::from_utf8_lossy(&response.body))
        }
        Err(error) => {
            let detail = error.detail.as_deref().map(|detail| format!("\n{detail}")).unwrap_or_default();
            bail!("{} in {}: {error}{detail}", error.code.name(), error.stage)
        }
    }
}

fn microseconds(duration: Duration) -> String {
    format!("{:.1} µs", duration.as_secs_f64() * 1e6)
}
