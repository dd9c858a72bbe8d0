//! Requests to other servers: to what the endpoint's `allow_outbound` lists, and to nothing else. By the
//! library `outbound`: a component of its own, which `modelhost build` puts into the handler's, `[build]`
//! with `with = ["outbound"]` in modelhost.toml.
//!
//! In a test there is no library: `answerWith` says what others answer.

const std = @import("std");
const abi = @import("abi.zig");
const closing = @import("closing.zig");
const guest = @import("guest.zig");
const isReadable = @import("text.zig").isReadable;
const Text = abi.Text;

/// Why there is no response, or no body. `guest.lastError()` is the reason as text; if the error is
/// returned, the answer is 500 and the log has it.
pub const Error = error{
    /// `allow_outbound` does not list the place.
    Denied,
    /// The place's name leads to an address of this machine, of a private network or of a cloud's metadata.
    Prohibited,
    /// A URL that no request can be sent to, a header that none can have, or an empty secret.
    Invalid,
    /// Not in the time that it had.
    TimedOut,
    /// The server refused the connection, broke it off or did not speak HTTP, or the body is other JSON.
    Failed,
    /// The receiver of a webhook answered with another status than a 2xx: `lastStatus`.
    Status,
    /// The body has more than 16 MiB: read it in pieces.
    TooLong,
    OutOfMemory,
};

/// Most bytes of a body that is read whole.
const longest = 16 << 20;
/// Times where none is said.
const usual_timeout = 30_000;
const usual_pause = 1_000;
/// Room for a piece, and for pieces until they are one whole: with what the allocator adds, 256 KiB.
const usual_piece = 64 * 1024;
const block_size = 256 * 1024 - 64;

/// Asks for what is at a URL.
pub fn get(url: []const u8) Error!Response {
    return (Request{ .url = url }).send();
}

/// Sends a body to a URL.
pub fn post(url: []const u8, content_type: []const u8, body: []const u8) Error!Response {
    const typed: guest.Header = .{ .name = "content-type", .value = content_type };
    return (Request{ .method = "POST", .url = url, .headers = &.{typed}, .body = body }).send();
}

/// A request to another server: `.{ .url = "https://labels.example.com/v1" }`.
pub const Request = struct {
    /// In capitals.
    method: []const u8 = "GET",
    /// With scheme and host.
    url: []const u8,
    /// The `content-type` among them.
    headers: []const guest.Header = &.{},
    body: []const u8 = "",
    /// Most milliseconds to the head of the response, and between two pieces of its body; 0 for 30 s. The
    /// host waits 60 s at most, and 10 s to connect.
    timeout_ms: u32 = usual_timeout,

    /// Sends it and waits for the head of the response, of any status. No redirect is followed.
    pub fn send(self: Request) Error!Response {
        try check(self.method, self.url, self.headers);
        if (!abi.is_component) return answered(self);
        const method, const url, const body = .{ Text.of(self.method), Text.of(self.url), Text.of(self.body) };
        const headers = abi.rawHeaders(self.headers);
        var sent: RawSent = undefined;
        try bodies.ensureUnusedCapacity(abi.backing, 1);
        library.send(
            method.start,
            method.length,
            url.start,
            url.length,
            headers.start,
            headers.length,
            body.start,
            body.length,
            orUsual(self.timeout_ms, usual_timeout),
            &sent,
        );
        return Response.of(&sent);
    }
};

