//! `host bench`: loads one endpoint, or two in turns, and says how it answers.
//!
//! Place in the flow: a client; what it measures is a server, that of a URL, or of a project's folder, which
//! it starts as a process of its own.
//! In:  URLs or folders, a body, how many connections and how long. Out: a table, a picture of the
//!      latencies, what failed; or all of it as JSON.
//! Invariants: every request that was sent is counted, the first one and those of the warm-up apart; two
//! targets are loaded in turns, never at the same time.

mod client;
mod histogram;
mod report;
mod target;

use std::pin::pin;
use std::time::Duration;

use anyhow::{Context as _, anyhow};

use self::client::{Load, Tally};
use self::report::Results;
use self::target::Target;
use crate::cli;
use crate::commands::signals::stop;
use crate::commands::{Failure, runtime, say};

/// How often two targets take turns.
const ROUNDS: u32 = 5;

/// How the requests are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Plan {
    connections: usize,
    /// Requests a second of an open loop; `None`: a closed loop.
    rate: Option<f64>,
    warm_up: Duration,
    duration: Duration,
    /// Of one request.
    timeout: Duration,
}

/// The measurements of one target.
struct Measured {
    name: String,
    /// The requests before those that count.
    before: u64,
    /// One a round.
    rounds: Vec<Tally>,
}

/// Runs the command.
///
/// # Errors
/// A target that is none, cannot be reached, or answers its first request with an error.
pub fn bench(arguments: &cli::Bench) -> Result<(), Failure> {
    let plan = Plan {
        connections: arguments.connections,
        rate: arguments.rate,
        warm_up: arguments.warm_up,
        duration: arguments.duration,
        timeout: arguments.timeout,
    };
    let targets = arguments.targets.iter().map(|target| Target::open(target, arguments));
    let targets = targets.collect::<Result<Vec<_>, _>>()?;
    let results = runtime()?.block_on(async {
        let stop = pin!(stop()?);
        tokio::select! {
            measured = measure(&targets, plan) => measured.map(|measured| Some(Results { plan, measured })),
            () = stop => Ok(None),
        }
    })?;
    let results = results.context("stopped before the measurement was over")?;
    match arguments.json {
        true => say(&results.json().to_string())?,
        false => say(&results.text())?,
    }
    match results.measured.iter().find(|measured| measured.total().succeeded() == 0) {
        Some(measured) => Err(anyhow!("{}: no request succeeded", measured.name).into()),
        None => Ok(()),
    }
}

impl Measured {
    /// All rounds together.
    fn total(&self) -> Tally {
        self.rounds.iter().fold(Tally::default(), |total, round| total.and(round))
    }
}

/// Loads the targets in turns.
async fn measure(targets: &[Target], plan: Plan) -> anyhow::Result<Vec<Measured>> {
    let mut loads = Vec::new();
    let mut measured = Vec::new();
    for target in targets {
        target.first(plan.timeout).await?;
        let mut load = Load::new(target.request.clone(), plan);
        let warm_up = load.run(plan.warm_up).await;
        measured.push(Measured { name: target.name.clone(), before: 1 + warm_up.sent(), rounds: Vec::new() });
        loads.push(load);
    }
    let rounds = if targets.len() > 1 { ROUNDS } else { 1 };
    for _ in 0..rounds {
        for (load, measured) in loads.iter_mut().zip(&mut measured) {
            measured.rounds.push(load.run(plan.duration / rounds).await);
        }
    }
    Ok(measured)
}
