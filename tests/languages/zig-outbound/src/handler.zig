//! An application that sends what the body of a `POST /` says, and answers with what came of it, as in every
//! language (tests/it/libraries/outbound.rs):
//!
//!     {"do": "get", "url": "http://…", "headers": {"x-a": "b"}, "json": [1], "secret": "…", "attempts": 2,
//!      "pause_ms": 1, "timeout_ms": 500}
//!
//! All but `do` and `url` may be left out. `headers` are not of a webhook, `json` is the body of a post and
//! of a webhook, `secret`, `attempts` and `pause_ms` are of a webhook alone.
//!
//!     get, post, webhook: {"status": 200, "headers": {"content-type": "…"}, "text": "…"}
//!     pieces:             {"status": 200, "pieces": 3, "bytes": 70000}, a get that is read piece by piece
//!     whole:              {"status": 200, "bytes": 70000}, a get that is read as a whole
//!     left:               {"status": 200}, a get of which one piece is read; the rest is left
//!
//! Without a response it is {"error": "denied"}, or prohibited, invalid, timed-out, failed, too-long, or
//! {"error": "status", "status": 404}; with 200 too.

const std = @import("std");
const guest = @import("guest");
const outbound = guest.outbound;

comptime {
    guest.handler(.{ .respond = serve });
}

const Order = struct {
    do: enum { get, post, webhook, pieces, whole, left },
    url: []const u8,
    headers: std.json.ArrayHashMap([]const u8) = .{},
    json: ?std.json.Value = null,
    secret: ?[]const u8 = null,
    attempts: u32 = 1,
    pause_ms: u32 = 1_000,
    timeout_ms: u32 = 30_000,
};

fn serve(sample: guest.Sample, _: guest.Context, _: *guest.Output) !?guest.Response {
    const order = try sample.json(Order);
    return done(order) catch |failed| {
        const kind = switch (failed) {
            error.Denied => "denied",
            error.Prohibited => "prohibited",
            error.Invalid => "invalid",
            error.TimedOut => "timed-out",
            error.Failed => "failed",
            error.TooLong => "too-long",
            error.Status => return try guest.Response.json(.{ .@"error" = "status", .status = outbound.lastStatus() }),
            error.OutOfMemory => return failed,
        };
        return try guest.Response.json(.{ .@"error" = kind });
    };
}

fn done(order: Order) outbound.Error!guest.Response {
    const answer = try sent(order);
    switch (order.do) {
        .pieces => {
            var pieces: usize, var bytes: usize = .{ 0, 0 };
            while (try answer.read()) |piece| {
                pieces += 1;
                bytes += piece.len;
            }
            return guest.Response.json(.{ .status = answer.status, .pieces = pieces, .bytes = bytes });
        },
        .whole => return guest.Response.json(.{ .status = answer.status, .bytes = (try answer.bytes()).len }),
        .left => {
            _ = try answer.read();
            return guest.Response.json(.{ .status = answer.status });
        },
        .get, .post, .webhook => {
            var headers: std.json.ObjectMap = .empty;
            for (answer.headers) |header| try headers.put(guest.allocator, header.name, .{ .string = header.value });
            const named: std.json.Value = .{ .object = headers };
            return guest.Response.json(.{ .status = answer.status, .headers = named, .text = try answer.bytes() });
        },
    }
}

fn sent(order: Order) outbound.Error!outbound.Response {
    if (order.do == .webhook) {
        const webhook: outbound.Webhook = .{
            .url = order.url,
            .secret = order.secret,
            .attempts = order.attempts,
            .pause_ms = order.pause_ms,
            .timeout_ms = order.timeout_ms,
        };
        return webhook.send(order.json);
    }
    var headers: std.ArrayList(guest.Header) = .empty;
    var given = order.headers.map.iterator();
    while (given.next()) |each| try headers.append(guest.allocator, .{ .name = each.key_ptr.*, .value = each.value_ptr.* });
    var request: outbound.Request = .{ .url = order.url, .timeout_ms = order.timeout_ms };
    if (order.do == .post) {
        request.method = "POST";
        if (order.json) |json| {
            request.body = try guest.toJson(json);
            try headers.append(guest.allocator, .{ .name = "content-type", .value = "application/json" });
        }
    }
    request.headers = headers.items;
    return request.send();
}

fn others(request: outbound.Request) outbound.Error!guest.Response {
    if (std.mem.endsWith(u8, request.url, "/denied")) return error.Denied;
    return .{ .status = 201, .content_type = request.method, .body = request.body };
}

test "an order is sent" {
    defer outbound.answerWith(null);
    outbound.answerWith(others);
    var output: guest.Output = .{};
    const posted = (try serve(.{ .body = "{\"do\": \"post\", \"url\": \"http://a\", \"json\": [1, {\"a\": null}]}" }, .{}, &output)).?;
    try std.testing.expectEqualStrings(
        "{\"status\":201,\"headers\":{\"content-type\":\"POST\"},\"text\":\"[1,{\\\"a\\\":null}]\"}",
        posted.body,
    );
    const denied = (try serve(.{ .body = "{\"do\": \"whole\", \"url\": \"http://a/denied\"}" }, .{}, &output)).?;
    try std.testing.expectEqualStrings("{\"error\":\"denied\"}", denied.body);
}
