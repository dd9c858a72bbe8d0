//! Unit tests of sockets: functions that talk with clients in memory.

const std = @import("std");
const abi = @import("../abi.zig");
const guest = @import("../guest.zig");
const testing = std.testing;

/// Says what it hears, until it hears `stop`; in the subprotocol `loud` alone.
fn loud(upgrade: *guest.Upgrade) !void {
    if (!try upgrade.offers("loud")) {
        const why: guest.Header = .{ .name = "x-why", .value = "quiet" };
        return upgrade.refuse(.{ .status = 403, .body = "too quiet", .headers = &.{why} });
    }
    const socket = try upgrade.accept("loud");
    try testing.expectEqual(0, (try upgrade.protocols()).len);
    while (try socket.receive(null)) |message| {
        try testing.expectEqual(null, socket.closed);
        if (message == .text and std.mem.eql(u8, message.text, "stop")) {
            try socket.close(4000, "stopped");
            try testing.expect(!try socket.send(message));
        } else {
            try testing.expect(try socket.send(message));
        }
    }
    try testing.expect(socket.closed != null);
}

test "what is said is kept" {
    const offered: []const []const u8 = &.{ "soft", "loud" };
    const said = try guest.converse(loud, .{
        .protocols = offered,
        .says = &.{ .{ .text = "a" }, .{ .binary = "\x00\xff" }, null, .{ .text = "" } },
    });
    try testing.expectEqual(3, said.sent.len);
    try testing.expectEqualStrings("a", said.sent[0].text);
    try testing.expectEqualStrings("\x00\xff", said.sent[1].binary);
    try testing.expectEqualStrings("loud", said.protocol.?);
    try testing.expect(said.close == null and said.refusal == null and said.failed == null);

    const stopped = try guest.converse(loud, .{
        .protocols = offered,
        .says = &.{ .{ .text = "stop" }, .{ .text = "b" } },
    });
    try testing.expectEqual(0, stopped.sent.len);
    try testing.expectEqualDeep(guest.Close{ .code = 4000, .reason = "stopped" }, stopped.close.?);

    const refused = try guest.converse(loud, .{ .says = &.{.{ .text = "a" }} });
    try testing.expectEqual(403, refused.refusal.?.status);
    try testing.expectEqualStrings("too quiet", refused.refusal.?.body);
    try testing.expectEqualStrings("quiet", refused.refusal.?.headers[0].value);
    try testing.expect(refused.sent.len == 0 and refused.protocol == null and refused.failed == null);
}

fn careful(upgrade: *guest.Upgrade) !void {
    try testing.expectError(error.Internal, upgrade.parameter("room"));
    const socket = try upgrade.accept(null);
    try testing.expectError(error.Internal, upgrade.accept(null));
    try testing.expectError(error.Internal, upgrade.refuse(.{}));
    try testing.expectEqualStrings("the handshake is answered already", guest.lastError());
    try testing.expectError(error.TimedOut, socket.receive(50));
    try testing.expectEqualStrings("a", (try socket.receive(0)).?.text);
    try testing.expectError(error.Internal, socket.sendText("\xff"));
    try testing.expectError(error.Internal, socket.close(1005, ""));
    try testing.expectEqualStrings("code 1005 is not one that is sent", guest.lastError());
    try testing.expectError(error.Internal, socket.close(1000, "\xff"));
    try testing.expectError(error.Internal, socket.close(1000, "x" ** 124));
    try testing.expect(try socket.sendJson(.{ .number = std.math.nan(f32) }));
    try testing.expectEqual(null, try socket.receive(null));
    try testing.expectEqual(1000, socket.closed.?.code);
    try testing.expect(!try socket.sendText("late"));
    try socket.close(4000, "late");
    try testing.expectEqual(1000, socket.closed.?.code);
}

test "what cannot be sent is told" {
    const said = try guest.converse(careful, .{ .says = &.{ null, .{ .text = "a" } } });
    try testing.expectEqual(null, said.failed);
    try testing.expectEqualStrings("{\"number\":null}", said.sent[0].text);
    try testing.expect(said.sent.len == 1 and said.close == null);
}

test "errors before the socket is open are the answer" {
    const Room = struct {
        fn call(upgrade: *guest.Upgrade) !void {
            const kind = upgrade.context.query();
            if (kind.len == 0) return;
            const path = upgrade.context.path();
            if (std.mem.eql(u8, kind, "invalid")) return guest.invalid("no room `{s}`", .{path});
            if (std.mem.eql(u8, kind, "respond")) return guest.respond(.{ .status = 402 });
            if (std.mem.eql(u8, kind, "protocol")) _ = try upgrade.accept("chat.v2");
            if (std.mem.eql(u8, kind, "late")) _ = try upgrade.accept(null);
            return guest.invalid("too late for a response", .{});
        }
    };
    const invalid = try guest.converse(Room.call, .{ .path = "/x", .query = "invalid" });
    try testing.expectEqual(400, invalid.refusal.?.status);
    const body = "{\"error\":\"no room `/x`\",\"code\":\"invalid_input\"," ++
        "\"stage\":\"pre_inference\",\"request_id\":\"test\"}";
    try testing.expectEqualStrings(body, invalid.refusal.?.body);
    try testing.expectEqual(402, (try guest.converse(Room.call, .{ .query = "respond" })).refusal.?.status);
    const protocol = try guest.converse(Room.call, .{ .query = "protocol" });
    try testing.expectEqual(error.Internal, protocol.failed.?);
    try testing.expectEqualStrings("the client offers no subprotocol `chat.v2`", protocol.text);
    const late = try guest.converse(Room.call, .{ .query = "late" });
    try testing.expectEqual(error.InvalidInput, late.failed.?);
    try testing.expectEqualStrings("too late for a response", late.text);
    try testing.expectEqual(null, late.refusal);
    const untouched = try guest.converse(Room.call, .{});
    try testing.expect(untouched.failed == null and untouched.refusal == null);
}

fn counting(upgrade: *guest.Upgrade) !void {
    const before = try std.fmt.allocPrint(guest.allocator, "before", .{});
    const socket = try upgrade.accept(null);
    var most: usize = 0;
    while (try socket.receive(null)) |message| {
        const number = try (guest.Sample{ .body = message.text }).json(i64);
        const sum = try guest.kv.open("default").increment("sum", number, .{});
        _ = try guest.allocator.alloc(u8, 100_000);
        _ = try socket.sendJson(.{ .sum = sum, .before = before });
        most = @max(most, abi.arena.queryCapacity());
    }
    try testing.expect(most < 1_000_000);
}

test "a long conversation takes no memory" {
    defer guest.kv.forget();
    const before = abi.arena.queryCapacity();
    const says = [_]?guest.Message{.{ .text = "2" }} ** 1000;
    const said = try guest.converse(counting, .{ .says = &says });
    try testing.expectEqual(null, said.failed);
    try testing.expectEqualStrings("{\"sum\":2000,\"before\":\"before\"}", said.sent[999].text);
    try testing.expect(abi.arena.queryCapacity() < before + 100_000);
}
