//! What is recorded, and where.
//!
//! Place in the flow: `config.rs` reads it after the endpoints. Out: the folder and its bound, if there is to be one.
//! Invariant: an endpoint whose handler sees environment variables is not recorded. They are how secrets are granted, and what
//! a handler makes of them cannot be told from anything else.

use toml::Value;

use super::Sources;
use super::file::Table;
use super::problem::Complaint;
use super::read::{self, Given, Reading};
use super::settings as set;
use crate::deploy::{self, record};

/// The folder of recordings; `None` if nothing is recorded.
pub(super) fn record(
    sources: &mut Sources<'_>,
    table: &Table,
    endpoints: &[deploy::EndpointConfig],
) -> Option<record::Config> {
    let size = sources.read(&set::RECORD_SIZE, table, read::size(1 << 10..=1 << 50));
    let place = sources.place(&set::RECORD, table)?;
    let folder = sources.read(&set::RECORD, table, read::path)?;
    for endpoint in endpoints.iter().filter(|endpoint| endpoint.is_recorded() && !endpoint.env.is_empty()) {
        let message = format!(
            "endpoint `{}` has environment variables, and a recording would hold what its handler makes of them",
            endpoint.name
        );
        let hint = "set `record_share = 0` for it, or remove its `env`";
        sources.complain(Some(place.clone()), Complaint::new(message, hint));
    }
    Some(record::Config { folder, size: size.unwrap_or(record::Config::SIZE) })
}

/// A part of all requests.
pub(super) fn share(given: &Given<'_>) -> Reading<record::Share> {
    const HINT: &str = "write a number from 0 to 1, such as `0.01` for one in a hundred";
    let share = match given.value {
        Value::Float(number) => Some(*number),
        Value::Integer(number) => Some(*number as f64),
        Value::String(text) => text.parse().ok(),
        _ => return Err(given.expected("a number", HINT)),
    };
    share.and_then(record::Share::new).ok_or_else(|| {
        let shown = given.value.as_str().map_or_else(|| given.value.to_string(), str::to_owned);
        Complaint::new(format!("`{shown}` is no share"), HINT)
    })
}
