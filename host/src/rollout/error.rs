//! Why another generation of an endpoint could not be made. For the operator: every text names the endpoint,
//! and the file if there is one.

use std::sync::Arc;

use super::gate_report::Report;
use super::history::Origin;
use crate::endpoint::config::EndpointConfig;
use crate::model::ModelError;
use crate::plugin::LoadError;

/// Why a handler or a model could not be loaded or published.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message names its fields")]
pub enum DeployError {
    #[error("endpoint `{endpoint}`: cannot read handler `{path}`: {cause}")]
    Read { endpoint: String, path: String, cause: std::io::Error },
    #[error(
        "endpoint `{endpoint}`: cannot write handler `{path}`: {cause}\n  hint: without `persist` the handler serves until the \
         next start"
    )]
    Persist { endpoint: String, path: String, cause: std::io::Error },
    #[error(
        "endpoint `{endpoint}` is configured without a handler's file, so nothing can be written to it\n  hint: without \
         `persist` the handler serves until the next start"
    )]
    NoFile { endpoint: String },
    #[error("endpoint `{endpoint}`: {handler} {cause}")]
    Load { endpoint: String, handler: String, cause: LoadError },
    #[error("endpoint `{endpoint}`: {cause}")]
    Model { endpoint: String, cause: Box<ModelError> },
    #[error("{}", in_lines(endpoint, problems))]
    Ensemble { endpoint: String, problems: Vec<String> },
    #[error("endpoint `{endpoint}`: there is no model `{model}`")]
    NoSuchModel { endpoint: String, model: String },
    #[error(
        "endpoint `{endpoint}`: model `{model}` does not fit the handler: {mismatch}\n  hint: swap in the model together \
         with a handler for it: `modelhost swap {endpoint} --plugin FILE --model {model}`"
    )]
    Mismatch { endpoint: String, model: String, mismatch: String },
    #[error(
        "endpoint `{endpoint}` is served by {old}, and the new handler is {new}\n  hint: its paths and methods would be others; \
         change the configured handler, then reload with SIGHUP or restart"
    )]
    Kind { endpoint: String, old: &'static str, new: &'static str },
    #[error(
        "endpoint `{endpoint}` has a response cache, and its handler is an application, which answers by itself\n  hint: leave out \
         `response_cache`, and keep values with `kv`"
    )]
    Uncacheable { endpoint: String },
    #[error(
        "endpoint `{endpoint}`: the example of its input schema fails, {reason}\n  hint: fix the handler or the example; \
         `--no-smoke` serves without trying it"
    )]
    Smoke { endpoint: String, reason: String },
    #[error("endpoint `{endpoint}`: the gate refuses the handler: {reason}\n  hint: {hint}")]
    Gate { endpoint: String, reason: String, hint: &'static str, report: Arc<Report> },
    #[error(
        "endpoint `{endpoint}`: the current handler is `{found}`, not `{expected}`\n  hint: another swap came in between; `modelhost history {endpoint}` lists it"
    )]
    Expected { endpoint: String, expected: String, found: String },
    #[error(
        "endpoint `{endpoint}`: there is no generation to go back to\n  hint: one is kept from the first swap on; over another \
         model only with `--keep-model`"
    )]
    NoPrevious { endpoint: String },
    #[error("endpoint `{endpoint}`: the candidate is dropped ({mode}): {reason}")]
    Trial { endpoint: String, mode: &'static str, reason: String },
    #[error(
        "endpoint `{endpoint}`: there is no candidate\n  hint: put one on trial first: `modelhost swap {endpoint} --plugin FILE \
         --shadow 0.1`"
    )]
    NoCandidate { endpoint: String },
    #[error(
        "endpoint `{endpoint}`: the candidate is the handler that serves, `{digest}`: there is nothing to try"
    )]
    SameCandidate { endpoint: String, digest: Arc<str> },
    #[error(
        "endpoint `{endpoint}`: another configuration has replaced or removed it meanwhile, so that nothing \
         would serve what is ordered\n  hint: give the order once more, to the endpoint as it is now"
    )]
    Gone { endpoint: String },
}

/// The problems of an ensemble, each on a line.
fn in_lines(endpoint: &str, problems: &[String]) -> String {
    let lines = problems.iter().map(|problem| format!("endpoint `{endpoint}`: ensemble: {problem}"));
    lines.collect::<Vec<_>>().join("\n")
}

impl DeployError {
    /// The gate's findings, if it refused.
    pub fn report(&self) -> Option<&Arc<Report>> {
        match self {
            DeployError::Gate { report, .. } => Some(report),
            _ => None,
        }
    }

    /// The step of a swap that refused.
    pub fn step(&self) -> &'static str {
        match self {
            DeployError::Read { .. } | DeployError::Model { .. } | DeployError::NoSuchModel { .. } => "load",
            DeployError::Load { cause, .. } => match cause {
                LoadError::NotWasm
                | LoadError::CoreModule
                | LoadError::Compile(_)
                | LoadError::TooCostly(_)
                | LoadError::Project(_) => "load",
                LoadError::Version { .. }
                | LoadError::Unknown { .. }
                | LoadError::Import { .. }
                | LoadError::Link(_)
                | LoadError::NoHandler
                | LoadError::Export { .. } => "verify",
                LoadError::Start(_)
                | LoadError::Init { .. }
                | LoadError::Schema(_)
                | LoadError::Operations(_)
                | LoadError::Batch(_) => "init",
            },
            DeployError::Mismatch { .. }
            | DeployError::Kind { .. }
            | DeployError::Uncacheable { .. }
            | DeployError::Ensemble { .. } => "verify",
            DeployError::Smoke { .. } => "smoke",
            DeployError::Gate { .. } => "gate",
            DeployError::Persist { .. } => "persist",
            DeployError::Trial { mode, .. } => mode,
            DeployError::Expected { .. }
            | DeployError::NoFile { .. }
            | DeployError::NoPrevious { .. }
            | DeployError::NoCandidate { .. }
            | DeployError::SameCandidate { .. }
            | DeployError::Gone { .. } => "order",
        }
    }
}

impl EndpointConfig {
    /// A handler that cannot serve, by the name its sender knows it by.
    pub(super) fn refused_plugin(&self, origin: Origin, cause: LoadError) -> DeployError {
        let handler = match (&self.plugin, origin) {
            (Some(path), Origin::Start | Origin::Watch | Origin::Signal | Origin::Dev) => {
                format!("handler `{}`", path.display())
            }
            (_, Origin::Rollback | Origin::Breaker) => "the previous handler".to_owned(),
            _ => "the new handler".to_owned(),
        };
        DeployError::Load { endpoint: self.name.clone(), handler, cause }
    }
}
