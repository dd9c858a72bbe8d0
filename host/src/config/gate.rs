//! The gate of one endpoint: `[endpoint.gate]` and its flags to a [`GateConfig`].
//!
//! Place in the flow: `config/endpoint.rs` calls it once for each endpoint.
//! Invariant: a folder of samples that cannot be used is found out here, not at the first swap.

use super::file::Table;
use super::files::missing;
use super::settings::{self as set, Setting};
use super::sources::Sources;
use crate::endpoint::config::{Bounds, GateConfig, SamplesConfig};
use crate::rollout::gate::golden;
use crate::values::Diagnostic;

/// The gate that a new handler of the endpoint has to pass.
pub(super) fn gate(sources: &mut Sources<'_>, table: &Table) -> GateConfig {
    let golden = sources.get(&set::GATE_GOLDEN, table);
    if let Some(folder) = &golden {
        match golden::files(folder) {
            // A handler that could read what it has to answer would prove nothing.
            Ok(files) => {
                let files = files.into_iter().flat_map(|(sample, answer)| [Some(sample), answer]);
                sources.secret.extend(files.flatten());
            }
            Err(message) => {
                let diagnostic = match folder.exists() {
                    true => Diagnostic::new(message, "put samples there: `NAME.json`, `NAME.expected.json`"),
                    false => missing(folder, sources.is_in_file(&set::GATE_GOLDEN, table)),
                };
                sources.report(sources.place(&set::GATE_GOLDEN, table), diagnostic);
            }
        }
    }
    let gate = GateConfig {
        samples: SamplesConfig {
            samples: sources.get(&set::GATE_SAMPLES, table),
            bytes: sources.get(&set::GATE_SAMPLES_SIZE, table),
            redact: sources.get(&set::GATE_REDACT, table),
        },
        golden,
        bounds: bounds(sources, table),
        mismatches: sources.get(&set::GATE_MISMATCHES, table),
        slowdown: sources.get(&set::GATE_SLOWDOWN, table),
        memory: sources.get(&set::GATE_MEMORY, table),
        timeout: sources.get(&set::GATE_TIMEOUT, table),
    };
    let on: [&Setting; 2] = [&set::GATE_SAMPLES, &set::GATE_GOLDEN];
    if !on.into_iter().any(|setting| sources.has(setting, table)) {
        let others: [&Setting; 8] = [
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
            let diagnostic = Diagnostic::new(
                "says how to judge, and there is nothing to judge by",
                "set `gate.samples`, `gate.golden` or both",
            );
            sources.report(Some(place), diagnostic);
        }
    }
    gate
}

/// How far an answer may be from another.
pub(super) fn bounds(sources: &mut Sources<'_>, table: &Table) -> Bounds {
    Bounds {
        tolerance: sources.get(&set::GATE_TOLERANCE, table),
        ignore: sources.get(&set::GATE_IGNORE, table),
    }
}
