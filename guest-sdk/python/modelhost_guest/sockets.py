"""WebSockets: a function that talks with a client for as long as both like.

In a test `converse` is the client.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from . import _exports, _host
from .context import Context
from .errors import InvalidInput, checked
from .handler import adapted, ended
from .messages import Answer, answer_to, to_json
from .request import Request

if TYPE_CHECKING:
    from .messages import Response

F = TypeVar("F", bound=Callable[..., Any])


class Close(NamedTuple):
    """How a socket was closed (RFC 6455, section 7.4). 1005: without a code; 1006: the client went without a close."""

    code: int
    reason: str = ""


class Socket:
    """A client's socket: `for message in socket`. It opens at its first use, and is closed with 1000 when the function returns.

    Until it is open, `Answer` and `InvalidInput` are the answer to the handshake, as to any request.
    """

    def __init__(self, host: Any) -> None:
        self._host = host
        self.is_open = False
        # How it was closed, once a call has found that out.
        self.closed: Close | None = None

    @property
    def protocols(self) -> list[str]:
        """The subprotocols that the client offers, in its order of preference."""
        return self._host.protocols()

    def accept(self, protocol: str | None = None) -> None:
        """Opens the socket, with one of the client's subprotocols or none."""
        if self.is_open:
            raise RuntimeError("the socket is open already")
        self._host.accept(None if protocol is None else checked(protocol, "a subprotocol"))
        self.is_open = True

    def receive(self, timeout: float | None = None) -> str | bytes | None:
        """Waits for the next message: a text, or bytes. None: the socket is closed.

        `TimeoutError`: none came within `timeout` seconds.
        """
        milliseconds = None if timeout is None else min(max(int(timeout * 1000), 0), 2**32 - 1)
        return self._asked(lambda host: host.receive(milliseconds), None)

    def receive_json(self, timeout: float | None = None) -> Any:
        """The next message as JSON; None if the socket is closed."""
        message = self.receive(timeout)
        return None if message is None else json.loads(message)

    def send(self, message: str | bytes | bytearray | memoryview) -> bool:
        """Sends a text, or bytes; waits while the client does not read. False: the socket is closed."""
        if isinstance(message, (bytearray, memoryview)):
            message = bytes(message)
        if not isinstance(message, (str, bytes)):
            raise TypeError(f"a message is a text or bytes, and not {type(message).__name__}; `send_json` sends others")
        return self._asked(lambda host: host.send(message) or True, False)

    def send_json(self, value: Any) -> bool:
        """Sends a value as JSON."""
        return self.send(to_json(value).decode())

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Closes the socket after what was sent, with 1000 to 1003, 1007 to 1011, or 3000 to 4999. The first close counts."""
        checked(code, "a code", int)
        checked(reason, "a reason")
        self._asked(lambda host: host.close(code, reason), None)
        self.closed = self.closed or Close(code, reason)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.receive, None)

    def _asked(self, ask: Callable[[Any], Any], when_closed: Any) -> Any:
        if not self.is_open:
            self.accept()
        try:
            return ask(self._host)
        except _Closed as error:
            self.closed = self.closed or error.close
            return when_closed


def websocket(function: F) -> F:
    """Serves WebSockets: the function takes the socket and, if it likes, the request of the handshake."""
    call = adapted(function)
    exported(function, lambda socket, context: call(socket, Request(context=context)))
    return function


def exported(function: Any, talk: Callable[[Any, Any], Any]) -> None:
    """Makes the export of the module in which `function` is defined; `talk` takes a socket and a context."""

    class Websocket:
        def websocket(self, upgrade: Any, context: Context) -> None:
            host, own = _OfHost(upgrade), Context._of(context)
            try:
                _served(talk, Socket(host), own)
            except Exception as error:
                raise _host.Err(_host.said(error)) from None
            finally:
                host.end()
                ended(own)

    function._talk = talk
    _exports.put(function.__module__, Websocket.__name__, Websocket)


def _served(talk: Callable[[Any, Any], Any], socket: Socket, context: Context) -> None:
    """Has a function talk. What it raises before the socket is open is the answer to the handshake."""
    try:
        talk(socket, context)
    except (Answer, InvalidInput) as error:
        if socket.is_open:
            raise
        socket._host.refuse(answer_to(error, context))
    else:
        if not socket.is_open:
            socket.accept()


class _Closed(Exception):
    """The host's word that the socket is closed."""

    def __init__(self, close: Close) -> None:
        super().__init__(close)
        self.close = close


