//! Forms with files: bodies of several parts, `multipart/form-data`, as browsers and curl send them (RFC 7578, RFC 2046
//! section 5.1). Hostile; the words and the limits are those of every language's SDK. A boundary with other text behind
//! it is content. Contents are not copied.

const std = @import("std");
const abi = @import("abi.zig");
const guest = @import("guest.zig");
const router = @import("router.zig");

/// The context of the call, while it is one of a single request that brings a body.
pub var called_with: ?guest.Context = null;

const most_parts = 1000;
const longest_headers = 8 << 10;
const longest_boundary = 70;

const Failed = error{ InvalidInput, OutOfMemory };

/// One part of a form.
pub const Part = struct {
    name: []const u8 = "",
    /// Of a file: the caller's choice, so no path to be opened.
    filename: ?[]const u8 = null,
    content_type: []const u8 = "text/plain",
    /// Where it lies in the request's body.
    body: []const u8,

    /// The contents as UTF-8; others are the caller's fault.
    pub fn text(self: Part) error{InvalidInput}![]const u8 {
        if (std.unicode.utf8ValidateSlice(self.body)) return self.body;
        return guest.invalid("the part `{s}` is not UTF-8", .{self.name});
    }
};

/// The parts of a body, in their order.
pub const Form = struct {
    parts: []const Part,

    /// The text of the first field of this name; without one it is the caller's fault.
    pub fn field(self: Form, name: []const u8) error{InvalidInput}![]const u8 {
        for (self.parts) |part| {
            if (part.filename == null and std.mem.eql(u8, part.name, name)) return part.text();
        }
        return guest.invalid("missing field `{s}`", .{name});
    }

    /// The first file of this name; without one it is the caller's fault.
    pub fn file(self: Form, name: []const u8) error{InvalidInput}!Part {
        for (self.parts) |part| {
            if (part.filename != null and std.mem.eql(u8, part.name, name)) return part;
        }
        return guest.invalid("missing file `{s}`", .{name});
    }
};

/// See `guest.Sample.multipart`.
pub fn read(sample: guest.Sample) (Failed || error{Respond})!Form {
    const kind, const parameters = cut(sample.content_type, ";");
    if (!is(trimmed(kind), "multipart/form-data")) return unsupported(trimmed(kind));
    const boundary = try parameter(parameters, "boundary") orelse return malformed("the content type has no boundary");
    if (boundary.len < 1 or boundary.len > longest_boundary)
        return guest.invalid("malformed multipart: the boundary has not 1 to {d} bytes", .{longest_boundary});
    const delimiter = try std.mem.concat(guest.allocator, u8, &.{ "\r\n--", boundary });
    // The first delimiter may stand at the very beginning, without the line end before it.
    var next: Next = first: {
        if (std.mem.startsWith(u8, sample.body, delimiter[2..])) {
            if (Next.of(sample.body[delimiter.len - 2 ..])) |next| break :first next;
        }
        break :first (Delimited.of(sample.body, delimiter) orelse return malformed("no boundary is in the body")).next;
    };
    var parts: std.ArrayList(Part) = .empty;
    while (next == .part) {
        const found = Delimited.of(next.part, delimiter) orelse return malformed("the last boundary is missing");
        if (parts.items.len == most_parts) return guest.invalid("more than {d} parts", .{most_parts});
        try parts.append(guest.allocator, try partOf(found.before));
        next = found.next;
    }
    return .{ .parts = parts.items };
}

/// What comes after a boundary: a part, from the line end before it on, or the end.
const Next = union(enum) {
    part: []const u8,
    end,

    /// Null: `text` does not stand behind a boundary.
    fn of(text: []const u8) ?Next {
        if (std.mem.startsWith(u8, text, "--")) return .end;
        const rest = std.mem.trimStart(u8, text, " \t");
        return if (std.mem.startsWith(u8, rest, "\r\n")) .{ .part = rest } else null;
    }
};

