//! The contract's functions as the component model has them in a module: what the component exports, and what it
//! imports. Its records lie in memory as the extern structs here do.

const std = @import("std");
const builtin = @import("builtin");
const closing = @import("closing.zig");
const form = @import("form.zig");
const guest = @import("guest.zig");
const metrics = @import("metrics.zig");
const sockets = @import("socket.zig");
const readable = @import("text.zig").readable;
const Datatype = @import("datatype.zig").Datatype;

pub const is_component = builtin.target.cpu.arch.isWasm();
pub const backing = if (is_component) std.heap.wasm_allocator else std.heap.page_allocator;

pub var arena = std.heap.ArenaAllocator.init(backing);
/// The error that was made last, its text, and its response.
var said_of: ?anyerror = null;
pub var said: []const u8 = "";
pub var answered: guest.Response = .{};

/// Makes an error that has a text, for the caller or for the log.
pub fn say(failed: anytype, comptime format: []const u8, arguments: anytype) @TypeOf(failed) {
    said = std.fmt.allocPrint(guest.allocator, format, arguments) catch "out of memory";
    said_of = failed;
    return failed;
}

/// A list or a string.
pub fn List(comptime T: type) type {
    return extern struct {
        start: ?[*]const T,
        length: usize,

        pub fn slice(self: @This()) []const T {
            return if (self.length == 0) &.{} else self.start.?[0..self.length];
        }

        pub fn of(values: []const T) @This() {
            // The pointer of an empty slice may lead out of the memory, which the host refuses.
            const start: [*]const T = if (values.len == 0) @ptrFromInt(@alignOf(T)) else values.ptr;
            return .{ .start = start, .length = values.len };
        }
    };
}

/// An option.
pub fn Optional(comptime T: type) type {
    return extern struct {
        has: u8,
        value: T,

        pub fn get(self: @This()) ?T {
            return if (self.has == 0) null else self.value;
        }

        pub fn of(given: ?T) @This() {
            return .{ .has = @intFromBool(given != null), .value = given orelse std.mem.zeroes(T) };
        }
    };
}

/// What an import returns that may fail by one of several kinds of errors with a text.
pub fn Reply(comptime T: type) type {
    return extern struct { is_error: u8, as: extern union { value: T, failure: extern struct { kind: u8, text: Text } } };
}

pub const Text = List(u8);
pub const RawOptional = Optional(Text);
pub const RawTensor = extern struct { name: Text, datatype: Datatype, shape: List(u64), data: Text };
pub const RawHeader = extern struct { name: Text, value: Text };
pub const RawResponse = extern struct {
    status: u16,
    content_type: Text,
    headers: List(RawHeader),
    body: Text,
};
pub const RawError = extern struct { kind: u8, as: extern union { text: Text, response: RawResponse } };
const RawAnswer = extern struct {
    is_error: u8,
    as: extern union { answer: extern struct { has: u8, response: RawResponse }, failure: RawError },
};
const RawSpec = extern struct { name: Text, datatype: Datatype, shape: List(i64) };
const RawInput = extern struct {
    name: Text,
    datatype: Datatype,
    shape: List(i64),
    required: bool,
    example: RawOptional,
    description: Text,
};
const RawOperation = extern struct {
    method: Text,
    path: Text,
    summary: Text,
    consumes: Text,
    input: RawOptional,
    produces: Text,
    output: RawOptional,
};
const Result = extern struct {
    is_error: u8,
    as: extern union { tensors: List(RawTensor), response: RawResponse, failure: RawError, text: Text },
};

comptime {
    if (is_component) {
        std.debug.assert(@sizeOf(RawTensor) == 28 and @offsetOf(RawTensor, "data") == 20);
        std.debug.assert(@sizeOf(RawResponse) == 28 and @offsetOf(RawResponse, "headers") == 12);
        std.debug.assert(@sizeOf(RawAnswer) == 36 and @offsetOf(RawAnswer, "as") == 4);
        std.debug.assert(@sizeOf(RawError) == 32 and @sizeOf(RawSpec) == 20 and @sizeOf(RawInput) == 44);
        std.debug.assert(@sizeOf(RawOperation) == 64 and @offsetOf(RawOperation, "produces") == 44);
        @export(&realloc, .{ .name = "cabi_realloc" });
    }
}

/// Where the next bytes that the host gives are to lie: what is read piece by piece does not fill the memory
/// of the call.
pub var landing: []u8 = &.{};

/// What the host gives lasts as long as the call.
fn realloc(old: ?[*]u8, old_size: usize, alignment: usize, size: usize) callconv(.c) ?[*]u8 {
    if (alignment == 1 and old_size == 0 and 0 < size and size <= landing.len) return landing.ptr;
    const made = arena.allocator().alignedAlloc(u8, .@"16", @max(size, 1)) catch @trap();
    if (old_size > 0) @memcpy(made[0..@min(old_size, size)], old.?[0..@min(old_size, size)]);
    return made.ptr;
}

