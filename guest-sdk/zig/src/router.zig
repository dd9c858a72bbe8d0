//! Applications as a table of routes. Each request is led to the function of the first route that fits it;
//! without one the response is 404, or 405 with `allow` if the path is there for other methods. The component
//! exports the table as `operations`, which the host shows in `/openapi.json`. Routes of batches and of
//! WebSockets have exports of their own, if there are some.

const std = @import("std");
const abi = @import("abi.zig");
const batches = @import("batch.zig");
const sockets = @import("socket.zig");
const guest = @import("guest.zig");
const Response = guest.Response;

/// A method of a path, and the function that serves it.
pub const Route = struct {
    /// In capitals. `GET` serves `HEAD` too.
    method: []const u8,
    /// Below the endpoint's path: `/items/{id}` has a parameter, which is one segment; `/files/{*path}` has
    /// one that is all the rest.
    path: []const u8,
    function: *const fn (Request) anyerror!?Response,
    said: Said = .{},
    /// The same of several requests, if it has that.
    together: ?batches.Together = null,
    /// In place of serving requests.
    talk: ?sockets.Talk = null,

    /// What `/openapi.json` says of a route besides.
    pub const Said = struct {
        summary: []const u8 = "",
        /// The media type of the body; without, it is JSON, and none of a `GET`.
        consumes: ?[]const u8 = null,
        /// JSON Schema of the body, as JSON text.
        input: ?[]const u8 = null,
        /// The media type of the response: `text/event-stream` of a stream.
        produces: []const u8 = "",
        /// JSON Schema of the response, as JSON text.
        output: ?[]const u8 = null,
    };

    pub fn get(path: []const u8, comptime function: anytype, said: Said) Route {
        return on("GET", path, function, said);
    }

    pub fn post(path: []const u8, comptime function: anytype, said: Said) Route {
        return on("POST", path, function, said);
    }

    pub fn put(path: []const u8, comptime function: anytype, said: Said) Route {
        return on("PUT", path, function, said);
    }

    pub fn delete(path: []const u8, comptime function: anytype, said: Said) Route {
        return on("DELETE", path, function, said);
    }

    /// Serves what is posted together, as many requests as have come when the host calls: the function takes
    /// a list of them, `[]guest.Member`, and answers each. The path has no parameters.
    pub fn batch(path: []const u8, comptime function: anytype, said: Said) Route {
        const Called = struct {
            const together = batches.together(function);

            fn alone(request: Request) anyerror!?Response {
                return try batches.only(together, request.sample, request.context);
            }
        };
        var route: Route = .{ .method = "POST", .path = path, .function = Called.alone, .said = said };
        route.together = Called.together;
        return route;
    }

    /// Serves WebSockets: the function takes a `*guest.Upgrade`.
    pub fn websocket(path: []const u8, comptime function: anytype) Route {
        const Called = struct {
            fn refused(request: Request) anyerror!?Response {
                return try nothing(request.context);
            }
        };
        return .{ .method = "", .path = path, .function = Called.refused, .talk = sockets.talking(function) };
    }

    /// A route of any method. The function takes a `Request`; it returns a `Response`, or null if it has
    /// answered by the request's output, and may fail.
    pub fn on(method: []const u8, path: []const u8, comptime function: anytype, said: Said) Route {
        const called = abi.fallible(Request, ?Response, function);
        return .{ .method = method, .path = path, .function = called, .said = said };
    }

    pub fn consumes(self: Route) []const u8 {
        return self.said.consumes orelse if (is(self.method, "GET")) "" else "application/json";
    }
};

/// One request, and the way to answer it in pieces.
pub const Request = struct {
    sample: guest.Sample,
    context: guest.Context,
    output: *guest.Output,
    parameters: []const guest.Header = &.{},

    /// The part of the path that stands where the route has `{name}`, or `{*name}`.
    pub fn parameter(self: Request, name: []const u8) error{Internal}![]const u8 {
        return parameterOf(self.parameters, name);
    }
};

pub fn parameterOf(parameters: []const guest.Header, name: []const u8) error{Internal}![]const u8 {
    for (parameters) |own| {
        if (is(own.name, name)) return own.value;
    }
    return guest.internal("the route has no parameter `{s}`", .{name});
}

