//! What is done with tensors around a model, by the library `tensor`: a component of its own, which `modelhost build` puts into
//! the handler's, `[build]` with `with = ["tensor"]` in modelhost.toml.
//!
//! An axis is counted from 0, or back from -1, which is the last. What is computed of floats is FP32. An error says why tensors
//! do not fit. In a test there is no library: `answerWith` says what comes of a call.

const std = @import("std");
const abi = @import("abi.zig");
const guest = @import("guest.zig");
const Tensor = guest.Tensor;

/// The largest values, and their places.
pub const Top = struct { values: Tensor, places: Tensor };

/// Which boxes go.
pub const Suppression = struct {
    /// Classes of the boxes, INT64 `[boxes]`: a box goes only for one of its own.
    classes: ?Tensor = null,
    /// A box goes that a better one overlaps by more than this (intersection over union), and one of a lower score.
    most_overlap: f32 = 0.5,
    least_score: f32 = 0,
    /// Not more stay; 0 for any number.
    most: u32 = 0,
};

const Failed = error{Internal};
const Answer = *const fn (operation: Operation, given: []const Tensor) Failed![2]Tensor;
var answer: ?Answer = null;

pub const Operation = enum { argmax, top_k, softmax, normalise, mean_pool, concat, gather, suppress };

/// For tests: what comes of a call, in the first of two tensors, of `topK` in both.
pub fn answerWith(function: ?Answer) void {
    answer = function;
}

/// The places of the largest values along an axis, the first of several: INT64, without this axis.
pub fn argmax(tensor: Tensor, axis: i32) Failed!Tensor {
    return along(.argmax, tensor, axis);
}

/// Values as shares of 1 along an axis.
pub fn softmax(tensor: Tensor, axis: i32) Failed!Tensor {
    return along(.softmax, tensor, axis);
}

/// Values divided by their length (L2) along an axis; zeros stay zeros.
pub fn normalise(tensor: Tensor, axis: i32) Failed!Tensor {
    return along(.normalise, tensor, axis);
}

/// The largest values along an axis, the largest first, and their places as INT64.
pub fn topK(tensor: Tensor, count: u32, axis: i32) Failed!Top {
    if (!abi.is_component) {
        const made = try answered(.top_k, &.{tensor});
        return .{ .values = made[0], .places = made[1] };
    }
    const it = try lowered(tensor);
    var result: RawResult = undefined;
    library.top_k(it.datatype, it.shape.start, it.shape.length, it.data.start, it.data.length, count, axis, &result);
    const values = try lifted(result, 0);
    return .{ .values = values, .places = try lifted(result, 1) };
}

/// `[texts, length, values]` to `[texts, values]`: the mean of those for which the mask, `[texts, length]`, is not 0.
pub fn meanPool(tensor: Tensor, mask: Tensor) Failed!Tensor {
    if (!abi.is_component) return (try answered(.mean_pool, &.{ tensor, mask }))[0];
    const it, const by = .{ try lowered(tensor), try lowered(mask) };
    var result: RawResult = undefined;
    library.mean_pool(
        it.datatype,
        it.shape.start,
        it.shape.length,
        it.data.start,
        it.data.length,
        by.datatype,
        by.shape.start,
        by.shape.length,
        by.data.start,
        by.data.length,
        &result,
    );
    return lifted(result, 0);
}

/// Tensors of one datatype, one after the other along an axis.
pub fn concat(tensors: []const Tensor, axis: i32) Failed!Tensor {
    if (!abi.is_component) return (try answered(.concat, tensors))[0];
    const raw = guest.allocator.alloc(RawTensor, tensors.len) catch return guest.internal("out of memory", .{});
    for (raw, tensors) |*to, from| to.* = try lowered(from);
    const list = abi.List(RawTensor).of(raw);
    var result: RawResult = undefined;
    library.concat(list.start, list.length, axis, &result);
    return lifted(result, 0);
}

/// The entries of an axis at places, INT64 or INT32, counted back from -1 where they are negative.
pub fn gather(tensor: Tensor, places: Tensor, axis: i32) Failed!Tensor {
    if (!abi.is_component) return (try answered(.gather, &.{ tensor, places }))[0];
    const it, const by = .{ try lowered(tensor), try lowered(places) };
    var result: RawResult = undefined;
    library.gather(
        it.datatype,
        it.shape.start,
        it.shape.length,
        it.data.start,
        it.data.length,
        by.datatype,
        by.shape.start,
        by.shape.length,
        by.data.start,
        by.data.length,
        axis,
        &result,
    );
    return lifted(result, 0);
}

