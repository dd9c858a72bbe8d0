//! Regions of shared memory, as messages.
//!
//! Place in the flow: beside it; [`crate::server::shared_memory`] keeps them.

use super::call::Call;
use super::pb;
use super::pb::system_shared_memory_status_response::RegionStatus;
use crate::error::RequestError;
use crate::server::served::Served;
use crate::server::shared_memory::{authorize, authorize_registration};

/// The region of this name, or all of them if it is empty.
///
/// # Errors
/// `unauthorized`, `not_found`.
pub(super) fn status(
    served: &Served,
    call: &Call,
    name: &str,
) -> Result<pb::SystemSharedMemoryStatusResponse, RequestError> {
    authorize(&served.every_key(), call.credentials())?;
    let regions = served.shared_memory.status(named(name))?.into_iter().map(|(name, region)| {
        let (key, offset, byte_size) = (region.key.clone(), region.offset, region.byte_size);
        (name.clone(), RegionStatus { name, key, offset, byte_size })
    });
    Ok(pb::SystemSharedMemoryStatusResponse { regions: regions.collect() })
}

/// Registers a region.
///
/// # Errors
/// `unauthorized`, `invalid_input`.
pub(super) fn register(
    served: &Served,
    call: &Call,
    message: &pb::SystemSharedMemoryRegisterRequest,
) -> Result<(), RequestError> {
    authorize_registration(&served.every_key(), call.credentials(), call.origin)?;
    let pb::SystemSharedMemoryRegisterRequest { name, key, offset, byte_size } = message;
    served.shared_memory.register(name, key, *offset, *byte_size)
}

/// Forgets a region, or all of them if the name is empty.
///
/// # Errors
/// `unauthorized`.
pub(super) fn unregister(served: &Served, call: &Call, name: &str) -> Result<(), RequestError> {
    authorize(&served.every_key(), call.credentials())?;
    served.shared_memory.unregister(named(name));
    Ok(())
}

fn named(name: &str) -> Option<&str> {
    Some(name).filter(|name| !name.is_empty())
}
