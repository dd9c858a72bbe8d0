//! Metrics of the handler's own: counters, gauges and histograms, which stand in /metrics beside the server's.
//!
//!     const flowers = guest.metrics.Counter(.{ .name = "flowers_total", .help = "Flowers by species", .labels = &.{"species"} });
//!
//!     try flowers.inc(.{"setosa"});
//!
//! A name that cannot be used is an error of the compiler's. In a component every change is a call to the host. In a test
//! the numbers are in memory: `value` reads them, and `forget` begins anew.

const std = @import("std");
const abi = @import("abi.zig");
const guest = @import("guest.zig");
const native = @import("metrics/native.zig");
const isReadable = @import("text.zig").isReadable;
const Text = abi.Text;

/// A number or a value of a label that cannot be used, which nothing was changed by. `guest.lastError()` is the reason as
/// text; if the error is returned, the answer is 500 and the log has it.
pub const Error = error{ Invalid, OutOfMemory };

/// What a metric is.
pub const Options = struct {
    /// Of letters, digits and `_`. A counter's that does not end in `_total` gets it.
    name: []const u8,
    /// One line of at most 200 bytes.
    help: []const u8 = "",
    /// The names of at most 8 labels.
    labels: []const []const u8 = &.{},
    /// Of a histogram: at most 30 upper bounds, each greater than the one before. Without, they are those of Prometheus,
    /// 0.005 to 10.
    buckets: []const f64 = &.{},
};

/// The kinds of the contract, in its order.
const Kind = enum(u8) { counter, gauge, histogram };

/// A number that only grows. Its functions take the values of the labels, in the order of their names.
pub fn Counter(comptime options: Options) type {
    return struct {
        const Own = Metric(.counter, options);

        /// Adds 1.
        pub fn inc(labels: Own.Values) Error!void {
            return add(1, labels);
        }

        /// Adds a number that is not negative.
        pub fn add(by: f64, labels: Own.Values) Error!void {
            return Own.change(.add, by, labels);
        }
    };
}

/// A number that goes up and down. Of all instances the one that set it last holds.
pub fn Gauge(comptime options: Options) type {
    return struct {
        const Own = Metric(.gauge, options);

        /// Sets the number.
        pub fn set(to: f64, labels: Own.Values) Error!void {
            return Own.change(.set, to, labels);
        }

        /// Adds to the number.
        pub fn add(by: f64, labels: Own.Values) Error!void {
            return Own.change(.change, by, labels);
        }
    };
}

/// The distribution of numbers over buckets.
pub fn Histogram(comptime options: Options) type {
    return struct {
        const Own = Metric(.histogram, options);

        /// Counts a number into the buckets.
        pub fn observe(number: f64, labels: Own.Values) Error!void {
            return Own.change(.observe, number, labels);
        }
    };
}

/// For tests: the number of a series, whose labels are in the order that the metric has; of a histogram `words` there are
/// those of `words_count` and `words_sum`.
pub fn value(name: []const u8, labels: []const Label) ?f64 {
    return native.value(name, labels);
}

/// For tests: forgets all numbers.
pub fn forget() void {
    native.forget();
}

/// The name of a label, and its value.
pub const Label = struct { []const u8, []const u8 };

/// The functions of the contract.
pub const Operation = enum { add, set, change, observe };

/// Grows as `init` ends: a later start of the host begins with its memory, so each instance describes its
/// metrics.
pub var age: u32 = 1;

fn Metric(comptime kind: Kind, comptime options: Options) type {
    if (comptime wrong(kind, options)) |text| @compileError("the metric `" ++ options.name ++ "`: " ++ text);
    const is_whole = kind != .counter or std.mem.endsWith(u8, options.name, "_total");
    const name = options.name ++ if (is_whole) "" else "_total";
    return struct {
        const Values = [options.labels.len][]const u8;
        /// The age in which the host got the help text.
        var described: u32 = 0;

        fn change(comptime operation: Operation, number: f64, values: Values) Error!void {
            for (values, options.labels) |text, label| {
                if (!isReadable(text)) return abi.say(error.Invalid, "the value of the label `{s}` is no UTF-8", .{label});
            }
            var labels: [options.labels.len]Label = undefined;
            for (&labels, options.labels, values) |*to, label, text| to.* = .{ label, text };
            if (!abi.is_component) return native.change(operation, name, number, &labels);
            const own, var reply: Reply = .{ Text.of(name), undefined };
            if (described != age) {
                const help, const bounds = .{ Text.of(options.help), abi.List(f64).of(options.buckets) };
                host.describe(own.start, own.length, @intFromEnum(kind), help.start, help.length, bounds.start, bounds.length, &reply);
                try checked(&reply);
                described = age;
            }
            var raw: [options.labels.len]abi.RawHeader = undefined;
            for (&raw, labels) |*to, label| to.* = .{ .name = .of(label[0]), .value = .of(label[1]) };
            const list: abi.List(abi.RawHeader) = .of(&raw);
            @field(host, @tagName(operation))(own.start, own.length, number, list.start, list.length, &reply);
            return checked(&reply);
        }
    };
}

