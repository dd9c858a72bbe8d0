"""The names of FastAPI and Starlette that models use: errors, requests, responses and WebSockets, without a server behind them.

What is in modules of their own there, `fastapi.responses`, `starlette.websockets`, is all in this one, which has those names too.
"""

from __future__ import annotations

import enum
import json
import sys
import time
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import quote

from . import status
from ._coroutines import finished
from .messages import BYTES, JSON, TEXT, gathered, lines
from .messages import Response as Answered

requests = responses = websockets = exceptions = datastructures = sys.modules[__name__]


class HTTPException(Exception):
    """An answer with another status; `detail` is its text."""

    def __init__(self, status_code: int, detail: Any = None, headers: Any = None) -> None:
        detail = status.phrase(status_code) if detail is None else detail
        super().__init__(detail)
        self.status_code, self.detail, self.headers = status_code, detail, gathered(headers or {})


class Request:
    """The request around the input. What Starlette awaits is awaited here too."""

    def __init__(self, request: Any) -> None:
        self._request, self.headers, self.method, self.url = request, request.headers, request.method, URL(request)
        self.query_params, self.path_params, self.state = request.query, request.params, State()

    async def body(self) -> Any:
        return bytes(self._request.body)

    async def json(self) -> Any:
        return json.loads(self._request.body)

    async def form(self) -> Any:
        return self._request.form

    async def is_disconnected(self) -> Any:
        return self._request.is_disconnected()


class URL:
    """The address of a request as far as it is known here: its path and its query."""

    def __init__(self, request: Any) -> None:
        query = "&".join(f"{quote(name)}={quote(value)}" for name, value in request.query.items())
        self.path, self.query, self.hostname, self.scheme = request.path, query, None, "http"

    def __str__(self) -> str:
        return f"{self.path}?{self.query}" if self.query else self.path


class WebSocketDisconnect(Exception):
    """The socket is closed."""

    def __init__(self, code: int = 1000, reason: Any = None) -> None:
        super().__init__(code, reason)
        self.code, self.reason = code, reason or ""


class WebSocketException(Exception):
    """Ends a socket with a code."""

    def __init__(self, code: int, reason: Any = None) -> None:
        super().__init__(code, reason)
        self.code, self.reason = code, reason or ""


class WebSocketState(enum.Enum):
    """What a side of a socket has done."""

    CONNECTING = 0
    CONNECTED = 1
    DISCONNECTED = 2
    RESPONSE = 3


class WebSocket:
    """A WebSocket, which is open. What Starlette awaits is awaited here too."""

    def __init__(self, socket: Any, request: Any) -> None:
        self._socket, self.headers, self.query_params, self.state = socket, request.headers, request.query, State()
        self.path_params, self.url, self.application_state = request.params, URL(request), WebSocketState.CONNECTED

    @property
    def client_state(self) -> Any:
        """Whether the client is there, as far as the last call has found out."""
        return WebSocketState.CONNECTED if self._socket.closed is None else WebSocketState.DISCONNECTED

    async def accept(self, subprotocol: Any = None, headers: Any = None) -> None:
        """Nothing: it is open before the model has it."""

    async def receive(self) -> Any:
        """The next message as ASGI has it."""
        message = self._socket.receive()
        if message is None:
            code, reason = self._socket.closed
            return {"type": "websocket.disconnect", "code": code, "reason": reason}
        return {"type": "websocket.receive", "text" if isinstance(message, str) else "bytes": message}

    async def send(self, message: Any) -> None:
        """Sends a message as ASGI has it."""
        kind, text = message["type"], message.get("text")
        if kind == "websocket.send":
            self._sent(bytes(message["bytes"]) if text is None else text)
        elif kind == "websocket.close":
            await self.close(message.get("code", 1000), message.get("reason"))

    async def receive_text(self) -> Any:
        return self._received(str)

    async def receive_bytes(self) -> Any:
        return self._received(bytes)

    async def receive_json(self, mode: Any = "text") -> Any:
        return json.loads(self._received((str, bytes)))

    async def send_text(self, data: Any) -> None:
        self._sent(data)

    async def send_bytes(self, data: Any) -> None:
        self._sent(bytes(data))

    async def send_json(self, data: Any, mode: Any = "text") -> None:
        text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
        self._sent(text if mode == "text" else text.encode())

    async def close(self, code: int = 1000, reason: Any = None) -> None:
        self.application_state = WebSocketState.DISCONNECTED
        self._socket.close(code, reason or "")

    def iter_text(self) -> Any:
        return _Messages(self.receive_text)

    def iter_bytes(self) -> Any:
        return _Messages(self.receive_bytes)

    def iter_json(self) -> Any:
        return _Messages(self.receive_json)

    def _received(self, kind: Any) -> Any:
        message = self._socket.receive()
        if message is None:
            raise WebSocketDisconnect(*self._socket.closed)
        if not isinstance(message, kind):
            raise TypeError(f"the message is {'text' if isinstance(message, str) else 'bytes'}")
        return message

    def _sent(self, message: Any) -> None:
        if not self._socket.send(message):
            raise WebSocketDisconnect(*self._socket.closed)