class _OfHost:
    """The host's side of a socket: the handshake, and what comes of it."""

    def __init__(self, upgrade: Any) -> None:
        self._upgrade = upgrade
        self._socket = None

    def protocols(self) -> Any:
        return list(self._upgrade.protocols()) if self._upgrade is not None else []

    def accept(self, protocol: str | None) -> None:
        self._socket = self._answered("accept", protocol)

    def refuse(self, response: Response) -> None:
        self._answered("refuse", _host.response_out(response))

    def _answered(self, how: Any, given: Any) -> Any:
        upgrade, self._upgrade = self._upgrade, None
        if upgrade is None:
            raise RuntimeError("the handshake is answered already")
        try:
            return getattr(type(upgrade), how)(upgrade, given)
        except _host.Err as error:
            raise ValueError(error.value) from None

    def receive(self, milliseconds: int | None) -> Any:
        message = self._asked("receive", milliseconds).value
        return message if isinstance(message, str) else bytes(message)

    def send(self, message: Any) -> None:
        kind = _host.websockets.Message_Text if isinstance(message, str) else _host.websockets.Message_Binary
        self._asked("send", kind(message))

    def close(self, code: int, reason: str) -> None:
        self._asked("close", code, reason)

    def _asked(self, operation: Any, *arguments: Any) -> Any:
        try:
            return getattr(self._socket, operation)(*arguments)
        except _host.Err as error:
            kind = _host.kind(error.value)
            if kind == "closed":
                raise _Closed(Close(error.value.value.code, error.value.value.reason)) from None
            raise TimeoutError("no message came in that time") if kind == "timed-out" else ValueError(error.value.value) from None

    def end(self) -> None:
        """Gives up what the host lent: an instance that keeps it serves no other socket."""
        for handle in (self._upgrade, self._socket):
            if handle is not None:
                handle.__exit__(None, None, None)
        self._upgrade = self._socket = None


class Conversation:
    """All that was said over a socket of a test."""

    def __init__(self) -> None:
        # The messages that the function sent, the subprotocol that it chose, how it closed the socket by itself, and the
        # response with which it refused the handshake.
        self.sent: list[Any] = []
        self.protocol: str | None = None
        self.close: Close | None = None
        self.refusal: Response | None = None


def converse(served: Any, says: Iterable[str | bytes] = (), *, path: str = "/", headers: Mapping[str, str] | None = None, query: str = "", metadata: Any = None) -> Conversation:
    """Has a function, or an application, serve a client that says these messages and then closes with 1000: for tests.

    What the function raises while the socket is open, this raises too. The client's subprotocols are in the header
    `sec-websocket-protocol`.
    """
    context = Context(method="GET", path=path, query=query, headers=headers, metadata=metadata)
    offered = [it.strip() for it in (context.header("sec-websocket-protocol") or "").split(",")]
    client = _Client([it for it in offered if it], list(says))
    try:
        _served(served._talk, Socket(client), context)
    finally:
        ended()
    return client.conversation


class _Client:
    """The host's side in a test."""

    def __init__(self, offered: list[str], says: list[Any]) -> None:
        self._offered, self._says, self.conversation = offered, says, Conversation()

    def protocols(self) -> Any:
        return self._offered

    def accept(self, protocol: str | None) -> None:
        if protocol is not None and protocol not in self._offered:
            raise ValueError(f"the client offers no subprotocol `{protocol}`")
        self.conversation.protocol = protocol

    def refuse(self, response: Response) -> None:
        self.conversation.refusal = response

    def receive(self, milliseconds: int | None) -> Any:
        if self.conversation.close is not None or not self._says:
            raise _Closed(self.conversation.close or Close(1000))
        return self._says.pop(0)

    def send(self, message: Any) -> None:
        if self.conversation.close is not None:
            raise _Closed(self.conversation.close)
        self.conversation.sent.append(message)

    def close(self, code: int, reason: str) -> None:
        if not any(first <= code <= last for first, last in ((1000, 1003), (1007, 1011), (3000, 4999))):
            raise ValueError(f"code {code} is not one that is sent")
        self.conversation.close = self.conversation.close or Close(code, reason)
