//! An application that talks with clients and serves requests together, by routes.

const std = @import("std");
const guest = @import("guest");

comptime {
    guest.handler(.{ .routes = &routes });
}

const routes = [_]guest.Route{
    .batch("/sums", sums, .{ .summary = "Sums", .produces = "application/json" }),
    .websocket("/echo", echo),
    .websocket("/refused", refused),
    .websocket("/slow", slow),
};

/// Says what it hears, in the subprotocol `chat` if that is offered, until it hears `bye`.
fn echo(upgrade: *guest.Upgrade) !void {
    const socket = try upgrade.accept(if (try upgrade.offers("chat")) "chat" else null);
    while (try socket.receive(null)) |message| {
        if (message == .text and std.mem.eql(u8, message.text, "bye")) return socket.close(3001, "bye");
        _ = try socket.send(message);
    }
}

fn refused(upgrade: *guest.Upgrade) !void {
    var response = try guest.Response.json(.{ .no = "entry" });
    response.status = 403;
    try upgrade.refuse(response);
}

/// Has little patience.
fn slow(upgrade: *guest.Upgrade) !void {
    const socket = try upgrade.accept(null);
    const message = socket.receive(50) catch {
        _ = try socket.sendText("late");
        return;
    };
    if (message != null) _ = try socket.sendText("early");
}

fn sums(members: []guest.Member) void {
    for (members) |*member| member.answer(sum(member.sample, members.len));
}

fn sum(sample: guest.Sample, of: usize) !guest.Response {
    var total: f64 = 0;
    // As numbers it would read texts such as "2", too.
    for (try sample.json([]const std.json.Value)) |value| switch (value) {
        .integer => |number| total += @floatFromInt(number),
        .float => |number| total += number,
        else => return guest.invalid("the body is no list of numbers", .{}),
    };
    return guest.Response.json(.{ .sum = total, .of = of });
}

test "clients are talked with, and requests served together" {
    const says: []const ?guest.Message = &.{ .{ .text = "a" }, .{ .text = "bye" } };
    const said = try guest.converse(&routes, .{ .path = "/echo", .says = says });
    try std.testing.expectEqualStrings("a", said.sent[0].text);
    try std.testing.expectEqual(3001, said.close.?.code);
    const late = try guest.converse(&routes, .{ .path = "/slow", .says = &.{null} });
    try std.testing.expectEqualStrings("late", late.sent[0].text);
    const answers = try guest.answerAll(&routes, "/sums", &.{
        .{ .body = "[1, 2.5]" },
        .{ .body = "{}" },
        .{ .body = "[\"2\"]" },
    });
    try std.testing.expectEqualStrings("{\"sum\":3.5,\"of\":3}", (try answers[0]).body);
    for (answers[1..]) |wrong| try std.testing.expectEqual(400, (try wrong).status);
}
