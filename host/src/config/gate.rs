//! The gate of one endpoint: `[endpoint.gate]` and its flags to a [`gate::Config`].
//!
//! Place in the flow: `config/endpoint.rs` calls it once for each endpoint.
//! Invariant: a folder of samples that cannot be used is found out here, not at the first swap.

use std::time::Duration;

use super::endpoint::{DAY, missing};
use super::file::Table;
use super::problem::Complaint;
use super::settings as set;
use super::{Sources, read};
use crate::deploy::compare::Bounds;
use crate::deploy::gate::{self, golden};
use crate::deploy::samples;

/// What a new handler of the endpoint is held to.
pub(super) fn gate(sources: &mut Sources<'_>, table: &Table) -> gate::Config {
    let defaults = gate::Config::default();
    let samples = samples::Config {
        samples: sources.read(&set::GATE_SAMPLES, table, read::count(0..=10_000)).unwrap_or(0),
        bytes: sources
            .read(&set::GATE_SAMPLES_SIZE, table, read::size(1 << 10..=16 << 30))
            .and_then(|size| size.try_into().ok())
            .unwrap_or(defaults.samples.bytes),
        redact: sources.read(&set::GATE_REDACT, table, read::patterns).unwrap_or_default(),
    };
    let golden = sources.read(&set::GATE_GOLDEN, table, read::path);
    if let Some(folder) = &golden {
        match golden::files(folder) {
            // A handler that could read what it has to answer would prove nothing.
            Ok(files) => {
                let files = files.into_iter().flat_map(|(sample, answer)| [Some(sample), answer]);
                sources.secret.extend(files.flatten());
            }
            Err(message) => {
                let complaint = match folder.exists() {
                    true => Complaint::new(message, "put samples there: `NAME.json`, `NAME.expected.json`"),
                    false => missing(folder, sources.is_in_file(&set::GATE_GOLDEN, table)),
                };
                sources.complain(sources.place(&set::GATE_GOLDEN, table), complaint);
            }
        }
    }
    let millisecond = Duration::from_millis(1);
    let gate = gate::Config {
        bounds: Bounds {
            tolerance: sources
                .read(&set::GATE_TOLERANCE, table, read::number(0.0..=1e6))
                .unwrap_or(defaults.bounds.tolerance),
            ignore: sources.read(&set::GATE_IGNORE, table, read::patterns).unwrap_or_default(),
        },
        mismatches: sources
            .read(&set::GATE_MISMATCHES, table, read::number(0.0..=1.0))
            .unwrap_or(defaults.mismatches),
        slowdown: sources.read(&set::GATE_SLOWDOWN, table, read::number_or_none(1.0..=1000.0)).flatten(),
        memory: sources.read(&set::GATE_MEMORY, table, read::number_or_none(1.0..=1000.0)).flatten(),
        timeout: sources
            .read(&set::GATE_TIMEOUT, table, read::duration(millisecond..=DAY))
            .unwrap_or(defaults.timeout),
        samples,
        golden,
    };
    let on = [&set::GATE_SAMPLES, &set::GATE_GOLDEN];
    if !on.into_iter().any(|setting| sources.has(setting, table)) {
        let others = [
            &set::GATE_SAMPLES_SIZE,
            &set::GATE_REDACT,
            &set::GATE_TOLERANCE,
            &set::GATE_IGNORE,
            &set::GATE_MISMATCHES,
            &set::GATE_SLOWDOWN,
            &set::GATE_MEMORY,
            &set::GATE_TIMEOUT,
        ];
        if let Some(place) = others.into_iter().find_map(|setting| sources.place(setting, table)) {
            let complaint = Complaint::new(
                "says how to judge, and there is nothing to judge by",
                "set `gate.samples`, `gate.golden` or both",
            );
            sources.complain(Some(place), complaint);
        }
    }
    gate
}
