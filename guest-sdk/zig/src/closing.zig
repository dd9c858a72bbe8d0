//! Handles of the host, and of libraries, that a call has open: they are given back as it ends, while
//! imports may still be called. Memory that `init` leaves is kept if no handle is in it.

/// Closes what has to go before the memory of a socket's message does.
pub var of_message: ?*const fn () void = null;
/// Closes what stays open from message to message.
pub var of_call: ?*const fn () void = null;

pub fn endMessage() void {
    if (of_message) |close| close();
}

pub fn endCall() void {
    @import("form.zig").called_with = null;
    endMessage();
    if (of_call) |close| close();
}
