//! Names an iris from four measurements.
//!
//! In:  `{"sepal_length": 5.2, "sepal_width": 3.6, "petal_length": 1.4, "petal_width": 0.3}`, in centimetres.
//! Out: `{"class_label": "setosa", "class_index": 0, "probabilities": [0.98, 0.02, 0.0]}`.
//!
//! The model takes `[rows, 4]` floats; its output `probabilities` holds one for each class.

const std = @import("std");
const guest = @import("guest");

comptime {
    guest.handler(.{ .init = load, .pre_inference = prepare, .post_inference = answer });
}

const Settings = struct { labels: []const []const u8 };
var settings: Settings = .{ .labels = &.{} };

/// Runs once, when the handler is loaded. `metadata` is the endpoint's in modelhost.toml.
fn load(metadata: []const u8) !void {
    // Not the SDK's allocator: this stays.
    settings = try std.json.parseFromSliceLeaky(Settings, std.heap.page_allocator, metadata, .{ .allocate = .alloc_always });
}

const Flower = struct { sepal_length: f32, sepal_width: f32, petal_length: f32, petal_width: f32 };

/// From the request to the model's input.
fn prepare(sample: guest.Sample, _: guest.Context) ![]const guest.Tensor {
    const flower = try sample.numbers(Flower);
    const row = try guest.allocator.dupe(
        f32,
        &.{ flower.sepal_length, flower.sepal_width, flower.petal_length, flower.petal_width },
    );
    return guest.allocator.dupe(guest.Tensor, &.{try guest.Tensor.of(f32, row, &.{ 1, 4 })});
}

/// From the model's outputs to the response.
fn answer(outputs: []const guest.Tensor, _: guest.Context) !guest.Response {
    const probabilities = try (try guest.named(outputs, "probabilities")).values(f32);
    const best = guest.argmax(probabilities) orelse return guest.internal("no probabilities", .{});
    if (best >= settings.labels.len) return guest.internal("more classes than labels", .{});
    return guest.Response.json(.{
        .class_label = settings.labels[best],
        .class_index = best,
        .probabilities = probabilities,
    });
}

test "a flower becomes one row, and a missing measurement is named" {
    const body = "{\"sepal_length\": 5.2, \"sepal_width\": 3.6, \"petal_length\": 1.4, \"petal_width\": 0.3}";
    const tensors = try prepare(.{ .body = body }, .{});
    try std.testing.expectEqualSlices(f32, &.{ 5.2, 3.6, 1.4, 0.3 }, try tensors[0].values(f32));
    try std.testing.expectError(error.InvalidInput, prepare(.{ .body = "{\"sepal_length\": 1}" }, .{}));
    try std.testing.expectEqualStrings("missing field `sepal_width`", guest.lastError());
}

test "the largest probability names the flower" {
    try load("{\"labels\": [\"a\", \"b\"]}");
    const outputs = [_]guest.Tensor{.{
        .name = "probabilities",
        .datatype = .fp32,
        .shape = &.{ 1, 2 },
        .data = std.mem.sliceAsBytes(&[_]f32{ 0.25, 0.75 }),
    }};
    const response = try answer(&outputs, .{});
    try std.testing.expectEqualStrings(
        "{\"class_label\":\"b\",\"class_index\":1,\"probabilities\":[0.25,0.75]}",
        response.body,
    );
}
