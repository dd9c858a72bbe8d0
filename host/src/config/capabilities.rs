//! The settings of an endpoint for the capabilities of its handler.
//!
//! Place in the flow: a part of an endpoint, `endpoint.rs`. In: its tables and flags. Out: the settings of
//! each capability.

use super::file::Table;
use super::settings as set;
use super::sources::Sources;
use crate::plugin::capabilities::{Settings, blobs, kv, metrics};

/// The settings of all.
pub(super) fn settings(sources: &mut Sources<'_>, table: &Table) -> Settings {
    Settings {
        // Their limits are read with all others of a handler.
        models: (),
        outbound: sources.get(&set::ALLOW_OUTBOUND, table),
        kv: kv::Settings {
            buckets: sources.get(&set::KV, table),
            quota: crate::kv::Quota {
                bytes: sources.get(&set::KV_BYTES, table),
                entries: sources.get(&set::KV_ENTRIES, table),
                value: sources.get(&set::KV_VALUE, table),
            },
        },
        // An endpoint's jobs are its clients' too: they are read with it.
        jobs: (),
        blobs: blobs::Settings {
            containers: sources.get(&set::BLOBS, table),
            quota: crate::blobs::Quota {
                bytes: sources.get(&set::BLOB_BYTES, table),
                objects: sources.get(&set::BLOB_COUNT, table),
                size: sources.get(&set::BLOB_SIZE, table),
            },
        },
        metrics: metrics::Settings { series: sources.get(&set::SERIES, table) },
        // What it reads are the endpoint's variables and metadata.
        config: (),
    }
}
