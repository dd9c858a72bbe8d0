"""The names of FastAPI and Starlette that models use: errors, requests and responses, without a server behind them."""

import json

from .messages import BYTES, JSON, TEXT, Response as Answered


class HTTPException(Exception):
    """An answer with another status; `detail` is its text."""

    def __init__(self, status_code, detail=None, headers=None):
        super().__init__(detail)
        self.status_code, self.detail, self.headers = status_code, detail, dict(headers or {})


class Request:
    """The request around the input. What Starlette awaits is awaited here too."""

    def __init__(self, request):
        self._request, self.headers, self.method = request, request.headers, request.method
        self.query_params, self.state = request.query, State()

    async def body(self):
        return bytes(self._request.body)

    async def json(self):
        return json.loads(self._request.body)

    async def is_disconnected(self):
        """Never known before a write fails."""
        return False


class State:
    """Where a program keeps what belongs to a request."""


class Response:
    """A response as it is to be sent."""

    media_type = BYTES

    def __init__(self, content=b"", status_code=200, headers=None, media_type=None, background=None):
        self.content, self.status_code, self.background = content, status_code, background
        self.headers, self.media_type = dict(headers or {}), media_type or self.media_type

    def made(self, finished=lambda value: value):
        """As the SDK has it. `finished` makes an ordinary iterable of an asynchronous one."""
        headers = {name.lower(): value for name, value in self.headers.items()}
        content_type = headers.pop("content-type", self.media_type)
        return Answered(status=self.status_code, content_type=content_type, headers=headers, **self._body(finished))

    def _body(self, finished):
        return {"body": self.content or b""}


class PlainTextResponse(Response):
    """Text."""

    media_type = TEXT


class HTMLResponse(Response):
    """A page."""

    media_type = "text/html; charset=utf-8"


class JSONResponse(Response):
    """What is written as JSON."""

    media_type = JSON

    def _body(self, finished):
        return {"json": self.content}


class StreamingResponse(Response):
    """A response in pieces: any iterable, an asynchronous one as well."""

    def _body(self, finished):
        return {"stream": finished(self.content)}
