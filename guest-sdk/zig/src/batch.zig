//! Requests served together: an application that gets several by one call, as many as have come and as the
//! endpoint says, `batching.max_requests`. A route of `batch`, or `respond_all` beside `respond`.

const std = @import("std");
const abi = @import("abi.zig");
const guest = @import("guest.zig");

/// One request of a batch, and the answer to it. A test makes some, `var members = [_]guest.Member{.{
/// .sample = .{ .body = "[1]" } }};`, calls the function, and looks at what was `made` for each.
pub const Member = struct {
    sample: guest.Sample,
    context: guest.Context = .{},
    made: anyerror!guest.Response = error.Internal,
    /// That of an error.
    text: []const u8 = "the function has not answered this request",

    /// Answers this request: with a response, or with an error that is that of no other.
    pub fn answer(self: *Member, made: anyerror!guest.Response) void {
        self.made = made;
        const failed = if (made) |_| return else |failed| failed;
        // Both are those of the error that was made last, which another request may be about to make.
        if (failed == error.Respond) self.made = abi.answered else self.text = abi.textOf(failed);
    }
};

/// What serves a batch. Its requests have the same path, and come in their order; an error that is returned
/// is that of all of them.
pub const Together = *const fn ([]Member) anyerror!void;

/// A function of the handler as one that may fail.
pub fn together(comptime function: anytype) Together {
    return abi.fallible([]Member, void, function);
}

/// The answer of a batch of one.
pub fn only(function: Together, sample: guest.Sample, context: guest.Context) anyerror!guest.Response {
    var members = [_]Member{.{ .sample = sample, .context = context }};
    try function(&members);
    return members[0].made catch |failed| abi.say(failed, "{s}", .{members[0].text});
}

/// Exports a function for what is posted to these paths.
pub fn exported(comptime paths: []const []const u8, comptime function: Together) void {
    const Export = struct {
        fn told() callconv(.c) *const abi.List(Text) {
            const raw = guest.allocator.alloc(Text, paths.len) catch @trap();
            for (raw, paths) |*to, path| to.* = .of(path);
            paths_said = .of(raw);
            return &paths_said;
        }

        fn respond_all(start: ?[*]const RawMember, length: usize) callconv(.c) *const RawResult {
            const given = (abi.List(RawMember){ .start = start, .length = length }).slice();
            defer for (given) |member| abi.end(member.context);
            result = served(function, given);
            return &result;
        }
    };
    abi.exportedAs("respond-all@0.1.0#paths", &Export.told);
    abi.exportedAs("respond-all@0.1.0#respond-all", &Export.respond_all);
}

fn served(function: Together, given: []const RawMember) RawResult {
    const members = guest.allocator.alloc(Member, given.len) catch @trap();
    for (members, given) |*to, from| to.* = .{
        .sample = .{ .content_type = from.content_type.slice(), .body = from.body.slice() },
        .context = .{ .handle = from.context },
    };
    function(members) catch |failed| return .{ .is_error = 1, .as = .{ .failure = abi.rawError(failed) } };
    const answers = guest.allocator.alloc(RawAnswer, members.len) catch @trap();
    for (answers, members) |*to, from| to.* = if (from.made) |response|
        .{ .is_error = 0, .as = .{ .response = abi.rawResponse(response) } }
    else |failed|
        .{ .is_error = 1, .as = .{ .failure = abi.rawErrorOf(failed, from.text) } };
    return .{ .is_error = 0, .as = .{ .answers = .of(answers) } };
}

const Text = abi.Text;
const RawMember = extern struct { content_type: Text, body: Text, context: i32 };
const RawAnswer = extern struct {
    is_error: u8,
    as: extern union { response: abi.RawResponse, failure: abi.RawError },
};
const RawResult = extern struct {
    is_error: u8,
    as: extern union { answers: abi.List(RawAnswer), failure: abi.RawError },
};

/// The results of calls, which the host reads before it ends them.
var paths_said: abi.List(Text) = undefined;
var result: RawResult = undefined;

comptime {
    if (abi.is_component) {
        std.debug.assert(@sizeOf(RawMember) == 20 and @sizeOf(RawAnswer) == 36 and @sizeOf(RawResult) == 36);
    }
}

fn lengthOf(sample: guest.Sample, of: usize) !guest.Response {
    if (sample.body.len == 0) return guest.invalid("no body", .{});
    if (sample.body.len == 1) return guest.respond(.{ .status = 204 });
    if (sample.body.len == 2) return guest.invalid("two bytes", .{});
    return guest.Response.json(.{ .length = sample.body.len, .of = of });
}

fn lengths(members: []Member) !void {
    for (members) |*member| member.answer(lengthOf(member.sample, members.len));
    if (members.len == 4) return guest.internal("all of them", .{});
}

test "each request has its own answer" {
    var members = [_]Member{.{ .sample = .{ .body = "" } }} ** 4;
    members[0].sample.body = "abc";
    members[2].sample.body = "x";
    try lengths(members[0..3]);
    try std.testing.expectEqualStrings("{\"length\":3,\"of\":3}", (try members[0].made).body);
    try std.testing.expectError(error.InvalidInput, members[1].made);
    try std.testing.expectEqualStrings("no body", members[1].text);
    try std.testing.expectEqual(204, (try members[2].made).status);
    try std.testing.expectError(error.Internal, lengths(&members));
    // Errors without a text have their name.
    members[3].answer(error.Overflow);
    try std.testing.expectEqualStrings("Overflow", members[3].text);
    var untouched: Member = .{ .sample = .{ .body = "" } };
    try std.testing.expectError(error.Internal, untouched.made);
    untouched.answer(.{});
    try std.testing.expectEqual(200, (try untouched.made).status);
}

test "what the host is given of a batch" {
    const given = [_]RawMember{
        .{ .content_type = .of(""), .body = .of("abc"), .context = 1 },
        .{ .content_type = .of(""), .body = .of(""), .context = 2 },
        .{ .content_type = .of(""), .body = .of("ab"), .context = 3 },
    };
    const raw = served(together(lengths), &given);
    try std.testing.expectEqual(0, raw.is_error);
    const answers = raw.as.answers.slice();
    try std.testing.expectEqualStrings("{\"length\":3,\"of\":3}", answers[0].as.response.body.slice());
    try std.testing.expectEqual(1, answers[1].is_error);
    try std.testing.expectEqualStrings("no body", answers[1].as.failure.as.text.slice());
    try std.testing.expectEqualStrings("two bytes", answers[2].as.failure.as.text.slice());
    const all = served(together(lengths), &(given ++ given[0..1].*));
    try std.testing.expectEqualStrings("all of them", all.as.failure.as.text.slice());
}
