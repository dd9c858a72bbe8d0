//! Picture files to a model's tensor, by the library `image`: a component of its own, which `modelhost build` puts into the
//! handler's, `[build]` with `with = ["image"]` in modelhost.toml.
//!
//! A file that is no picture is the caller's: 400 with the reason. In a test there is no library: `answerWith` says what comes
//! of a file.

const std = @import("std");
const abi = @import("abi.zig");
const guest = @import("guest.zig");

pub const Fit = enum(u8) { stretch, cover, contain };
pub const Filter = enum(u8) { nearest, box, bilinear, bicubic, lanczos };
pub const Colours = enum(u8) { rgb, bgr, grey };
/// `[1, values, rows, columns]`, or `[1, rows, columns, values]`.
pub const Layout = enum(u8) { planes, pixels };
pub const Format = enum(u8) { jpeg, png, webp };

/// How a picture becomes a tensor.
pub const Preparation = struct {
    /// Columns and rows; without, the picture's own.
    size: ?[2]u32 = null,
    fit: Fit = .stretch,
    filter: Filter = .bilinear,
    colours: Colours = .rgb,
    layout: Layout = .planes,
    /// `.fp32`, `.fp16`, or `.uint8`: the bytes as they are.
    datatype: guest.Datatype = .fp32,
    /// A value is `(byte * scale - mean) / deviation`; mean and deviation have a number for each value of a pixel.
    scale: f32 = 1.0 / 255.0,
    mean: []const f32 = &.{},
    deviation: []const f32 = &.{},
    /// The byte around a picture that does not fill its size.
    padding: u8 = 0,
    /// Turns the picture as its file says.
    upright: bool = true,
    /// Most pixels of a file's picture; 0 for 4096 by 4096.
    most_pixels: u32 = 0,
};

pub const Picture = struct {
    tensor: guest.Tensor,
    /// Columns and rows of the file's picture, turned if it was to be.
    width: u32,
    height: u32,
    /// Where it lies in the tensor: a point of it is at `(x * scale[0] + offset[0], y * scale[1] + offset[1])`.
    offset: [2]f32 = .{ 0, 0 },
    scale: [2]f32 = .{ 1, 1 },
};

/// What a file says of its picture.
pub const Info = struct { format: Format, width: u32, height: u32, orientation: u8 };

const Failed = error{ InvalidInput, Internal };
const Answer = *const fn (file: []const u8, preparation: Preparation) Failed!Picture;
var answer: ?Answer = null;

/// For tests: what comes of a file.
pub fn answerWith(function: ?Answer) void {
    answer = function;
}

/// Decodes a JPEG, PNG or WebP file and prepares its picture.
pub fn prepare(file: []const u8, preparation: Preparation) Failed!Picture {
    const datatype: u8 = switch (preparation.datatype) {
        .uint8 => 0,
        .fp16 => 1,
        .fp32 => 2,
        else => return guest.internal("pixels of {t}, expected uint8, fp16 or fp32", .{preparation.datatype}),
    };
    if (!abi.is_component) {
        const function = answer orelse return guest.internal("the test does not say what comes of a file: answerWith", .{});
        return function(file, preparation);
    }
    const size = preparation.size orelse .{ 0, 0 };
    const arguments: RawArguments = .{
        .file = .of(file),
        .is_sized = preparation.size != null,
        .width = size[0],
        .height = size[1],
        .fit = preparation.fit,
        .filter = preparation.filter,
        .colours = preparation.colours,
        .layout = preparation.layout,
        .datatype = datatype,
        .scale = preparation.scale,
        .mean = .of(preparation.mean),
        .deviation = .of(preparation.deviation),
        .padding = preparation.padding,
        .upright = preparation.upright,
        .most_pixels = preparation.most_pixels,
    };
    var result: RawPrepared = undefined;
    library.prepare(&arguments, &result);
    if (result.is_error != 0) return failed(result.as.failure);
    const pixels = result.as.pixels;
    const extents = pixels.shape.slice();
    const shape = guest.allocator.alloc(u64, extents.len + 1) catch return guest.internal("out of memory", .{});
    shape[0] = 1;
    @memcpy(shape[1..], extents);
    return .{
        .tensor = .{ .datatype = preparation.datatype, .shape = shape, .data = pixels.data.slice() },
        .width = pixels.width,
        .height = pixels.height,
        .offset = .{ pixels.left, pixels.top },
        .scale = .{ pixels.scale_x, pixels.scale_y },
    };
}

/// Reads a file's head, without decoding it.
pub fn inspect(file: []const u8) Failed!Info {
    if (!abi.is_component) return guest.internal("a test looks at no files", .{});
    var result: RawInspected = undefined;
    library.inspect(file.ptr, file.len, &result);
    if (result.is_error != 0) return failed(result.as.failure);
    const info = result.as.info;
    return .{ .format = info.format, .width = info.width, .height = info.height, .orientation = info.orientation };
}

const RawArguments = extern struct {
    file: abi.Text,
    is_sized: bool,
    width: u32,
    height: u32,
    fit: Fit,
    filter: Filter,
    colours: Colours,
    layout: Layout,
    datatype: u8,
    scale: f32,
    mean: abi.List(f32),
    deviation: abi.List(f32),
    padding: u8,
    upright: bool,
    most_pixels: u32,
};
const RawPixels = extern struct {
    shape: abi.List(u64),
    data: abi.Text,
    width: u32,
    height: u32,
    left: f32,
    top: f32,
    scale_x: f32,
    scale_y: f32,
};
const RawInfo = extern struct { format: Format, width: u32, height: u32, orientation: u8 };
/// The last kind of errors is the handler's.
const RawError = extern struct { kind: u8, text: abi.Text };
const unusable = 3;
const RawPrepared = extern struct { is_error: u8, as: extern union { pixels: RawPixels, failure: RawError } };
const RawInspected = extern struct { is_error: u8, as: extern union { info: RawInfo, failure: RawError } };

comptime {
    if (abi.is_component) std.debug.assert(@sizeOf(RawArguments) == 56 and @sizeOf(RawPrepared) == 44);
}

fn failed(failure: RawError) Failed {
    const text = failure.text.slice();
    return if (failure.kind == unusable) guest.internal("{s}", .{text}) else guest.invalid("{s}", .{text});
}

fn imported(comptime T: type, comptime name: []const u8) T {
    return abi.importedFrom(T, "modelhost:image/images@0.1.0", name);
}

const library = struct {
    const prepare = imported(*const fn (*const RawArguments, *RawPrepared) callconv(.c) void, "prepare");
    const inspect = imported(*const fn ([*]const u8, usize, *RawInspected) callconv(.c) void, "inspect");
};

fn said(file: []const u8, preparation: Preparation) Failed!Picture {
    if (file.len == 0) return guest.invalid("no picture", .{});
    const tensor = try guest.Tensor.of(u8, file, &.{ 1, 1 });
    return .{ .tensor = tensor, .width = preparation.size.?[0], .height = 2 };
}

test "a picture is what the test says" {
    defer answerWith(null);
    try std.testing.expectError(error.Internal, prepare("f", .{}));
    answerWith(said);
    try std.testing.expectEqual(3, (try prepare("f", .{ .size = .{ 3, 2 } })).width);
    try std.testing.expectError(error.InvalidInput, prepare("", .{}));
    try std.testing.expectError(error.Internal, prepare("f", .{ .datatype = .fp64 }));
}
