"""WebSockets without a host: functions, applications, Truss's class."""

import unittest

from modelhost_guest import Answer, App, InvalidInput, Response, sockets, truss, websocket
from modelhost_guest.sockets import Close, converse
from modelhost_guest.web import WebSocket, WebSocketDisconnect

app = App("tests")


@websocket
def loud(socket, request):
    if "loud" not in socket.protocols:
        raise Answer(Response("too quiet", status=403))
    socket.accept("loud")
    for message in socket:
        if message == "stop":
            socket.close(4000, "stopped")
        elif isinstance(message, bytes):
            assert socket.send(bytearray(message))
        else:
            assert socket.send(f"{request.path} {message.upper()}")
    if socket.closed.code == 4000:
        assert not socket.send("late")


@websocket
def untouched(socket):
    pass


@app.websocket("/rooms/{room}")
def talk(socket, request):
    if request.params["room"] == "none":
        raise InvalidInput("no such room")
    while (value := socket.receive_json(timeout=1)) is not None:
        socket.send_json({request.params["room"]: value})


class Model:
    async def websocket(self, websocket: WebSocket):
        await websocket.accept()
        async for text in websocket.iter_text():
            if text == "json":
                await websocket.send_json(await websocket.receive_json())
            elif text == "gone":
                async for more in websocket.iter_json():
                    await websocket.send_json(more)
            elif text == "close":
                await websocket.close(4001, "enough")
                await websocket.send_text("late")
            elif text == "bytes":
                await websocket.send_bytes(await websocket.receive_bytes())
            else:
                await websocket.send_text(f"{text} {websocket.query_params['a']}")
        with self.case.assertRaises(WebSocketDisconnect) as caught:
            await websocket.receive_text()
        self.gone = caught.exception.code


class SocketsTest(unittest.TestCase):
    def test_what_is_said_is_kept(self):
        headers = {"sec-websocket-protocol": "soft, loud"}
        said = converse(loud, ["a", b"\1"], path="/x", headers=headers)
        self.assertEqual((said.sent, said.protocol, said.close, said.refusal), (["/x A", b"\1"], "loud", None, None))
        said = converse(loud, ["a", "stop", "b"], headers=headers)
        self.assertEqual((said.sent, said.close), (["/ A"], Close(4000, "stopped")))
        refused = converse(loud, ["a"])
        self.assertEqual((refused.refusal.status, refused.sent), (403, []))
        self.assertIsNone(converse(untouched).refusal)

    def test_an_application_has_paths(self):
        said = converse(app, ["1", '{"a":null}'], path="/rooms/b")
        self.assertEqual(said.sent, ['{"b":1}', '{"b":{"a":null}}'])
        refused = converse(app, path="/rooms/none").refusal
        self.assertEqual((refused.status, refused.json["error"]), (400, "no such room"))
        self.assertEqual(refused.json["request_id"], "test")
        self.assertEqual(converse(app, path="/other").refusal.status, 404)

    def test_what_is_wrong_is_raised(self):
        for function, expected in [
            (lambda socket: socket.send(1), "a text or bytes, and not int"),
            (lambda socket: socket.close(1005), "code 1005 is not one that is sent"),
            (lambda socket: socket.accept("x"), "no subprotocol `x`"),
            (lambda socket: [socket.accept(), socket.accept()], "open already"),
        ]:
            with self.assertRaisesRegex((TypeError, ValueError, RuntimeError), expected):
                converse(websocket(function))
        with self.assertRaisesRegex(InvalidInput, "too late"):

            @websocket
            def late(socket):
                socket.accept()
                raise InvalidInput("too late")

            converse(late)

    def test_truss(self):
        Model.case = self
        model = truss(Model)
        model.app.start()
        served = model.app.context["model"]
        said = converse(model.app, ["x", "json", "[1]", "bytes", b"\2"], query="a=b", path="/v1/websocket")
        self.assertEqual((said.sent, served.gone), (["x b", "[1]", b"\2"], 1000))
        self.assertEqual(converse(model.app, ["gone", "1", "[2]"]).sent, ["1", "[2]"])
        said = converse(model.app, ["close", "x"])
        self.assertEqual((said.sent, said.close), ([], Close(4001, "enough")))


if __name__ == "__main__":
    unittest.main()
