//! Pictures to bytes, as a header says.

const std = @import("std");
const guest = @import("guest");
const image = guest.image;

comptime {
    guest.handler(.{ .pre_inference = prepare, .post_inference = answer });
}

const Said = struct {
    size: ?[2]u32 = null,
    fit: image.Fit = .stretch,
    filter: image.Filter = .bilinear,
    colours: image.Colours = .rgb,
    layout: image.Layout = .planes,
    datatype: []const u8 = "FP32",
    mean: []const f32 = &.{},
};

fn prepare(sample: guest.Sample, context: guest.Context) ![]const guest.Tensor {
    const header: guest.Sample = .{ .body = context.header("x-preparation") orelse "{}" };
    const said = try header.json(Said);
    _ = try image.inspect(sample.body);
    const picture = try image.prepare(sample.body, .{
        .size = said.size,
        .fit = said.fit,
        .filter = said.filter,
        .colours = said.colours,
        .layout = said.layout,
        .datatype = if (std.mem.eql(u8, said.datatype, "UINT8")) .uint8 else .fp32,
        .mean = said.mean,
    });
    return guest.allocator.dupe(guest.Tensor, &.{picture.tensor});
}

fn answer(outputs: []const guest.Tensor, _: guest.Context) !guest.Response {
    const shape = try std.json.Stringify.valueAlloc(guest.allocator, outputs[0].shape, .{});
    const headers = try guest.allocator.dupe(guest.Header, &.{.{ .name = "x-shape", .value = shape }});
    return .{ .headers = headers, .body = outputs[0].data };
}
