//! Containers in memory, for tests, which have no host: what the host's do, but for limits.

const std = @import("std");
const blobs = @import("../blobs.zig");
const guest = @import("../guest.zig");

const Object = struct { container: []const u8, name: []const u8, content: []const u8, created: u64 };

var arena = std.heap.ArenaAllocator.init(std.heap.page_allocator);
var objects: std.ArrayList(Object) = .empty;

pub fn forget() void {
    objects = .empty;
    _ = arena.reset(.free_all);
}

pub fn open(container: []const u8, name: []const u8, first: u64, last: u64) blobs.Error!?blobs.Reader {
    const object = objects.items[try find(container, name) orelse return null];
    const length = object.content.len;
    const start: usize = @intCast(@min(first, length));
    const end: usize = @intCast(@min(last +| 1, length));
    return .{ .size = end - start, .rest = object.content[start..end] };
}

pub fn info(container: []const u8, name: []const u8) blobs.Error!?blobs.Info {
    const object = objects.items[try find(container, name) orelse return null];
    return .{ .size = object.content.len, .created = object.created };
}

pub fn delete(container: []const u8, name: []const u8) blobs.Error!void {
    _ = objects.swapRemove(try find(container, name) orelse return);
}

pub fn clear(container: []const u8) void {
    var at = objects.items.len;
    while (at > 0) {
        at -= 1;
        if (std.mem.eql(u8, objects.items[at].container, container)) _ = objects.swapRemove(at);
    }
}

pub fn names(container: []const u8, most: usize) blobs.Error![]const []const u8 {
    var found: std.ArrayList([]const u8) = .empty;
    for (objects.items) |it| {
        if (found.items.len < most and std.mem.eql(u8, it.container, container)) try found.append(guest.allocator, it.name);
    }
    return found.items;
}

pub const Writer = struct {
    container: []const u8,
    name: []const u8,
    content: std.ArrayList(u8) = .empty,

    pub fn open(container: []const u8, name: []const u8) blobs.Error!Writer {
        _ = try find(container, name);
        return .{ .container = try arena.allocator().dupe(u8, container), .name = try arena.allocator().dupe(u8, name) };
    }

    pub fn write(self: *Writer, piece: []const u8) blobs.Error!void {
        try self.content.appendSlice(arena.allocator(), piece);
    }

    pub fn finish(self: Writer) blobs.Error!void {
        try delete(self.container, self.name);
        const now = std.Io.Clock.real.now(std.Io.Threaded.global_single_threaded.io()).toSeconds();
        const object: Object = .{ .container = self.container, .name = self.name, .content = self.content.items, .created = @intCast(now) };
        try objects.append(arena.allocator(), object);
    }
};

fn find(container: []const u8, name: []const u8) blobs.Error!?usize {
    if (name.len < 1 or name.len > 512) return guest.internal("a name of {d} bytes, expected 1 to 512", .{name.len});
    for (objects.items, 0..) |it, at| {
        if (std.mem.eql(u8, it.container, container) and std.mem.eql(u8, it.name, name)) return at;
    }
    return null;
}
