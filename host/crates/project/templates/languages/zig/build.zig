//! `modelhost build` runs this, and makes a component of what it installs: bin/handler.wasm.

const std = @import("std");

pub fn build(b: *std.Build) void {
    const query = std.Target.Query.parse(.{ .arch_os_abi = "wasm32-wasi", .cpu_features = "generic+simd128" });
    const handler = b.addExecutable(.{
        .name = "handler",
        .root_module = b.createModule(.{
            .root_source_file = b.path("src/handler.zig"),
            .target = b.resolveTargetQuery(query catch unreachable),
            .optimize = b.standardOptimizeOption(.{ .preferred_optimize_mode = .ReleaseFast }),
            .imports = &.{.{ .name = "guest", .module = b.dependency("modelhost_guest", .{}).module("guest") }},
            // Names of functions stay, so that a trap in the log says where.
            .strip = false,
        }),
    });
    // A library of functions, without `main`; what is exported stays.
    handler.entry = .disabled;
    handler.rdynamic = true;
    b.installArtifact(handler);

    const tests = b.addTest(.{
        .root_module = b.createModule(.{
            .root_source_file = b.path("src/handler.zig"),
            .target = b.graph.host,
            .imports = &.{.{ .name = "guest", .module = b.dependency("modelhost_guest", .{}).module("guest") }},
        }),
    });
    const step = b.step("test", "Run the unit tests");
    step.dependOn(&b.addRunArtifact(tests).step);
}
