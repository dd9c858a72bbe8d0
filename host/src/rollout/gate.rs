//! The gate: nothing is published that answers otherwise than what it replaces.
//!
//! Place in the flow: the step of a swap between smoke test and publishing, of a canary before its first
//! answer, of a shadow when it is promoted; at the start, for answers that files expect; and in `host diff`.
//! In:   the last requests of the endpoint ([`samples`]), and files of the operator's ([`golden`]).
//! Out:  a [`Report`], or [`DeployError::Gate`] with it.
//!
//! Each sample goes through the old handler, then the new one, and the answers are [compared](compare). The
//! model runs once for both, as long as the new handler makes the same inputs of the sample. A sample with an
//! expected answer goes through the new handler only, and is compared with that.
//!
//! What the handler of a kept request sent to others is not sent again: both handlers get the answers of
//! then, and a new handler that sends something else differs.
//!
//! The gate is about handlers. Samples of a model that is replaced in the same swap are not compared: another
//! model may say something else. Nor are those on which the old handler itself fails (a trap, a timeout):
//! nothing worse can come of them.
//!
//! Invariants: samples run one at a time, [isolated](crate::pipeline::plan::RunPlan::isolated) from all
//! requests, on instances that go with them. A handler that hangs or eats memory is stopped by its own
//! limits, and all together by [`GateConfig::timeout`].

pub mod golden;
mod run;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use self::golden::Golden;
use super::deployment::Deployment;
use super::error::DeployError;
use super::gate_report::{REPORTED, Report, Row};
use super::history::Origin;
use super::load::{load, pipeline};
use crate::blocking;
use crate::capture::compare::{self, Difference, Outcome};
use crate::capture::samples::{self, Samples};
use crate::endpoint::config::{Bounds, EndpointConfig, GateConfig, GateOverrides};
use crate::error::RequestError;
use crate::pipeline::Pipeline;
use crate::plugin::Binary;

/// Times that both handlers are timed on a sample, after a first run that warms them.
const ROUNDS: usize = 3;
/// Longer than any caller waits, shorter than what the clock's arithmetic could overflow on.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Compares the handler of `new` with that of `old`, before `new` is published.
///
/// # Errors
/// [`DeployError::Gate`].
pub(super) async fn evaluate(
    config: &EndpointConfig,
    overrides: &GateOverrides,
    samples: Option<&Samples>,
    old: &Pipeline,
    new: &Pipeline,
) -> Result<(), DeployError> {
    let gate = overrides.applied_to(&config.gate);
    let mut cases: Vec<Golden> = read(config).await?;
    cases.extend(samples.iter().flat_map(|samples| samples.latest()).map(Golden::unexpected));
    let same_handler = match (&old.plugin, &new.plugin) {
        (Some(old), Some(new)) => Arc::ptr_eq(old, new),
        (old, new) => old.is_none() && new.is_none(),
    };
    if same_handler {
        cases.retain(|case| case.expected.is_some());
    }
    if cases.is_empty() && gate.samples.samples > 0 {
        tracing::info!(endpoint = config.name, "gate: there is nothing to compare");
    }
    let rounds = if gate.slowdown.is_some() { ROUNDS } else { 0 };
    let until = Instant::now() + gate.timeout;
    let runner = GateRunner { config, bounds: &gate.bounds, until, rounds };
    let report = runner.all(&cases, Some(old), new).await;
    refusal(config, &gate, report).map_or(Ok(()), Err)
}

/// Holds the first handler of an endpoint against the answers that files expect.
///
/// # Errors
/// [`DeployError::Gate`].
pub(super) async fn first(config: &EndpointConfig, new: &Pipeline) -> Result<(), DeployError> {
    let mut cases = read(config).await?;
    cases.retain(|case| case.expected.is_some());
    let until = Instant::now() + config.gate.timeout;
    let runner = GateRunner { config, bounds: &config.gate.bounds, until, rounds: 0 };
    let report = runner.all(&cases, None, new).await;
    refusal(config, &config.gate, report).map_or(Ok(()), Err)
}

/// The files there are now.
async fn read(config: &EndpointConfig) -> Result<Vec<Golden>, DeployError> {
    let Some(folder) = config.gate.golden.clone() else { return Ok(Vec::new()) };
    let (path, body) = (config.path.clone(), config.limits.body);
    let read = tokio::task::spawn_blocking(move || golden::read(&folder, &path, body)).await;
    let read = read.unwrap_or_else(|error| Err(error.to_string()));
    read.map_err(|reason| DeployError::Gate {
        endpoint: config.name.clone(),
        reason,
        hint: "`--gate-golden` names a folder of samples that the host may read",
        report: Arc::default(),
    })
}

/// The verdict of a report: the reason if the handler is refused.
fn refusal(config: &EndpointConfig, gate: &GateConfig, report: Report) -> Option<DeployError> {
    let endpoint = &config.name;
    if report.samples == 0 {
        return None;
    }
    for row in report.differing().take(REPORTED) {
        tracing::warn!(endpoint, "gate: {row}");
    }
    match report.verdict(gate) {
        Ok(()) => {
            tracing::info!(endpoint, "gate: passed, {report}");
            None
        }
        Err((reason, hint)) => {
            let report = Arc::new(report.shortened());
            Some(DeployError::Gate { endpoint: endpoint.clone(), reason, hint, report })
        }
    }
}