/// A `POST` of JSON to one receiver. With a secret it is signed as Standard Webhooks says
/// (https://www.standardwebhooks.com).
pub const Webhook = struct {
    url: []const u8,
    /// `whsec_` and base64, or any other text, whose bytes are the secret then. Give it as a granted
    /// variable. Null is no signature; an empty one is `Invalid`: its signature could be forged.
    secret: ?[]const u8 = null,
    /// The most attempts. The next one follows if there was no response, or 408, 429 or a 5xx.
    attempts: u32 = 1,
    /// Between the first two attempts; 0 for 1 s. Each pause is twice the one before, a fifth more or less by
    /// chance; seconds that the receiver says in `retry-after` win. None is longer than a minute.
    pause_ms: u32 = usual_pause,
    /// Of an attempt, as for a request.
    timeout_ms: u32 = usual_timeout,

    /// Sends a value as `guest.toJson` writes it; the response is a 2xx.
    pub fn send(self: Webhook, value: anytype) Error!Response {
        return self.sendJson(try guest.toJson(value));
    }

    /// Sends a text that is JSON already.
    pub fn sendJson(self: Webhook, json: []const u8) Error!Response {
        try check("POST", self.url, &.{});
        if (self.secret) |secret| {
            if (!isReadable(secret)) return abi.say(error.Invalid, "the secret is no UTF-8", .{});
            // With nothing behind the beginning of one in base64 it is empty.
            const is_empty = secret.len == 0 or std.mem.eql(u8, secret, "whsec_");
            if (is_empty) return abi.say(error.Invalid, "the secret is empty", .{});
        }
        if (!abi.is_component) return self.answeredWell(json);
        const url, const body, const secret = .{ Text.of(self.url), Text.of(json), Text.of(self.secret orelse "") };
        var sent: RawSent = undefined;
        try bodies.ensureUnusedCapacity(abi.backing, 1);
        library.send_webhook(
            url.start,
            url.length,
            body.start,
            body.length,
            @intFromBool(self.secret != null),
            secret.start,
            secret.length,
            self.attempts,
            orUsual(self.pause_ms, usual_pause),
            orUsual(self.timeout_ms, usual_timeout),
            &sent,
        );
        return Response.of(&sent);
    }

    fn answeredWell(self: Webhook, json: []const u8) Error!Response {
        const typed: guest.Header = .{ .name = "content-type", .value = "application/json" };
        const response = try answered(.{
            .method = "POST",
            .url = self.url,
            .headers = &.{typed},
            .body = json,
            .timeout_ms = self.timeout_ms,
        });
        if (response.status / 100 == 2) return response;
        response.deinit();
        return withStatus(response.status);
    }
};

/// The response of another server; its body is read as it comes.
pub const Response = struct {
    status: u16,
    /// Names in lower case; values that are no text are left out.
    headers: []const guest.Header,
    /// Of the body.
    number: u64,

    /// The first header of this name, in any case.
    pub fn header(self: Response, name: []const u8) ?[]const u8 {
        for (self.headers) |own| {
            if (std.ascii.eqlIgnoreCase(own.name, name)) return own.value;
        }
        return null;
    }

    /// The next piece of the body, which lasts until the next one is read; null at its end. A body that is
    /// not read to its end is closed by `deinit`, or with the call.
    pub fn read(self: Response) Error!?[]const u8 {
        const at = found(self.number) orelse {
            if (self.number < first_of_call) return failedFor("the response is closed");
            return null;
        };
        const body = &bodies.items[at];
        if (!abi.is_component) {
            const piece = body.left[0..@min(body.left.len, usual_piece)];
            body.left = body.left[piece.len..];
            if (piece.len == 0) self.deinit();
            return if (piece.len == 0) null else piece;
        }
        if (body.room.len == 0) body.room = try abi.backing.alloc(u8, usual_piece);
        var result: RawRead = undefined;
        // A body may have more bytes than there is memory.
        abi.landing = body.room;
        library.read(body.handle, &result);
        abi.landing = &.{};
        if (result.is_error != 0) {
            const failure = told(result.as.failure);
            self.deinit();
            return failure;
        }
        const piece = (result.as.piece.get() orelse {
            self.deinit();
            return null;
        }).slice();
        if (piece.len <= body.room.len) return piece;
        // It lies in the memory of the call; the next one has room.
        const room = try abi.backing.alloc(u8, 2 * piece.len);
        abi.backing.free(body.room);
        body.room = room;
        @memcpy(room[0..piece.len], piece);
        return room[0..piece.len];
    }

    /// The rest of the body, of 16 MiB at most.
    pub fn bytes(self: Response) Error![]const u8 {
        defer self.deinit();
        // In blocks: of a list that grows, memory of each of its sizes would stay. For the largest bodies
        // there is no room beside the blocks.
        var blocks: Blocks = .{};
        defer blocks.deinit();
        var largest: ?[]u8 = null;
        while (try self.read()) |piece| {
            const length = blocks.length + piece.len;
            if (length > longest) return reasoned(error.TooLong);
            if (largest == null and length > longest / 2) {
                largest = try guest.allocator.alloc(u8, longest);
                blocks.copy(largest.?);
            }
            if (largest) |whole| {
                @memcpy(whole[blocks.length..length], piece);
                blocks.length = length;
            } else {
                try blocks.add(piece);
            }
        }
        if (largest) |whole| return whole[0..blocks.length];
        const whole = try guest.allocator.alloc(u8, blocks.length);
        blocks.copy(whole);
        return whole;
    }

    /// The rest of the body as std.json reads it into a type.
    pub fn json(self: Response, comptime T: type) Error!T {
        const text = try self.bytes();
        return std.json.parseFromSliceLeaky(T, guest.allocator, text, .{ .ignore_unknown_fields = true }) catch |failed|
            if (failed == error.OutOfMemory) error.OutOfMemory else abi.say(error.Failed, "the request failed: its json: {t}", .{failed});
    }

    /// Closes the body, if it is open.
    pub fn deinit(self: Response) void {
        const body = bodies.swapRemove(found(self.number) orelse return);
        body.close();
    }

    fn of(sent: *const RawSent) Error!Response {
        if (sent.is_error != 0) return told(sent.as.failure);
        const raw = sent.as.response;
        const response: Response = .{ .status = raw.status, .headers = &.{}, .number = noted(.{ .handle = raw.body }) };
        errdefer response.deinit();
        const headers = try guest.allocator.alloc(guest.Header, raw.headers.length);
        for (headers, raw.headers.slice()) |*to, from| to.* = .{ .name = from.name.slice(), .value = from.value.slice() };
        return .{ .status = response.status, .headers = headers, .number = response.number };
    }
};

