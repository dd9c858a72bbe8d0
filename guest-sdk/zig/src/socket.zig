//! WebSockets: a handler that talks with a client for as long as both like.
//!
//! The function is called once for each client, with its handshake: as `websocket` of the handler, beside
//! what serves requests or alone, or by a route. A message is like a call: it lasts, with all that was
//! allocated by `guest.allocator` since it came, until the next `receive`; what was allocated before the
//! first one lasts until the function returns. What is to stay is copied with an allocator of the handler's.
//! In a test `converse` is the client.

const std = @import("std");
const abi = @import("abi.zig");
const guest = @import("guest.zig");
const json = @import("json.zig");
const native = @import("socket/native.zig");
const router = @import("router.zig");
const Text = abi.Text;

pub const Error = error{ Internal, OutOfMemory };

pub const Message = union(enum) { text: []const u8, binary: []const u8 };

/// The end of a socket (RFC 6455, section 7.4).
pub const Close = struct {
    /// 1005: the client closed without a code; 1006: it went without a close.
    code: u16,
    /// May be empty.
    reason: []const u8 = "",
};

/// Longest reason of a close, in bytes.
const longest_reason = 123;

/// A client's handshake, which is answered once. An `invalid` or `respond` that the function returns before
/// is the answer to it, as to any request; without an answer it is a 500.
pub const Upgrade = struct {
    /// The request of the handshake: path, query, headers.
    context: guest.Context,
    /// What the pattern of its route has.
    parameters: []const guest.Header = &.{},
    handle: i32 = 0,
    is_answered: bool = false,
    socket: Socket = .{},

    /// The part of the path that stands where the route has `{name}`, or `{*name}`.
    pub fn parameter(self: *const Upgrade, name: []const u8) error{Internal}![]const u8 {
        return router.parameterOf(self.parameters, name);
    }

    /// The subprotocols that the client offers, in its order of preference; none once it is answered.
    pub fn protocols(self: *const Upgrade) error{OutOfMemory}![]const []const u8 {
        if (self.is_answered) return &.{};
        if (!abi.is_component) return native.client.protocols;
        var raw: abi.List(Text) = undefined;
        host.protocols(self.handle, &raw);
        const found = try guest.allocator.alloc([]const u8, raw.length);
        for (found, raw.slice()) |*to, from| to.* = from.slice();
        return found;
    }

    /// Whether a subprotocol is among them.
    pub fn offers(self: *const Upgrade, protocol: []const u8) error{OutOfMemory}!bool {
        for (try self.protocols()) |offered| {
            if (std.mem.eql(u8, offered, protocol)) return true;
        }
        return false;
    }

    /// Opens the socket, with one of the client's subprotocols or none. It is closed when the function
    /// returns: with 1000, or with 1011 for an error.
    pub fn accept(self: *Upgrade, protocol: ?[]const u8) Error!*Socket {
        try self.answered();
        if (!abi.is_component) {
            try native.accept(protocol);
        } else {
            var result: Answered(i32) = undefined;
            const own = Text.of(protocol orelse "");
            host.accept(self.handle, @intFromBool(protocol != null), own.start, own.length, &result);
            self.socket.handle = try result.get();
        }
        self.socket.is_open = true;
        return &self.socket;
    }

    /// Answers with a response of HTTP in place of a socket.
    pub fn refuse(self: *Upgrade, response: guest.Response) Error!void {
        try self.answered();
        if (!abi.is_component) return native.refuse(response);
        const raw = abi.rawResponse(response);
        const kind, const headers, const body = .{ raw.content_type, raw.headers, raw.body };
        var result: Answered(u8) = undefined;
        host.refuse(
            self.handle,
            raw.status,
            kind.start,
            kind.length,
            headers.start,
            headers.length,
            body.start,
            body.length,
            &result,
        );
        _ = try result.get();
    }

    fn answered(self: *Upgrade) error{Internal}!void {
        if (self.is_answered) return guest.internal("the handshake is answered already", .{});
        self.is_answered = true;
    }
};

