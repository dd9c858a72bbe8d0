"""An application on `wasi:http` 0.3, as componentize-py's own example for it is made: coroutines, and bodies that stream."""

import json

import componentize_py_async_support
from componentize_py_types import Ok
from wit_world import (
    byte_stream,
    exports,
    result_option_wasi_http_types_fields_wasi_http_types_error_code_future as trailers_future,
    result_unit_wasi_http_types_error_code_future as unit_future,
)
from wit_world.imports import monotonic_clock
from wit_world.imports.wasi_http_types import Fields, Request, Response

TEXT = [("content-type", b"text/plain")]


class Handler(exports.Handler):
    async def handle(self, request: Request) -> Response:
        path = request.get_path_with_query() or ""
        if path == "/fail":
            raise ValueError("as asked")
        if path == "/echo":
            body, trailers = Request.consume_body(request, unit_future(lambda: Ok(None))[1])
            return answer(body, trailers)
        writer, body = byte_stream()
        if path == "/stream":
            componentize_py_async_support.spawn(events(writer))
        else:
            seen = json.dumps({"path": path, "method": type(request.get_method()).__name__})
            componentize_py_async_support.spawn(write(writer, seen.encode()))
        return answer(body, trailers_future(lambda: Ok(None))[1])


def answer(body, trailers) -> Response:
    return Response.new(Fields.from_list(TEXT), body, trailers)[0]


async def write(writer, text: bytes) -> None:
    with writer:
        await writer.write_all(text)


async def events(writer) -> None:
    with writer:
        for number in range(3):
            await writer.write_all(f"data: {number}\n\n".encode())
            await monotonic_clock.wait_for(1_000_000)
