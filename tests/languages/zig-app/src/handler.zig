//! An application with a stream: each number is an event, sent while the next one is made.

const std = @import("std");
const guest = @import("guest");

comptime {
    guest.handler(.{ .init = load, .respond = serve });
}

const Settings = struct { label: []const u8 };
var settings: Settings = .{ .label = "" };

fn load(metadata: []const u8) !void {
    // Not the SDK's allocator: this stays.
    settings = try std.json.parseFromSliceLeaky(Settings, std.heap.page_allocator, metadata, .{ .allocate = .alloc_always });
}

fn is(text: []const u8, expected: []const u8) bool {
    return std.mem.eql(u8, text, expected);
}

fn serve(sample: guest.Sample, context: guest.Context, output: *guest.Output) !?guest.Response {
    const path = context.path();
    if (is(context.method(), "GET") and is(path, "/label")) return try guest.Response.json(settings);
    if (is(path, "/stream") or is(path, "/breaks")) {
        const order = try sample.json(struct { to: u32 });
        for (0..order.to) |number| {
            if (!try output.event(.{ .number = number })) break;
        }
        return if (is(path, "/breaks")) guest.internal("as asked", .{}) else null;
    }
    if (is(path, "/scores")) {
        const order = try sample.json(struct { model: []const u8 });
        const flower = try guest.Tensor.of(f32, &.{ 5.2, 3.6, 1.4, 0.3 }, &.{ 1, 4 });
        const outputs = try guest.models.infer(order.model, &.{flower});
        return try guest.Response.json(.{ .scores = try outputs[outputs.len - 1].values(f32) });
    }
    if (is(path, "/works")) {
        var started = guest.Response.text("started");
        started.status = 202;
        try output.send(started);
        std.debug.print("worked\n", .{});
        return null;
    }
    var none = guest.Response.text("no such path");
    none.status = 404;
    return none;
}
