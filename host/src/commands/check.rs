//! `host check`: would it serve? Every endpoint is loaded as `host serve` does it, and answers its examples.
//!
//! Place in the flow: what an operator runs before a configuration goes out, and a build after a handler has
//! changed.
//! Out: a line for each endpoint, in the order of the configuration; exit code 1 if one of them is bad.
//! Invariant: nothing listens, and one bad endpoint keeps no other from being checked.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};

use crate::app;
use crate::commands::{Failure, environment, runtime, say, start_logs};
use crate::config::{self, Overrides};
use crate::endpoint::config::EndpointConfig;
use crate::model::Catalog;
use crate::plugin::Sandbox;
use crate::rollout::deployment::Deployment;
use crate::rollout::error::DeployError;
use crate::rollout::smoke::Passed;
use crate::telemetry::metrics::Metrics;
use crate::text;

/// Runs the command.
///
/// # Errors
/// A bad configuration, or an endpoint that would not serve.
pub fn check(overrides: &Overrides) -> Result<(), Failure> {
    let config = config::serve(overrides, &environment)?;
    let _logs = start_logs(&config.logs)?;
    Ok(runtime()?.block_on(async {
        let metrics = Metrics::new().context("cannot set up the metrics")?;
        let sandbox = app::sandbox(&config.plugin, &config.endpoints)?;
        let catalog = Arc::new(Catalog::new(config.model));
        let (total, mut bad) = (config.endpoints.len(), 0);
        for endpoint in config.endpoints {
            let name = endpoint.name.clone();
            match try_out(endpoint, &catalog, &sandbox, &metrics).await {
                Ok(line) => say(&format!("ok      {name}: {line}"))?,
                Err(error) => {
                    bad += 1;
                    say(&format!("failed  {name}: {}", text::on_one_line(&error)))?;
                }
            }
        }
        match bad {
            0 => Ok(()),
            _ => Err(anyhow!("{bad} of {total} {} would not serve", endpoints(total))),
        }
    })?)
}

fn endpoints(count: usize) -> &'static str {
    if count == 1 { "endpoint" } else { "endpoints" }
}

/// Loads an endpoint and sends it its example; says how long that took.
async fn try_out(
    mut config: EndpointConfig,
    catalog: &Arc<Catalog>,
    sandbox: &Sandbox,
    metrics: &Metrics,
) -> Result<String, DeployError> {
    // Not while it is loaded: the two are timed apart.
    let smoke = std::mem::take(&mut config.smoke);
    let started = Instant::now();
    let endpoint = Deployment::first(config, catalog, sandbox, metrics).await?;
    let loaded = format!("loaded in {}", readable(started.elapsed()));
    if !smoke {
        return Ok(format!("{loaded}; examples are not tried"));
    }
    let passed = endpoint.smoke().await?;
    if passed.is_empty() {
        return Ok(format!("{loaded}; no example to try"));
    }
    let answered: Vec<String> = passed.iter().map(answered).collect();
    Ok(format!("{loaded}; {}", answered.join("; ")))
}

/// `example as body answered in 1.2 ms (pre_inference 0.1 ms, …)`
fn answered(passed: &Passed) -> String {
    let stage = |(stage, took): &(_, Duration)| format!("{stage} {}", readable(*took));
    let stages: Vec<String> = passed.stages.iter().map(stage).collect();
    format!("example as {} answered in {} ({})", passed.form, readable(passed.took), stages.join(", "))
}

fn readable(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1e3)
}
