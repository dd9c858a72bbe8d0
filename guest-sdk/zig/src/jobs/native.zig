//! Jobs in memory, for tests, which have no host.

const std = @import("std");
const abi = @import("../abi.zig");
const jobs = @import("../jobs.zig");

pub const conflict = "the idempotency key was used for another job";

pub var stored: std.ArrayList(jobs.Stored) = .empty;
var arena = std.heap.ArenaAllocator.init(std.heap.page_allocator);

pub fn forget() void {
    stored = .empty;
    _ = arena.reset(.free_all);
}

pub fn submit(submission: jobs.Submission) jobs.Error!jobs.Job {
    if (!std.mem.startsWith(u8, submission.path, "/")) return abi.say(error.Invalid, "the path is none: it begins with `/`", .{});
    for (stored.items) |known| {
        const key = known.submission.idempotency_key orelse continue;
        if (submission.idempotency_key == null or !is(key, submission.idempotency_key.?)) continue;
        const is_same = is(known.submission.path, submission.path) and is(known.submission.body, submission.body);
        return if (is_same) known.job else abi.say(error.Conflict, conflict, .{});
    }
    const own, const time = .{ arena.allocator(), now() };
    const job: jobs.Job = .{
        .id = try std.fmt.allocPrint(own, "00000000-0000-7000-8000-{d:0>12}", .{stored.items.len + 1}),
        .attempts = submission.attempts orelse 3,
        .submitted_ms = time,
        .changed_ms = time,
    };
    try stored.append(own, .{ .job = job, .submission = try copied(jobs.Submission, submission) });
    return job;
}

pub fn get(id: []const u8) jobs.Error!?jobs.Job {
    return if (found(id)) |it| it.job else null;
}

pub fn getAnswer(id: []const u8) jobs.Error!?jobs.Answer {
    return if (found(id)) |it| it.answer else null;
}

pub fn cancel(id: []const u8) jobs.Error!?jobs.Job {
    const it = found(id) orelse return null;
    if (it.job.state == .queued or it.job.state == .running) {
        it.job.state = .cancelled;
        it.job.changed_ms = now();
    }
    return it.job;
}

pub fn finish(id: []const u8, answer: jobs.Answer) void {
    const it = found(id) orelse std.debug.panic("no job `{s}` was submitted", .{id});
    it.answer = copied(jobs.Answer, answer) catch @panic("out of memory");
    it.job.state = if (answer.status < 400) .completed else .failed;
    it.job.attempt = 1;
    it.job.status = answer.status;
    it.job.changed_ms = now();
}

fn found(id: []const u8) ?*jobs.Stored {
    for (stored.items) |*it| {
        if (is(it.job.id, id)) return it;
    }
    return null;
}

/// What was given may lie in memory of the call.
fn copied(comptime T: type, given: T) error{OutOfMemory}!T {
    return switch (@typeInfo(T)) {
        .@"struct" => |it| {
            var made: T = undefined;
            inline for (it.fields) |field| @field(made, field.name) = try copied(field.type, @field(given, field.name));
            return made;
        },
        .optional => |it| if (given) |value| try copied(it.child, value) else null,
        .pointer => |it| {
            const made = try arena.allocator().alloc(it.child, given.len);
            for (made, given) |*to, from| to.* = try copied(it.child, from);
            return made;
        },
        else => given,
    };
}

fn is(text: []const u8, expected: []const u8) bool {
    return std.mem.eql(u8, text, expected);
}

fn now() u64 {
    return @intCast(std.Io.Clock.real.now(std.Io.Threaded.global_single_threaded.io()).toMilliseconds());
}
