//! Unit tests of requests to others, who answer here what the test says.

const std = @import("std");
const closing = @import("../closing.zig");
const guest = @import("../guest.zig");
const outbound = @import("../outbound.zig");
const testing = std.testing;

/// The last request.
var asked: outbound.Request = .{ .url = "" };
var status: u16 = 201;
var large: []u8 = &.{};

fn others(request: outbound.Request) outbound.Error!guest.Response {
    asked = request;
    asked.headers = try guest.allocator.dupe(guest.Header, request.headers);
    if (std.mem.eql(u8, request.url, "https://denied")) return error.Denied;
    if (std.mem.eql(u8, request.url, "https://large")) return .{ .body = large };
    const kind: guest.Header = .{ .name = "X-Kind", .value = "b" };
    const headers = try guest.allocator.dupe(guest.Header, &.{kind});
    return .{ .status = status, .content_type = "application/json", .headers = headers, .body = "[\"cat\"]" };
}

fn fails(failed: outbound.Error, text: []const u8, made: anytype) !void {
    try testing.expectError(failed, made);
    try testing.expectEqualStrings(text, guest.lastError());
}

test "others answer what the test says" {
    defer outbound.answerWith(null);
    try testing.expectError(error.Failed, outbound.get("https://a"));
    outbound.answerWith(others);
    const labels = try (try outbound.get("https://a/labels")).json([]const []const u8);
    try testing.expectEqualStrings("cat", labels[0]);
    try testing.expectEqualStrings("GET", asked.method);
    try testing.expectEqual(30_000, asked.timeout_ms);

    const response = try outbound.post("https://a", "text/plain", "body");
    defer response.deinit();
    try testing.expectEqual(201, response.status);
    try testing.expectEqualStrings("b", response.header("X-kind").?);
    try testing.expectEqualStrings("application/json", response.header("content-type").?);
    try testing.expectEqual(null, response.header("x-kin"));
    try testing.expectEqualStrings("text/plain", asked.headers[0].value);
    try testing.expectEqualStrings("body", asked.body);
    try testing.expectEqualStrings("[\"cat\"]", (try response.read()).?);
    try testing.expectEqual(null, try response.read());
    try testing.expectEqual(0, (try response.bytes()).len);

    const json = (try outbound.get("https://a")).json(u8);
    try fails(error.Failed, "the request failed: its json: UnexpectedToken", json);
    try fails(error.Denied, "`allow_outbound` does not list where the request goes", outbound.get("https://denied"));
    try testing.expectError(error.Invalid, outbound.get("\xff"));
    try testing.expectError(error.Invalid, outbound.post("https://a", "\xff", ""));
}

test "what the library would refuse is refused in a test too" {
    defer outbound.answerWith(null);
    outbound.answerWith(others);
    asked = .{ .url = "" };
    for ([_][]const u8{ "ftp://a", "a", "", "https:/" }) |url| {
        try testing.expectError(error.Invalid, outbound.get(url));
        try testing.expectError(error.Invalid, (outbound.Webhook{ .url = url }).send(1));
    }
    try testing.expectError(error.Invalid, (outbound.Request{ .method = "A B", .url = "https://a" }).send());
    for ([_]guest.Header{
        .{ .name = "x y", .value = "1" },  .{ .name = "", .value = "1" },          .{ .name = "a\x00", .value = "1" },
        .{ .name = "a", .value = "\x00" }, .{ .name = "a", .value = "1\r\nb: 2" }, .{ .name = "a", .value = "\x7f" },
    }) |header| {
        const request: outbound.Request = .{ .url = "https://a", .headers = &.{header} };
        try testing.expectError(error.Invalid, request.send());
    }
    for ([_][]const u8{ "", "whsec_" }) |secret| {
        const webhook: outbound.Webhook = .{ .url = "https://a", .secret = secret };
        try fails(error.Invalid, "the secret is empty", webhook.send(1));
    }
    try testing.expectEqualStrings("", asked.url);
    const tab: guest.Header = .{ .name = "X-A", .value = "gr\xc3\xbc\xc3\x9f\t1" };
    (try (outbound.Request{ .url = "https://a", .headers = &.{tab}, .timeout_ms = 0 }).send()).deinit();
    try testing.expectEqual(30_000, asked.timeout_ms);
}

test "a webhook is a POST whose answer is a 2xx" {
    defer outbound.answerWith(null);
    outbound.answerWith(others);
    const webhook: outbound.Webhook = .{ .url = "https://a", .secret = "whsec_c2VjcmV0", .attempts = 3, .timeout_ms = 5 };
    (try webhook.send(.{ .a = 1 })).deinit();
    try testing.expectEqualStrings("POST", asked.method);
    try testing.expectEqualStrings("{\"a\":1}", asked.body);
    try testing.expectEqualStrings("application/json", asked.headers[0].value);
    try testing.expectEqual(5, asked.timeout_ms);
    defer status = 201;
    status = 410;
    try fails(error.Status, "the receiver answered with status 410", webhook.send(1));
    try testing.expectEqual(410, outbound.lastStatus());
    try testing.expectError(error.Invalid, (outbound.Webhook{ .url = "https://a", .secret = "\xff" }).send(1));
    try testing.expectError(error.Denied, (outbound.Webhook{ .url = "https://denied" }).sendJson("1"));
}

test "bodies are read in pieces, or whole if they are not too long" {
    defer outbound.answerWith(null);
    outbound.answerWith(others);
    const most = 16 << 20;
    const all = try testing.allocator.alloc(u8, most + 1);
    defer testing.allocator.free(all);
    for (all, 0..) |*byte, at| byte.* = @truncate(at / 1000);
    large = all[0..most];
    const whole = try (try outbound.get("https://large")).bytes();
    try testing.expect(std.mem.eql(u8, all[0..most], whole));
    large = all;
    const longer = try outbound.get("https://large");
    try fails(error.TooLong, "the body is longer than 16777216 bytes", longer.bytes());
    try testing.expectEqual(null, try longer.read());
    large = all[0..150_000];
    const response = try outbound.get("https://large");
    var length: usize = 0;
    while (try response.read()) |piece| {
        try testing.expect(std.mem.eql(u8, all[length..][0..piece.len], piece));
        length += piece.len;
    }
    try testing.expectEqual(150_000, length);
}

test "what is open is closed when the call is over" {
    defer outbound.answerWith(null);
    outbound.answerWith(others);
    const one, const other = .{ try outbound.get("https://a"), try outbound.get("https://a") };
    one.deinit();
    one.deinit();
    closing.endMessage();
    try testing.expect(try other.read() != null);
    closing.endCall();
    try fails(error.Failed, "the request failed: the response is closed", other.read());
    other.deinit();
}
