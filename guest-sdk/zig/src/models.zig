//! The endpoint's models, called by the handler: none, one or many times for a request. In a test there are none:
//! `answerWith` says what comes of a call.

const std = @import("std");
const abi = @import("abi.zig");
const guest = @import("guest.zig");
const Tensor = guest.Tensor;

const Failed = error{ Internal, Respond };
const Answer = *const fn (model: []const u8, inputs: []const Tensor) Failed![]const Tensor;
var answer: ?Answer = null;

/// For tests: what a model makes of its inputs.
pub fn answerWith(function: ?Answer) void {
    answer = function;
}

/// Runs a model of the endpoint, by its name in the configuration; the empty name is the first one. The outputs are in
/// the model's order. Without a place in the model's queue the error answers with 503, if it is returned.
pub fn infer(model: []const u8, inputs: []const Tensor) Failed![]const Tensor {
    if (!abi.is_component) {
        const function = answer orelse return guest.internal("a test says what models answer: models.answerWith", .{});
        return function(model, inputs);
    }
    const name = abi.Text.of(model);
    const list = abi.lowered(inputs);
    var result: RawResult = undefined;
    host.infer(name.start, name.length, list.start, list.length, &result);
    if (result.is_error == 0) return abi.lifted(result.as.outputs);
    const text = result.as.failure.text;
    return switch (result.as.failure.kind) {
        0 => guest.internal("the endpoint has no model `{s}`", .{text.slice()}),
        2 => guest.respond(.{ .status = 503, .content_type = "text/plain; charset=utf-8", .body = "overloaded" }),
        3 => guest.internal("the model has not answered in the request's time", .{}),
        else => guest.internal("{s}", .{text.slice()}),
    };
}

const RawResult = extern struct {
    is_error: u8,
    as: extern union { outputs: abi.List(abi.RawTensor), failure: extern struct { kind: u8, text: abi.Text } },
};

const host = struct {
    const infer = abi.importedFrom(
        *const fn (?[*]const u8, usize, ?[*]const abi.RawTensor, usize, *RawResult) callconv(.c) void,
        "modelhost:handler/models@0.1.0",
        "infer",
    );
};

test "what a model answers is what the test says" {
    try std.testing.expectError(error.Internal, infer("", &.{}));
    answerWith(struct {
        fn answer(model: []const u8, inputs: []const Tensor) Failed![]const Tensor {
            return if (model.len == 0) inputs else guest.internal("no model `{s}`", .{model});
        }
    }.answer);
    defer answerWith(null);
    const given = try Tensor.of(f32, &.{ 1, 2 }, &.{2});
    try std.testing.expectEqual(2, (try (try infer("", &.{given}))[0].values(f32)).len);
    try std.testing.expectError(error.Internal, infer("none", &.{}));
}
