//! Does as the body says (`{"do": "file"}`), and makes each tensor anew, by the type of its elements.

const std = @import("std");
const guest = @import("guest");

comptime {
    guest.handler(.{
        .init = load,
        .pre_inference = prepare,
        .post_inference = answer,
        .pre_inference_tensors = tensors,
        .post_inference_tensors = tensors,
    });
}

const Settings = struct { label: []const u8 };
var settings: Settings = .{ .label = "" };

fn load(metadata: []const u8) !void {
    // Not the SDK's allocator: this stays.
    settings = try std.json.parseFromSliceLeaky(Settings, std.heap.page_allocator, metadata, .{ .allocate = .alloc_always });
}

fn greeting() ![]const u8 {
    const io = std.Io.Threaded.global_single_threaded.io();
    const text = try std.Io.Dir.cwd().readFileAlloc(io, "greeting.json", guest.allocator, .limited(1024));
    const File = struct { greeting: []const u8 };
    return (try std.json.parseFromSliceLeaky(File, guest.allocator, text, .{})).greeting;
}

fn prepare(sample: guest.Sample, _: guest.Context) ![]const guest.Tensor {
    var text = (try sample.json(struct { do: []const u8 })).do;
    if (std.mem.eql(u8, text, "invalid")) return guest.invalid("as asked", .{});
    if (std.mem.eql(u8, text, "internal")) return guest.internal("as asked", .{});
    if (std.mem.eql(u8, text, "respond")) {
        var teapot = guest.Response.text("teapot");
        teapot.status = 418;
        return guest.respond(teapot);
    }
    if (std.mem.eql(u8, text, "file")) text = try greeting();
    var tensor = try guest.Tensor.ofTexts(&.{text});
    tensor.name = "text";
    return guest.allocator.dupe(guest.Tensor, &.{tensor});
}

fn answer(outputs: []const guest.Tensor, _: guest.Context) !guest.Response {
    const texts = try (try guest.named(outputs, "text")).texts();
    return guest.Response.json(.{ .answer = texts[0], .label = settings.label });
}

fn again(it: guest.Tensor) !guest.Tensor {
    var made = switch (it.datatype) {
        .bytes => try guest.Tensor.ofTexts(try it.texts()),
        inline else => |datatype| try guest.Tensor.of(datatype.Element(), try it.values(datatype.Element()), it.shape),
    };
    made.shape = it.shape;
    made.name = it.name;
    return made;
}

fn tensors(given: []const guest.Tensor, _: guest.Context) ![]const guest.Tensor {
    const made = try guest.allocator.alloc(guest.Tensor, given.len);
    for (made, given) |*to, from| to.* = try again(from);
    return made;
}
