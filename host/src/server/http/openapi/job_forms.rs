//! Jobs in the dialects of other systems.
//!
//! Place in the flow: beside it. In: an endpoint whose jobs have a dialect, which writes its operations. The
//! only endpoint's further paths are answered too and not listed.

use super::answers::Paths;
use crate::server::compat::job_dialects::dialect_of;
use crate::server::served::Served;

pub(super) fn paths(served: &Served) -> Paths<'_> {
    Box::new(served.endpoints.iter().flat_map(|endpoint| {
        let dialect = dialect_of(endpoint.config.jobs.mode);
        dialect.map_or_else(Vec::new, |dialect| dialect.operations(endpoint))
    }))
}
