//! Texts to the numbers that a model takes, and back, by the library `tokenizer`: a component of its own, which
//! `modelhost build` puts into the handler's, `[build]` with `with = ["tokenizer"]` in modelhost.toml.
//!
//! A text that is too long is the caller's: 400 with the reason. In a test there is no library: `answerWith` says which tokens
//! texts have.

const std = @import("std");
const abi = @import("abi.zig");
const guest = @import("guest.zig");

/// What makes rows as long as each other: nothing, the longest row, a number of tokens, or what the file says.
pub const Padding = union(enum) { off, longest, to: u32, as_file };
/// Most tokens of a row, the special ones among them.
pub const Truncation = union(enum) { off, to: u32, as_file };
/// What the places of tokens in a text are counted in.
pub const Unit = enum(u8) { bytes, characters };

pub const Options = struct {
    /// Adds the tokens that the model expects around texts.
    special_tokens: bool = true,
    padding: Padding = .longest,
    truncation: Truncation = .as_file,
    /// Asks for the places of tokens.
    offsets: ?Unit = null,
};

/// Rows of tokens, a row for each text: INT64 tensors `[texts, length]`, with the names that most models give their inputs.
pub const Encoding = struct {
    ids: guest.Tensor,
    mask: guest.Tensor,
    types: guest.Tensor,
    /// `[texts, length, 2]`; without elements if not asked for.
    offsets: guest.Tensor,
};

const Failed = error{ InvalidInput, Internal };
const Answer = *const fn (texts: []const []const u8, seconds: []const []const u8, options: Options) Failed!Encoding;
var answer: ?Answer = null;

/// For tests: which tokens texts have.
pub fn answerWith(function: ?Answer) void {
    answer = function;
}

/// A tokenizer.json that was read; it stays.
pub const Tokenizer = struct {
    handle: i32 = 0,

    /// Reads the bytes of a tokenizer.json.
    pub fn load(json: []const u8) Failed!Tokenizer {
        if (!abi.is_component) return .{};
        var result: RawResult = undefined;
        library.load(json.ptr, json.len, &result);
        if (result.is_error != 0) return failed(result.as.failure);
        return .{ .handle = result.as.handle };
    }

    /// Gives its memory back.
    pub fn deinit(self: Tokenizer) void {
        if (abi.is_component) library.drop(self.handle);
    }

    /// A row of tokens for each text; with `seconds`, one for each text, of both.
    pub fn encode(self: Tokenizer, texts: []const []const u8, seconds: []const []const u8, options: Options) Failed!Encoding {
        if (!abi.is_component) {
            const function = answer orelse return guest.internal("the test does not say what tokens are: answerWith", .{});
            return function(texts, seconds, options);
        }
        const firsts, const others = .{ try lowered(texts), try lowered(seconds) };
        var result: RawResult = undefined;
        library.encode(
            self.handle,
            firsts.ptr,
            firsts.len,
            others.ptr,
            others.len,
            @intFromBool(options.special_tokens),
            @intFromEnum(options.padding),
            if (options.padding == .to) options.padding.to else 0,
            @intFromEnum(options.truncation),
            if (options.truncation == .to) options.truncation.to else 0,
            @intFromBool(options.offsets != null),
            @intFromEnum(options.offsets orelse .bytes),
            &result,
        );
        if (result.is_error != 0) return failed(result.as.failure);
        const made = result.as.encoding;
        const rows = [_]u64{ made.texts, made.length, 2 };
        return .{
            .ids = try tensor("input_ids", made.ids, rows[0..2]),
            .mask = try tensor("attention_mask", made.mask, rows[0..2]),
            .types = try tensor("token_type_ids", made.types, rows[0..2]),
            .offsets = try tensor("offsets", made.offsets, if (options.offsets == null) &.{0} else &rows),
        };
    }

    /// The text of tokens, with the special ones or without.
    pub fn decode(self: Tokenizer, ids: []const i64, skip_special_tokens: bool) Failed![]const u8 {
        if (!abi.is_component) return guest.internal("a test decodes no tokens", .{});
        const narrow = guest.allocator.alloc(u32, ids.len) catch return guest.internal("out of memory", .{});
        for (narrow, ids) |*to, from| to.* = std.math.cast(u32, from) orelse return guest.internal("token {d}", .{from});
        var result: RawResult = undefined;
        const lowered_ids: abi.List(u32) = .of(narrow);
        library.decode(self.handle, lowered_ids.start.?, lowered_ids.length, @intFromBool(skip_special_tokens), &result);
        if (result.is_error != 0) return failed(result.as.failure);
        return result.as.text.slice();
    }

    /// The number of a token.
    pub fn idOf(self: Tokenizer, token: []const u8) ?i64 {
        if (!abi.is_component) return null;
        var found: RawFound = undefined;
        library.id_of(self.handle, token.ptr, token.len, &found);
        return if (found.has == 0) null else found.as.id;
    }

    /// The token of a number.
    pub fn tokenOf(self: Tokenizer, id: i64) ?[]const u8 {
        if (!abi.is_component) return null;
        var found: RawFound = undefined;
        library.token_of(self.handle, std.math.cast(u32, id) orelse return null, &found);
        return if (found.has == 0) null else found.as.token.slice();
    }

    /// Number of tokens.
    pub fn size(self: Tokenizer) u32 {
        return if (abi.is_component) library.size(self.handle) else 0;
    }
};