class _Messages:
    """Messages until the socket is closed. A generator would have to be closed by the loop, which may have ended."""

    def __init__(self, receive: Any) -> None:
        self._receive = receive

    def __aiter__(self) -> Any:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._receive()
        except WebSocketDisconnect:
            raise StopAsyncIteration from None


class State:
    """Where a program keeps what belongs to a request."""


class Response:
    """A response as it is to be sent."""

    media_type = BYTES

    def __init__(self, content: Any = b"", status_code: int = 200, headers: Any = None, media_type: Any = None, background: Any = None) -> None:
        self.content, self.status_code, self.background = content, status_code, background
        self.headers, self.media_type = gathered(headers or {}), media_type or self.media_type

    def set_cookie(self, key: Any, value: Any = "", max_age: Any = None, expires: Any = None, path: Any = "/", domain: Any = None, secure: Any = False, httponly: Any = False, samesite: Any = "lax") -> None:
        """Sets a cookie, beside those that are set."""
        cookie = SimpleCookie({key: value})
        if hasattr(expires, "timestamp"):
            # Seconds from now, of which the date is made.
            expires = round(expires.timestamp() - time.time())
        attributes = {"max-age": max_age, "path": path, "domain": domain, "samesite": samesite, "secure": secure, "httponly": httponly}
        for name, given in {**attributes, "expires": expires}.items():
            if given is not None and given is not False:
                cookie[key][name] = given
        own = next((it for it in self.headers if it.lower() == "set-cookie"), "set-cookie")
        set_already = self.headers.get(own, [])
        set_already = list(set_already) if isinstance(set_already, (list, tuple)) else [set_already]
        self.headers[own] = [*set_already, cookie.output(header="").strip()]

    def delete_cookie(self, key: Any, path: Any = "/", domain: Any = None, secure: Any = False, httponly: Any = False, samesite: Any = "lax") -> None:
        """Has the client forget a cookie."""
        self.set_cookie(key, "", 0, 0, path, domain, secure, httponly, samesite)

    def made(self) -> Any:
        """As the SDK has it."""
        headers = gathered((name.lower(), value) for name, value in lines(self.headers))
        content_type = headers.pop("content-type", self.media_type)
        return Answered(status=self.status_code, content_type=content_type, headers=headers, **self._body())

    def _body(self) -> Any:
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

    def _body(self) -> Any:
        return {"json": self.content}


class RedirectResponse(Response):
    """Another place to ask."""

    def __init__(self, url: Any, status_code: int = 307, headers: Any = None, background: Any = None) -> None:
        where = quote(str(url), safe=":/%#?=@[]!$&'()*+,;")
        super().__init__(b"", status_code, {**gathered(headers or {}), "location": where}, None, background)


class StreamingResponse(Response):
    """A response in pieces: any iterable, an asynchronous one as well."""

    def _body(self) -> Any:
        return {"stream": finished(self.content)}


# They differ in what writes the JSON.
ORJSONResponse = UJSONResponse = JSONResponse
