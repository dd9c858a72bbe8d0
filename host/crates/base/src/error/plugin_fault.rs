//! In which way a handler failed a request: the label of the metric, finer than a [`Code`].
//!
//! Place in the flow: said where the failure happens, carried by a [`RequestError`](super::RequestError),
//! counted by `endpoint` when the request ends.
//! Invariant: the names are a fixed set of metric labels. docs/reference.md lists them, and a test compares.

use super::Code;

/// The kinds of failure of a handler that cost a request its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PluginFault {
    /// `unreachable`, a panic, a bad memory access, a division by zero, a host call that it may not make that
    /// way.
    Trap,
    /// Too deep a recursion.
    StackOverflow,
    /// It was refused memory beyond its limit, and then trapped.
    OutOfMemory,
    /// It ran longer than it may.
    Deadline,
    /// A value that it returned, or handed to the host, is not one that the contract allows.
    BadOutput,
    /// It returned or printed more than it may.
    OutputFlood,
    /// It called the host more often than it may.
    HostCalls,
    /// It holds more files, streams and clocks than it may.
    Handles,
    /// It ended itself.
    Exit,
    /// It did not come so far as to be called.
    Start,
}

impl PluginFault {
    /// Every one, in the order of the documents.
    pub const ALL: [PluginFault; 10] = [
        PluginFault::Trap,
        PluginFault::StackOverflow,
        PluginFault::OutOfMemory,
        PluginFault::Deadline,
        PluginFault::BadOutput,
        PluginFault::OutputFlood,
        PluginFault::HostCalls,
        PluginFault::Handles,
        PluginFault::Exit,
        PluginFault::Start,
    ];

    /// Its name in logs and as metric label.
    pub fn name(self) -> &'static str {
        match self {
            PluginFault::Trap => "trap",
            PluginFault::StackOverflow => "stack_overflow",
            PluginFault::OutOfMemory => "out_of_memory",
            PluginFault::Deadline => "deadline",
            PluginFault::BadOutput => "bad_output",
            PluginFault::OutputFlood => "output_flood",
            PluginFault::HostCalls => "host_calls",
            PluginFault::Handles => "handles",
            PluginFault::Exit => "exit",
            PluginFault::Start => "start",
        }
    }

    /// The fault that a code implies by itself; `None` of one that is not the handler's fault. A handler that
    /// returns `internal` or `invalid-input` keeps its contract.
    pub(super) fn of(code: Code) -> Option<PluginFault> {
        match code {
            Code::PluginTrap => Some(PluginFault::Trap),
            Code::PluginOutOfMemory => Some(PluginFault::OutOfMemory),
            Code::PluginBadOutput => Some(PluginFault::BadOutput),
            Code::PluginTimeout => Some(PluginFault::Deadline),
            _ => None,
        }
    }
}
