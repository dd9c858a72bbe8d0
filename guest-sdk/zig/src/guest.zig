//! Write handlers for modelhost in Zig: what happens to a request before the model, and to the model's outputs after
//! it.
//!
//! A handler names its functions: `comptime { guest.handler(.{ .pre_inference = prepare, … }); }`; the component
//! exports those. What they are given, and what `guest.allocator` makes, lasts until the call is over; what is to stay
//! is copied with an allocator of the handler's, such as `std.heap.wasm_allocator`.

const std = @import("std");
const abi = @import("abi.zig");
const batch = @import("batch.zig");
const form = @import("form.zig");
const json_text = @import("json.zig");
const router = @import("router.zig");
const sockets = @import("socket.zig");

/// Libraries, which `modelhost build` puts into the handler's component.
pub const image = @import("image.zig");
pub const outbound = @import("outbound.zig");
pub const tensor = @import("tensor.zig");
pub const tokenizer = @import("tokenizer.zig");

/// The endpoint's models, called by the handler.
pub const models = @import("models.zig");

/// What the host keeps: values and objects that outlive a request, and jobs of the handler's own endpoint.
pub const kv = @import("kv.zig");
pub const blobs = @import("blobs.zig");
pub const jobs = @import("jobs.zig");

/// Metrics of the handler's own, in /metrics.
pub const metrics = @import("metrics.zig");

/// The response of an application, in pieces.
pub const Output = @import("output.zig").Output;

/// Applications as a table of routes.
pub const Route = router.Route;
pub const Request = router.Request;
pub const answer = router.answer;
pub const answerAll = router.answerAll;

/// Forms with files.
pub const Form = form.Form;
pub const Part = form.Part;

/// Requests that are served together.
pub const Member = batch.Member;

/// WebSockets.
pub const Upgrade = sockets.Upgrade;
pub const Socket = sockets.Socket;
pub const Message = sockets.Message;
pub const Close = sockets.Close;
pub const Conversation = sockets.Conversation;
pub const converse = sockets.converse;

/// A value as JSON text, as std.json writes it; NaN and infinities, which are no JSON, are `null`.
pub fn toJson(value: anytype) error{OutOfMemory}![]const u8 {
    return json_text.alloc(allocator, value);
}

pub const Datatype = @import("datatype.zig").Datatype;
pub const BFloat16 = @import("datatype.zig").BFloat16;

/// Memory that lasts until the call is over.
pub const allocator = abi.arena.allocator();

/// Errors that functions return. `invalid`, `internal` and `respond` make them; any other error is 500.
pub const Error = error{ InvalidInput, Internal, Respond };

/// The caller sent something unusable: 400 with this text, which the caller reads.
pub fn invalid(comptime format: []const u8, arguments: anytype) error{InvalidInput} {
    return abi.say(error.InvalidInput, format, arguments);
}

/// The handler cannot do its job: 500; the text goes to the log.
pub fn internal(comptime format: []const u8, arguments: anytype) error{Internal} {
    return abi.say(error.Internal, format, arguments);
}

/// Answers with this response and skips what is left. Any status: a cache hit is a 200.
pub fn respond(response: Response) error{Respond} {
    abi.answered = response;
    return error.Respond;
}

/// The text of the error that was made last.
pub fn lastError() []const u8 {
    return abi.said;
}

