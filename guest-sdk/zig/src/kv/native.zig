//! Buckets in memory, for tests, which have no host: what the host's do, but for limits.

const std = @import("std");
const abi = @import("../abi.zig");
const guest = @import("../guest.zig");
const kv = @import("../kv.zig");

const Stored = struct { bucket: []const u8, key: []const u8, value: []const u8, end: ?i64 };

var arena = std.heap.ArenaAllocator.init(std.heap.page_allocator);
var values: std.ArrayList(Stored) = .empty;

pub fn forget() void {
    values = .empty;
    _ = arena.reset(.free_all);
}

pub fn get(bucket: []const u8, key: []const u8) kv.Error!?[]const u8 {
    const stored = try found(bucket, key) orelse return null;
    return stored.value;
}

pub fn set(bucket: []const u8, key: []const u8, value: []const u8, ttl_ms: ?u64) kv.Error!void {
    try delete(bucket, key);
    try put(.{ .bucket = bucket, .key = key, .value = value, .end = try endAfter(ttl_ms) });
}

pub fn add(bucket: []const u8, key: []const u8, value: []const u8, ttl_ms: ?u64) kv.Error!bool {
    if (try found(bucket, key) != null) return false;
    try set(bucket, key, value, ttl_ms);
    return true;
}

pub fn increment(bucket: []const u8, key: []const u8, by: i64, ttl_ms: ?u64) kv.Error!i64 {
    const stored = try found(bucket, key);
    const before = std.fmt.parseInt(i64, if (stored) |it| it.value else "0", 10) catch
        return abi.say(error.Invalid, "the value is not a whole number of 64 bits", .{});
    const sum = std.math.add(i64, before, by) catch return abi.say(error.Invalid, "the sum is beyond 64 bits", .{});
    const digits = try std.fmt.allocPrint(arena.allocator(), "{d}", .{sum});
    if (stored) |it| it.value = digits else try set(bucket, key, digits, ttl_ms);
    return sum;
}

pub fn swap(bucket: []const u8, key: []const u8, current: ?[]const u8, value: []const u8) kv.Error!bool {
    const stored = try found(bucket, key) orelse return if (current == null) add(bucket, key, value, null) else false;
    if (current == null or !std.mem.eql(u8, stored.value, current.?)) return false;
    stored.value = try arena.allocator().dupe(u8, value);
    return true;
}

pub fn delete(bucket: []const u8, key: []const u8) kv.Error!void {
    const stored = try found(bucket, key) orelse return;
    _ = values.swapRemove(stored - values.items.ptr);
}

pub fn page(bucket: []const u8, prefix: []const u8, from: kv.From) kv.Error!kv.Page {
    var keys: std.ArrayList([]const u8) = .empty;
    for (values.items) |it| {
        const is_behind = from.cursor == null or std.mem.lessThan(u8, from.cursor.?, it.key);
        const is_own = std.mem.eql(u8, it.bucket, bucket) and std.mem.startsWith(u8, it.key, prefix);
        if (is_own and is_behind and !isOver(it)) try keys.append(guest.allocator, it.key);
    }
    std.mem.sort([]const u8, keys.items, {}, struct {
        fn isBefore(_: void, one: []const u8, other: []const u8) bool {
            return std.mem.lessThan(u8, one, other);
        }
    }.isBefore);
    const limit = std.math.clamp(from.limit, 1, 1000);
    if (keys.items.len <= limit) return .{ .keys = keys.items, .cursor = null };
    return .{ .keys = keys.items[0..limit], .cursor = keys.items[limit - 1] };
}

fn found(bucket: []const u8, key: []const u8) kv.Error!?*Stored {
    if (key.len < 1 or key.len > 1024) return abi.say(error.Invalid, "a key of {d} bytes, expected 1 to 1024", .{key.len});
    for (values.items, 0..) |*it, at| {
        if (!std.mem.eql(u8, it.bucket, bucket) or !std.mem.eql(u8, it.key, key)) continue;
        if (!isOver(it.*)) return it;
        _ = values.swapRemove(at);
        return null;
    }
    return null;
}

/// Stores a copy of it.
fn put(new: Stored) kv.Error!void {
    const own = arena.allocator();
    try values.append(own, .{
        .bucket = try own.dupe(u8, new.bucket),
        .key = try own.dupe(u8, new.key),
        .value = try own.dupe(u8, new.value),
        .end = new.end,
    });
}

fn endAfter(ttl_ms: ?u64) kv.Error!?i64 {
    const wanted = ttl_ms orelse return null;
    const most = 3_153_600_000_000;
    if (wanted < 1 or wanted > most) return abi.say(error.Invalid, "a time to live outside of 1 to {d} milliseconds", .{most});
    return now() + @as(i64, @intCast(wanted));
}

fn isOver(stored: Stored) bool {
    return stored.end != null and stored.end.? <= now();
}

fn now() i64 {
    return std.Io.Clock.awake.now(std.Io.Threaded.global_single_threaded.io()).toMilliseconds();
}