/// The result of the call, which the host reads before it ends the call.
var result: Result = undefined;
var answer: RawAnswer = undefined;
var schema: List(RawInput) = undefined;
var operations_said: List(RawOperation) = undefined;

fn over(_: *const anyopaque) callconv(.c) void {
    endMessages();
    reset();
}

/// Memory that stays for the next call, or message.
const kept = 64 * 1024;

fn reset() void {
    // What a test still reads of it is seen.
    _ = arena.reset(if (is_component) .{ .retain_with_limit = kept } else .free_all);
    forgetErrors();
}

/// They were of one call: an error of the next one that says nothing has nothing to say.
fn forgetErrors() void {
    said = "";
    said_of = null;
    answered = .{ .status = 500 };
}

/// The memory that the function of a socket had taken before its first message.
var before: ?std.heap.ArenaAllocator.State = null;

/// Gives back the memory that was taken since the last message of a socket came.
pub fn nextMessage() void {
    // A bucket is opened again where it is used.
    closing.endMessage();
    if (before != null) return reset();
    before = arena.state;
    arena.state = .init;
    forgetErrors();
}

/// Gives back the memory of a socket's last message.
pub fn endMessages() void {
    const state = before orelse return;
    arena.deinit();
    arena.state = state;
    before = null;
}

/// Ends a call while imports may still be called.
pub fn end(context: ?i32) void {
    if (context) |handle| host.drop(handle);
    closing.endCall();
}

pub fn rawHeaders(headers: []const guest.Header) List(RawHeader) {
    const raw = arena.allocator().alloc(RawHeader, headers.len) catch @trap();
    for (raw, headers) |*to, from| to.* = .{ .name = .of(readable(from.name)), .value = .of(readable(from.value)) };
    return .of(raw);
}

pub fn rawResponse(response: guest.Response) RawResponse {
    return .{
        .status = response.status,
        .content_type = .of(readable(response.content_type)),
        .headers = rawHeaders(response.headers),
        .body = .of(response.body),
    };
}

pub fn textOf(failed: anyerror) []const u8 {
    return if (said_of != null and said_of.? == failed) said else @errorName(failed);
}

pub fn rawError(failed: anyerror) RawError {
    return rawErrorOf(failed, textOf(failed));
}

pub fn rawErrorOf(failed: anyerror, text: []const u8) RawError {
    return switch (failed) {
        error.InvalidInput => .{ .kind = 0, .as = .{ .text = .of(readable(text)) } },
        error.Respond => .{ .kind = 2, .as = .{ .response = rawResponse(answered) } },
        else => .{ .kind = 1, .as = .{ .text = .of(readable(text)) } },
    };
}

fn failure(failed: anyerror) *const Result {
    result = .{ .is_error = 1, .as = .{ .failure = rawError(failed) } };
    return &result;
}

fn sampleOf(kind: Text, body: Text) guest.Sample {
    return .{ .content_type = kind.slice(), .body = body.slice() };
}

pub fn lifted(given: List(RawTensor)) []const guest.Tensor {
    const tensors = arena.allocator().alloc(guest.Tensor, given.length) catch @trap();
    for (tensors, given.slice()) |*to, from| to.* = .{
        .name = from.name.slice(),
        .datatype = from.datatype,
        .shape = from.shape.slice(),
        .data = from.data.slice(),
    };
    return tensors;
}

pub fn lowered(tensors: []const guest.Tensor) List(RawTensor) {
    const raw = arena.allocator().alloc(RawTensor, tensors.len) catch @trap();
    for (raw, tensors) |*to, from| to.* = .{
        .name = .of(from.name),
        .datatype = from.datatype,
        .shape = .of(from.shape),
        .data = .of(from.data),
    };
    return .of(raw);
}

fn returned(made: anyerror![]const guest.Tensor) *const Result {
    const tensors = made catch |failed| return failure(failed);
    result = .{ .is_error = 0, .as = .{ .tensors = lowered(tensors) } };
    return &result;
}

