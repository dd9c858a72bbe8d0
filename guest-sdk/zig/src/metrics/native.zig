//! Metrics in memory, for tests, which have no host: what the host's do, but for the limit of series.

const std = @import("std");
const abi = @import("../abi.zig");
const metrics = @import("../metrics.zig");

var arena = std.heap.ArenaAllocator.init(std.heap.page_allocator);
/// By the name and the labels of a series.
var numbers: std.StringHashMapUnmanaged(f64) = .empty;

pub fn forget() void {
    numbers = .empty;
    _ = arena.reset(.free_all);
}

pub fn value(name: []const u8, labels: []const metrics.Label) ?f64 {
    return numbers.get(key(name, "", labels) catch return null);
}

pub fn change(operation: metrics.Operation, name: []const u8, number: f64, labels: []const metrics.Label) metrics.Error!void {
    if (!std.math.isFinite(number) or (operation == .add and number < 0))
        return abi.say(error.Invalid, "`{s}` takes a finite number, a counter none below 0, and not {d}", .{ name, number });
    for (labels) |label| {
        if (label[1].len > 200)
            return abi.say(error.Invalid, "a value of {d} bytes of the label `{s}`, expected at most 200", .{ label[1].len, label[0] });
    }
    switch (operation) {
        .set => (try place(name, "", labels)).* = number,
        .add, .change => (try place(name, "", labels)).* += number,
        .observe => {
            (try place(name, "_count", labels)).* += 1;
            (try place(name, "_sum", labels)).* += number;
        },
    }
}

fn place(name: []const u8, end: []const u8, labels: []const metrics.Label) error{OutOfMemory}!*f64 {
    const found = try numbers.getOrPut(arena.allocator(), try key(name, end, labels));
    if (!found.found_existing) found.value_ptr.* = 0;
    return found.value_ptr;
}

/// Its parts are parted by a byte that no text of UTF-8 has.
fn key(name: []const u8, end: []const u8, labels: []const metrics.Label) error{OutOfMemory}![]const u8 {
    var made = try std.mem.concat(arena.allocator(), u8, &.{ name, end });
    for (labels) |label| made = try std.mem.concat(arena.allocator(), u8, &.{ made, "\xff", label[0], "\xff", label[1] });
    return made;
}
