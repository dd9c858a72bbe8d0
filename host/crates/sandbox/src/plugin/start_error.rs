//! Why a fresh instance could not be made, and the error that it is of a request or of a load.
//!
//! Place in the flow: making an instance ends with it; [`Plugin::load`](super::Plugin::load) or the request
//! that it was for fails with it.

use std::time::{Duration, Instant};

use wasmtime::PoolConcurrencyLimitError;

use super::deadline::DeadlineExceeded;
use super::fault;
use super::load_error::LoadError;
use super::settings::HandlerConfig;
use super::state::State;
use crate::error::{Code, PluginFault, RequestError, Stage};

/// Why a fresh instance could not be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    #[error("its start functions took too long")]
    Time,
    #[error("it needs more than its {0} bytes of memory")]
    Memory(usize),
    #[error("all places for instances of handlers are taken")]
    Full,
    #[error("`{0}` does not have the contract's type: {1:#}")]
    Type(&'static str, wasmtime::Error),
    #[error("{0:#}")]
    Trap(wasmtime::Error),
    #[error("its `init` says: {0}")]
    Init(String),
    #[error("its `init` ran longer than {0:?}")]
    InitTime(Duration),
    #[error("its `init` failed: {}", _0.message)]
    InitFault(RequestError),
}

impl StartError {
    pub(super) fn of(error: wasmtime::Error, state: &State) -> StartError {
        if error.is::<DeadlineExceeded>() {
            StartError::Time
        } else if error.is::<PoolConcurrencyLimitError>() {
            StartError::Full
        } else if state.limiter.refused {
            StartError::Memory(state.limiter.memory_limit)
        } else {
            match state.last_lines() {
                said if said.is_empty() => StartError::Trap(error),
                said => StartError::Trap(error.context(said)),
            }
        }
    }

    /// The error of a request with this deadline.
    pub(super) fn in_request(self, deadline: Instant) -> RequestError {
        const STAGE: Stage = Stage::PreInference;
        let code = match &self {
            StartError::Full => return RequestError::new(Code::Overloaded, Stage::Admit, self.to_string()),
            StartError::Time | StartError::InitTime(_) if Instant::now() >= deadline => Code::RequestTimeout,
            StartError::Time | StartError::InitTime(_) => Code::PluginTimeout,
            StartError::Init(_) => Code::PluginError,
            StartError::InitFault(error) => error.code,
            StartError::Memory(_) => Code::PluginOutOfMemory,
            StartError::Type(..) | StartError::Trap(_) => Code::PluginTrap,
        };
        let detail = match &self {
            StartError::Trap(error) => fault::detail(error),
            other => other.to_string(),
        };
        let error = RequestError::new(code, STAGE, "the handler could not be started");
        error.by_plugin(PluginFault::Start).with_detail(detail)
    }
}

impl StartError {
    /// The error of a handler that is being loaded.
    pub(super) fn at_load(self, config: &HandlerConfig) -> LoadError {
        let hint = match &self {
            StartError::InitTime(_) => "let it do less, or give it more time with `limits.init_timeout`",
            StartError::Init(_) | StartError::InitFault(_) => {
                "what it printed is in the log, with `-` for the request's id"
            }
            // With names of the guest's own.
            StartError::Trap(error) => return LoadError::Start(fault::detail(error)),
            StartError::Memory(_) => {
                return LoadError::Start(format!("{self}\n  hint: {}", fault::MORE_MEMORY));
            }
            other => return LoadError::Start(other.to_string()),
        };
        if let StartError::InitFault(error) = &self
            && let Some(detail) = &error.detail
        {
            tracing::warn!(endpoint = %config.endpoint, "`init` failed: {detail}");
        }
        LoadError::Init { why: self.to_string(), hint }
    }
}