/// Exports a function by the name of its field.
pub fn exported(comptime field: []const u8, comptime function: anytype) void {
    const function_name = comptime kebab(field);
    const name = function_name ++ "@0.1.0#" ++ function_name;
    const Export = struct {
        fn init(start: ?[*]const u8, length: usize) callconv(.c) *const Result {
            defer end(null);
            defer metrics.age += 1;
            return ended(function((Text{ .start = start, .length = length }).slice()));
        }

        fn websocket(upgrade: i32, handle: i32) callconv(.c) *const Result {
            defer end(handle);
            var handshake: guest.Upgrade = .{ .context = .{ .handle = handle }, .handle = upgrade };
            return ended(sockets.served(function, &handshake));
        }

        fn pre_inference(kind: ?[*]const u8, kind_length: usize, body: ?[*]const u8, body_length: usize, handle: i32) callconv(.c) *const Result {
            defer end(handle);
            const sample = sampleOf(.{ .start = kind, .length = kind_length }, .{ .start = body, .length = body_length });
            form.called_with = .{ .handle = handle };
            return returned(function(sample, form.called_with.?));
        }

        fn post_inference(start: ?[*]const RawTensor, length: usize, handle: i32) callconv(.c) *const Result {
            defer end(handle);
            const made: anyerror!guest.Response = function(lifted(.{ .start = start, .length = length }), Context{ .handle = handle });
            const response = made catch |failed| return failure(failed);
            result = .{ .is_error = 0, .as = .{ .response = rawResponse(response) } };
            return &result;
        }

        fn pre_inference_tensors(start: ?[*]const RawTensor, length: usize, handle: i32) callconv(.c) *const Result {
            defer end(handle);
            return returned(function(lifted(.{ .start = start, .length = length }), Context{ .handle = handle }));
        }

        const post_inference_tensors = pre_inference_tensors;

        fn respond(kind: ?[*]const u8, kind_length: usize, body: ?[*]const u8, body_length: usize, handle: i32, out: i32) callconv(.c) *const RawAnswer {
            defer end(handle);
            const sample = sampleOf(.{ .start = kind, .length = kind_length }, .{ .start = body, .length = body_length });
            var output: guest.Output = .{ .handle = out };
            form.called_with = .{ .handle = handle };
            const made: anyerror!?guest.Response = function(sample, form.called_with.?, &output);
            if (output.over(made)) |whole| {
                const response = whole orelse guest.Response{};
                answer = .{ .is_error = 0, .as = .{ .answer = .{ .has = @intFromBool(whole != null), .response = rawResponse(response) } } };
            } else |failed| {
                answer = .{ .is_error = 1, .as = .{ .failure = rawError(failed) } };
            }
            return &answer;
        }

        fn input_schema() callconv(.c) *const List(RawInput) {
            const declared: []const guest.Input = function;
            const inputs = arena.allocator().alloc(RawInput, declared.len) catch @trap();
            for (inputs, declared) |*to, from| to.* = .{
                .name = .of(from.name),
                .datatype = from.datatype,
                .shape = .of(from.shape),
                .required = from.required,
                .example = optional(from.example),
                .description = .of(from.description),
            };
            schema = .of(inputs);
            return &schema;
        }

        fn operations() callconv(.c) *const List(RawOperation) {
            const routes: []const guest.Route = function;
            var raw: std.ArrayList(RawOperation) = .empty;
            for (routes) |from| if (from.talk == null) raw.append(arena.allocator(), .{
                .method = .of(from.method),
                .path = .of(from.path),
                .summary = .of(from.said.summary),
                .consumes = .of(from.consumes()),
                .input = optional(from.said.input),
                .produces = .of(from.said.produces),
                .output = optional(from.said.output),
            }) catch @trap();
            operations_said = .of(raw.items);
            return &operations_said;
        }
    };
    if (!@hasDecl(Export, field)) @compileError("a handler has no function `" ++ field ++ "`");
    exportedAs(name, &@field(Export, field));
}

/// A function of the handler as one that may fail.
pub fn fallible(comptime Argument: type, comptime Made: type, comptime function: anytype) *const fn (Argument) anyerror!Made {
    return struct {
        fn call(argument: Argument) anyerror!Made {
            const made = function(argument);
            return if (@typeInfo(@TypeOf(made)) == .error_union) try made else made;
        }
    }.call;
}

/// Exports a function of the component by the name of its interface and its own.
pub fn exportedAs(comptime name: []const u8, comptime function: anytype) void {
    @export(function, .{ .name = "modelhost:handler/" ++ name });
    @export(&over, .{ .name = "cabi_post_modelhost:handler/" ++ name });
}

/// The result of a function that makes nothing.
fn ended(made: anyerror!void) *const Result {
    result.is_error = 0;
    made catch |failed| {
        result = .{ .is_error = 1, .as = .{ .text = .of(readable(textOf(failed))) } };
    };
    return &result;
}

pub fn optional(given: ?[]const u8) RawOptional {
    return .of(if (given) |it| .of(it) else null);
}

fn kebab(comptime field: []const u8) []const u8 {
    var name = field[0..field.len].*;
    std.mem.replaceScalar(u8, &name, '_', '-');
    const made = name;
    return &made;
}

