//! Values that outlive a request: in the buckets that the endpoint grants, `kv = ["default"]`.
//!
//! In a component every function is a call to the host. In a test the values are in memory, in any bucket,
//! and `forget` begins anew.

const std = @import("std");
const abi = @import("abi.zig");
const closing = @import("closing.zig");
const guest = @import("guest.zig");
const native = @import("kv/native.zig");
const isReadable = @import("text.zig").isReadable;
const Text = abi.Text;

/// Why a bucket has not done what it should. `guest.lastError()` is the reason as text; if the error is
/// returned, the answer is 500 and the log has it.
pub const Error = error{
    /// The endpoint is granted no bucket of this name.
    NoSuchBucket,
    /// A key, a time to live or a value that cannot be used.
    Invalid,
    /// Beyond a limit of the endpoint. Nothing was changed.
    Limit,
    /// The store cannot be used now; whether a write was done is not known.
    Unavailable,
    OutOfMemory,
};

/// How long a value lives.
pub const Life = struct {
    /// Milliseconds; without, until it is deleted.
    ttl_ms: ?u64 = null,
};

/// Keys in the order of their bytes, and the cursor of the next page, if there are more.
pub const Page = struct { keys: []const []const u8, cursor: ?[]const u8 };

/// Which keys a page has.
pub const From = struct {
    cursor: ?[]const u8 = null,
    /// At most 1000.
    limit: u32 = 1000,
};

/// A bucket: `default`, or `shared/sessions` for one that several endpoints are granted. The host is asked at
/// its first use in each request, so that a bucket may be a constant: `const visits =
/// guest.kv.open("default");`.
pub fn open(name: []const u8) Bucket {
    return .{ .name = name };
}

/// For tests: forgets all values.
pub fn forget() void {
    native.forget();
}

