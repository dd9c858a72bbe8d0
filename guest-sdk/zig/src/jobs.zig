//! Jobs of the handler's own endpoint, which has to have some, `jobs = "on"`: requests that are stored, and
//! run later as a `POST`.
//!
//! In a component every function is a call to the host. In a test the jobs are in memory and none is run:
//! `submitted` says which there are, `finish` ends one, `forget` begins anew.

const std = @import("std");
const abi = @import("abi.zig");
const guest = @import("guest.zig");
const native = @import("jobs/native.zig");
const isReadable = @import("text.zig").isReadable;
const Text = abi.Text;

/// Why something was not done with a job. `guest.lastError()` is the reason as text; if the error is
/// returned, the answer is 500 and the log has it.
pub const Error = error{
    /// Something of a submission that cannot be used. Nothing was stored.
    Invalid,
    /// The idempotency key was used for a job with another path, query or body.
    Conflict,
    /// Beyond a limit of the endpoint. Nothing was stored.
    Limit,
    /// The store cannot be used now; whether a change was made is not known.
    Unavailable,
    OutOfMemory,
};

/// A job that is to be stored: `.{ .path = "/fit", .body = try guest.toJson(.{ .rate = 0.1 }), .delay_ms =
/// 5_000 }`.
pub const Submission = struct {
    /// Below the endpoint's own path, with the query.
    path: []const u8 = "/",
    /// Of the body, if there is one.
    content_type: []const u8 = "application/json",
    body: []const u8 = "",
    /// Further headers.
    headers: []const guest.Header = &.{},
    /// 0 comes first, 2 last; 1 without it.
    priority: ?u8 = null,
    /// It is not run before this time is over.
    delay_ms: ?u64 = null,
    /// It fails if its first attempt has not begun after this time.
    wait_ms: ?u64 = null,
    /// At most `limits.job_attempts`, which it is without it.
    attempts: ?u32 = null,
    /// A URL that gets the result, at a place that `allow_outbound` lists.
    webhook: ?[]const u8 = null,
    /// A second submission with the same key is the same job: a job that submits others may run again.
    idempotency_key: ?[]const u8 = null,
};

pub const State = enum(u8) { queued, running, completed, failed, cancelled };

/// A job. Times are milliseconds since 1970.
pub const Job = struct {
    id: []const u8,
    state: State = .queued,
    /// Attempts that have begun, and the most that there will be.
    attempt: u32 = 0,
    attempts: u32,
    submitted_ms: u64,
    /// When its state changed last.
    changed_ms: u64,
    /// Why the last attempt has failed.
    failure: ?[]const u8 = null,
    /// That of the answer, once it is finished with one.
    status: ?u16 = null,
};

/// The answer to a job.
pub const Answer = struct {
    status: u16 = 200,
    headers: []const guest.Header = &.{},
    body: []const u8 = "",

    /// The body as std.json reads it into a type.
    pub fn json(self: Answer, comptime T: type) Error!T {
        return std.json.parseFromSliceLeaky(T, guest.allocator, self.body, .{ .ignore_unknown_fields = true }) catch |failed|
            if (failed == error.OutOfMemory) error.OutOfMemory else abi.say(error.Invalid, "the answer: {t}", .{failed});
    }
};

/// Stores a job, and gives it when it is stored.
pub fn submit(submission: Submission) Error!Job {
    for ([_]?[]const u8{ submission.path, submission.content_type, submission.webhook, submission.idempotency_key }) |text| {
        try check(text orelse "");
    }
    for (submission.headers) |header| {
        try check(header.name);
        try check(header.value);
    }
    if (!abi.is_component) return native.submit(submission);
    const typed = @intFromBool(submission.body.len > 0);
    const headers = try guest.allocator.alloc(guest.Header, submission.headers.len + typed);
    @memcpy(headers[0..submission.headers.len], submission.headers);
    if (typed > 0) headers[submission.headers.len] = .{ .name = "content-type", .value = submission.content_type };
    const raw: RawSubmission = .{
        .path = .of(submission.path),
        .headers = abi.rawHeaders(headers),
        .body = .of(submission.body),
        .priority = .of(submission.priority),
        .delay_ms = .of(submission.delay_ms),
        .wait_ms = .of(submission.wait_ms),
        .attempts = .of(submission.attempts),
        .webhook = abi.optional(submission.webhook),
        .idempotency_key = abi.optional(submission.idempotency_key),
    };
    var reply: abi.Reply(RawJob) = undefined;
    host.submit(&raw, &reply);
    return lifted(try checked(&reply));
}

/// A job of the endpoint.
pub fn get(id: []const u8) Error!?Job {
    try check(id);
    if (!abi.is_component) return native.get(id);
    const raw, var reply: abi.Reply(abi.Optional(RawJob)) = .{ Text.of(id), undefined };
    host.get(raw.start, raw.length, &reply);
    return lifted((try checked(&reply)).get() orelse return null);
}

/// The answer to a job; null as long as it has none.
pub fn getAnswer(id: []const u8) Error!?Answer {
    try check(id);
    if (!abi.is_component) return native.getAnswer(id);
    const raw, var reply: abi.Reply(abi.Optional(RawAnswer)) = .{ Text.of(id), undefined };
    host.get_answer(raw.start, raw.length, &reply);
    const found = (try checked(&reply)).get() orelse return null;
    const headers = try guest.allocator.alloc(guest.Header, found.headers.length);
    for (headers, found.headers.slice()) |*to, from| to.* = .{ .name = from.name.slice(), .value = from.value.slice() };
    return .{ .status = found.status, .headers = headers, .body = found.body.slice() };
}

