//! What an instance holds of the host by handles, and how often it calls it: whether that is too much.
//!
//! Place in the flow: asked with every call of the host, and when an instance is given back. In: the
//! tables of the instance's handles. Out: how many they are; the fault of a guest that holds too much.
//! Invariant: what a handle holds that the number of handles does not bound is bounded here, or by what
//! hands it out.

use std::any::Any;

use wasmtime::component::ResourceTable;
use wasmtime_wasi::filesystem::Descriptor;
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, DynPollable, ReaddirIterator};

use super::State;
use crate::plugin::capabilities::{self, States};
use crate::plugin::fault::{HoldsTooMuch, TooManyHostCalls};

/// Most calls of files, streams and timers in one guest call: each may cost a thread that others need. Enough
/// to read the largest project in pieces of a few kilobytes.
const HOST_CALLS: u32 = 100_000;
/// Most listings of folders that an instance holds: more than a project is deep.
const LISTINGS: usize = 64;

/// A resource of the host that a guest holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::plugin) enum Handle {
    File,
    Stream,
    Pollable,
    /// By the name that its capability has for it.
    Other(&'static str),
}

impl Handle {
    pub(in crate::plugin) fn name(self) -> &'static str {
        match self {
            Handle::File => "a file or a folder",
            Handle::Stream => "a stream",
            Handle::Pollable => "a pollable",
            Handle::Other(name) => name,
        }
    }
}

impl State {
    /// The host's resources that the guest holds; empty if none.
    pub(in crate::plugin) fn handles(&mut self) -> Vec<Handle> {
        let kind = |entry: &mut (dyn Any + Send)| match () {
            _ if entry.is::<Descriptor>() => Handle::File,
            _ if entry.is::<DynInputStream>() || entry.is::<DynOutputStream>() => Handle::Stream,
            _ if entry.is::<DynPollable>() => Handle::Pollable,
            _ => Handle::Other(capabilities::handle(entry).unwrap_or("a handle")),
        };
        held(&mut self.table, &mut self.capabilities).map(kind).collect()
    }

    /// How many they are.
    pub(in crate::plugin) fn handle_count(&mut self) -> usize {
        held(&mut self.table, &mut self.capabilities).count()
    }

    /// Counts the listings of folders that the guest holds: each has all names of its folder in it.
    pub(in crate::plugin) fn look_at_listings(&mut self) {
        let listings = self.table.iter_mut().filter(|entry| entry.is::<ReaddirIterator>()).count();
        self.has_many_listings = listings > LISTINGS;
    }

    /// Whether it is all right for the guest to go on.
    ///
    /// # Errors
    /// It has called the host too often, or holds too much of it.
    pub(super) fn count(&self) -> wasmtime::Result<()> {
        if let Some(excess) = self.http.as_ref().and_then(|http| http.excess()) {
            return Err(HoldsTooMuch(excess).into());
        }
        if self.has_many_listings {
            return Err(HoldsTooMuch(format!("more than {LISTINGS} listings of folders")).into());
        }
        if self.run.host_calls > HOST_CALLS { Err(TooManyHostCalls(HOST_CALLS).into()) } else { Ok(()) }
    }
}

/// All that an instance holds.
pub(super) fn held<'a>(
    table: &'a mut ResourceTable,
    capabilities: &'a mut States,
) -> impl Iterator<Item = &'a mut (dyn Any + Send)> {
    table.iter_mut().chain(capabilities.tables().flat_map(ResourceTable::iter_mut))
}