/// What is wrong with a metric, if anything is.
fn wrong(kind: Kind, options: Options) ?[]const u8 {
    const name = options.name;
    if (badName(name, 100)) |text| return text;
    for ([_][]const u8{ "modelhost_", "process_" }) |it| {
        if (std.mem.startsWith(u8, name, it)) return "its name begins as the server's do";
    }
    for ([_][]const u8{ "_bucket", "_count", "_sum", "_created" }) |it| {
        if (std.mem.endsWith(u8, name, it)) return "its name ends as that of a part of a metric";
    }
    if (kind != .counter and std.mem.endsWith(u8, name, "_total")) return "its name ends in `_total`, which names a counter";
    if (options.help.len > 200 or std.mem.indexOfAny(u8, options.help, "\r\n") != null or !isReadable(options.help))
        return "its help text is not one line of at most 200 bytes";
    if (options.labels.len > 8) return "more than 8 labels";
    for (options.labels, 0..) |label, at| {
        if (badName(label, 50)) |text| return text;
        for ([_][]const u8{ "endpoint", "le", "quantile" }) |it| {
            if (std.mem.eql(u8, label, it)) return "a label has a name of the server's";
        }
        if (std.mem.startsWith(u8, label, "__")) return "a label has a name of the server's";
        for (options.labels[0..at]) |before| {
            if (std.mem.eql(u8, before, label)) return "two labels have one name";
        }
    }
    if (kind != .histogram and options.buckets.len > 0) return "it has buckets, and is no histogram";
    if (options.buckets.len > 30) return "more than 30 buckets";
    for (options.buckets, 0..) |bound, at| {
        const is_greater = at == 0 or bound > options.buckets[at - 1];
        if (!std.math.isFinite(bound) or !is_greater) return "a bound is not finite, or not greater than the one before";
    }
    return null;
}

fn badName(name: []const u8, most: usize) ?[]const u8 {
    if (name.len < 1) return "a name is empty";
    if (name.len > most) return "a name is too long: a metric's has at most 100 characters, a label's 50";
    for (name, 0..) |c, at| {
        if (!std.ascii.isAlphabetic(c) and c != '_' and (at == 0 or !std.ascii.isDigit(c)))
            return "a name has other characters than letters, digits and `_`, or begins with a digit";
    }
    return null;
}

const Reply = extern struct { is_error: u8, text: Text };

fn checked(reply: *const Reply) Error!void {
    if (reply.is_error != 0) return abi.say(error.Invalid, "{s}", .{reply.text.slice()});
}

comptime {
    if (abi.is_component) std.debug.assert(@sizeOf(Reply) == 12 and @sizeOf(abi.RawHeader) == 16);
}

fn imported(comptime T: type, comptime name: []const u8) *const T {
    return abi.importedFrom(*const T, "modelhost:handler/metrics@0.1.0", name);
}

const Bytes = ?[*]const u8;
const Describe = fn (Bytes, usize, i32, Bytes, usize, ?[*]const f64, usize, *Reply) callconv(.c) void;
const Change = fn (Bytes, usize, f64, ?[*]const abi.RawHeader, usize, *Reply) callconv(.c) void;

const host = struct {
    const describe = imported(Describe, "describe");
    const add = imported(Change, "add");
    const set = imported(Change, "set");
    const change = imported(Change, "change");
    const observe = imported(Change, "observe");
};

