//! Texts to tokens, as the body says, and back.

const std = @import("std");
const guest = @import("guest");
const tokenizer = guest.tokenizer;

comptime {
    guest.handler(.{ .init = load, .pre_inference = encode, .post_inference = answer });
}

const names = [_][]const u8{ "wordpiece", "bytelevel", "unigram", "fallback" };
var loaded: [names.len]tokenizer.Tokenizer = undefined;

fn load(_: []const u8) !void {
    const io = std.Io.Threaded.global_single_threaded.io();
    for (names, &loaded) |name, *words| {
        const path = try std.fmt.allocPrint(guest.allocator, "{s}.json", .{name});
        const file = try std.Io.Dir.cwd().readFileAlloc(io, path, guest.allocator, .limited(1 << 24));
        words.* = try tokenizer.Tokenizer.load(file);
    }
}

const Asked = struct {
    texts: []const []const u8,
    seconds: []const []const u8 = &.{},
    special_tokens: bool = true,
    padding: std.json.Value = .{ .string = "longest" },
    truncation: std.json.Value = .{ .string = "file" },
    offsets: bool = false,
};
const Order = struct { tokenizer: []const u8 = "", file: ?[]const u8 = null, asked: Asked };

/// The rows of a tensor of `[texts, length]`, or of `[texts, length, 2]`.
fn rows(comptime T: type, tensor: guest.Tensor) ![]const []const T {
    const values = std.mem.bytesAsSlice(T, @as([]align(8) const u8, @alignCast(tensor.data)));
    const made = try guest.allocator.alloc([]const T, @intCast(tensor.shape[0]));
    const width: usize = @intCast(tensor.shape[1]);
    for (made, 0..) |*row, at| row.* = values[at * width ..][0..width];
    return made;
}

fn encode(sample: guest.Sample, _: guest.Context) ![]const guest.Tensor {
    const order = try sample.json(Order);
    if (order.file) |file| {
        const words = try tokenizer.Tokenizer.load(file);
        defer words.deinit();
        return answered(words, order.asked);
    }
    for (names, loaded) |name, words| {
        if (std.mem.eql(u8, name, order.tokenizer)) return answered(words, order.asked);
    }
    return guest.invalid("no tokenizer", .{});
}

fn answered(words: tokenizer.Tokenizer, asked: Asked) ![]const guest.Tensor {
    const padding: tokenizer.Padding = switch (asked.padding) {
        .integer => |number| .{ .to = @intCast(number) },
        else => |name| if (std.mem.eql(u8, name.string, "off")) .off else if (std.mem.eql(u8, name.string, "file")) .as_file else .longest,
    };
    const truncation: tokenizer.Truncation = switch (asked.truncation) {
        .integer => |number| .{ .to = @intCast(number) },
        else => |name| if (std.mem.eql(u8, name.string, "off")) .off else .as_file,
    };
    const made = try words.encode(asked.texts, asked.seconds, .{
        .special_tokens = asked.special_tokens,
        .padding = padding,
        .truncation = truncation,
        .offsets = if (asked.offsets) .characters else null,
    });
    const ids = try rows(i64, made.ids);
    const token = words.tokenOf(5) orelse "";
    if (words.idOf(token) != 5 or words.size() <= 100 or words.tokenOf(1 << 31) != null) return guest.internal("no token 5", .{});
    const said = .{
        .ids = ids,
        .mask = try rows(i64, made.mask),
        .types = try rows(i64, made.types),
        .text = if (ids.len == 0) "" else try words.decode(ids[0], true),
        .offsets = if (asked.offsets) try rows([2]i64, made.offsets) else @as(?[]const []const [2]i64, null),
    };
    const body = try std.json.Stringify.valueAlloc(guest.allocator, said, .{ .emit_null_optional_fields = false });
    return guest.respond(.{ .content_type = "application/json", .body = body });
}

fn answer(_: []const guest.Tensor, _: guest.Context) !guest.Response {
    return .{};
}