/// The table as the functions `respond`, `respond_all` and `websocket`.
pub fn Serving(comptime routes: []const Route) type {
    return struct {
        pub fn respondAll(members: []guest.Member) anyerror!void {
            return ledTogether(routes, members);
        }

        pub fn websocket(upgrade: *guest.Upgrade) anyerror!void {
            return ledToTalk(routes, upgrade);
        }

        pub fn respond(sample: guest.Sample, context: guest.Context, output: *guest.Output) anyerror!?Response {
            return led(routes, .{ .sample = sample, .context = context, .output = output });
        }
    };
}

/// The paths of routes that serve requests together.
pub fn batchPaths(comptime routes: []const Route) []const []const u8 {
    var paths: []const []const u8 = &.{};
    for (routes) |route| {
        if (route.together != null) paths = paths ++ .{route.path};
    }
    return paths;
}

pub fn hasSockets(comptime routes: []const Route) bool {
    for (routes) |route| {
        if (route.talk != null) return true;
    }
    return false;
}

/// For tests: what a request gets, whole, or the error of its function:
/// `guest.answer(&routes, .{ .method = "GET", .path = "/a" })`.
pub fn answer(routes: []const Route, given: guest.Context.Given) anyerror!Response {
    var output: guest.Output = .{};
    const made = led(routes, .{ .sample = given.sample, .context = .{ .given = given }, .output = &output });
    const whole = output.over(made) catch |failed| return switch (failed) {
        error.InvalidInput => refusal(.{ .given = given }, 400, "invalid_input", guest.lastError()),
        error.Respond => abi.answered,
        else => failed,
    };
    return whole orelse output.recorded;
}

/// For tests: what each request of a batch gets, whole, or the error of its function:
/// `guest.answerAll(&routes, "/sums", &.{ .{ .body = "[1]" }, .{ .body = "[2]" } })`.
pub fn answerAll(
    routes: []const Route,
    path: []const u8,
    samples: []const guest.Sample,
) anyerror![]const anyerror!Response {
    const members = try guest.allocator.alloc(guest.Member, samples.len);
    for (members, samples) |*to, from| to.* = .{
        .sample = from,
        .context = .{ .given = .{ .path = path, .sample = from } },
    };
    try ledTogether(routes, members);
    const answers = try guest.allocator.alloc(anyerror!Response, samples.len);
    for (answers, members) |*to, from| to.* = from.made catch |failed| switch (failed) {
        error.InvalidInput => refusal(from.context, 400, "invalid_input", from.text),
        else => failed,
    };
    return answers;
}

fn ledTogether(routes: []const Route, members: []guest.Member) anyerror!void {
    const path = if (members.len == 0) "" else members[0].context.path();
    for (routes) |route| {
        if (is(route.path, path)) if (route.together) |together| return together(members);
    }
    return guest.internal("no function serves requests to this path together", .{});
}

fn ledToTalk(routes: []const Route, upgrade: *guest.Upgrade) anyerror!void {
    const path = upgrade.context.path();
    for (routes) |route| {
        const talk = route.talk orelse continue;
        upgrade.parameters = try fitted(route.path, path) orelse continue;
        return talk(upgrade);
    }
    return upgrade.refuse(try nothing(upgrade.context));
}

fn led(routes: []const Route, request: Request) anyerror!?Response {
    const method, const path = .{ request.context.method(), request.context.path() };
    var allowed: std.ArrayList([]const u8) = .empty;
    for (routes) |route| {
        if (route.talk != null) continue;
        const parameters = try fitted(route.path, path) orelse continue;
        if (is(route.method, method) or is(route.method, "GET") and is(method, "HEAD")) {
            var own = request;
            own.parameters = parameters;
            return route.function(own);
        }
        if (!has(allowed.items, route.method)) try allowed.append(guest.allocator, route.method);
    }
    if (allowed.items.len == 0) return try nothing(request.context);
    if (has(allowed.items, "GET") and !has(allowed.items, "HEAD")) try allowed.append(guest.allocator, "HEAD");
    const text = "the path is there for other methods";
    var refused = try refusal(request.context, 405, "method_not_allowed", text);
    const methods = try std.mem.join(guest.allocator, ", ", allowed.items);
    refused.headers = try guest.allocator.dupe(guest.Header, &.{.{ .name = "allow", .value = methods }});
    return refused;
}

fn nothing(context: guest.Context) error{OutOfMemory}!Response {
    return refusal(context, 404, "not_found", "there is nothing at this path");
}

/// An error in the form of the host's own. Without a context it is not known whose it is.
pub fn refusal(
    context: ?guest.Context,
    status: u16,
    code: []const u8,
    text: []const u8,
) error{OutOfMemory}!Response {
    const stage = "pre_inference";
    var response = if (context) |known|
        try Response.json(.{ .@"error" = text, .code = code, .stage = stage, .request_id = known.requestId() })
    else
        try Response.json(.{ .@"error" = text, .code = code, .stage = stage });
    response.status = status;
    return response;
}