/// What stands before the first boundary, and what comes after it.
const Delimited = struct {
    before: []const u8,
    next: Next,

    fn of(text: []const u8, delimiter: []const u8) ?Delimited {
        var from: usize = 0;
        while (std.mem.findPos(u8, text, from, delimiter)) |at| {
            from = at + delimiter.len;
            if (Next.of(text[from..])) |next| return .{ .before = text[0..at], .next = next };
        }
        return null;
    }
};

/// A part: line end, headers, empty line, contents.
fn partOf(text: []const u8) Failed!Part {
    const end = std.mem.find(u8, text[0..@min(text.len, longest_headers + 4)], "\r\n\r\n") orelse
        return guest.invalid("malformed multipart: no end of a part's headers within {d} bytes", .{longest_headers});
    if (!std.unicode.utf8ValidateSlice(text[0..end])) return malformed("the headers of a part are not UTF-8");
    var part: Part = .{ .body = text[end + 4 ..] };
    var disposition: []const u8 = "";
    var lines = std.mem.splitSequence(u8, text[0..end], "\r\n");
    while (lines.next()) |line| {
        if (line.len == 0) continue;
        if (std.mem.findScalar(u8, line, ':') == null) return malformed("a header without a colon");
        const name, const padded = cut(line, ":");
        const value = trimmed(padded);
        if (is(name, "content-disposition")) {
            disposition = value;
        } else if (is(name, "content-type")) {
            part.content_type = value;
        } else if (is(name, "content-transfer-encoding")) {
            if (!is(value, "binary") and !is(value, "8bit") and !is(value, "7bit"))
                return malformed("a part with a transfer encoding, which forms do not have");
        }
    }
    const kind, const parameters = cut(disposition, ";");
    const nameless = "a part without `content-disposition: form-data; name=…`";
    if (!is(trimmed(kind), "form-data")) return malformed(nameless);
    part.name = try unescaped(try parameter(parameters, "name") orelse return malformed(nameless));
    if (try parameter(parameters, "filename*")) |extended| {
        part.filename = try decoded(extended) orelse
            return malformed("a `filename*` that is not `UTF-8''` and a name with percent signs");
    } else if (try parameter(parameters, "filename")) |filename| {
        part.filename = try unescaped(filename);
    }
    return part;
}

/// The first parameter of this name (RFC 9110, section 5.6.6).
fn parameter(parameters: []const u8, name: []const u8) error{OutOfMemory}!?[]const u8 {
    var rest = parameters;
    while (true) {
        rest = std.mem.trimStart(u8, rest, " \t;");
        if (std.mem.findScalar(u8, rest, '=') == null) return null;
        const key, const after = cut(rest, "=");
        var value: []const u8 = undefined;
        if (std.mem.startsWith(u8, after, "\"")) {
            value, rest = try unquoted(after[1..]) orelse return null;
        } else {
            const end = std.mem.findScalar(u8, after, ';') orelse after.len;
            value, rest = .{ trimmed(after[0..end]), after[end..] };
        }
        if (is(key, name)) return value;
    }
}

/// A quoted string whose opening quote is gone, and what comes after it. A backslash protects a quote or another
/// backslash alone.
fn unquoted(text: []const u8) error{OutOfMemory}!?struct { []const u8, []const u8 } {
    var plain: std.ArrayList(u8) = .empty;
    var at: usize = 0;
    while (at < text.len) : (at += 1) {
        if (text[at] == '"') return .{ plain.items, text[at + 1 ..] };
        const next = if (at + 1 < text.len) text[at + 1] else 0;
        if (text[at] == '\\' and (next == '"' or next == '\\')) at += 1;
        try plain.append(guest.allocator, text[at]);
    }
    return null;
}

/// The name with what browsers and curl write in place of `"`, CR and LF.
fn unescaped(name: []const u8) error{OutOfMemory}![]const u8 {
    var plain: []const u8 = name;
    for ([_][2][]const u8{ .{ "%22", "\"" }, .{ "%0D", "\r" }, .{ "%0A", "\n" } }) |pair| {
        plain = try std.mem.replaceOwned(u8, guest.allocator, plain, pair[0], pair[1]);
    }
    return plain;
}

