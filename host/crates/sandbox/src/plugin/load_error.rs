//! Why a component cannot serve: one row of text for each reason.
//!
//! Place in the flow: what loading a handler ends with, see [`super::Plugin`]; `rollout` refuses the handler
//! with it.
//! In: what was found, and names of it. Out: a message for the operator, most with a hint after it.
//! Invariants: every reason says whether other grants or another configuration could help.

use super::bindings;
use super::project::ProjectError;

/// Why a component cannot serve. The text is for the operator.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message names its fields")]
pub enum LoadError {
    #[error("is not a WebAssembly file\n  hint: give the `.wasm` component that the build wrote")]
    NotWasm,
    #[error(
        "is a core module, not a component\n  hint: build for `wasm32-wasip2`, or wrap it with `wasm-tools component new`"
    )]
    CoreModule,
    #[error("cannot be compiled: {0}\n  hint: the file may be cut short; build it again")]
    Compile(String),
    #[error(
        "cannot be used: {0}\n  hint: split what is named, or build with optimisation; interpreters with their libraries need a third of it"
    )]
    TooCostly(String),
    #[error("needs {said}\n  hint: {hint}")]
    Version { said: String, hint: &'static str },
    #[error("`{found}` is no interface of the handler contract\n  hint: {hint}")]
    Unknown { found: String, hint: String },
    #[error("imports what it is not granted: {}\n  hint: {hint}", quoted(refused))]
    Import { refused: Vec<String>, hint: &'static str },
    #[error("its imports do not fit: {0:#}")]
    Link(wasmtime::Error),
    #[error(
        "exports neither `{}` nor `{}`, nor the forms of them for tensors\n  hint: export at least one of the contract's interfaces; `modelhost inspect` shows what it has",
        bindings::PRE_INFERENCE,
        bindings::POST_INFERENCE
    )]
    NoHandler,
    #[error("`{export}` does not have the contract's type: {cause:#}")]
    Export { export: &'static str, cause: wasmtime::Error },
    #[error("fails to start: {0}")]
    Start(String),
    #[error("cannot be used: {why}\n  hint: {hint}")]
    Init { why: String, hint: &'static str },
    #[error(
        "says what it takes in a way that cannot be used: {0}\n  hint: fix its `input-schema`, or declare the inputs in the configuration, which wins: `[endpoint.input.NAME]`"
    )]
    Schema(String),
    #[error("says what it serves in a way that cannot be used: {0}\n  hint: fix its `operations`")]
    Operations(String),
    #[error(
        "says which requests it serves together in a way that cannot be used: {0}\n  \
         hint: mend `paths` of its `respond-all`"
    )]
    Batch(String),
    #[error(transparent)]
    Project(#[from] ProjectError),
}

impl LoadError {
    /// Whether nothing could help that the component is granted or given: limits, metadata, the network.
    pub fn is_final(&self) -> bool {
        match self {
            LoadError::NotWasm
            | LoadError::CoreModule
            | LoadError::Compile(_)
            | LoadError::TooCostly(_)
            | LoadError::Version { .. }
            | LoadError::Unknown { .. }
            | LoadError::Link(_)
            | LoadError::NoHandler
            | LoadError::Export { .. }
            | LoadError::Operations(_)
            | LoadError::Batch(_)
            | LoadError::Project(_) => true,
            LoadError::Import { .. }
            | LoadError::Start(_)
            | LoadError::Init { .. }
            | LoadError::Schema(_) => false,
        }
    }
}

/// Names in backticks, with commas between them.
pub(super) fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
