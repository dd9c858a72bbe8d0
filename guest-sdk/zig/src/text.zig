//! Texts that reach the host, which takes none but UTF-8 and ends an instance that gives another.

const std = @import("std");
const abi = @import("abi.zig");

/// Whether it is UTF-8.
pub fn isReadable(text: []const u8) bool {
    return std.unicode.utf8ValidateSlice(text);
}

/// The same text, with `?` in place of bytes that are no UTF-8.
pub fn readable(text: []const u8) []const u8 {
    if (isReadable(text)) return text;
    const made = abi.arena.allocator().dupe(u8, text) catch @trap();
    var at: usize = 0;
    while (at < made.len) {
        const length: usize = std.unicode.utf8ByteSequenceLength(made[at]) catch 0;
        if (length > 0 and length <= made.len - at and isReadable(made[at..][0..length])) {
            at += length;
        } else {
            made[at] = '?';
            at += 1;
        }
    }
    return made;
}

test "what the host is given is UTF-8" {
    for ([_][2][]const u8{
        .{ "", "" },
        .{ "grüß 😀", "grüß 😀" },
        .{ "a\xffb", "a?b" },
        .{ "\xed\xa0\x80é\xc3", "???é?" },
    }) |case| try std.testing.expectEqualStrings(case[1], readable(case[0]));
    const whole: []const u8 = "whole";
    try std.testing.expectEqual(whole.ptr, readable(whole).ptr);

    const failure = abi.rawErrorOf(error.InvalidInput, "a\xff");
    try std.testing.expectEqualStrings("a?", failure.as.text.slice());
    const response = abi.rawResponse(.{ .content_type = "\xff", .headers = &.{.{ .name = "x-a", .value = "b\xff" }} });
    try std.testing.expectEqualStrings("?", response.content_type.slice());
    try std.testing.expectEqualStrings("b?", response.headers.slice()[0].value.slice());
}
