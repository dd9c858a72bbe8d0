"""WebSockets by the library `websockets`: case T24 of Truss's clients, subprotocols, pings, large messages in pieces.

Arguments: `ws://HOST:PORT` of a host whose handler serves sockets, and of one whose handler does not.
"""

import sys
import time

from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

WITH, WITHOUT = sys.argv[1:]
PATH = "/v1/websocket"
FAILED = "Internal Server Error (in model/chainlet)."


def closed(socket):
    """Code and reason of the close that comes next."""
    try:
        said = socket.recv(timeout=10)
    except ConnectionClosed as error:
        return error.rcvd.code, error.rcvd.reason
    raise AssertionError(f"expected a close, got {said!r}")


def main():
    for path in (PATH, "/talk", "/talk/v1/websocket", "/any/where"):
        with connect(WITH + path) as socket:
            for text in ("a", "b"):
                socket.send(text)
                assert socket.recv(timeout=10) == f"echo {text}"
            socket.send("bye")
            assert closed(socket) == (1000, ""), path

    with connect(WITH + PATH) as socket:
        socket.send("a")
        assert socket.recv(timeout=10) == "echo a"
        socket.send("boom")
        assert closed(socket) == (1011, FAILED)

    with connect(WITHOUT + PATH) as socket:
        assert closed(socket) == (1003, "WebSocket is not implemented on this deployment.")
    # Also if it speaks first.
    with connect(WITHOUT + PATH) as socket:
        try:
            socket.send("a")
        except ConnectionClosed:
            pass
        assert closed(socket)[0] == 1003
    try:
        connect(WITHOUT + "/elsewhere")
    except InvalidStatus as refused:
        assert refused.response.status_code == 404
    else:
        raise AssertionError("there is no socket")

    with connect(WITH + "/talk/protocol", subprotocols=["soft", "chat.v1"]) as socket:
        assert socket.subprotocol == "chat.v1"
        assert socket.recv(timeout=10) == 'Some("chat.v1")'
        assert closed(socket) == (1000, "")

    # The host answers pings, also while the handler does not take anything.
    with connect(WITH + PATH) as socket:
        socket.send("sleep 300")
        begun = time.monotonic()
        assert socket.ping(b"there?").wait(timeout=10)
        assert time.monotonic() - begun < 0.25
        assert socket.recv(timeout=10) == "slept"

    with connect(WITH + PATH, compression=None, max_size=None) as socket:
        parts = ["x" * 1000] * 700
        socket.send(iter(parts))
        assert socket.recv(timeout=10) == "echo " + "".join(parts)
        socket.send(b"\x00\xff")
        assert socket.recv(timeout=10) == b"\x00\xff"
    print("ok")


main()
