//! What a configuration is where nothing is set: the defaults of the rows.
//!
//! Place in the flow: commands without a configuration, and tests, ask for them by [`Default`], or by
//! [`Defaults`] of a type of another crate. The types are those of the modules that use them; only their
//! defaults are here, so that no number is written twice.

use super::file::Table;
use super::sources::{Sources, Typed};
use crate::endpoint::config::{Bounds, GateConfig};
use crate::telemetry::logs;
use crate::{model, pipeline, plugin, server};

/// The value that `read` gives without any sources.
fn of_nothing<T>(read: impl FnOnce(&mut Sources<'_>, &Table) -> T) -> T {
    read(&mut Sources::new(Typed::new(), &|_| None), &Table::default())
}

/// The defaults of a type that another crate defines.
pub trait Defaults {
    /// The value where nothing is set.
    fn defaults() -> Self;
}

macro_rules! defaults_of_other_crates {
    ($($type:ty: $read:path;)+) => {
        $(impl Defaults for $type {
            fn defaults() -> Self {
                of_nothing($read)
            }
        })+
    };
}

defaults_of_other_crates! {
    plugin::Config: super::process::plugin_config;
    plugin::Limits: super::endpoint::handler_limits;
    model::Batching: super::endpoint::batching;
    logs::Config: super::process::logs_config;
}

macro_rules! defaults {
    ($($type:ty: $read:path;)+) => {
        $(impl Default for $type {
            fn default() -> Self {
                of_nothing($read)
            }
        })+
    };
}

defaults! {
    server::Config: super::process::server_config;
    server::listen::Limits: super::connection::limits;
    pipeline::Limits: super::endpoint::limits;
    GateConfig: super::gate::gate;
    Bounds: super::gate::bounds;
}
