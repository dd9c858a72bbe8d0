"""What both styles need of the host: the response's handle, requests to others, whether the client is gone."""

from urllib.parse import urlsplit

from componentize_py_types import Err, Ok
from wit_world.exports.operations import Operation
from wit_world.imports import outgoing_handler, request as current, wasi_http_types as http
from wit_world.imports.modelhost_handler_types import Error_Internal, Error_InvalidInput, Response
from wit_world.imports.streaming import Output

__all__ = ["Err", "Error_Internal", "Error_InvalidInput", "Held", "Operation", "Response", "is_disconnected", "post"]

WRITE = 4096


class Held:
    """The response's handle, which goes with the request whatever becomes of it."""

    def __init__(self, output):
        self._output = output
        self.has_begun = False

    def begin(self, status, content_type, headers=()):
        self.has_begun = True
        self._output.begin(status, content_type, list(headers))

    def write(self, piece):
        return self._output.write(piece)

    def finish(self):
        Output.finish(self._take())

    def send(self, response):
        Output.send(self._take(), response)

    def drop(self):
        if self._output is not None:
            self._take().__exit__(None, None, None)

    def _take(self):
        output, self._output = self._output, None
        return output


def is_disconnected():
    return current.is_disconnected()


def post(url, body):
    """Posts JSON and gives the status of the answer; an OSError says why there is none."""
    parts = urlsplit(url)
    request = http.OutgoingRequest(http.Fields.from_list([("content-type", b"application/json")]))
    request.set_method(http.Method_Post())
    request.set_scheme(http.Scheme_Https() if parts.scheme == "https" else http.Scheme_Http())
    request.set_authority(parts.netloc)
    request.set_path_with_query((parts.path or "/") + (f"?{parts.query}" if parts.query else ""))
    outgoing = request.body()
    try:
        future = outgoing_handler.handle(request, None)
        with outgoing.write() as stream:
            for start in range(0, len(body), WRITE):
                stream.blocking_write_and_flush(body[start : start + WRITE])
        http.OutgoingBody.finish(outgoing, None)
        with future.subscribe() as ready:
            ready.block()
        answered = future.get()
        if isinstance(answered, Ok) and isinstance(answered.value, Ok):
            with answered.value.value as response:
                return response.status()
        raise OSError(str(answered))
    except Err as error:
        raise OSError(str(error.value)) from None