/// A dense tensor: what goes to a model and what comes from it.
pub const Tensor = struct {
    /// The model's input or output. From a handler: the empty name is the model's only input.
    name: []const u8 = "",
    datatype: Datatype,
    /// Extents, outermost first. A scalar has none.
    shape: []const u64,
    /// Row-major, little-endian; of BYTES each element has its length in front, 4 bytes.
    data: []const u8,

    /// A tensor that shares `elements`; an error if the shape is for another number of them.
    pub fn of(comptime T: type, elements: []const T, shape: []const u64) error{Internal}!Tensor {
        var count: u64 = 1;
        for (shape) |extent| count *= extent;
        if (count != elements.len) return internal("{d} elements do not fit the shape {any}", .{ elements.len, shape });
        // Most shapes are temporaries of the caller's.
        const own = allocator.dupe(u64, shape) catch return internal("out of memory", .{});
        return .{ .datatype = Datatype.of(T), .shape = own, .data = std.mem.sliceAsBytes(elements) };
    }

    /// A vector of texts, as BYTES.
    pub fn ofTexts(given: []const []const u8) error{OutOfMemory}!Tensor {
        var data: std.ArrayList(u8) = .empty;
        for (given) |text| {
            var length: [4]u8 = undefined;
            std.mem.writeInt(u32, &length, @intCast(text.len), .little);
            try data.appendSlice(allocator, &length);
            try data.appendSlice(allocator, text);
        }
        const shape = try allocator.dupe(u64, &.{given.len});
        return .{ .datatype = .bytes, .shape = shape, .data = data.items };
    }

    /// The elements, where they lie; an error if they are others.
    pub fn values(self: Tensor, comptime T: type) error{ Internal, OutOfMemory }![]const T {
        if (self.datatype != Datatype.of(T) or self.data.len % @sizeOf(T) != 0) {
            return internal("tensor `{s}` is {s}, not {s}", .{ self.name, @tagName(self.datatype), @typeName(T) });
        }
        if (std.mem.isAligned(@intFromPtr(self.data.ptr), @alignOf(T))) {
            const aligned: []align(@alignOf(T)) const u8 = @alignCast(self.data);
            return std.mem.bytesAsSlice(T, aligned);
        }
        const copied = try allocator.alloc(T, self.data.len / @sizeOf(T));
        @memcpy(std.mem.sliceAsBytes(copied), self.data);
        return copied;
    }

    /// The elements of a tensor of BYTES.
    pub fn texts(self: Tensor) error{ Internal, OutOfMemory }![]const []const u8 {
        if (self.datatype != .bytes) return internal("tensor `{s}` is {s}, not bytes", .{ self.name, @tagName(self.datatype) });
        var found: std.ArrayList([]const u8) = .empty;
        var rest = self.data;
        while (rest.len > 0) {
            const length = if (rest.len < 4) rest.len else std.mem.readInt(u32, rest[0..4], .little);
            if (rest.len < 4 or length > rest.len - 4) return internal("tensor `{s}` ends inside an element", .{self.name});
            try found.append(allocator, rest[4..][0..length]);
            rest = rest[4 + length ..];
        }
        return found.items;
    }
};

/// The tensor of this name.
pub fn named(tensors: []const Tensor, name: []const u8) error{Internal}!Tensor {
    for (tensors) |each| {
        if (std.mem.eql(u8, each.name, name)) return each;
    }
    return internal("no tensor is named `{s}`", .{name});
}

/// Where the largest value is; NaN is never the largest.
pub fn argmax(values: []const f32) ?usize {
    var best: ?usize = null;
    for (values, 0..) |value, at| {
        if (!std.math.isNan(value) and (best == null or value > values[best.?])) best = at;
    }
    return best;
}

pub const Header = struct { name: []const u8, value: []const u8 };

/// A response.
pub const Response = struct {
    /// 200 to 599.
    status: u16 = 200,
    content_type: []const u8 = "application/octet-stream",
    headers: []const Header = &.{},
    body: []const u8 = "",

    /// A value as `toJson` writes it.
    pub fn json(value: anytype) error{OutOfMemory}!Response {
        return .{ .content_type = "application/json", .body = try toJson(value) };
    }

    pub fn text(body: []const u8) Response {
        return .{ .content_type = "text/plain; charset=utf-8", .body = body };
    }

    /// The same with a header more, or another value of one: two cookies are two of `set-cookie`.
    pub fn withHeader(self: Response, name: []const u8, value: []const u8) error{OutOfMemory}!Response {
        var with = self;
        with.headers = try std.mem.concat(allocator, Header, &.{ self.headers, &.{.{ .name = name, .value = value }} });
        return with;
    }
};