/// The parameters of a path, decoded, if it fits the pattern.
fn fitted(pattern: []const u8, path: []const u8) error{OutOfMemory}!?[]const guest.Header {
    var found: std.ArrayList(guest.Header) = .empty;
    var segments = std.mem.splitScalar(u8, path[@min(1, path.len)..], '/');
    var own_segments = std.mem.splitScalar(u8, pattern[@min(1, pattern.len)..], '/');
    while (own_segments.next()) |own| {
        const is_parameter = own.len > 2 and own[0] == '{' and own[own.len - 1] == '}';
        if (is_parameter and own[1] == '*') {
            if (segments.peek() == null) return null;
            const rest = try decoded(segments.rest()) orelse return null;
            try found.append(guest.allocator, .{ .name = own[2 .. own.len - 1], .value = rest });
            return found.items;
        }
        const segment = segments.next() orelse return null;
        if (is_parameter) {
            if (segment.len == 0) return null;
            const value = try decoded(segment) orelse return null;
            try found.append(guest.allocator, .{ .name = own[1 .. own.len - 1], .value = value });
        } else if (!is(own, segment)) {
            return null;
        }
    }
    return if (segments.next() == null) found.items else null;
}

/// What the percent signs stand for; null if it is no UTF-8, as nothing has such a name.
fn decoded(text: []const u8) error{OutOfMemory}!?[]const u8 {
    const made = std.Uri.percentDecodeInPlace(try guest.allocator.dupe(u8, text));
    return if (std.unicode.utf8ValidateSlice(made)) made else null;
}

fn is(text: []const u8, expected: []const u8) bool {
    return std.mem.eql(u8, text, expected);
}

fn has(texts: []const []const u8, wanted: []const u8) bool {
    for (texts) |text| {
        if (is(text, wanted)) return true;
    }
    return false;
}

test "paths fit patterns" {
    const Case = struct { []const u8, []const u8, ?[]const []const u8 };
    for ([_]Case{
        .{ "/", "/", &.{} },
        .{ "/a", "/a", &.{} },
        .{ "/a", "/a/", null },
        .{ "/a", "/", null },
        .{ "/a/b", "/a", null },
        .{ "/items/{id}", "/items/7", &.{"7"} },
        .{ "/items/{id}", "/items/a%20b%2Fc", &.{"a b/c"} },
        .{ "/items/{id}", "/items/100%", &.{"100%"} },
        .{ "/items/{id}", "/items/", null },
        .{ "/items/{id}", "/items/%ff", null },
        .{ "/items/{id}/tags/{tag}", "/items/7/tags/x", &.{ "7", "x" } },
        .{ "/items/{id}", "/items/7/tags", null },
        .{ "/files/{*path}", "/files/a/b.txt", &.{"a/b.txt"} },
        .{ "/files/{*path}", "/files/", &.{""} },
        .{ "/files/{*path}", "/files", null },
    }) |case| {
        const found = try fitted(case[0], case[1]);
        try std.testing.expectEqual(case[2] == null, found == null);
        for (case[2] orelse &.{}, found orelse &.{}) |expected, own| try std.testing.expectEqualStrings(expected, own.value);
    }
}

const table = [_]Route{
    .get("/items/{id}", struct {
        fn call(request: Request) !Response {
            return Response.text(try request.parameter("id"));
        }
    }.call, .{ .summary = "An item" }),
    .put("/items/{id}", struct {
        fn call(request: Request) !Response {
            const item = try request.sample.json(struct { size: f32 });
            return Response.json(.{ .id = try request.parameter("id"), .size = item.size });
        }
    }.call, .{}),
    .post("/stream", struct {
        fn call(request: Request) !?Response {
            _ = try request.output.event(.{ .number = 1 });
            return null;
        }
    }.call, .{ .produces = "text/event-stream" }),
    .post("/teapot", struct {
        fn call(_: Request) Response {
            return .{ .status = 418 };
        }
    }.call, .{}),
    .on("PATCH", "/items/{name}", struct {
        fn call(request: Request) !Response {
            return Response.text(try request.parameter("id"));
        }
    }.call, .{}),
    .websocket("/rooms/{room}", struct {
        fn call(upgrade: *guest.Upgrade) !void {
            const socket = try upgrade.accept(null);
            _ = try socket.sendText(try upgrade.parameter("room"));
        }
    }.call),
    .batch("/sums", struct {
        fn call(members: []guest.Member) void {
            for (members) |*member| member.answer(sum(member.sample, members.len));
        }

        fn sum(sample: guest.Sample, of: usize) !Response {
            var total: f64 = 0;
            for (try sample.json([]const f64)) |number| total += number;
            if (total < 0) return error.Overflow;
            return Response.json(.{ .sum = total, .of = of });
        }
    }.call, .{ .summary = "Sums" }),
};