/// The text of `UTF-8''na%C3%AFve.txt` (RFC 8187); null if it is another.
fn decoded(extended: []const u8) error{OutOfMemory}!?[]const u8 {
    var texts = std.mem.splitScalar(u8, extended, '\'');
    const charset = texts.first();
    _ = texts.next() orelse return null;
    if (texts.peek() == null) return null;
    const bytes = std.Uri.percentDecodeInPlace(try guest.allocator.dupe(u8, texts.rest()));
    if (is(charset, "utf-8")) return if (std.unicode.utf8ValidateSlice(bytes)) bytes else null;
    if (!is(charset, "iso-8859-1")) return null;
    var plain: std.ArrayList(u8) = .empty;
    for (bytes) |byte| {
        if (byte >= 0x80) try plain.append(guest.allocator, 0xc0 | byte >> 6);
        try plain.append(guest.allocator, if (byte >= 0x80) 0x80 | (byte & 63) else byte);
    }
    return plain.items;
}

fn unsupported(got: []const u8) error{ Respond, OutOfMemory } {
    var end: usize = 0;
    for (0..40) |_| {
        if (end < got.len) end += 1;
        while (end < got.len and got[end] & 0xc0 == 0x80) end += 1;
    }
    const text = try std.fmt.allocPrint(guest.allocator, "expected `multipart/form-data`, got `{s}`", .{got[0..end]});
    return guest.respond(try router.refusal(called_with, 415, "unsupported_media_type", text));
}

fn malformed(comptime text: []const u8) error{InvalidInput} {
    return guest.invalid("malformed multipart: " ++ text, .{});
}

/// What stands before the separator and what comes behind it.
fn cut(text: []const u8, separator: []const u8) struct { []const u8, []const u8 } {
    const at = std.mem.find(u8, text, separator) orelse return .{ text, "" };
    return .{ text[0..at], text[at + separator.len ..] };
}

fn trimmed(text: []const u8) []const u8 {
    return std.mem.trim(u8, text, " \t");
}

fn is(text: []const u8, name: []const u8) bool {
    return std.ascii.eqlIgnoreCase(text, name);
}

const form_type = "multipart/form-data; boundary=XX";
const head = "Content-Disposition: form-data; name=\"a\"";

/// `name|filename|type|body;` for each part, or the error. In the text LF stands for CR LF.
fn shown(text: []const u8, content_type: []const u8) ![]const u8 {
    const body = try std.mem.replaceOwned(u8, guest.allocator, text, "\n", "\r\n");
    const form = (guest.Sample{ .content_type = content_type, .body = body }).multipart() catch |failed| switch (failed) {
        error.InvalidInput => return guest.lastError(),
        error.Respond => return abi.answered.body,
        else => return failed,
    };
    var all: []const u8 = "";
    for (form.parts) |part| {
        const values = .{ all, part.name, part.filename orelse "-", part.content_type, part.body };
        all = try std.fmt.allocPrint(guest.allocator, "{s}{s}|{s}|{s}|{s};", values);
    }
    return all;
}

test "parts are found" {
    for ([_][3][]const u8{
        .{
            form_type,
            "preamble\n--XX\nContent-Disposition: form-data; name=\"title\"\n\nhello\n--XX  \ncontent-type: image/png\n" ++
                "Content-Disposition: form-data; name=file; filename=\"a \\\"b\\\".png\"\n\n--X\n\n--XXY\n--XX--\nepilogue",
            "title|-|text/plain|hello;file|a \"b\".png|image/png|--X\r\n\r\n--XXY;",
        },
        .{ "Multipart/Form-Data; boundary=\"a b\"", "--a b--", "" },
        .{ form_type, "--XX\n" ++ head ++ "; filename=\"a%22%0D%0A%20.txt\"\n\n1\n--XX--", "a|a\"\r\n%20.txt|text/plain|1;" },
        .{ form_type, "--XX\n" ++ head ++ "; filename=x; filename*=utf-8'de'%C3%BC%2F%.txt\n\n1\n--XX--", "a|ü/%.txt|text/plain|1;" },
        .{ form_type, "--XX\n" ++ head ++ "; filename*=ISO-8859-1''%FC\n\n1\n--XX--", "a|ü|text/plain|1;" },
        .{ form_type, "--XX\n" ++ head ++ "; filename=\"\"\n\n1\n--XX--", "a||text/plain|1;" },
        .{ form_type, "--XX\n" ++ head ++ "; filename=\"C:\\a\\ü.txt\"\n\n1\n--XX--", "a|C:\\a\\ü.txt|text/plain|1;" },
    }) |case| try std.testing.expectEqualStrings(case[2], try shown(case[1], case[0]));
}