/// A request's body.
pub const Sample = struct {
    content_type: []const u8 = "",
    body: []const u8,

    /// The body as std.json reads it into a type. What does not fit is the caller's fault.
    pub fn json(self: Sample, comptime T: type) error{ InvalidInput, OutOfMemory }!T {
        return std.json.parseFromSliceLeaky(T, allocator, self.body, .{ .ignore_unknown_fields = true }) catch |failed|
            switch (failed) {
                error.OutOfMemory => error.OutOfMemory,
                error.SyntaxError, error.UnexpectedEndOfInput => self.malformed(failed),
                else => invalid("the body is another json than expected: {t}", .{failed}),
            };
    }

    fn malformed(self: Sample, failed: anyerror) error{InvalidInput} {
        if (std.mem.trim(u8, self.body, " \t\r\n").len == 0) return invalid("malformed json: the body is empty", .{});
        if (!std.mem.startsWith(u8, self.body, "\u{feff}")) return invalid("malformed json: {t}", .{failed});
        return invalid("malformed json: the body begins with a byte order mark", .{});
    }

    /// The parts of a body, `multipart/form-data`: at most 1000, with 8 KiB of headers each. A body that is no form is
    /// the caller's fault; another content type is answered with 415.
    pub fn multipart(self: Sample) error{ InvalidInput, OutOfMemory, Respond }!Form {
        return form.read(self);
    }

    /// The numbers under the names of a struct's fields in the body, an object. One that is missing, or no number, is
    /// the caller's fault, and named.
    pub fn numbers(self: Sample, comptime T: type) error{ InvalidInput, OutOfMemory }!T {
        const parsed = std.json.parseFromSliceLeaky(std.json.Value, allocator, self.body, .{}) catch |failed|
            return if (failed == error.OutOfMemory) error.OutOfMemory else self.malformed(failed);
        if (parsed != .object) return invalid("invalid type: {s}, expected an object", .{described(parsed)});
        var made: T = undefined;
        inline for (@typeInfo(T).@"struct".fields) |field| {
            const value = parsed.object.get(field.name) orelse return invalid("missing field `" ++ field.name ++ "`", .{});
            const number: f64 = switch (value) {
                .integer => |whole| @floatFromInt(whole),
                .float => |float| float,
                .number_string => |digits| std.fmt.parseFloat(f64, digits) catch std.math.inf(f64),
                else => return invalid("`" ++ field.name ++ "`: invalid type: {s}, expected f32", .{described(value)}),
            };
            @field(made, field.name) = @floatCast(number);
            if (!std.math.isFinite(@field(made, field.name))) return invalid("`" ++ field.name ++ "`: number out of range", .{});
        }
        return made;
    }
};

/// The type of a JSON value, with the value if it is short.
fn described(value: std.json.Value) []const u8 {
    return switch (value) {
        .null => "null",
        .bool => |it| if (it) "boolean `true`" else "boolean `false`",
        .string => |it| std.fmt.allocPrint(allocator, "string \"{s}\"", .{shortened(it)}) catch "string",
        .array => "sequence",
        .object => "map",
        else => "number",
    };
}

/// The beginning of a text, in whole characters.
fn shortened(text: []const u8) []const u8 {
    if (text.len <= 40) return text;
    var end: usize = 40;
    while (end > 0 and text[end] & 0xC0 == 0x80) end -= 1;
    return text[0..end];
}

/// The request being served. What is not asked for is not fetched.
pub const Context = abi.Context;
pub const Signature = abi.Signature;
pub const TensorSpec = abi.TensorSpec;

/// An input that the handler takes.
pub const Input = struct {
    name: []const u8,
    datatype: Datatype = .fp32,
    /// `.{1}` is a scalar, in JSON the bare value; -1 is any extent.
    shape: []const i64 = &.{1},
    required: bool = true,
    /// A value as JSON text; needed if the input is required.
    example: ?[]const u8 = null,
    description: []const u8 = "",
};