test "requests are led to their functions, and refused" {
    const item = try answer(&table, .{ .method = "HEAD", .path = "/items/a%20b" });
    try std.testing.expectEqualStrings("a b", item.body);
    const kept = try answer(&table, .{ .method = "PUT", .path = "/items/7", .sample = .{ .body = "{\"size\": 2}" } });
    try std.testing.expectEqualStrings("{\"id\":\"7\",\"size\":2}", kept.body);
    const invalid = try answer(&table, .{ .method = "PUT", .path = "/items/7", .sample = .{ .body = "[" } });
    try std.testing.expectEqual(400, invalid.status);
    const stream = try answer(&table, .{ .path = "/stream" });
    try std.testing.expectEqualStrings("data: {\"number\":1}\n\n", stream.body);
    try std.testing.expectEqual(418, (try answer(&table, .{ .path = "/teapot" })).status);
    try std.testing.expectError(error.Internal, answer(&table, .{ .method = "PATCH", .path = "/items/7" }));
    try std.testing.expectEqualStrings("the route has no parameter `id`", guest.lastError());

    const none = try answer(&table, .{ .path = "/items" });
    try std.testing.expectEqual(404, none.status);
    const rest = ",\"stage\":\"pre_inference\",\"request_id\":\"test\"}";
    const nothing_there = "{\"error\":\"there is nothing at this path\",\"code\":\"not_found\"" ++ rest;
    try std.testing.expectEqualStrings(nothing_there, none.body);
    const other = try answer(&table, .{ .path = "/items/7" });
    try std.testing.expectEqual(405, other.status);
    try std.testing.expectEqualStrings("GET, PUT, PATCH, HEAD", other.headers[0].value);
    try std.testing.expectEqualStrings(
        "{\"error\":\"the path is there for other methods\",\"code\":\"method_not_allowed\"" ++ rest,
        other.body,
    );
    try std.testing.expectEqual(404, (try answer(&table, .{ .method = "GET", .path = "/rooms/a" })).status);
    try std.testing.expectEqualStrings("", table[0].consumes());
    try std.testing.expectEqualStrings("application/json", table[1].consumes());
}

test "requests of a batch are led to their function together" {
    const answers = try answerAll(&table, "/sums", &.{
        .{ .body = "[1, 2]" },
        .{ .body = "{}" },
        .{ .body = "[-1]" },
        .{ .body = "[4]" },
    });
    try std.testing.expectEqualStrings("{\"sum\":3,\"of\":4}", (try answers[0]).body);
    try std.testing.expectEqual(400, (try answers[1]).status);
    const text = "{\"error\":\"the body is another json than expected: ";
    try std.testing.expect(std.mem.startsWith(u8, (try answers[1]).body, text));
    try std.testing.expectError(error.Overflow, answers[2]);
    try std.testing.expectEqualStrings("{\"sum\":4,\"of\":4}", (try answers[3]).body);
    const alone = try answer(&table, .{ .path = "/sums", .sample = .{ .body = "[1]" } });
    try std.testing.expectEqualStrings("{\"sum\":1,\"of\":1}", alone.body);
    const wrong = try answer(&table, .{ .path = "/sums", .sample = .{ .body = "" } });
    try std.testing.expectEqual(400, wrong.status);
    try std.testing.expectError(error.Internal, answerAll(&table, "/stream", &.{.{ .body = "" }}));
    try std.testing.expectEqualDeep(@as([]const []const u8, &.{"/sums"}), comptime batchPaths(&table));
}

test "handshakes are led to their functions" {
    const room = try guest.converse(&table, .{ .path = "/rooms/a%20b" });
    try std.testing.expectEqualStrings("a b", room.sent[0].text);
    const none = try guest.converse(&table, .{ .path = "/items/7" });
    try std.testing.expectEqual(404, none.refusal.?.status);
    try std.testing.expect(comptime hasSockets(&table) and !hasSockets(table[0..2]));
}