/// A case that was sent.
pub struct Tried {
    /// The handler's answer.
    pub outcome: Outcome,
    /// How that differs from what the case expects; `None` if it expects nothing.
    pub differences: Option<Vec<Difference>>,
    /// The objects of each stage, if they were wanted.
    pub objects: Vec<(&'static str, String)>,
}

impl Deployment {
    /// Runs `cases` through the current handler and another one, which is not published. Takes as long as it
    /// takes.
    ///
    /// # Errors
    /// [`DeployError::Load`].
    pub async fn diff(&self, handler: Binary, cases: &[Golden]) -> Result<Report, DeployError> {
        let current = self.current();
        let plugin = load(&self.config, &self.sandbox, &self.metrics, handler, Origin::Admin).await?;
        let new = pipeline(&self.config, Some(plugin), current.models().clone(), &self.metrics)?;
        let until = Instant::now() + FOREVER;
        let runner =
            GateRunner { config: &self.config, bounds: &self.config.gate.bounds, until, rounds: ROUNDS };
        Ok(runner.all(cases, Some(&current.pipeline), &new).await)
    }

    /// Sends one case through the current handler and models, isolated from all requests; `debug`: what their
    /// stages made is wanted.
    pub async fn tried(&self, case: &Golden, debug: bool) -> Tried {
        let (sample, until) = (&case.sample, Instant::now() + FOREVER);
        let runner = run::Runner { config: &self.config, until, id: sample.name.clone(), debug };
        let run = runner.run(&self.current().pipeline, sample, &sample.known).await;
        let bounds = &self.config.gate.bounds;
        let differences = |it| case.differences(it, &run.outcome, &run.calls.outbound, bounds);
        let differences = case.expected.as_ref().map(differences);
        Tried { outcome: run.outcome, differences, objects: run.objects }
    }
}

/// Sends samples through two handlers.
struct GateRunner<'a> {
    config: &'a EndpointConfig,
    /// The differences that are allowed in an answer.
    bounds: &'a Bounds,
    /// When there is no more time.
    until: Instant,
    /// How often a sample is timed, beside the first run.
    rounds: usize,
}

impl GateRunner<'_> {
    /// All samples, in their order, as far as the time reaches. `old` is not needed for samples that expect
    /// an answer.
    async fn all(&self, cases: &[Golden], old: Option<&Pipeline>, new: &Pipeline) -> Report {
        let mut report = Report { samples: cases.len(), ..Report::default() };
        for (number, case) in cases.iter().enumerate() {
            if Instant::now() >= self.until {
                break;
            }
            let row = self.one(case, number, old, new).await;
            // A run that was cut short says nothing.
            if Instant::now() < self.until {
                report.add(row);
            }
        }
        report.finish(self.until);
        report
    }

    /// One sample.
    async fn one(&self, case: &Golden, number: usize, old: Option<&Pipeline>, new: &Pipeline) -> Row {
        let runner = run::Runner {
            config: self.config,
            until: self.until,
            id: format!("gate-{number}"),
            debug: false,
        };
        let sample = &case.sample;
        let mut row = Row::of(sample.name.clone(), case.expected.is_some());
        let (wanted, known) = match (&case.expected, old) {
            (Some(_), _) => (None, sample.known.clone()),
            (None, None) => return row.skipped("there is no handler to compare with".to_owned()),
            (None, Some(old)) if !run::share_a_model(old, new, sample) => {
                return row.skipped("its model is another now, or is not loaded".to_owned());
            }
            (None, Some(old)) => {
                let run = runner.run(old, sample, &sample.known).await;
                if let Some(code) = run.untried() {
                    return row.untried(code);
                }
                if let Err(error) = &run.outcome
                    && !samples::is_measure(&run.outcome)
                {
                    return row.skipped(format!("the old handler fails: {}", error.code.name()));
                }
                row.old = run.taken;
                (Some(run.outcome), run.calls)
            }
        };
        let after = runner.run(new, sample, &known).await;
        if let Some(code) = after.untried() {
            return row.untried(code);
        }
        if let Some(code) = after.unavailable() {
            return row.skipped(format!("it cannot be tried: {}", code.name()));
        }
        row.new = after.taken;
        let size = wanted.as_ref().map_or(0, run::size) + run::size(&after.outcome);
        row.differences = blocking::if_large(size, || {
            let sent = &after.calls.outbound;
            match (&wanted, &case.expected) {
                (Some(wanted), _) => {
                    let mut differences = compare::compare(wanted, &after.outcome, self.bounds);
                    differences.extend(compare::outbound::compare(&known.outbound, sent, self.bounds));
                    differences
                }
                (None, Some(expected)) => case.differences(expected, &after.outcome, sent, self.bounds),
                (None, None) => Vec::new(),
            }
        });
        if wanted.is_some() && row.differences.is_empty() {
            let failed = |error: &RequestError| format!("{} in {}: {error}", error.code.name(), error.stage);
            row.failed = after.outcome.as_ref().err().map(failed);
        }
        if wanted.is_some_and(|wanted| wanted.is_err()) || after.outcome.is_err() {
            // A handler that fails early is quick.
            (row.old, row.new) = (None, None);
            return row;
        }
        let known = if case.expected.is_some() { after.calls } else { known };
        for round in 0..self.rounds {
            for (pipeline, taken) in [(old, &mut row.old), (Some(new), &mut row.new)] {
                let Some((pipeline, taken)) = pipeline.zip(taken.as_mut()) else { continue };
                let run = runner.run(pipeline, sample, &known).await;
                if let Some(again) = run.taken {
                    taken.again(again, round == 0);
                }
            }
        }
        row
    }
}
