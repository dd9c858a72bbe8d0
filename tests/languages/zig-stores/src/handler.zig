//! An application with routes, which keeps values and objects and submits jobs of its own.

const builtin = @import("builtin");
const std = @import("std");
const guest = @import("guest");
const Request = guest.Request;
const Response = guest.Response;

comptime {
    guest.handler(.{ .init = load, .routes = &routes });
}

const routes = [_]guest.Route{
    .get("/label", label, .{}),
    .get("/items/{id}", item, .{ .summary = "An item", .produces = "text/plain" }),
    .put("/items/{id}", keep, .{ .input = "{\"type\":\"object\"}" }),
    .delete("/items/{id}", remove, .{}),
    .get("/files/{*path}", file, .{}),
    .post("/visit/{name}", visit, .{}),
    .post("/values", values, .{}),
    .post("/refused/{kind}", refused, .{}),
    .post("/numbers", numbers, .{}),
    .post("/stream", stream, .{ .produces = "text/event-stream" }),
    .post("/sweep", sweep, .{}),
    .post("/fit", fit, .{}),
    .get("/fitted/{id}", fitted, .{}),
    .put("/pages/{name}", write, .{ .consumes = "text/plain" }),
    .get("/pages/{name}", read, .{}),
    .post("/objects", objects, .{}),
    .post("/large/{mebibytes}", large, .{}),
};

const kept = guest.kv.open("default");
const pages = guest.blobs.open("default");
var settings: struct { label: []const u8, starts: i64 = 0 } = .{ .label = "" };

fn load(metadata: []const u8) !void {
    const given = try std.json.parseFromSliceLeaky(struct { label: []const u8 }, std.heap.page_allocator, metadata, .{ .allocate = .alloc_always });
    // A handle that is open during `init` is closed at its end.
    settings = .{ .label = given.label, .starts = try kept.increment("starts", 1, .{}) };
}

fn label(_: Request) !Response {
    return Response.json(.{ .label = settings.label, .starts = settings.starts });
}

fn item(request: Request) !Response {
    return Response.text(try kept.get(try request.parameter("id")) orelse return .{ .status = 404 });
}

fn keep(request: Request) !Response {
    const body = try request.sample.json(struct { value: []const u8, ttl_ms: ?u64 = null });
    try kept.set(try request.parameter("id"), body.value, .{ .ttl_ms = body.ttl_ms });
    return .{ .status = 204 };
}

fn remove(request: Request) !Response {
    try kept.delete(try request.parameter("id"));
    return .{ .status = 204 };
}

fn file(request: Request) !Response {
    return Response.text(try request.parameter("path"));
}

fn visit(request: Request) !Response {
    return Response.json(.{ .visits = try kept.increment(try request.parameter("name"), 1, .{}) });
}

/// Each operation, from nothing to nothing.
fn values(_: Request) !Response {
    const shared = guest.kv.open("shared/all");
    for (try shared.keys("v/")) |key| try shared.delete(key);
    const added = [_]bool{ try shared.add("v/1", "a", .{ .ttl_ms = 60_000 }), try shared.add("v/1", "b", .{}) };
    const swapped = [_]bool{ try shared.swap("v/1", "b", "c"), try shared.swap("v/1", "a", "c"), try shared.swap("v/2", null, "") };
    try shared.setJson("v/3", .{ .size = 2.5 }, .{});
    const sum = try shared.increment("v/4", -3, .{ .ttl_ms = 60_000 });
    const first = try shared.page("v/", .{ .limit = 3 });
    const second = try shared.page("v/", .{ .limit = 3, .cursor = first.cursor });
    try shared.delete("v/1");
    return Response.json(.{
        .added = added,
        .swapped = swapped,
        .empty = try shared.get("v/2"),
        .size = (try shared.getJson(struct { size: f32 }, "v/3")).?.size,
        .sum = sum,
        .pages = [_][]const []const u8{ first.keys, second.keys },
        .more = [_]bool{ first.cursor != null, second.cursor != null },
        .gone = try shared.get("v/1") == null,
    });
}

fn refused(request: Request) !Response {
    const kind = try request.parameter("kind");
    const made = if (std.mem.eql(u8, kind, "bucket"))
        guest.kv.open("other").set("a", "", .{})
    else if (std.mem.eql(u8, kind, "key"))
        kept.set("", "", .{})
    else if (std.mem.eql(u8, kind, "value"))
        kept.set("a", try guest.allocator.alloc(u8, 2 << 20), .{})
    else if (std.mem.eql(u8, kind, "job"))
        ignored(guest.jobs.submit(.{ .path = "none" }))
    else
        return guest.invalid("no kind `{s}`", .{kind});
    made catch |failed| return Response.json(.{ .kind = @errorName(failed), .text = guest.lastError() });
    return Response.text("done");
}