pub const TensorSpec = struct {
    name: []const u8,
    datatype: Datatype,
    /// -1 is any extent.
    shape: []const i64,
};

/// A model's inputs and outputs, in the model's order.
pub const Signature = struct { inputs: []const TensorSpec, outputs: []const TensorSpec };

/// The request being served. A test makes one: `Context{ .given = .{ .metadata = "{}" } }`.
pub const Context = struct {
    handle: i32 = 0,
    given: Given = .{},

    pub const Given = struct {
        request_id: []const u8 = "test",
        method: []const u8 = "POST",
        path: []const u8 = "/",
        query: []const u8 = "",
        metadata: []const u8 = "null",
        parameters: []const u8 = "{}",
        headers: []const guest.Header = &.{},
        sample: guest.Sample = .{ .body = "" },
        signature: Signature = .{ .inputs = &.{}, .outputs = &.{} },
    };

    /// From the header `x-request-id`, or made by the host.
    pub fn requestId(self: Context) []const u8 {
        return if (is_component) asked(host.request_id, self) else self.given.request_id;
    }

    pub fn method(self: Context) []const u8 {
        return if (is_component) asked(host.method, self) else self.given.method;
    }

    pub fn path(self: Context) []const u8 {
        return if (is_component) asked(host.path, self) else self.given.path;
    }

    /// Without the question mark.
    pub fn query(self: Context) []const u8 {
        return if (is_component) asked(host.query, self) else self.given.query;
    }

    /// The endpoint's metadata as JSON text.
    pub fn metadata(self: Context) []const u8 {
        return if (is_component) asked(host.metadata, self) else self.given.metadata;
    }

    /// The request's parameters of the Open Inference Protocol, a JSON object.
    pub fn parameters(self: Context) []const u8 {
        return if (is_component) asked(host.parameters, self) else self.given.parameters;
    }

    /// The header's first value. Names match in any case.
    pub fn header(self: Context, name: []const u8) ?[]const u8 {
        if (is_component) {
            var found: RawOptional = undefined;
            host.header(self.handle, name.ptr, name.len, &found);
            return if (found.get()) |value| value.slice() else null;
        }
        for (self.given.headers) |own| {
            if (std.ascii.eqlIgnoreCase(own.name, name)) return own.value;
        }
        return null;
    }

    /// The request's body again, for post-inference.
    pub fn sample(self: Context) guest.Sample {
        if (!is_component) return self.given.sample;
        var raw: extern struct { kind: Text, body: Text } = undefined;
        host.sample(self.handle, &raw);
        return sampleOf(raw.kind, raw.body);
    }

    /// The model's inputs and outputs.
    pub fn signature(self: Context) Signature {
        if (!is_component) return self.given.signature;
        var raw: extern struct { inputs: List(RawSpec), outputs: List(RawSpec) } = undefined;
        host.signature(self.handle, &raw);
        return .{ .inputs = specs(raw.inputs), .outputs = specs(raw.outputs) };
    }
};

fn asked(comptime function: anytype, context: Context) []const u8 {
    var found: Text = undefined;
    function(context.handle, &found);
    return found.slice();
}

fn specs(raw: List(RawSpec)) []const TensorSpec {
    const made = arena.allocator().alloc(TensorSpec, raw.length) catch @trap();
    for (made, raw.slice()) |*to, from| {
        to.* = .{ .name = from.name.slice(), .datatype = from.datatype, .shape = from.shape.slice() };
    }
    return made;
}

const Ask = *const fn (handle: i32, found: *Text) callconv(.c) void;

fn imported(comptime T: type, comptime name: []const u8) T {
    return importedFrom(T, "modelhost:handler/types@0.1.0", name);
}

/// A function that the component imports of an interface, if it is called.
pub fn importedFrom(comptime T: type, comptime interface: []const u8, comptime name: []const u8) T {
    return @extern(T, .{ .name = name, .library_name = interface });
}

const host = struct {
    const drop = imported(*const fn (i32) callconv(.c) void, "[resource-drop]context");
    const request_id = imported(Ask, "[method]context.request-id");
    const method = imported(Ask, "[method]context.method");
    const path = imported(Ask, "[method]context.path");
    const query = imported(Ask, "[method]context.query");
    const metadata = imported(Ask, "[method]context.metadata");
    const parameters = imported(Ask, "[method]context.parameters");
    const header = imported(*const fn (i32, [*]const u8, usize, *RawOptional) callconv(.c) void, "[method]context.header");
    const sample = imported(*const fn (i32, *anyopaque) callconv(.c) void, "[method]context.sample");
    const signature = imported(*const fn (i32, *anyopaque) callconv(.c) void, "[method]context.signature");
};