/// The places, INT64, of the boxes that stay, the best first. Boxes are `[boxes, 4]` (left, top, right, bottom), scores
/// `[boxes]`.
pub fn suppress(boxes: Tensor, scores: Tensor, suppression: Suppression) Failed!Tensor {
    if (!abi.is_component) {
        const classes = suppression.classes orelse return (try answered(.suppress, &.{ boxes, scores }))[0];
        return (try answered(.suppress, &.{ boxes, scores, classes }))[0];
    }
    const arguments: RawSuppression = .{
        .boxes = try lowered(boxes),
        .scores = try lowered(scores),
        .has_classes = suppression.classes != null,
        .classes = try lowered(suppression.classes orelse boxes),
        .most_overlap = suppression.most_overlap,
        .least_score = suppression.least_score,
        .most = suppression.most,
    };
    var result: RawResult = undefined;
    library.suppress(&arguments, &result);
    return lifted(result, 0);
}

fn along(comptime operation: Operation, tensor: Tensor, axis: i32) Failed!Tensor {
    if (!abi.is_component) return (try answered(operation, &.{tensor}))[0];
    const it = try lowered(tensor);
    var result: RawResult = undefined;
    const function = @field(library, @tagName(operation));
    function(it.datatype, it.shape.start, it.shape.length, it.data.start, it.data.length, axis, &result);
    return lifted(result, 0);
}

fn answered(operation: Operation, given: []const Tensor) Failed![2]Tensor {
    const function = answer orelse return guest.internal("the test does not say what comes of tensors: answerWith", .{});
    return function(operation, given);
}

const RawTensor = extern struct { datatype: guest.Datatype, shape: abi.List(u64), data: abi.Text };
const RawResult = extern struct { is_error: u8, as: extern union { tensors: [2]RawTensor, text: abi.Text } };
const RawSuppression = extern struct {
    boxes: RawTensor,
    scores: RawTensor,
    has_classes: bool,
    classes: RawTensor,
    most_overlap: f32,
    least_score: f32,
    most: u32,
};

comptime {
    if (abi.is_component) std.debug.assert(@sizeOf(RawSuppression) == 76 and @sizeOf(RawResult) == 44);
}

fn lowered(tensor: Tensor) Failed!RawTensor {
    if (tensor.datatype == .bytes) return guest.internal("a tensor of bytes has no numbers", .{});
    return .{ .datatype = tensor.datatype, .shape = .of(tensor.shape), .data = .of(tensor.data) };
}

fn lifted(result: RawResult, at: usize) Failed!Tensor {
    if (result.is_error != 0) return guest.internal("{s}", .{result.as.text.slice()});
    const made = result.as.tensors[at];
    return .{ .datatype = made.datatype, .shape = made.shape.slice(), .data = made.data.slice() };
}

fn imported(comptime T: type, comptime name: []const u8) T {
    return abi.importedFrom(T, "modelhost:tensor/arithmetic@0.1.0", name);
}

const Shape = ?[*]const u64;
const Data = ?[*]const u8;
const Along = fn (guest.Datatype, Shape, usize, Data, usize, i32, *RawResult) callconv(.c) void;
const Best = fn (guest.Datatype, Shape, usize, Data, usize, u32, i32, *RawResult) callconv(.c) void;
const Mean = fn (guest.Datatype, Shape, usize, Data, usize, guest.Datatype, Shape, usize, Data, usize, *RawResult) callconv(.c) void;
const Gather = fn (guest.Datatype, Shape, usize, Data, usize, guest.Datatype, Shape, usize, Data, usize, i32, *RawResult) callconv(.c) void;

const library = struct {
    const argmax = imported(*const Along, "argmax");
    const top_k = imported(*const Best, "top-k");
    const softmax = imported(*const Along, "softmax");
    const normalise = imported(*const Along, "normalise");
    const mean_pool = imported(*const Mean, "mean-pool");
    const concat = imported(*const fn (?[*]const RawTensor, usize, i32, *RawResult) callconv(.c) void, "concat");
    const gather = imported(*const Gather, "gather");
    const suppress = imported(*const fn (*const RawSuppression, *RawResult) callconv(.c) void, "suppress");
};

fn said(operation: Operation, given: []const Tensor) Failed![2]Tensor {
    if (operation == .softmax) return guest.internal("as said", .{});
    return .{ given[given.len - 1], given[0] };
}

test "what comes of tensors is what the test says" {
    defer answerWith(null);
    const one = try Tensor.of(f32, &.{1}, &.{1});
    const classes = try Tensor.of(i64, &.{1}, &.{1});
    try std.testing.expectError(error.Internal, argmax(one, 0));
    answerWith(said);
    try std.testing.expectEqual(.fp32, (try topK(one, 1, 0)).places.datatype);
    try std.testing.expectEqual(.int64, (try suppress(one, one, .{ .classes = classes })).datatype);
    try std.testing.expectEqual(.int64, (try concat(&.{ one, classes }, 0)).datatype);
    try std.testing.expectError(error.Internal, softmax(one, 0));
}
