//! Containers of the host: `wasi:blobstore`, and the streams of `wasi:io` that objects are read and written
//! by.

const std = @import("std");
const abi = @import("../abi.zig");
const blobs = @import("../blobs.zig");
const guest = @import("../guest.zig");
const Text = abi.Text;

/// What an object that is written needs.
pub const Handles = struct { value: i32, stream: i32 };

pub fn open(name: []const u8) blobs.Error!i32 {
    const own, var result: Result(i32) = .{ Text.of(name), undefined };
    blobstore.get_container(own.start, own.length, &result);
    return result.get();
}

pub fn read(container: i32, name: []const u8, first: u64, last: u64) blobs.Error!struct { i32, u64 } {
    const own, var result: Result(i32) = .{ Text.of(name), undefined };
    containers.get_data(container, own.start, own.length, first, last, &result);
    const value = try result.get();
    const size = types.size(value);
    types.consume(value, &result);
    return .{ try result.get(), size };
}

/// Reads into the buffer itself; 0 at the end.
pub fn readInto(stream: i32, buffer: []u8) blobs.Error!usize {
    var result: Streamed(Text) = undefined;
    abi.landing = buffer;
    streams.blocking_read(stream, buffer.len, &result);
    abi.landing = &.{};
    if (result.is_error != 0 and result.as.failure.is_closed) return 0;
    return (try result.get()).length;
}

pub fn write(container: i32, name: []const u8) blobs.Error!Handles {
    const own, var result: Result(i32) = .{ Text.of(name), undefined };
    const value = types.new();
    errdefer types.drop_outgoing(value);
    containers.write_data(container, own.start, own.length, value, &result);
    _ = try result.get();
    types.write_body(value, &result);
    if (result.is_error != 0) return guest.internal("the object has no stream", .{});
    return .{ .value = value, .stream = result.as.value };
}

/// How many bytes the stream takes now.
pub fn room(stream: i32) blobs.Error!usize {
    var result: Streamed(u64) = undefined;
    streams.check_write(stream, &result);
    return std.math.lossyCast(usize, try result.get());
}

pub fn writeSome(stream: i32, piece: []const u8) blobs.Error!void {
    const own, var result: Streamed(u8) = .{ Text.of(piece), undefined };
    streams.write(stream, own.start, own.length, &result);
    _ = try result.get();
}

/// Waits until the stream takes something.
pub fn wait(stream: i32) void {
    const pollable = streams.subscribe(stream);
    poll.block(pollable);
    poll.drop(pollable);
}

pub fn finish(handles: Handles) blobs.Error!void {
    streams.drop_output(handles.stream);
    var result: Result(u8) = undefined;
    types.finish(handles.value, &result);
    _ = try result.get();
}

pub fn giveUp(handles: Handles) void {
    streams.drop_output(handles.stream);
    types.drop_outgoing(handles.value);
}

pub fn info(container: i32, name: []const u8) blobs.Error!?blobs.Info {
    const own, var is_there: Result(bool) = .{ Text.of(name), undefined };
    containers.has_object(container, own.start, own.length, &is_there);
    if (!try is_there.get()) return null;
    var result: Result(RawInfo) = undefined;
    containers.object_info(container, own.start, own.length, &result);
    const found = try result.get();
    return .{ .size = found.size, .created = found.created };
}

pub fn delete(container: i32, name: []const u8) blobs.Error!void {
    const own, var result: Result(u8) = .{ Text.of(name), undefined };
    containers.delete_object(container, own.start, own.length, &result);
    _ = try result.get();
}

pub fn clear(container: i32) blobs.Error!void {
    var result: Result(u8) = undefined;
    containers.clear(container, &result);
    _ = try result.get();
}

pub fn list(container: i32) blobs.Error!i32 {
    var result: Result(i32) = undefined;
    containers.list_objects(container, &result);
    return result.get();
}

pub fn page(listing: i32, most: usize) blobs.Error!RawPage {
    var result: Result(RawPage) = undefined;
    containers.read_names(listing, most, &result);
    return result.get();
}

pub fn drop(container: i32) void {
    containers.drop(container);
}

pub fn dropListing(listing: i32) void {
    containers.drop_listing(listing);
}

pub fn dropInput(stream: i32) void {
    streams.drop_input(stream);
}

const RawInfo = extern struct { name: Text, container: Text, created: u64, size: u64 };
const RawPage = extern struct { names: abi.List(Text), is_end: bool };

/// What may fail with a text.
fn Result(comptime T: type) type {
    return extern struct {
        is_error: u8,
        as: extern union { value: T, text: Text },

        fn get(self: @This()) blobs.Error!T {
            return if (self.is_error == 0) self.as.value else guest.internal("{s}", .{self.as.text.slice()});
        }
    };
}

