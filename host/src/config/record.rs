//! What is recorded, and where.
//!
//! Place in the flow: `config.rs` reads it after the endpoints. Out: the folder and its bound, if there is to
//! be one.
//! Invariant: an endpoint whose handler sees environment variables is not recorded. They are how secrets are
//! granted, and what a handler makes of them cannot be told from anything else.

use super::file::Table;
use super::settings as set;
use super::sources::Sources;
use crate::capture::record;
use crate::endpoint::config::EndpointConfig;
use crate::values::Diagnostic;

/// The folder of recordings; `None` if nothing is recorded.
pub(super) fn record(
    sources: &mut Sources<'_>,
    table: &Table,
    endpoints: &[EndpointConfig],
) -> Option<record::Config> {
    let size = sources.get(&set::RECORD_SIZE, table);
    let place = sources.place(&set::RECORD, table)?;
    let folder = sources.get(&set::RECORD, table)?;
    for endpoint in endpoints.iter().filter(|endpoint| endpoint.is_recorded() && !endpoint.env.is_empty()) {
        let message = format!(
            "endpoint `{}` has environment variables, and a recording would hold what its handler makes of them",
            endpoint.name
        );
        let hint = "set `record_share = 0` for it, or remove its `env`";
        sources.report(Some(place.clone()), Diagnostic::new(message, hint));
    }
    Some(record::Config { folder, size })
}