/// A socket that is open, or was.
pub const Socket = struct {
    handle: i32 = 0,
    is_open: bool = false,
    /// How it was closed, once a call has found that out.
    closed: ?Close = null,
    reason: [longest_reason]u8 = undefined,

    /// Waits for the next message, for so many milliseconds at most; null is as long as the socket is open, 0
    /// does not wait. Null: it is closed, and all that the client sent has been received.
    pub fn receive(self: *Socket, timeout_ms: ?u32) error{TimedOut}!?Message {
        abi.nextMessage();
        var result: Result(RawMessage) = undefined;
        if (abi.is_component) {
            host.receive(self.handle, @intFromBool(timeout_ms != null), timeout_ms orelse 0, &result);
        } else {
            result = native.receive(timeout_ms != null);
        }
        if (result.is_error != 0) {
            if (result.as.failure.kind == .timed_out) return error.TimedOut;
            self.noteClosed(result.as.failure.as.closed);
            return null;
        }
        const data = result.as.value.data.slice();
        return if (result.as.value.is_binary) .{ .binary = data } else .{ .text = data };
    }

    /// Sends a message, and waits while the client does not read. False: the socket is closed. An error: the
    /// message cannot be sent, as it has more than `limits.socket_message` or is a text that is no UTF-8.
    pub fn send(self: *Socket, message: Message) Error!bool {
        return switch (message) {
            .text => |text| self.sendText(text),
            .binary => |bytes| self.sendBinary(bytes),
        };
    }

    pub fn sendText(self: *Socket, text: []const u8) Error!bool {
        if (!std.unicode.utf8ValidateSlice(text)) return guest.internal("a text that is no UTF-8", .{});
        return self.sent(false, text);
    }

    pub fn sendBinary(self: *Socket, bytes: []const u8) Error!bool {
        return self.sent(true, bytes);
    }

    /// Sends a value as `guest.toJson` writes it.
    pub fn sendJson(self: *Socket, value: anytype) Error!bool {
        // Not the allocator of the message, which many that are sent would fill.
        const text = try json.alloc(abi.backing, value);
        defer abi.backing.free(text);
        return self.sendText(text);
    }

    /// Closes the socket after what was sent, with 1000 to 1003, 1007 to 1011, or 3000 to 4999. The first
    /// close counts.
    pub fn close(self: *Socket, code: u16, reason: []const u8) Error!void {
        if (!std.unicode.utf8ValidateSlice(reason)) return guest.internal("a reason that is no UTF-8", .{});
        const own = Text.of(reason);
        var result: Result(u8) = undefined;
        if (abi.is_component) {
            host.close(self.handle, code, own.start, own.length, &result);
        } else {
            result = try native.close(code, reason);
        }
        if (try self.isDone(&result)) self.noteClosed(.{ .code = code, .reason = own });
    }

    fn sent(self: *Socket, is_binary: bool, data: []const u8) Error!bool {
        const own = Text.of(data);
        var result: Result(u8) = undefined;
        if (abi.is_component) {
            host.send(self.handle, @intFromBool(is_binary), own.start, own.length, &result);
        } else {
            result = try native.send(is_binary, data);
        }
        return self.isDone(&result);
    }

    /// Whether it was done; not, if the socket is closed.
    fn isDone(self: *Socket, result: *const Result(u8)) error{Internal}!bool {
        if (result.is_error == 0) return true;
        const failure = result.as.failure;
        if (failure.kind == .invalid) return guest.internal("{s}", .{failure.as.invalid.slice()});
        self.noteClosed(failure.as.closed);
        return false;
    }

    fn noteClosed(self: *Socket, frame: RawClose) void {
        if (self.closed != null) return;
        // The host's text lasts as long as the message.
        const reason = frame.reason.slice();
        const kept = self.reason[0..@min(reason.len, longest_reason)];
        @memcpy(kept, reason[0..kept.len]);
        self.closed = .{ .code = frame.code, .reason = kept };
    }
};

/// What talks with a client.
pub const Talk = *const fn (*Upgrade) anyerror!void;

/// Has a function talk, and answers a handshake that it has left without an answer. It is called with what
/// the host lends, and gives all of it back.
pub fn served(talk: Talk, upgrade: *Upgrade) anyerror!void {
    defer if (abi.is_component) {
        if (!upgrade.is_answered) host.drop_upgrade(upgrade.handle);
        if (upgrade.socket.is_open) host.drop_socket(upgrade.socket.handle);
    };
    talk(upgrade) catch |failed| {
        if (upgrade.is_answered) return failed;
        const text = abi.textOf(failed);
        return switch (failed) {
            error.InvalidInput => upgrade.refuse(try router.refusal(upgrade.context, 400, "invalid_input", text)),
            error.Respond => upgrade.refuse(abi.answered),
            else => failed,
        };
    };
}