fn lowered(texts: []const []const u8) Failed![]const abi.Text {
    const made = guest.allocator.alloc(abi.Text, texts.len) catch return guest.internal("out of memory", .{});
    for (made, texts) |*to, from| to.* = .of(from);
    // The pointer of an empty slice may lead out of the memory, which the host refuses.
    return abi.List(abi.Text).of(made).slice();
}

fn tensor(name: []const u8, data: abi.Text, shape: []const u64) Failed!guest.Tensor {
    const extents = guest.allocator.dupe(u64, shape) catch return guest.internal("out of memory", .{});
    return .{ .name = name, .datatype = .int64, .shape = extents, .data = data.slice() };
}

const RawEncoding = extern struct {
    texts: u32,
    length: u32,
    ids: abi.Text,
    mask: abi.Text,
    types: abi.Text,
    offsets: abi.Text,
};
/// Of errors, the last kind is the caller's.
const RawError = extern struct { kind: u8, text: abi.Text };
const of_text = 2;
const RawResult = extern struct {
    is_error: u8,
    as: extern union { handle: i32, encoding: RawEncoding, text: abi.Text, failure: RawError },
};
const RawFound = extern struct { has: u8, as: extern union { id: u32, token: abi.Text } };

comptime {
    if (abi.is_component) std.debug.assert(@sizeOf(RawResult) == 44 and @sizeOf(RawFound) == 12);
}

fn failed(failure: RawError) Failed {
    const text = failure.text.slice();
    return if (failure.kind == of_text) guest.invalid("{s}", .{text}) else guest.internal("{s}", .{text});
}

fn imported(comptime T: type, comptime name: []const u8) T {
    return abi.importedFrom(T, "modelhost:tokenizer/tokenizers@0.1.0", name);
}

const Encode = fn (i32, [*]const abi.Text, usize, [*]const abi.Text, usize, u32, u32, u32, u32, u32, u32, u32, *RawResult) callconv(.c) void;

const library = struct {
    const load = imported(*const fn ([*]const u8, usize, *RawResult) callconv(.c) void, "[static]tokenizer.load");
    const encode = imported(*const Encode, "[method]tokenizer.encode");
    const decode = imported(*const fn (i32, [*]const u32, usize, u32, *RawResult) callconv(.c) void, "[method]tokenizer.decode");
    const id_of = imported(*const fn (i32, [*]const u8, usize, *RawFound) callconv(.c) void, "[method]tokenizer.id-of");
    const token_of = imported(*const fn (i32, u32, *RawFound) callconv(.c) void, "[method]tokenizer.token-of");
    const size = imported(*const fn (i32) callconv(.c) u32, "[method]tokenizer.size");
    const drop = imported(*const fn (i32) callconv(.c) void, "[resource-drop]tokenizer");
};

fn said(texts: []const []const u8, _: []const []const u8, options: Options) Failed!Encoding {
    if (options.truncation != .to) return guest.invalid("a text of 9 tokens", .{});
    const ids = try guest.Tensor.of(i64, &.{7}, &.{1});
    const empty = try guest.Tensor.of(i64, &.{}, &.{0});
    return .{ .ids = if (texts.len == 1) ids else empty, .mask = empty, .types = empty, .offsets = empty };
}

test "tokens are what the test says" {
    defer answerWith(null);
    const words = try Tokenizer.load("");
    defer words.deinit();
    try std.testing.expectError(error.Internal, words.encode(&.{"a"}, &.{}, .{}));
    answerWith(said);
    const made = try words.encode(&.{"a"}, &.{}, .{ .truncation = .{ .to = 4 } });
    try std.testing.expectEqual(7, (try made.ids.values(i64))[0]);
    try std.testing.expectError(error.InvalidInput, words.encode(&.{"a"}, &.{}, .{}));
    try std.testing.expectError(error.Internal, words.decode(&.{1}, true));
    try std.testing.expectEqual(null, words.idOf("a"));
}
