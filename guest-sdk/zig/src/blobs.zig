//! Objects that outlive a request, of any size: in the containers that the endpoint grants,
//! `blobs = ["default"]`.
//!
//! In a component every function is a call to the host, by `wasi:blobstore`. In a test the objects are in
//! memory, in any container, and `forget` begins anew.

const std = @import("std");
const abi = @import("abi.zig");
const guest = @import("guest.zig");
const host = @import("blobs/host.zig");
const native = @import("blobs/native.zig");
const isReadable = @import("text.zig").isReadable;

/// Why a container has not done what it should: `guest.lastError()` is the reason, in the host's words.
pub const Error = error{ Internal, OutOfMemory };

/// Most bytes that are asked for or given at once, and most names of one page.
const piece_size = 256 * 1024;
const page_size = 1000;

pub const Info = struct {
    /// Bytes.
    size: u64,
    /// When it was written, in seconds since 1970.
    created: u64,
};

/// A container: `default`, or `shared/images` for one that several endpoints are granted. The host is asked
/// at each use, so that a container may be a constant: `const pages = guest.blobs.open("default");`.
pub fn open(name: []const u8) Container {
    return .{ .name = name };
}

/// For tests: forgets all objects.
pub fn forget() void {
    native.forget();
}

/// Objects by name; a name is any text of 1 to 512 bytes.
pub const Container = struct {
    name: []const u8,

    /// An object as a whole; null if it is not there.
    pub fn get(self: Container, name: []const u8) Error!?[]const u8 {
        return self.whole(name, 0, std.math.maxInt(u64));
    }

    /// Its bytes from `start` up to `end`, as far as there are some.
    pub fn getRange(self: Container, name: []const u8, start: u64, end: u64) Error!?[]const u8 {
        if (end <= start) return if (try self.info(name) == null) null else "";
        return self.whole(name, start, end - 1);
    }

    /// An object to be read piece by piece; null if it is not there. `deinit` closes it.
    pub fn reader(self: Container, name: []const u8) Error!?Reader {
        return self.opened(name, 0, std.math.maxInt(u64));
    }

    /// Writes an object as a whole, in place of an earlier one.
    pub fn set(self: Container, name: []const u8, content: []const u8) Error!void {
        var it = try self.writer(name);
        defer it.deinit();
        try it.write(content);
        try it.finish();
    }

    /// An object to be written piece by piece. It is there after `finish`; without it, `deinit` leaves
    /// nothing.
    pub fn writer(self: Container, name: []const u8) Error!Writer {
        try self.check(name);
        if (!abi.is_component) return .{ .native = try native.Writer.open(self.name, name) };
        const container = try host.open(self.name);
        defer host.drop(container);
        return .{ .handles = try host.write(container, name) };
    }

    /// Size and age of an object; null if it is not there.
    pub fn info(self: Container, name: []const u8) Error!?Info {
        try self.check(name);
        if (!abi.is_component) return native.info(self.name, name);
        const container = try host.open(self.name);
        defer host.drop(container);
        return host.info(container, name);
    }

    /// Removes an object, whether it is there or not.
    pub fn delete(self: Container, name: []const u8) Error!void {
        try self.check(name);
        if (!abi.is_component) return native.delete(self.name, name);
        const container = try host.open(self.name);
        defer host.drop(container);
        return host.delete(container, name);
    }

    /// Removes all objects.
    pub fn clear(self: Container) Error!void {
        try self.check("");
        if (!abi.is_component) return native.clear(self.name);
        const container = try host.open(self.name);
        defer host.drop(container);
        return host.clear(container);
    }

    /// The names of all objects, in any order.
    pub fn names(self: Container) Error![]const []const u8 {
        return self.firstNames(std.math.maxInt(usize));
    }

    /// At most so many of them.
    pub fn firstNames(self: Container, most: usize) Error![]const []const u8 {
        try self.check("");
        if (!abi.is_component) return native.names(self.name, most);
        const container = try host.open(self.name);
        defer host.drop(container);
        const listing = try host.list(container);
        defer host.dropListing(listing);
        var found: std.ArrayList([]const u8) = .empty;
        while (found.items.len < most) {
            const page = try host.page(listing, @min(page_size, most - found.items.len));
            for (page.names.slice()) |name| try found.append(guest.allocator, name.slice());
            if (page.is_end) break;
        }
        return found.items;
    }

    /// Refuses what no host takes as text.
    fn check(self: Container, name: []const u8) Error!void {
        if (!isReadable(self.name) or !isReadable(name)) return guest.internal("a name that is no UTF-8", .{});
    }

    fn whole(self: Container, name: []const u8, first: u64, last: u64) Error!?[]const u8 {
        var it = try self.opened(name, first, last) orelse return null;
        defer it.deinit();
        const content = try guest.allocator.alloc(u8, std.math.cast(usize, it.size) orelse return error.OutOfMemory);
        var filled: usize = 0;
        while (filled < content.len) {
            const count = try it.read(content[filled..]);
            if (count == 0) break;
            filled += count;
        }
        return content[0..filled];
    }

    fn opened(self: Container, name: []const u8, first: u64, last: u64) Error!?Reader {
        try self.check(name);
        if (!abi.is_component) return try native.open(self.name, name, first, last);
        const container = try host.open(self.name);
        defer host.drop(container);
        const stream, const size = host.read(container, name, first, last) catch |failed| {
            // What went wrong, its words alone say.
            const words = guest.lastError();
            if (try host.info(container, name) == null) return null;
            return abi.say(failed, "{s}", .{words});
        };
        return .{ .size = size, .stream = stream };
    }
};