/// Cancels a job, whose run is stopped, and gives it; one that is finished stays as it is.
pub fn cancel(id: []const u8) Error!?Job {
    try check(id);
    if (!abi.is_component) return native.cancel(id);
    const raw, var reply: abi.Reply(abi.Optional(RawJob)) = .{ Text.of(id), undefined };
    host.cancel(raw.start, raw.length, &reply);
    return lifted((try checked(&reply)).get() orelse return null);
}

/// A submission of a test, and what has become of it.
pub const Stored = struct { job: Job, submission: Submission, answer: ?Answer = null };

/// For tests: what was submitted, in its order.
pub fn submitted() []const Stored {
    return native.stored.items;
}

/// For tests: a job ends with this answer, which fails if it is an error.
pub fn finish(id: []const u8, answer: Answer) void {
    native.finish(id, answer);
}

/// For tests: forgets all jobs.
pub fn forget() void {
    native.forget();
}

fn lifted(raw: RawJob) Job {
    return .{
        .id = raw.id.slice(),
        .state = raw.state,
        .attempt = raw.attempt,
        .attempts = raw.attempts,
        .submitted_ms = raw.submitted_ms,
        .changed_ms = raw.changed_ms,
        .failure = if (raw.failure.get()) |text| text.slice() else null,
        .status = raw.status.get(),
    };
}

/// Refuses what no host takes as text.
fn check(text: []const u8) Error!void {
    if (!isReadable(text)) return abi.say(error.Invalid, "a text that is no UTF-8", .{});
}

/// The value of a reply, or its error.
fn checked(reply: anytype) Error!@FieldType(@FieldType(@TypeOf(reply.*), "as"), "value") {
    if (reply.is_error == 0) return reply.as.value;
    const failure = reply.as.failure;
    return switch (failure.kind) {
        0 => abi.say(error.Invalid, "{s}", .{failure.text.slice()}),
        1 => abi.say(error.Conflict, native.conflict, .{}),
        2 => abi.say(error.Limit, "{s}", .{failure.text.slice()}),
        else => abi.say(error.Unavailable, "the store of the jobs cannot be used: {s}", .{failure.text.slice()}),
    };
}

const RawSubmission = extern struct {
    path: Text,
    headers: abi.List(abi.RawHeader),
    body: Text,
    priority: abi.Optional(u8),
    delay_ms: abi.Optional(u64),
    wait_ms: abi.Optional(u64),
    attempts: abi.Optional(u32),
    webhook: abi.RawOptional,
    idempotency_key: abi.RawOptional,
};
const RawJob = extern struct {
    id: Text,
    state: State,
    attempt: u32,
    attempts: u32,
    submitted_ms: u64,
    changed_ms: u64,
    failure: abi.RawOptional,
    status: abi.Optional(u16),
};
const RawAnswer = extern struct { status: u16, headers: abi.List(abi.RawHeader), body: Text };

comptime {
    if (abi.is_component) {
        std.debug.assert(@sizeOf(RawSubmission) == 96 and @offsetOf(RawSubmission, "delay_ms") == 32);
        std.debug.assert(@sizeOf(RawJob) == 56 and @offsetOf(RawJob, "submitted_ms") == 24);
        std.debug.assert(@sizeOf(RawAnswer) == 20);
    }
}

fn imported(comptime T: type, comptime name: []const u8) *const T {
    return abi.importedFrom(*const T, "modelhost:handler/jobs@0.1.0", name);
}

fn Ask(comptime T: type) type {
    return fn (?[*]const u8, usize, *abi.Reply(abi.Optional(T))) callconv(.c) void;
}

const host = struct {
    const submit = imported(fn (*const RawSubmission, *abi.Reply(RawJob)) callconv(.c) void, "submit");
    const get = imported(Ask(RawJob), "get");
    const get_answer = imported(Ask(RawAnswer), "get-answer");
    const cancel = imported(Ask(RawJob), "cancel");
};

test "a test has jobs in memory, which it ends itself" {
    defer forget();
    const wanted: Submission = .{ .path = "/fit?fast=1", .body = "{\"a\": 1}", .delay_ms = 5_000, .idempotency_key = "one" };
    const job = try submit(wanted);
    try std.testing.expectEqual(.queued, job.state);
    try std.testing.expectEqualStrings(job.id, (try submit(wanted)).id);
    try std.testing.expectError(error.Conflict, submit(.{ .path = "/other", .idempotency_key = "one" }));
    try std.testing.expectError(error.Invalid, submit(.{ .path = "fit" }));
    try std.testing.expectError(error.Invalid, submit(.{ .path = "/\xff" }));
    try std.testing.expectError(error.Invalid, submit(.{ .headers = &.{.{ .name = "x-a", .value = "\xff" }} }));
    try std.testing.expectError(error.Invalid, get("\xff"));
    try std.testing.expectEqual(1, submitted().len);
    try std.testing.expectEqual(5_000, submitted()[0].submission.delay_ms);
    try std.testing.expectEqualStrings("/fit?fast=1", submitted()[0].submission.path);

    try std.testing.expectEqual(null, try getAnswer(job.id));
    finish(job.id, .{ .body = "{\"loss\": 0.5, \"rounds\": 3}" });
    try std.testing.expectEqual(.completed, (try cancel(job.id)).?.state);
    const answer = (try getAnswer(job.id)).?;
    try std.testing.expectEqual(0.5, (try answer.json(struct { loss: f32 })).loss);
    try std.testing.expectError(error.Invalid, answer.json([]u8));

    const other = try submit(.{});
    try std.testing.expectEqual(.cancelled, (try cancel(other.id)).?.state);
    try std.testing.expectEqual(.cancelled, (try get(other.id)).?.state);
    try std.testing.expectEqual(null, try get("none"));
    try std.testing.expectEqual(null, try cancel("none"));
}
