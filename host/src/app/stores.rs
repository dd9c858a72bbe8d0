//! The stores of a process, by its configuration.
//!
//! Place in the flow: opened once, before a handler is loaded. In: places. Out: what handlers are granted
//! parts of.

use std::sync::Arc;

use super::Config;
use crate::jobs::JobStore;
use crate::plugin::capabilities::Stores;
use crate::{blobs, kv};

/// The stores of this configuration, with this one of the jobs.
///
/// # Errors
/// One cannot be opened.
pub(super) async fn open(config: &Config, jobs: Option<Arc<JobStore>>) -> anyhow::Result<Stores> {
    let mut stores = Stores { jobs, ..Stores::default() };
    if let Some(place) = &config.kv {
        stores.kv = Arc::new(kv::Store::open(place).await?);
    }
    if let Some(place) = &config.blobs {
        stores.blobs = Arc::new(blobs::Store::open(place).await?);
    }
    Ok(stores)
}