/// An object that is read.
pub const Reader = struct {
    /// The bytes that there are.
    size: u64,
    stream: ?i32 = null,
    /// In a test: what is left of it.
    rest: []const u8 = "",

    /// Reads some of the next bytes, at most as many as fit, and gives their number: 0 at the end.
    pub fn read(self: *Reader, buffer: []u8) Error!usize {
        const most = @min(buffer.len, piece_size);
        if (most == 0) return 0;
        if (!abi.is_component) {
            const count = @min(most, self.rest.len);
            @memcpy(buffer[0..count], self.rest[0..count]);
            self.rest = self.rest[count..];
            return count;
        }
        return host.readInto(self.stream orelse return guest.internal("the object is closed", .{}), buffer[0..most]);
    }

    /// Closes it.
    pub fn deinit(self: *Reader) void {
        if (abi.is_component) if (self.stream) |stream| host.dropInput(stream);
        self.* = .{ .size = self.size };
    }
};

/// An object that is written.
pub const Writer = struct {
    handles: ?host.Handles = null,
    native: ?native.Writer = null,

    /// Adds to the object, and waits while the store does not take it.
    pub fn write(self: *Writer, content: []const u8) Error!void {
        if (!abi.is_component) return if (self.native) |*it| it.write(content) else guest.internal("the object is closed", .{});
        const stream = (self.handles orelse return guest.internal("the object is closed", .{})).stream;
        var rest = content;
        while (rest.len > 0) {
            const room = try host.room(stream);
            const count = @min(rest.len, room, piece_size);
            if (count > 0) try host.writeSome(stream, rest[0..count]) else host.wait(stream);
            rest = rest[count..];
        }
    }

    /// Ends the object: it is stored when this returns.
    pub fn finish(self: *Writer) Error!void {
        if (!abi.is_component) {
            const it = self.native orelse return guest.internal("the object is closed", .{});
            self.native = null;
            return it.finish();
        }
        const handles = self.handles orelse return guest.internal("the object is closed", .{});
        self.handles = null;
        try host.finish(handles);
    }

    /// Gives the object up, unless it is finished.
    pub fn deinit(self: *Writer) void {
        if (abi.is_component) if (self.handles) |handles| host.giveUp(handles);
        self.* = .{};
    }
};

test "a test has containers in memory" {
    defer forget();
    const container = open("a");
    try container.set("k/1", "0123456789");
    try std.testing.expectEqualStrings("0123456789", (try open("a").get("k/1")).?);
    try std.testing.expectEqual(null, try open("b").get("k/1"));
    for ([_]struct { u64, u64, []const u8 }{ .{ 2, 4, "23" }, .{ 8, 99, "89" }, .{ 5, 5, "" }, .{ 99, 100, "" } }) |case| {
        try std.testing.expectEqualStrings(case[2], (try container.getRange("k/1", case[0], case[1])).?);
    }
    var writer = try container.writer("k/2");
    try writer.write("ab");
    try std.testing.expectEqual(null, try container.info("k/2"));
    try writer.write("c");
    try writer.finish();
    try std.testing.expectError(error.Internal, writer.write("d"));
    writer.deinit();
    try std.testing.expectEqual(3, (try container.info("k/2")).?.size);
    var given_up = try container.writer("k/1");
    try given_up.write("x");
    given_up.deinit();

    var reader = (try container.reader("k/1")).?;
    defer reader.deinit();
    var buffer: [8]u8 = undefined;
    try std.testing.expectEqual(8, try reader.read(&buffer));
    try std.testing.expectEqual(2, try reader.read(&buffer));
    try std.testing.expectEqualStrings("89", buffer[0..2]);
    try std.testing.expectEqual(0, try reader.read(&buffer));

    try std.testing.expectEqual(2, (try container.names()).len);
    try std.testing.expectEqual(1, (try container.firstNames(1)).len);
    try container.delete("k/1");
    try std.testing.expectEqual(null, try container.reader("k/1"));
    try std.testing.expectError(error.Internal, container.set("", ""));
    try std.testing.expectEqualStrings("a name of 0 bytes, expected 1 to 512", guest.lastError());
    try std.testing.expectError(error.Internal, container.get("\xff"));
    try std.testing.expectError(error.Internal, open("\xff").set("a", ""));
    try std.testing.expectEqualStrings("a name that is no UTF-8", guest.lastError());
    try container.clear();
    try std.testing.expectEqual(0, (try container.names()).len);
}