test "numbers are kept by series" {
    defer forget();
    const flowers = Counter(.{ .name = "flowers", .help = "Flowers by species", .labels = &.{ "species", "size" } });
    const table_age = Gauge(.{ .name = "age_seconds" });
    const words = Histogram(.{ .name = "words", .labels = &.{"of"}, .buckets = &.{ 1, 10 } });
    try flowers.inc(.{ "setosa", "1" });
    try flowers.add(2.5, .{ "setosa", "1" });
    try std.testing.expectEqual(3.5, value("flowers_total", &.{ .{ "species", "setosa" }, .{ "size", "1" } }));
    try std.testing.expectEqual(null, value("flowers_total", &.{ .{ "species", "virginica" }, .{ "size", "1" } }));
    try table_age.set(12, .{});
    try table_age.add(-2, .{});
    try std.testing.expectEqual(10, value("age_seconds", &.{}));
    try words.observe(3, .{"x"});
    try words.observe(5, .{"x"});
    try std.testing.expectEqual(2, value("words_count", &.{.{ "of", "x" }}));
    try std.testing.expectEqual(8, value("words_sum", &.{.{ "of", "x" }}));

    try std.testing.expectError(error.Invalid, flowers.add(-1, .{ "setosa", "1" }));
    try std.testing.expectError(error.Invalid, table_age.set(std.math.inf(f64), .{}));
    try std.testing.expectError(error.Invalid, words.observe(std.math.nan(f64), .{"x"}));
    try std.testing.expectError(error.Invalid, words.observe(1, .{"\xff"}));
    try std.testing.expectEqualStrings("the value of the label `of` is no UTF-8", guest.lastError());
    try std.testing.expectError(error.Invalid, words.observe(1, .{"a" ** 201}));
    try std.testing.expectEqualStrings("a value of 201 bytes of the label `of`, expected at most 200", guest.lastError());
    try std.testing.expectEqual(2, value("words_count", &.{.{ "of", "x" }}));
    forget();
    try std.testing.expectEqual(null, value("age_seconds", &.{}));
}

test "what cannot be used is said" {
    for ([_]struct { ?[]const u8, Kind, Options }{
        .{ null, .counter, .{ .name = "a_total", .help = "x" ** 200, .labels = &.{ "a", "b", "c", "d", "e", "f", "g", "_h9" } } },
        .{ null, .histogram, .{ .name = "a" ** 100, .buckets = &.{ -1, 0, 1 } } },
        .{ "a name is empty", .counter, .{ .name = "" } },
        .{ "a name is too long", .gauge, .{ .name = "a" ** 101 } },
        .{ "a name has other characters", .gauge, .{ .name = "a-b" } },
        .{ "a name has other characters", .gauge, .{ .name = "9a" } },
        .{ "its name begins", .gauge, .{ .name = "process_a" } },
        .{ "its name ends as", .counter, .{ .name = "a_bucket" } },
        .{ "its name ends in `_total`", .gauge, .{ .name = "a_total" } },
        .{ "its help text", .gauge, .{ .name = "a", .help = "x\ny" } },
        .{ "its help text", .gauge, .{ .name = "a", .help = "x" ** 201 } },
        .{ "more than 8 labels", .gauge, .{ .name = "a", .labels = &(.{"a"} ** 9) } },
        .{ "a label has", .gauge, .{ .name = "a", .labels = &.{"le"} } },
        .{ "a label has", .gauge, .{ .name = "a", .labels = &.{"__a"} } },
        .{ "a name is too long", .gauge, .{ .name = "a", .labels = &.{"a" ** 51} } },
        .{ "two labels", .gauge, .{ .name = "a", .labels = &.{ "a", "a" } } },
        .{ "it has buckets", .gauge, .{ .name = "a", .buckets = &.{1} } },
        .{ "more than 30", .histogram, .{ .name = "a", .buckets = &(.{1} ** 31) } },
        .{ "a bound is not", .histogram, .{ .name = "a", .buckets = &.{ 2, 1 } } },
        .{ "a bound is not", .histogram, .{ .name = "a", .buckets = &.{std.math.inf(f64)} } },
    }) |case| {
        const expected, const kind, const options = case;
        const said = wrong(kind, options);
        try std.testing.expectEqual(expected == null, said == null);
        if (expected) |text| try std.testing.expectStringStartsWith(said.?, text);
    }
}