fn ignored(made: anytype) @typeInfo(@TypeOf(made)).error_union.error_set!void {
    _ = try made;
}

fn numbers(_: Request) !Response {
    return Response.json(.{ .values = [_]f32{ 0.5, std.math.nan(f32), -std.math.inf(f32) } });
}

fn stream(request: Request) !?Response {
    for (0..2) |number| _ = try request.output.event(.{ .number = number });
    return null;
}

/// The same job each time that it is asked.
fn sweep(request: Request) !Response {
    const job = try guest.jobs.submit(.{ .path = "/fit", .body = request.sample.body, .idempotency_key = "one", .attempts = 1 });
    return Response.json(.{ .id = job.id, .attempts = job.attempts });
}

fn fit(request: Request) !Response {
    const order = try request.sample.json(struct { rate: f32 });
    return Response.json(.{ .loss = order.rate / 2, .kind = request.sample.content_type });
}

fn fitted(request: Request) !Response {
    const id = try request.parameter("id");
    const job = try guest.jobs.get(id) orelse return .{ .status = 404 };
    const answer = try guest.jobs.getAnswer(id) orelse return Response.json(.{ .state = job.state });
    const again = (try guest.jobs.cancel(id)).?;
    return Response.json(.{ .state = again.state, .status = job.status, .answer = try answer.json(std.json.Value) });
}

fn write(request: Request) !Response {
    try pages.set(try request.parameter("name"), request.sample.body);
    return .{ .status = 204 };
}

/// Sends an object as it is read.
fn read(request: Request) !?Response {
    var reader = try pages.reader(try request.parameter("name")) orelse return .{ .status = 404 };
    defer reader.deinit();
    var piece: [3]u8 = undefined;
    while (true) {
        const count = try reader.read(&piece);
        if (count == 0 or !try request.output.write(piece[0..count])) return null;
    }
}

/// Each operation, from nothing to nothing.
fn objects(_: Request) !Response {
    const shared = guest.blobs.open("shared/all");
    try shared.clear();
    try shared.set("o/1", "0123456789");
    var given_up = try shared.writer("o/1");
    try given_up.write("x");
    given_up.deinit();
    try shared.set("o/2", "");
    const names = (try shared.names()).len;
    const first = (try shared.firstNames(1)).len;
    const range = (try shared.getRange("o/1", 2, 4)).?;
    const size = (try shared.info("o/1")).?.size;
    try shared.delete("o/1");
    const refusal = if (shared.set("", "")) |_| "" else |_| guest.lastError();
    const ungranted = if (guest.blobs.open("other").get("a")) |_| "" else |_| guest.lastError();
    return Response.json(.{
        .names = names,
        .first = first,
        .range = range,
        .size = size,
        .empty = try shared.get("o/2"),
        .gone = try shared.get("o/1") == null,
        .refused = [_]bool{ refusal.len > 0, ungranted.len > 0 },
    });
}

/// An object that is larger than what the call keeps in memory.
fn large(request: Request) !Response {
    const mebibytes = try std.fmt.parseInt(u32, try request.parameter("mebibytes"), 10);
    const piece = try guest.allocator.alloc(u8, 1 << 20);
    var writer = try pages.writer("large");
    defer writer.deinit();
    for (0..mebibytes) |number| {
        @memset(piece, @truncate(number));
        try writer.write(piece);
    }
    try writer.finish();
    var reader = (try pages.reader("large")).?;
    defer reader.deinit();
    var sum: u64 = 0;
    while (true) {
        const count = try reader.read(piece);
        if (count == 0) break;
        for (piece[0..count]) |byte| sum += byte;
    }
    try pages.delete("large");
    return Response.json(.{ .size = reader.size, .mean = sum >> 20, .is_small = builtin.target.cpu.arch.isWasm() and @wasmMemorySize(0) < 512 });
}

test "visits are counted, and a job is submitted once" {
    defer guest.kv.forget();
    defer guest.jobs.forget();
    _ = try guest.answer(&routes, .{ .path = "/visit/ana" });
    const second = try guest.answer(&routes, .{ .path = "/visit/ana" });
    try std.testing.expectEqualStrings("{\"visits\":2}", second.body);
    for (0..2) |_| _ = try guest.answer(&routes, .{ .path = "/sweep", .sample = .{ .body = "{\"rate\": 1}" } });
    try std.testing.expectEqual(1, guest.jobs.submitted().len);
    defer guest.blobs.forget();
    _ = try guest.answer(&routes, .{ .method = "PUT", .path = "/pages/a", .sample = .{ .body = "0123456789" } });
    const page = try guest.answer(&routes, .{ .method = "GET", .path = "/pages/a" });
    try std.testing.expectEqualStrings("0123456789", page.body);
    try std.testing.expectEqual(405, (try guest.answer(&routes, .{ .path = "/label" })).status);
}
