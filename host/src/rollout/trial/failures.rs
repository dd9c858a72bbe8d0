//! Which outcomes of a request speak against the handler that it went to.
//!
//! Place in the flow: a request's participation in a trial, and its shadow, count them on their side.

use crate::capture::compare::Outcome;
use crate::error::Code;
use crate::request::Output;

/// Whether a request failed, and not by its caller's doing.
pub(super) fn is_error(outcome: &Outcome) -> bool {
    match outcome {
        Ok(Output::Response(response)) => response.status >= 500,
        Ok(Output::Streamed { status }) => *status >= 500,
        Ok(Output::Tensors(_)) => false,
        Err(error) => match error.code {
            Code::PluginError | Code::ModelError | Code::RequestTimeout | Code::Internal => true,
            _ => is_fault(outcome),
        },
    }
}

/// Whether the handler broke its contract or a limit.
pub(super) fn is_fault(outcome: &Outcome) -> bool {
    outcome.as_ref().is_err_and(|error| error.code.is_fault())
}
