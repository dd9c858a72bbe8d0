//! The host's side of a socket in a test: the client says what the test has given, and what it hears is kept,
//! for as long as the tests run.

const std = @import("std");
const abi = @import("../abi.zig");
const guest = @import("../guest.zig");
const sockets = @import("../socket.zig");

var arena = std.heap.ArenaAllocator.init(std.heap.page_allocator);

/// The client of the conversation that goes on.
pub var client: sockets.Client = .{};
var conversation: sockets.Conversation = .{};
var heard: std.ArrayList(sockets.Message) = .empty;
/// How many of its messages the client has said, and the first close, of either side.
var said: usize = 0;
var closed: ?sockets.Close = null;

pub fn converse(talk: sockets.Talk, given: sockets.Client) error{OutOfMemory}!sockets.Conversation {
    client = given;
    conversation = .{};
    heard = .empty;
    said = 0;
    closed = null;
    var upgrade: sockets.Upgrade = .{ .context = .{ .given = .{
        .method = "GET",
        .path = given.path,
        .query = given.query,
        .headers = given.headers,
        .metadata = given.metadata,
    } } };
    sockets.served(talk, &upgrade) catch |failed| {
        conversation.failed = failed;
        conversation.text = try arena.allocator().dupe(u8, abi.textOf(failed));
    };
    abi.endMessages();
    conversation.sent = heard.items;
    return conversation;
}

pub fn accept(protocol: ?[]const u8) sockets.Error!void {
    const wanted = protocol orelse return;
    for (client.protocols) |offered| {
        if (!std.mem.eql(u8, offered, wanted)) continue;
        conversation.protocol = try arena.allocator().dupe(u8, wanted);
        return;
    }
    return guest.internal("the client offers no subprotocol `{s}`", .{wanted});
}

pub fn refuse(response: guest.Response) sockets.Error!void {
    const own = arena.allocator();
    const headers = try own.dupe(guest.Header, response.headers);
    for (headers) |*header| header.* = .{
        .name = try own.dupe(u8, header.name),
        .value = try own.dupe(u8, header.value),
    };
    conversation.refusal = .{
        .status = response.status,
        .content_type = try own.dupe(u8, response.content_type),
        .headers = headers,
        .body = try own.dupe(u8, response.body),
    };
}

/// The message lies in memory of its own, as in a component.
pub fn receive(has_timeout: bool) sockets.Result(sockets.RawMessage) {
    while (closed == null and said < client.says.len) {
        said += 1;
        if (client.says[said - 1]) |message| {
            const data = switch (message) {
                inline else => |data| guest.allocator.dupe(u8, data) catch @panic("out of memory"),
            };
            const raw: sockets.RawMessage = .{ .is_binary = message == .binary, .data = .of(data) };
            return .{ .is_error = 0, .as = .{ .value = raw } };
        }
        const failure: sockets.RawFailure = .{ .kind = .timed_out, .as = undefined };
        if (has_timeout) return .{ .is_error = 1, .as = .{ .failure = failure } };
    }
    if (closed == null) closed = .{ .code = 1000 };
    return isClosed(sockets.RawMessage);
}

pub fn send(is_binary: bool, data: []const u8) sockets.Error!sockets.Result(u8) {
    if (closed != null) return isClosed(u8);
    const own = try arena.allocator().dupe(u8, data);
    try heard.append(arena.allocator(), if (is_binary) .{ .binary = own } else .{ .text = own });
    return .{ .is_error = 0, .as = .{ .value = 0 } };
}

pub fn close(code: u16, reason: []const u8) sockets.Error!sockets.Result(u8) {
    switch (code) {
        1000...1003, 1007...1011, 3000...4999 => {},
        else => return guest.internal("code {d} is not one that is sent", .{code}),
    }
    if (reason.len > 123) return guest.internal("the reason has {d} bytes, of at most 123", .{reason.len});
    if (closed != null) return isClosed(u8);
    closed = .{ .code = code, .reason = try arena.allocator().dupe(u8, reason) };
    conversation.close = closed;
    return .{ .is_error = 0, .as = .{ .value = 0 } };
}

fn isClosed(comptime T: type) sockets.Result(T) {
    const frame: sockets.RawClose = .{ .code = closed.?.code, .reason = .of(closed.?.reason) };
    return .{ .is_error = 1, .as = .{ .failure = .{ .kind = .closed, .as = .{ .closed = frame } } } };
}
