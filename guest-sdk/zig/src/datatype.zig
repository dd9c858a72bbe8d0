//! The types of a tensor's elements.

const std = @import("std");

/// Element types of the Open Inference Protocol, in the order of the contract.
pub const Datatype = enum(u8) {
    bool,
    uint8,
    uint16,
    uint32,
    uint64,
    int8,
    int16,
    int32,
    int64,
    fp16,
    bf16,
    fp32,
    fp64,
    bytes,

    pub fn of(comptime T: type) Datatype {
        return switch (T) {
            bool => .bool,
            u8 => .uint8,
            u16 => .uint16,
            u32 => .uint32,
            u64 => .uint64,
            i8 => .int8,
            i16 => .int16,
            i32 => .int32,
            i64 => .int64,
            f16 => .fp16,
            BFloat16 => .bf16,
            f32 => .fp32,
            f64 => .fp64,
            else => @compileError("no element of a tensor: " ++ @typeName(T)),
        };
    }

    /// The type of its elements.
    pub fn Element(comptime self: Datatype) type {
        return switch (self) {
            .bool => bool,
            .uint8 => u8,
            .uint16 => u16,
            .uint32 => u32,
            .uint64 => u64,
            .int8 => i8,
            .int16 => i16,
            .int32 => i32,
            .int64 => i64,
            .fp16 => f16,
            .bf16 => BFloat16,
            .fp32 => f32,
            .fp64 => f64,
            .bytes => @compileError("elements of bytes have `texts`"),
        };
    }
};

/// The upper 16 bits of an `f32`.
pub const BFloat16 = enum(u16) {
    _,

    pub fn float(self: BFloat16) f32 {
        return @bitCast(@as(u32, @intFromEnum(self)) << 16);
    }

    /// The nearest, ties to even.
    pub fn of(value: f32) BFloat16 {
        if (std.math.isNan(value)) return @enumFromInt(0x7fc0);
        const bits: u32 = @bitCast(value);
        return @enumFromInt(@as(u16, @truncate((bits + 0x7fff + (bits >> 16 & 1)) >> 16)));
    }
};
