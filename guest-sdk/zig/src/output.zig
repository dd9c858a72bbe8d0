//! The contract's `streaming`: the response of an application, in pieces, and work after it.

const std = @import("std");
const abi = @import("abi.zig");
const guest = @import("guest.zig");
const json = @import("json.zig");

const Text = abi.Text;
const Error = error{ Internal, OutOfMemory };

/// The response of one request. A test makes one, `var output: guest.Output = .{};`, and looks at what it has then.
pub const Output = struct {
    handle: i32 = 0,
    state: enum { untouched, begun, ended } = .untouched,
    /// In a test: the head, and all pieces as its body.
    recorded: guest.Response = .{},
    /// In a test: there is no client.
    is_gone: bool = false,

    /// Sends the head, once, and its body as the first piece.
    pub fn begin(self: *Output, head: guest.Response) Error!void {
        if (self.state != .untouched) return guest.internal("the response has begun already", .{});
        if (abi.is_component) {
            const raw = abi.rawResponse(head);
            var outcome: Outcome = undefined;
            host.begin(self.handle, raw.status, raw.content_type.start, raw.content_type.length, raw.headers.start, raw.headers.length, &outcome);
            try outcome.check();
        } else {
            self.recorded = head;
            self.recorded.body = "";
        }
        self.state = .begun;
        if (head.body.len > 0) _ = try self.write(head.body);
    }

    /// Sends a piece, and waits while the client does not read. Without `begin` before it, the head is that of bytes
    /// with status 200. False: there is no client any more, and what follows is for nothing.
    pub fn write(self: *Output, piece: []const u8) Error!bool {
        if (self.state == .untouched) try self.begin(.{});
        if (self.state == .ended) return guest.internal("the response has ended already", .{});
        if (abi.is_component) {
            const raw = Text.of(piece);
            return host.write(self.handle, raw.start, raw.length) != 0;
        }
        if (self.is_gone) return false;
        self.recorded.body = try std.mem.concat(guest.allocator, u8, &.{ self.recorded.body, piece });
        return true;
    }

    /// Sends a server-sent event with a value as `guest.toJson` writes it. Without `begin` before it, the
    /// head is that of events. False: there is no client any more.
    pub fn event(self: *Output, value: anytype) Error!bool {
        if (self.state == .untouched) try self.begin(.{ .content_type = "text/event-stream" });
        // Not the allocator of the call, which a long stream would fill.
        const text = try json.alloc(abi.backing, value);
        defer abi.backing.free(text);
        const frame = try std.mem.concat(abi.backing, u8, &.{ "data: ", text, "\n\n" });
        defer abi.backing.free(frame);
        return self.write(frame);
    }

    /// Sends a whole response and ends it, so that the function may work on, for as long as the endpoint's
    /// `background_timeout`.
    pub fn send(self: *Output, response: guest.Response) Error!void {
        if (self.state != .untouched) return guest.internal("the response has begun already", .{});
        self.state = .ended;
        if (!abi.is_component) {
            self.recorded = response;
            return;
        }
        const raw = abi.rawResponse(response);
        var outcome: Outcome = undefined;
        host.send(self.handle, raw.status, raw.content_type.start, raw.content_type.length, raw.headers.start, raw.headers.length, raw.body.start, raw.body.length, &outcome);
        try outcome.check();
    }

    /// Ends what a function has begun: properly, or, if it failed, by breaking off. Gives the response that it returned.
    pub fn over(self: *Output, made: anyerror!?guest.Response) anyerror!?guest.Response {
        defer self.state = .ended;
        const whole = made catch |failed| {
            if (abi.is_component and self.state != .ended) host.drop(self.handle);
            return failed;
        };
        if (self.state == .begun and whole == null) {
            if (abi.is_component) host.finish(self.handle);
            return null;
        }
        if (abi.is_component and self.state != .ended) host.drop(self.handle);
        if (whole != null and self.state != .untouched) return guest.internal("it returned a response after it had sent one", .{});
        if (whole == null and self.state == .untouched) return guest.internal("it returned no response and sent none", .{});
        return whole;
    }
};

/// What an import returns that may fail: nothing, or a text.
const Outcome = extern struct {
    is_error: u8,
    text: Text,

    fn check(self: Outcome) error{Internal}!void {
        if (self.is_error != 0) return guest.internal("{s}", .{self.text.slice()});
    }
};

fn imported(comptime T: type, comptime name: []const u8) T {
    return abi.importedFrom(T, "modelhost:handler/streaming@0.1.0", name);
}

const Bytes = ?[*]const u8;
const Headers = @FieldType(@FieldType(@TypeOf(abi.rawResponse(.{})), "headers"), "start");
const host = struct {
    const drop = imported(*const fn (i32) callconv(.c) void, "[resource-drop]output");
    const begin = imported(*const fn (i32, i32, Bytes, usize, Headers, usize, *Outcome) callconv(.c) void, "[method]output.begin");
    const write = imported(*const fn (i32, Bytes, usize) callconv(.c) i32, "[method]output.write");
    const finish = imported(*const fn (i32) callconv(.c) void, "[static]output.finish");
    const send = imported(*const fn (i32, i32, Bytes, usize, Headers, usize, Bytes, usize, *Outcome) callconv(.c) void, "[static]output.send");
};

test "what an application sends is recorded" {
    var output: Output = .{};
    try std.testing.expect(try output.event(.{ .number = 1 }));
    try std.testing.expect(try output.event(.{ .number = std.math.nan(f32) }));
    try std.testing.expectError(error.Internal, output.send(.{}));
    try std.testing.expectEqual(null, try output.over(null));
    try std.testing.expectEqualStrings("data: {\"number\":1}\n\ndata: {\"number\":null}\n\n", output.recorded.body);
    try std.testing.expectEqualStrings("text/event-stream", output.recorded.content_type);
    try std.testing.expectError(error.Internal, output.write("late"));

    var sent: Output = .{};
    try sent.send(guest.Response.text("whole"));
    try std.testing.expectEqual(null, try sent.over(null));
    try std.testing.expectEqualStrings("whole", sent.recorded.body);

    var untouched: Output = .{};
    try std.testing.expectError(error.Internal, untouched.over(null));
    var gone: Output = .{ .is_gone = true };
    try std.testing.expect(!try gone.write("a"));
}
