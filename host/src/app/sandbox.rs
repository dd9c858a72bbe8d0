//! The sandbox of the process: how many instances it has room for.
//!
//! In: its settings, and the limits of all endpoints. Out: a [`Sandbox`].

use std::num::NonZeroUsize;

use crate::endpoint::config::EndpointConfig;
use crate::plugin::{self, Sandbox};

/// Most instances if their number is not configured: for endpoints that need few each; and for one that needs
/// many, as many as the address space has room for.
const MOST_INSTANCES: (usize, usize) = (1024, 16_384);

/// The sandbox, with room for as many instances as are configured, or as the endpoints may need at once. Not
/// more than `MOST_INSTANCES` however many endpoints there are: they share.
///
/// # Errors
/// The engine refuses its settings, or the compile cache cannot be used.
pub fn sandbox(config: &plugin::Config, endpoints: &[EndpointConfig]) -> anyhow::Result<Sandbox> {
    // During a swap or a trial two generations of an endpoint are alive, and keep as many instances as they
    // needed; what is tried, recorded or compared gets instances of its own.
    let needs = || {
        let limits = endpoints.iter().map(|endpoint| &endpoint.limits);
        limits.map(|limits| limits.concurrency * 3 + 6 + limits.sockets.open)
    };
    let most = needs().max().unwrap_or(0).clamp(MOST_INSTANCES.0, MOST_INSTANCES.1);
    let instances = config.instances.unwrap_or_else(|| needs().sum::<usize>().min(most));
    Ok(Sandbox::new(config, NonZeroUsize::new(instances).unwrap_or(NonZeroUsize::MIN))?)
}
