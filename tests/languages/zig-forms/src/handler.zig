//! An application that tells the parts of a form, and sets two cookies: see tests/languages/multipart.json.

const guest = @import("guest");
const Request = guest.Request;
const Response = guest.Response;

comptime {
    guest.handler(.{ .routes = &routes });
}

const routes = [_]guest.Route{
    .post("/form", form, .{ .consumes = "multipart/form-data" }),
    .get("/cookies", cookies, .{}),
};

const Told = struct { name: []const u8, filename: ?[]const u8, type: []const u8, size: usize, sum: u64 };

fn form(request: Request) !Response {
    const given = try request.sample.multipart();
    const parts = try guest.allocator.alloc(Told, given.parts.len);
    for (given.parts, parts) |part, *told| {
        told.* = .{ .name = part.name, .filename = part.filename, .type = part.content_type, .size = part.body.len, .sum = 0 };
        for (part.body) |byte| told.sum += byte;
    }
    return Response.json(.{ .parts = parts });
}

fn cookies(_: Request) !Response {
    return (try Response.text("baked").withHeader("set-cookie", "a=1")).withHeader("set-cookie", "b=2");
}
