//! Computes what the body says.

const std = @import("std");
const guest = @import("guest");
const tensor = guest.tensor;
const Tensor = guest.Tensor;
const Value = std.json.Value;

comptime {
    guest.handler(.{ .pre_inference = compute, .post_inference = answer });
}

const Order = struct {
    operation: tensor.Operation,
    tensors: []const struct { []const u8, []const u64, []const Value },
    values: []const f64,
};

fn named(name: []const u8) guest.Datatype {
    var lower: [8]u8 = undefined;
    return std.meta.stringToEnum(guest.Datatype, std.ascii.lowerString(&lower, name)).?;
}

fn element(comptime T: type, value: Value) T {
    return switch (value) {
        .bool => |is| if (T == bool) is else @intFromBool(is),
        .integer => |whole| switch (@typeInfo(T)) {
            .int => @intCast(whole),
            .float => @floatFromInt(whole),
            else => unreachable,
        },
        .float => |float| if (@typeInfo(T) == .float) @floatCast(float) else unreachable,
        else => unreachable,
    };
}

fn read(name: []const u8, shape: []const u64, values: []const Value) !Tensor {
    switch (named(name)) {
        .bytes, .bf16 => return guest.invalid("of no datatype that is read", .{}),
        inline else => |datatype| {
            const T = datatype.Element();
            const made = try guest.allocator.alloc(T, values.len);
            for (made, values) |*to, from| to.* = element(T, from);
            return Tensor.of(T, made, shape);
        },
    }
}

fn compute(sample: guest.Sample, _: guest.Context) ![]const Tensor {
    const order = try sample.json(Order);
    const given = try guest.allocator.alloc(Tensor, order.tensors.len);
    for (given, order.tensors) |*to, from| to.* = try read(from[0], from[1], from[2]);
    var body: std.Io.Writer.Allocating = .init(guest.allocator);
    var json: std.json.Stringify = .{ .writer = &body.writer };
    try json.beginArray();
    for (try called(order, given)) |each| {
        try json.beginArray();
        var upper: [8]u8 = undefined;
        try json.write(std.ascii.upperString(&upper, @tagName(each.datatype)));
        try json.write(each.shape);
        switch (each.datatype) {
            .bytes, .bf16 => return guest.internal("of no datatype that is written", .{}),
            inline .uint8 => {
                try json.beginArray();
                for (each.data) |value| try json.write(value);
                try json.endArray();
            },
            inline else => |datatype| try json.write(try each.values(datatype.Element())),
        }
        try json.endArray();
    }
    try json.endArray();
    return guest.respond(.{ .content_type = "application/json", .body = body.written() });
}

fn called(order: Order, given: []const Tensor) ![]const Tensor {
    const last = if (order.values.len == 0) 0 else order.values[order.values.len - 1];
    const axis: i32 = @intFromFloat(last);
    const made = switch (order.operation) {
        .argmax => try tensor.argmax(given[0], axis),
        .softmax => try tensor.softmax(given[0], axis),
        .normalise => try tensor.normalise(given[0], axis),
        .mean_pool => try tensor.meanPool(given[0], given[1]),
        .concat => try tensor.concat(given, axis),
        .gather => try tensor.gather(given[0], given[1], axis),
        .top_k => {
            const top = try tensor.topK(given[0], @intFromFloat(order.values[0]), axis);
            return guest.allocator.dupe(Tensor, &.{ top.values, top.places });
        },
        .suppress => try tensor.suppress(given[0], given[1], .{
            .classes = if (given.len == 3) given[2] else null,
            .most_overlap = @floatCast(order.values[0]),
            .least_score = @floatCast(order.values[1]),
            .most = @intFromFloat(last),
        }),
    };
    return guest.allocator.dupe(Tensor, &.{made});
}

fn answer(_: []const Tensor, _: guest.Context) !guest.Response {
    return .{};
}