/// The status of the last `error.Status`.
pub fn lastStatus() u16 {
    return last_status;
}

const Answer = *const fn (request: Request) Error!guest.Response;
var answer: ?Answer = null;

/// For tests: what others answer. A webhook is one `POST`, unsigned, of any number of attempts.
pub fn answerWith(function: ?Answer) void {
    answer = function;
}

/// Bytes until all of them are there, and it is known how many.
const Blocks = struct {
    list: std.ArrayList([]u8) = .empty,
    length: usize = 0,

    fn add(self: *Blocks, piece: []const u8) error{OutOfMemory}!void {
        var rest = piece;
        while (rest.len > 0) {
            const filled = self.length % block_size;
            if (filled == 0) {
                try self.list.ensureUnusedCapacity(abi.backing, 1);
                self.list.appendAssumeCapacity(try abi.backing.alloc(u8, block_size));
            }
            const count = @min(rest.len, block_size - filled);
            @memcpy(self.list.items[self.list.items.len - 1][filled..][0..count], rest[0..count]);
            self.length += count;
            rest = rest[count..];
        }
    }

    fn copy(self: Blocks, to: []u8) void {
        var rest = to[0..self.length];
        for (self.list.items) |block| {
            const count = @min(rest.len, block_size);
            @memcpy(rest[0..count], block[0..count]);
            rest = rest[count..];
        }
    }

    fn deinit(self: *Blocks) void {
        for (self.list.items) |block| abi.backing.free(block);
        self.list.deinit(abi.backing);
    }
};

/// A body that is open. Its memory is not that of the call, which a socket gives back with each message.
const Body = struct {
    number: u64 = 0,
    handle: i32 = 0,
    /// Where its last piece lies.
    room: []u8 = &.{},
    /// In a test: what is left of it.
    left: []const u8 = "",

    fn close(self: Body) void {
        if (abi.is_component) library.drop(self.handle);
        abi.backing.free(self.room);
    }
};

var bodies: std.ArrayList(Body) = .empty;
/// The number of the last body, and of the first one of this call.
var last_number: u64 = 0;
var first_of_call: u64 = 1;
var last_status: u16 = 0;

/// Notes that a body is open, for which there is capacity.
fn noted(body: Body) u64 {
    closing.of_call = closeAll;
    last_number += 1;
    bodies.appendAssumeCapacity(.{ .number = last_number, .handle = body.handle, .room = body.room, .left = body.left });
    return last_number;
}

fn found(number: u64) ?usize {
    for (bodies.items, 0..) |body, at| {
        if (body.number == number) return at;
    }
    return null;
}

fn closeAll() void {
    for (bodies.items) |body| body.close();
    bodies.clearRetainingCapacity();
    first_of_call = last_number + 1;
}

/// The response of a test.
fn answered(request: Request) Error!Response {
    const function = answer orelse return failedFor("the test does not say what others answer: answerWith");
    var given = request;
    given.timeout_ms = orUsual(given.timeout_ms, usual_timeout);
    const said = function(given) catch |failed| return reasoned(failed);
    const headers = try guest.allocator.alloc(guest.Header, said.headers.len + 1);
    headers[0] = .{ .name = "content-type", .value = said.content_type };
    for (headers[1..], said.headers) |*to, from| {
        to.* = .{ .name = try std.ascii.allocLowerString(guest.allocator, from.name), .value = from.value };
    }
    try bodies.ensureUnusedCapacity(abi.backing, 1);
    const kept = try abi.backing.dupe(u8, said.body);
    return .{ .status = said.status, .headers = headers, .number = noted(.{ .room = kept, .left = kept }) };
}

