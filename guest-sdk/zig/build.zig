//! The SDK as a module: `b.dependency("modelhost_guest", .{}).module("guest")`.

const std = @import("std");

pub fn build(b: *std.Build) void {
    const target = b.standardTargetOptions(.{});
    const module = b.addModule("guest", .{ .root_source_file = b.path("src/guest.zig") });
    const tests = b.addTest(.{
        .root_module = b.createModule(.{ .root_source_file = b.path("src/guest.zig"), .target = target }),
    });
    const step = b.step("test", "Run the SDK's unit tests");
    step.dependOn(&b.addRunArtifact(tests).step);
    _ = module;
}
