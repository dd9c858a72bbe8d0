"""An application on bare `wasi:http`: answers with what it sees, streams, fails."""

import json

from componentize_py_types import Ok
from wit_world import exports
from wit_world.imports.types import Fields, IncomingRequest, OutgoingBody, OutgoingResponse, ResponseOutparam


class IncomingHandler(exports.IncomingHandler):
    def handle(self, request: IncomingRequest, out: ResponseOutparam) -> None:
        path = request.path_with_query()
        if path == "/fail":
            raise ValueError("as asked")
        response = OutgoingResponse(Fields.from_list([("content-type", b"application/json")]))
        body = response.body()
        ResponseOutparam.set(out, Ok(response))
        with body.write() as stream:
            for piece in (json.dumps({"path": path}).encode(), b"\n"):
                stream.blocking_write_and_flush(piece)
        OutgoingBody.finish(body, None)