/// A function of the handler as one that may fail.
pub fn talking(comptime function: anytype) Talk {
    return abi.fallible(*Upgrade, void, function);
}

/// The client of a test.
pub const Client = struct {
    /// The request of its handshake.
    path: []const u8 = "/",
    query: []const u8 = "",
    headers: []const guest.Header = &.{},
    metadata: []const u8 = "null",
    protocols: []const []const u8 = &.{},
    /// Its messages, after which it closes with 1000. For null nothing comes in the time that is waited.
    says: []const ?Message = &.{},
};

/// All that was said over a socket of a test.
pub const Conversation = struct {
    /// The messages that the function sent.
    sent: []const Message = &.{},
    /// The subprotocol that it chose.
    protocol: ?[]const u8 = null,
    /// How it closed the socket by itself.
    close: ?Close = null,
    /// The response with which the handshake was refused.
    refusal: ?guest.Response = null,
    /// The error that it returned with an open socket, or without an answer to the handshake, and its text.
    failed: ?anyerror = null,
    text: []const u8 = "",
};

/// For tests: a function, or a table of routes, serves a client:
/// `guest.converse(&routes, .{ .path = "/echo", .says = &.{.{ .text = "a" }} })`.
pub fn converse(comptime served_by: anytype, client: Client) error{OutOfMemory}!Conversation {
    const is_function = @typeInfo(@TypeOf(served_by)) == .@"fn";
    const talk = if (is_function) talking(served_by) else router.Serving(served_by).websocket;
    return native.converse(talk, client);
}

pub const RawClose = extern struct { code: u16, reason: Text };
pub const RawMessage = extern struct { is_binary: bool, data: Text };
pub const RawFailure = extern struct {
    kind: enum(u8) { closed, timed_out, invalid },
    as: extern union { closed: RawClose, invalid: Text },
};

pub fn Result(comptime T: type) type {
    return extern struct { is_error: u8, as: extern union { value: T, failure: RawFailure } };
}

/// What may fail with a text.
fn Answered(comptime T: type) type {
    return extern struct {
        is_error: u8,
        as: extern union { value: T, text: Text },

        fn get(self: @This()) error{Internal}!T {
            return if (self.is_error == 0) self.as.value else guest.internal("{s}", .{self.as.text.slice()});
        }
    };
}

comptime {
    if (abi.is_component) {
        std.debug.assert(@sizeOf(Answered(i32)) == 12 and @sizeOf(Answered(u8)) == 12);
        std.debug.assert(@sizeOf(RawMessage) == 12 and @sizeOf(RawClose) == 12 and @sizeOf(RawFailure) == 16);
        std.debug.assert(@sizeOf(Result(RawMessage)) == 20 and @sizeOf(Result(u8)) == 20);
    }
}

fn imported(comptime T: type, comptime name: []const u8) *const T {
    return abi.importedFrom(*const T, "modelhost:handler/websockets@0.1.0", name);
}

const Bytes = ?[*]const u8;
const Headers = ?[*]const abi.RawHeader;
const Accept = fn (i32, i32, Bytes, usize, *Answered(i32)) callconv(.c) void;
const Refuse = fn (i32, i32, Bytes, usize, Headers, usize, Bytes, usize, *Answered(u8)) callconv(.c) void;

const Receive = fn (i32, i32, u32, *Result(RawMessage)) callconv(.c) void;
/// Of a message the kind, of a close the code.
const Send = fn (i32, i32, Bytes, usize, *Result(u8)) callconv(.c) void;

const host = struct {
    const protocols = imported(fn (i32, *abi.List(Text)) callconv(.c) void, "[method]upgrade.protocols");
    const accept = imported(Accept, "[static]upgrade.accept");
    const refuse = imported(Refuse, "[static]upgrade.refuse");
    const drop_upgrade = imported(fn (i32) callconv(.c) void, "[resource-drop]upgrade");
    const receive = imported(Receive, "[method]socket.receive");
    const send = imported(Send, "[method]socket.send");
    const close = imported(Send, "[method]socket.close");
    const drop_socket = imported(fn (i32) callconv(.c) void, "[resource-drop]socket");
};

test {
    _ = @import("socket/tests.zig");
}