/// Makes functions the component's exports:
///
/// - `init: fn (metadata: []const u8) anyerror!void` runs once, when the handler is loaded; an error refuses it.
/// - `pre_inference: fn (Sample, Context) anyerror![]const Tensor`
/// - `post_inference: fn ([]const Tensor, Context) anyerror!Response`
/// - `pre_inference_tensors`, `post_inference_tensors: fn ([]const Tensor, Context) anyerror![]const Tensor`
/// - `input_schema: []const Input`
/// - `respond: fn (Sample, Context, *Output) anyerror!?Response`, in place of all but `init`: an application, which answers
///   each request to the endpoint's path, of any method, and to all paths below it. The context's path is the one below
///   the endpoint's, at least `/`. It returns a response, or answers by the output and returns null.
/// - `routes: []const Route`, in place of `respond`: each request is led to the function of its route, and
///   the host lists the routes in `/openapi.json`. Those that serve requests together, or WebSockets, are
///   among them.
/// - `respond_all: struct { paths, function: fn ([]Member) anyerror!void }`, beside `respond`: what is posted
///   to these paths, which have no parameters, is served together.
/// - `websocket: fn (*Upgrade) anyerror!void`, beside any of them or alone: talks with a client.
pub fn handler(comptime functions: anytype) void {
    if (!abi.is_component) return;
    inline for (@typeInfo(@TypeOf(functions)).@"struct".fields) |field| {
        const function = @field(functions, field.name);
        if (comptime std.mem.eql(u8, field.name, "routes")) {
            abi.exported("respond", router.Serving(function).respond);
            abi.exported("operations", function);
            const paths = comptime router.batchPaths(function);
            const serving = router.Serving(function);
            if (paths.len > 0) batch.exported(paths, serving.respondAll);
            if (comptime router.hasSockets(function)) abi.exported("websocket", serving.websocket);
        } else if (comptime std.mem.eql(u8, field.name, "respond_all")) {
            batch.exported(function.paths, batch.together(function.function));
        } else if (comptime std.mem.eql(u8, field.name, "websocket")) {
            abi.exported(field.name, sockets.talking(function));
        } else {
            abi.exported(field.name, function);
        }
    }
}

test {
    _ = Output;
    _ = models;
    _ = kv;
    _ = blobs;
    _ = jobs;
    _ = metrics;
    _ = router;
    _ = batch;
    _ = sockets;
    _ = json_text;
    _ = @import("text.zig");
    _ = form;
    _ = image;
    _ = outbound;
    _ = tensor;
    _ = tokenizer;
}

test "numbers are read, and what is wrong is named" {
    const Flower = struct { a: f32, b: f32 };
    const good = try (Sample{ .body = "{\"b\": 2, \"a\": -1.5e1, \"c\": []}" }).numbers(Flower);
    try std.testing.expectEqual(Flower{ .a = -15, .b = 2 }, good);
    for ([_][2][]const u8{
        .{ "{\"a\": 1}", "missing field `b`" },
        .{ "{\"a\": \"x\"}", "`a`: invalid type: string \"x\", expected f32" },
        .{ "{\"a\": \"a" ++ "é" ** 25 ++ "\"}", "`a`: invalid type: string \"a" ++ "é" ** 19 ++ "\", expected f32" },
        .{ "{\"a\": true}", "`a`: invalid type: boolean `true`, expected f32" },
        .{ "{\"a\": 1e999}", "`a`: number out of range" },
        .{ "null", "invalid type: null, expected an object" },
        .{ "{bad", "malformed json: " },
        .{ " ", "malformed json: the body is empty" },
        .{ "\u{feff}{}", "malformed json: the body begins with a byte order mark" },
    }) |case| {
        try std.testing.expectError(error.InvalidInput, (Sample{ .body = case[0] }).numbers(Flower));
        try std.testing.expect(std.mem.startsWith(u8, lastError(), case[1]));
    }
}

test "tensors have types" {
    const given = try Tensor.of(f32, &.{ 1, 2, 3, 4 }, &.{ 2, 2 });
    try std.testing.expectEqual(4, (try given.values(f32)).len);
    try std.testing.expectError(error.Internal, given.values(i64));
    try std.testing.expectError(error.Internal, Tensor.of(f32, &.{1}, &.{2}));
    const words = try (try Tensor.ofTexts(&.{ "a", "", "bcd" })).texts();
    try std.testing.expectEqualStrings("bcd", words[2]);
    const half = try Tensor.of(BFloat16, &.{ BFloat16.of(0.1), BFloat16.of(-2) }, &.{2});
    try std.testing.expectEqual(.bf16, half.datatype);
    try std.testing.expectEqual(-2, (try half.values(Datatype.bf16.Element()))[1].float());
    try std.testing.expectEqual(0.10009765625, (try half.values(BFloat16))[0].float());
    try std.testing.expectEqual(2, argmax(&.{ std.math.nan(f32), 1, 3, 3 }));
}