test "what is no form is refused" {
    const one = "--XX\n" ++ head ++ "\n\n1\n";
    for ([_][2][]const u8{
        .{ "", "malformed multipart: no boundary is in the body" },
        .{ "--XXY\n", "malformed multipart: no boundary is in the body" },
        .{ "--XX\n", "malformed multipart: the last boundary is missing" },
        .{ one ++ "--XX", "malformed multipart: the last boundary is missing" },
        .{ "--XX\n" ++ head ++ "\n--XX--", "malformed multipart: no end of a part's headers within 8192 bytes" },
        .{
            "--XX\n" ++ head ++ "\nx: " ++ "y" ** 9000 ++ "\n\n1\n--XX--",
            "malformed multipart: no end of a part's headers within 8192 bytes",
        },
        .{ "--XX\n\nhello\n--XX--", "malformed multipart: a part without `content-disposition: form-data; name=…`" },
        .{ "--XX\nnonsense\n\n\n--XX--", "malformed multipart: a header without a colon" },
        .{ "--XX\nx: \xff\n\n\n--XX--", "malformed multipart: the headers of a part are not UTF-8" },
        .{
            "--XX\n" ++ head ++ "\ncontent-transfer-encoding: base64\n\n\n--XX--",
            "malformed multipart: a part with a transfer encoding, which forms do not have",
        },
        .{
            "--XX\n" ++ head ++ "; filename*=UTF-8''%FF\n\n\n--XX--",
            "malformed multipart: a `filename*` that is not `UTF-8''` and a name with percent signs",
        },
        .{ one ** 1001 ++ "--XX--", "more than 1000 parts" },
    }) |case| try std.testing.expectEqualStrings(case[1], try shown(case[0], form_type));
    try std.testing.expectEqual(1000 * "a|-|text/plain|1;".len, (try shown(one ** 1000 ++ "--XX--", form_type)).len);
    for ([_][2][]const u8{
        .{ "multipart/form-data", "malformed multipart: the content type has no boundary" },
        .{ form_type ++ "y" ** 69, "malformed multipart: the boundary has not 1 to 70 bytes" },
        .{
            "text/plain; a=b",
            "{\"error\":\"expected `multipart/form-data`, got `text/plain`\",\"code\":\"unsupported_media_type\"," ++
                "\"stage\":\"pre_inference\"}",
        },
    }) |case| try std.testing.expectEqualStrings(case[1], try shown("", case[0]));
}

test "parts are named" {
    const body = "--XX\r\n" ++ head ++ "\r\n\r\nh\r\n--XX\r\n" ++ head ++ "; filename=x\r\n\r\n\xff\r\n--XX--";
    const form = try (guest.Sample{ .content_type = form_type, .body = body }).multipart();
    try std.testing.expectEqualStrings("h", try form.field("a"));
    try std.testing.expectError(error.InvalidInput, (try form.file("a")).text());
    try std.testing.expectEqualStrings("the part `a` is not UTF-8", guest.lastError());
    try std.testing.expectError(error.InvalidInput, form.field("b"));
    try std.testing.expectError(error.InvalidInput, form.file("b"));
    try std.testing.expectEqualStrings("missing file `b`", guest.lastError());
    const cookies = try (try guest.Response.text("").withHeader("set-cookie", "a=1")).withHeader("set-cookie", "b=2");
    try std.testing.expectEqual(2, cookies.headers.len);
    try std.testing.expectEqualStrings("a=1", cookies.headers[0].value);
}