/// Keys and their values, which are bytes.
pub const Bucket = struct {
    name: []const u8,

    /// The value of a key.
    pub fn get(self: Bucket, key: []const u8) Error!?[]const u8 {
        try self.check(key);
        if (!abi.is_component) return native.get(self.name, key);
        const own, var reply: abi.Reply(abi.RawOptional) = .{ Text.of(key), undefined };
        host.get(try opened(self.name), own.start, own.length, &reply);
        const value = (try checked(&reply)).get() orelse return null;
        return value.slice();
    }

    /// A value that was set as JSON, read into a type.
    pub fn getJson(self: Bucket, comptime T: type, key: []const u8) Error!?T {
        const text = try self.get(key) orelse return null;
        return std.json.parseFromSliceLeaky(T, guest.allocator, text, .{ .ignore_unknown_fields = true }) catch |failed|
            return if (failed == error.OutOfMemory) error.OutOfMemory else abi.say(error.Invalid, "the value of `{s}`: {t}", .{ key, failed });
    }

    /// Sets a value.
    pub fn set(self: Bucket, key: []const u8, value: []const u8, life: Life) Error!void {
        try self.check(key);
        if (!abi.is_component) return native.set(self.name, key, value, life.ttl_ms);
        _ = try self.put(host.set, key, value, life);
    }

    /// Sets a value as JSON.
    pub fn setJson(self: Bucket, key: []const u8, value: anytype, life: Life) Error!void {
        return self.set(key, try guest.toJson(value), life);
    }

    /// Sets a value if the key is not there, and says whether it did: a lock, or a mark that something is
    /// being done.
    pub fn add(self: Bucket, key: []const u8, value: []const u8, life: Life) Error!bool {
        try self.check(key);
        if (!abi.is_component) return native.add(self.name, key, value, life.ttl_ms);
        return try self.put(host.add, key, value, life) != 0;
    }

    /// Adds to a number and gives the sum. A key that is not there counts as 0, and the time to live is for
    /// it alone: a count of requests a minute begins anew after the minute.
    pub fn increment(self: Bucket, key: []const u8, by: i64, life: Life) Error!i64 {
        try self.check(key);
        if (!abi.is_component) return native.increment(self.name, key, by, life.ttl_ms);
        const own, var reply: abi.Reply(i64) = .{ Text.of(key), undefined };
        host.increment(try opened(self.name), own.start, own.length, by, @intFromBool(life.ttl_ms != null), life.ttl_ms orelse 0, &reply);
        return checked(&reply);
    }

    /// Sets a value if the present one is `current`, null for no value, and says whether it did. Its end
    /// stays.
    pub fn swap(self: Bucket, key: []const u8, current: ?[]const u8, value: []const u8) Error!bool {
        try self.check(key);
        if (!abi.is_component) return native.swap(self.name, key, current, value);
        const own, const old, const new = .{ Text.of(key), Text.of(current orelse ""), Text.of(value) };
        var reply: abi.Reply(bool) = undefined;
        const is_there = @intFromBool(current != null);
        host.swap(try opened(self.name), own.start, own.length, is_there, old.start, old.length, new.start, new.length, &reply);
        return checked(&reply);
    }

    /// Removes a key, whether it is there or not.
    pub fn delete(self: Bucket, key: []const u8) Error!void {
        try self.check(key);
        if (!abi.is_component) return native.delete(self.name, key);
        const own, var reply: abi.Reply(u8) = .{ Text.of(key), undefined };
        host.delete(try opened(self.name), own.start, own.length, &reply);
        _ = try checked(&reply);
    }

    /// All keys that begin with `prefix`.
    pub fn keys(self: Bucket, prefix: []const u8) Error![]const []const u8 {
        var all: std.ArrayList([]const u8) = .empty;
        var from: From = .{};
        while (true) {
            const found = try self.page(prefix, from);
            try all.appendSlice(guest.allocator, found.keys);
            from.cursor = found.cursor orelse return all.items;
        }
    }

    /// Some keys that begin with `prefix`, from behind the cursor.
    pub fn page(self: Bucket, prefix: []const u8, from: From) Error!Page {
        try self.check(prefix);
        if (from.cursor) |it| try self.check(it);
        if (!abi.is_component) return native.page(self.name, prefix, from);
        const own, const cursor = .{ Text.of(prefix), Text.of(from.cursor orelse "") };
        var reply: abi.Reply(RawPage) = undefined;
        const has_cursor = @intFromBool(from.cursor != null);
        host.keys(try opened(self.name), own.start, own.length, has_cursor, cursor.start, cursor.length, from.limit, &reply);
        const raw = try checked(&reply);
        const found = try guest.allocator.alloc([]const u8, raw.keys.length);
        for (found, raw.keys.slice()) |*to, key| to.* = key.slice();
        return .{ .keys = found, .cursor = if (raw.cursor.get()) |it| it.slice() else null };
    }

    /// Refuses what no host takes as text.
    fn check(self: Bucket, key: []const u8) Error!void {
        if (!isReadable(self.name) or !isReadable(key)) return abi.say(error.Invalid, "a name or a key that is no UTF-8", .{});
    }

    fn put(self: Bucket, function: *const Put, key: []const u8, value: []const u8, life: Life) Error!u8 {
        const own, const new = .{ Text.of(key), Text.of(value) };
        var reply: abi.Reply(u8) = undefined;
        const has_end = @intFromBool(life.ttl_ms != null);
        function(try opened(self.name), own.start, own.length, new.start, new.length, has_end, life.ttl_ms orelse 0, &reply);
        return checked(&reply);
    }
};

const Opened = struct { name: []const u8, handle: i32 };
/// The handles of this call.
var handles: std.ArrayList(Opened) = .empty;

fn opened(name: []const u8) Error!i32 {
    for (handles.items) |it| {
        if (std.mem.eql(u8, it.name, name)) return it.handle;
    }
    try handles.ensureUnusedCapacity(guest.allocator, 1);
    const own = try guest.allocator.dupe(u8, name);
    const raw, var reply: abi.Reply(i32) = .{ Text.of(own), undefined };
    host.open(raw.start, raw.length, &reply);
    const handle = try checked(&reply);
    handles.appendAssumeCapacity(.{ .name = own, .handle = handle });
    closing.of_message = close;
    return handle;
}

fn close() void {
    for (handles.items) |it| host.drop(it.handle);
    handles = .empty;
}

/// The value of a reply, or its error.
fn checked(reply: anytype) Error!@FieldType(@FieldType(@TypeOf(reply.*), "as"), "value") {
    if (reply.is_error == 0) return reply.as.value;
    const text = reply.as.failure.text.slice();
    return switch (reply.as.failure.kind) {
        0 => abi.say(error.NoSuchBucket, "the endpoint grants no bucket `{s}`", .{text}),
        1 => abi.say(error.Invalid, "{s}", .{text}),
        2 => abi.say(error.Limit, "{s}", .{text}),
        else => abi.say(error.Unavailable, "the store cannot be used: {s}", .{text}),
    };
}

const RawPage = extern struct { keys: abi.List(Text), cursor: abi.RawOptional };

comptime {
    if (abi.is_component) std.debug.assert(@sizeOf(abi.Reply(RawPage)) == 24 and @offsetOf(abi.Reply(i64), "as") == 8);
}