/// What may fail with the error of a stream.
fn Streamed(comptime T: type) type {
    return extern struct {
        is_error: u8,
        as: extern union { value: T, failure: extern struct { is_closed: bool, handle: i32 } },

        fn get(self: @This()) blobs.Error!T {
            if (self.is_error == 0) return self.as.value;
            if (self.as.failure.is_closed) return guest.internal("the object is closed", .{});
            var text: Text = undefined;
            errors.to_debug_string(self.as.failure.handle, &text);
            errors.drop(self.as.failure.handle);
            return guest.internal("{s}", .{text.slice()});
        }
    };
}

comptime {
    if (abi.is_component) {
        std.debug.assert(@sizeOf(Result(RawInfo)) == 40 and @sizeOf(Result(RawPage)) == 16);
        std.debug.assert(@sizeOf(Streamed(u64)) == 16 and @sizeOf(Streamed(Text)) == 12);
    }
}

fn Interface(comptime name: []const u8) type {
    return struct {
        fn function(comptime T: type, comptime function_name: []const u8) *const T {
            return abi.importedFrom(*const T, name, function_name);
        }

        fn drop(comptime resource: []const u8) *const fn (i32) callconv(.c) void {
            return function(fn (i32) callconv(.c) void, "[resource-drop]" ++ resource);
        }
    };
}

const Bytes = ?[*]const u8;

fn Named(comptime T: type) type {
    return fn (i32, Bytes, usize, *Result(T)) callconv(.c) void;
}

const blobstore = struct {
    const from = Interface("wasi:blobstore/blobstore@0.2.0-draft");
    const get_container = from.function(fn (Bytes, usize, *Result(i32)) callconv(.c) void, "get-container");
};

const containers = struct {
    const from = Interface("wasi:blobstore/container@0.2.0-draft");
    const drop = from.drop("container");
    const drop_listing = from.drop("stream-object-names");
    const get_data = from.function(fn (i32, Bytes, usize, u64, u64, *Result(i32)) callconv(.c) void, "[method]container.get-data");
    const write_data = from.function(fn (i32, Bytes, usize, i32, *Result(i32)) callconv(.c) void, "[method]container.write-data");
    const has_object = from.function(Named(bool), "[method]container.has-object");
    const object_info = from.function(Named(RawInfo), "[method]container.object-info");
    const delete_object = from.function(Named(u8), "[method]container.delete-object");
    const clear = from.function(fn (i32, *Result(u8)) callconv(.c) void, "[method]container.clear");
    const list_objects = from.function(fn (i32, *Result(i32)) callconv(.c) void, "[method]container.list-objects");
    const read_names = from.function(
        fn (i32, u64, *Result(RawPage)) callconv(.c) void,
        "[method]stream-object-names.read-stream-object-names",
    );
};

const types = struct {
    const from = Interface("wasi:blobstore/types@0.2.0-draft");
    const drop_outgoing = from.drop("outgoing-value");
    const new = from.function(fn () callconv(.c) i32, "[static]outgoing-value.new-outgoing-value");
    const write_body = from.function(fn (i32, *Result(i32)) callconv(.c) void, "[method]outgoing-value.outgoing-value-write-body");
    const finish = from.function(fn (i32, *Result(u8)) callconv(.c) void, "[static]outgoing-value.finish");
    const size = from.function(fn (i32) callconv(.c) u64, "[method]incoming-value.size");
    const consume = from.function(fn (i32, *Result(i32)) callconv(.c) void, "[static]incoming-value.incoming-value-consume-async");
};

const streams = struct {
    const from = Interface("wasi:io/streams@0.2.12");
    const drop_input = from.drop("input-stream");
    const drop_output = from.drop("output-stream");
    const blocking_read = from.function(fn (i32, u64, *Streamed(Text)) callconv(.c) void, "[method]input-stream.blocking-read");
    const check_write = from.function(fn (i32, *Streamed(u64)) callconv(.c) void, "[method]output-stream.check-write");
    const write = from.function(fn (i32, Bytes, usize, *Streamed(u8)) callconv(.c) void, "[method]output-stream.write");
    const subscribe = from.function(fn (i32) callconv(.c) i32, "[method]output-stream.subscribe");
};

const errors = struct {
    const from = Interface("wasi:io/error@0.2.12");
    const drop = from.drop("error");
    const to_debug_string = from.function(fn (i32, *Text) callconv(.c) void, "[method]error.to-debug-string");
};

const poll = struct {
    const from = Interface("wasi:io/poll@0.2.12");
    const drop = from.drop("pollable");
    const block = from.function(fn (i32) callconv(.c) void, "[method]pollable.block");
};
