//! Values as JSON text: std.json's, but for NaN and infinities, which JSON has not. They are `null`, as in
//! the SDKs of other languages. What a type's own `jsonStringify` writes is left to it.

const std = @import("std");
const Stringify = std.json.Stringify;

/// The text of a value.
pub fn alloc(allocator: std.mem.Allocator, value: anytype) error{OutOfMemory}![]u8 {
    var text: std.Io.Writer.Allocating = .init(allocator);
    defer text.deinit();
    var stream: Stringify = .{ .writer = &text.writer };
    write(&stream, value) catch return error.OutOfMemory;
    return text.toOwnedSlice();
}

fn write(stream: *Stringify, value: anytype) Stringify.Error!void {
    const T = @TypeOf(value);
    if (T == std.json.Value) return writeParsed(stream, value);
    switch (@typeInfo(T)) {
        .float => try if (std.math.isFinite(value)) stream.write(value) else stream.write(null),
        .optional => try if (value) |it| write(stream, it) else stream.write(null),
        .array => |it| try writeList(it.child, stream, &value),
        .vector => |it| try writeList(it.child, stream, &@as([it.len]it.child, value)),
        .pointer => |pointer| switch (pointer.size) {
            .one => switch (@typeInfo(pointer.child)) {
                .array => |it| try writeList(it.child, stream, value),
                else => try write(stream, value.*),
            },
            .slice => try writeList(pointer.child, stream, value),
            else => try stream.write(value),
        },
        .@"struct" => |it| {
            if (std.meta.hasFn(T, "jsonStringify")) return stream.write(value);
            try if (it.is_tuple) stream.beginArray() else stream.beginObject();
            inline for (it.fields) |field| {
                if (field.type == void) continue;
                if (!it.is_tuple) try stream.objectField(field.name);
                try write(stream, @field(value, field.name));
            }
            try if (it.is_tuple) stream.endArray() else stream.endObject();
        },
        .@"union" => |it| {
            if (std.meta.hasFn(T, "jsonStringify") or it.tag_type == null) return stream.write(value);
            try stream.beginObject();
            switch (value) {
                inline else => |held, tag| {
                    try stream.objectField(@tagName(tag));
                    try if (@TypeOf(held) == void) write(stream, struct {}{}) else write(stream, held);
                },
            }
            try stream.endObject();
        },
        else => try stream.write(value),
    }
}

fn writeList(comptime T: type, stream: *Stringify, items: []const T) Stringify.Error!void {
    // A text, or what std.json makes of bytes that are none.
    if (T == u8) return stream.write(items);
    try stream.beginArray();
    for (items) |item| try write(stream, item);
    try stream.endArray();
}

fn writeParsed(stream: *Stringify, value: std.json.Value) Stringify.Error!void {
    switch (value) {
        .float => |it| try write(stream, it),
        .array => |it| try write(stream, it.items),
        .object => |object| {
            try stream.beginObject();
            var fields = object.iterator();
            while (fields.next()) |field| {
                try stream.objectField(field.key_ptr.*);
                try writeParsed(stream, field.value_ptr.*);
            }
            try stream.endObject();
        },
        else => try stream.write(value),
    }
}

test "what is no number in JSON is null, and all else is as std.json writes it" {
    const allocator = std.testing.allocator;
    const nan, const infinite = .{ std.math.nan(f32), std.math.inf(f64) };
    const text = try alloc(allocator, .{ nan, &[_]f64{ 0.5, -infinite }, .{ .a = @as(?f32, nan), .b = "nan" }, std.json.Value{ .float = nan } });
    defer allocator.free(text);
    try std.testing.expectEqualStrings("[null,[0.5,null],{\"a\":null,\"b\":\"nan\"},null]", text);

    const Kind = enum { small };
    const Shape = union(enum) { round: f32, none };
    const value = .{
        .text = "é\"",
        .bytes = [_]u8{ 1, 255 },
        .words = [_][]const u8{ "a", "b" },
        .vector = @Vector(2, f32){ 1, 2 },
        .kind = Kind.small,
        .shapes = [_]Shape{ .{ .round = 2.5 }, .none },
        .missing = @as(?u8, null),
        .boxed = &@as(i64, -7),
        .literal = 1.5,
        .nothing = {},
    };
    const made = try alloc(allocator, value);
    defer allocator.free(made);
    const expected = try Stringify.valueAlloc(allocator, value, .{});
    defer allocator.free(expected);
    try std.testing.expectEqualStrings(expected, made);
}