fn imported(comptime T: type, comptime name: []const u8) *const T {
    return abi.importedFrom(*const T, "modelhost:handler/kv@0.1.0", name);
}

const Bytes = ?[*]const u8;
/// The reply is a flag of `add`, and nothing of `set`.
const Put = fn (i32, Bytes, usize, Bytes, usize, i32, u64, *abi.Reply(u8)) callconv(.c) void;
const Swap = fn (i32, Bytes, usize, i32, Bytes, usize, Bytes, usize, *abi.Reply(bool)) callconv(.c) void;
const Keys = fn (i32, Bytes, usize, i32, Bytes, usize, u32, *abi.Reply(RawPage)) callconv(.c) void;

const host = struct {
    const open = imported(fn (Bytes, usize, *abi.Reply(i32)) callconv(.c) void, "open");
    const drop = imported(fn (i32) callconv(.c) void, "[resource-drop]bucket");
    const get = imported(fn (i32, Bytes, usize, *abi.Reply(abi.RawOptional)) callconv(.c) void, "[method]bucket.get");
    const set = imported(Put, "[method]bucket.set");
    const add = imported(Put, "[method]bucket.add");
    const increment = imported(fn (i32, Bytes, usize, i64, i32, u64, *abi.Reply(i64)) callconv(.c) void, "[method]bucket.increment");
    const swap = imported(Swap, "[method]bucket.swap");
    const delete = imported(fn (i32, Bytes, usize, *abi.Reply(u8)) callconv(.c) void, "[method]bucket.delete");
    const keys = imported(Keys, "[method]bucket.keys");
};

test "a test has buckets in memory" {
    defer forget();
    const bucket = open("a");
    try bucket.set("k/1", "v", .{});
    try bucket.setJson("k/2", .{ .sizes = [_]f32{ 1, 2.5 } }, .{ .ttl_ms = 60_000 });
    try std.testing.expectEqualStrings("v", (try open("a").get("k/1")).?);
    try std.testing.expectEqual(2.5, (try bucket.getJson(struct { sizes: []f32 }, "k/2")).?.sizes[1]);
    try std.testing.expectError(error.Invalid, bucket.getJson(u8, "k/1"));
    try std.testing.expect(std.mem.startsWith(u8, guest.lastError(), "the value of `k/1`: "));
    try std.testing.expectEqual(null, try open("b").get("k/1"));
    try bucket.set("j", "", .{});
    try std.testing.expectEqualDeep(@as([]const []const u8, &.{ "k/1", "k/2" }), try bucket.keys("k/"));
    const first = try bucket.page("k/", .{ .limit = 1 });
    try std.testing.expectEqualStrings("k/1", first.cursor.?);
    const second = try bucket.page("k/", .{ .limit = 1, .cursor = first.cursor });
    try std.testing.expectEqualStrings("k/2", second.keys[0]);
    try std.testing.expectEqual(null, second.cursor);

    try std.testing.expect(try bucket.swap("k/1", "v", "w"));
    try std.testing.expect(!try bucket.swap("k/1", null, "x"));
    try std.testing.expect(!try bucket.add("k/1", "x", .{}));
    try std.testing.expect(try bucket.add("lock", "", .{ .ttl_ms = 60_000 }));
    try std.testing.expectEqual(2, try bucket.increment("n", 2, .{}));
    try std.testing.expectEqual(-3, try bucket.increment("n", -5, .{}));
    try std.testing.expectError(error.Invalid, bucket.increment("k/1", 1, .{}));
    try bucket.set("n", "9223372036854775807", .{});
    try std.testing.expectError(error.Invalid, bucket.increment("n", 1, .{}));
    try std.testing.expectEqualStrings("the sum is beyond 64 bits", guest.lastError());
    try std.testing.expectError(error.Invalid, bucket.set("", "", .{}));
    try std.testing.expectError(error.Invalid, bucket.set("a", "", .{ .ttl_ms = 0 }));
    try std.testing.expectError(error.Invalid, bucket.get("\xff"));
    try std.testing.expectError(error.Invalid, bucket.page("", .{ .cursor = "\xff" }));
    try std.testing.expectError(error.Invalid, open("\xff").set("a", "", .{}));

    try bucket.delete("k/1");
    try std.testing.expectEqual(null, try bucket.get("k/1"));
    try bucket.set("gone", "", .{ .ttl_ms = 1 });
    while (try bucket.get("gone") != null) {}
    forget();
    try std.testing.expectEqual(0, (try bucket.keys("")).len);
}