/// Refuses what the library would, so that a test sees it too.
fn check(method: []const u8, url: []const u8, headers: []const guest.Header) Error!void {
    if (!isToken(method)) return abi.say(error.Invalid, "the method is none", .{});
    if (!isReadable(url)) return abi.say(error.Invalid, "the URL is no UTF-8", .{});
    if (!std.mem.startsWith(u8, url, "http://") and !std.mem.startsWith(u8, url, "https://")) {
        return abi.say(error.Invalid, "the URL does not begin with `http://` or `https://`", .{});
    }
    for (headers) |header| {
        const is_fine = isToken(header.name) and isReadable(header.value) and for (header.value) |byte| {
            if (byte != '\t' and std.ascii.isControl(byte)) break false;
        } else true;
        if (!is_fine) return abi.say(error.Invalid, "a header cannot be sent", .{});
    }
}

/// Whether it is a name of a header, or a method.
fn isToken(text: []const u8) bool {
    for (text) |byte| {
        if (!std.ascii.isAlphanumeric(byte) and std.mem.indexOfScalar(u8, "!#$%&'*+-.^_`|~", byte) == null) return false;
    }
    return text.len > 0;
}

fn orUsual(time: u32, usual: u32) u32 {
    return if (time == 0) usual else time;
}

/// The same error with its text, if it has always the same.
fn reasoned(failed: Error) Error {
    return switch (failed) {
        error.Denied => abi.say(failed, "`allow_outbound` does not list where the request goes", .{}),
        error.Prohibited => abi.say(failed, "the name leads to an address that is not of the internet, and not listed itself", .{}),
        error.TimedOut => abi.say(failed, "there was no answer in time", .{}),
        error.TooLong => abi.say(failed, "the body is longer than {d} bytes", .{longest}),
        else => failed,
    };
}

fn failedFor(why: []const u8) Error {
    return abi.say(error.Failed, "the request failed: {s}", .{why});
}

fn withStatus(status: u16) Error {
    last_status = status;
    return abi.say(error.Status, "the receiver answered with status {d}", .{status});
}

fn told(failure: RawError) Error {
    return switch (failure.kind) {
        .denied => reasoned(error.Denied),
        .prohibited => reasoned(error.Prohibited),
        .invalid => abi.say(error.Invalid, "{s}", .{failure.as.text.slice()}),
        .timed_out => reasoned(error.TimedOut),
        .failed => failedFor(failure.as.text.slice()),
        .status => withStatus(failure.as.status),
    };
}

const RawError = extern struct {
    kind: enum(u8) { denied, prohibited, invalid, timed_out, failed, status },
    as: extern union { text: Text, status: u16 },
};
const RawResponse = extern struct { status: u16, headers: abi.List(abi.RawHeader), body: i32 };
const RawSent = extern struct { is_error: u8, as: extern union { response: RawResponse, failure: RawError } };
const RawRead = extern struct { is_error: u8, as: extern union { piece: abi.RawOptional, failure: RawError } };

comptime {
    if (abi.is_component) {
        std.debug.assert(@sizeOf(RawError) == 12 and @sizeOf(RawSent) == 20 and @sizeOf(RawRead) == 16);
        std.debug.assert(@offsetOf(RawResponse, "body") == 12 and @offsetOf(RawError, "as") == 4);
    }
}

fn imported(comptime T: type, comptime name: []const u8) *const T {
    return abi.importedFrom(*const T, "modelhost:outbound/requests@0.1.0", name);
}

const Bytes = ?[*]const u8;
const Headers = ?[*]const abi.RawHeader;
const Send = fn (Bytes, usize, Bytes, usize, Headers, usize, Bytes, usize, u32, *RawSent) callconv(.c) void;
const SendWebhook = fn (Bytes, usize, Bytes, usize, i32, Bytes, usize, u32, u32, u32, *RawSent) callconv(.c) void;

const library = struct {
    const send = imported(Send, "send");
    const send_webhook = imported(SendWebhook, "send-webhook");
    const read = imported(fn (i32, *RawRead) callconv(.c) void, "[method]body.read");
    const drop = imported(fn (i32) callconv(.c) void, "[resource-drop]body");
};

test {
    _ = @import("outbound/tests.zig");
}
