"""What clients and authors of a Truss know: MessagePack, errors, FastAPI's names, schemas of pydantic's classes and of others."""

import unittest

from array import array
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, AsyncGenerator, Awaitable, Generator, NotRequired, Optional, TypedDict, Union

from modelhost_guest import App, InvalidInput, Tensor, _msgpack, status, truss, typed, web
from modelhost_guest import Response as Own
from modelhost_guest.messages import as_plain, to_json
from modelhost_guest.web import HTTPException, RedirectResponse, Response, WebSocket, WebSocketDisconnect, WebSocketException, WebSocketState


class Failed(ValueError):
    def errors(self):
        return [{"loc": ("text",), "msg": "Field required"}]


class Prompt:
    """What pydantic's classes have, as far as it is asked for."""

    def __init__(self, text):
        self.text = text

    @classmethod
    def model_validate(cls, value):
        if "text" not in value:
            raise Failed
        return cls(value["text"])

    @classmethod
    def model_json_schema(cls, ref_template="#/$defs/{model}"):
        said = {"properties": {"of": {"$ref": ref_template.format(model="Of")}}, "title": cls.__name__, "type": "object"}
        return {**said, "$defs": {"Of": {"type": "object"}}}

    def model_dump(self):
        return {"text": self.text}


class Old:
    """One of version 1."""

    def __init__(self, text):
        self.text = text

    @classmethod
    def parse_obj(cls, value):
        return cls(value["text"])

    @classmethod
    def schema(cls, ref_template="#/definitions/{model}"):
        return {"properties": {"of": {"$ref": ref_template.format(model="Of")}}, "title": cls.__name__, "definitions": {"Of": {}}}

    def dict(self):
        return {"text": self.text}


@dataclass
class Pair:
    first: Prompt
    second: int = 2


class Words(TypedDict):
    words: list[str]
    count: NotRequired[int]


def served(model, config=None):
    truss(model, __name__)
    model.app.start(config)
    return lambda path="/", **arguments: model.app.answer(path=path, **arguments)


def told(returned):
    def function():
        pass

    function.__annotations__ = {"return": returned}
    return typed.described(function)


class MessagePackTest(unittest.TestCase):
    VALUES = (
        None, True, False, 0, 1, 127, 128, 255, 256, 65535, 65536, 2**32, 2**64 - 1, -1, -32, -33, -128, -129, -32769, -(2**31) - 1,
        -(2**63), 1.5, float("inf"), "", "grüß", "x" * 31, "x" * 32, "x" * 256, "x" * 65536, b"", b"\xff" * 300, b"y" * 70000, [],
        list(range(15)), list(range(16)), [None] * 65536, {}, {str(at): at for at in range(15)}, {str(at): [at] for at in range(16)},
        {"a": {"b": [{"c": b"d"}]}}, {1: 2, b"k": True},
    )  # fmt: skip

    def test_what_is_written_is_read_again(self):
        for value in self.VALUES:
            self.assertEqual(_msgpack.unpacked(_msgpack.packed(value, as_plain)), value)
        self.assertEqual(_msgpack.packed({"generated_text": "abab"}, as_plain), b"\x81\xaegenerated_text\xa4abab")
        self.assertEqual(_msgpack.unpacked(b"\xca\x3f\xc0\x00\x00"), 1.5)
        self.assertEqual(_msgpack.unpacked(_msgpack.packed((1, {2}), as_plain)), [1, [2]])

    def test_arrays_of_numpy_are_tensors(self):
        for kind, data, datatype, values in [
            ("<f4", array("f", [1, 2]).tobytes(), "FP32", [1.0, 2.0]),
            (">i2", b"\x00\x01\xff\xff", "INT16", [1, -1]),
            ("|b1", b"\x01\x00", "BOOL", [True, False]),
            ("|u1", b"\x01\x02", "UINT8", [1, 2]),
        ]:
            packed = {b"nd": True, b"type": kind, b"kind": b"", b"shape": [2], b"data": data}
            read = _msgpack.unpacked(_msgpack.packed(packed, as_plain))
            self.assertEqual((read.datatype, read.shape, read.tolist()), (datatype, (2,), values))
            self.assertEqual(_msgpack.unpacked(_msgpack.packed({"x": read}, as_plain)), {"x": read})
        scalar = {"nd": False, "type": "<f8", "data": array("d", [2.5]).tobytes()}
        self.assertEqual(_msgpack.unpacked(_msgpack.packed(scalar, as_plain)), 2.5)
        self.assertEqual(_msgpack.unpacked(_msgpack.packed(Tensor(["a"]), as_plain)), ["a"])

    def test_what_is_no_document_is_the_callers_fault(self):
        nd = {b"nd": True, b"type": "<f4", b"shape": [2], b"data": b"1234"}
        for document, says in [
            (b"", "breaks off"),
            (b"\xa5ab", "breaks off"),
            (b"\xdd\xff\xff\xff\xff", "breaks off"),
            (b"\xdf\xff\xff\xff\xff", "breaks off"),
            (b"\xcd\x01", "breaks off"),
            (b"\x01\x02", "1 bytes after the end"),
            (b"\xc1", "the byte 0xc1"),
            (b"\xd4\x01\x00", "an extension"),
            (b"\xa1\xff", "not UTF-8"),
            (b"\x91" * 200 + b"\x01", "nested deeper than 100 levels"),
            (b"\x81\x90\x01", "a key of a map is a list"),
            (_msgpack.packed(nd, as_plain), "an array of numpy's: 4 bytes are no FP32"),
            (_msgpack.packed({**nd, b"type": "<c8"}, as_plain), "numpy's type '<c8' is not read"),
            (_msgpack.packed({**nd, b"shape": "x"}, as_plain), "a list of extents"),
        ]:
            with self.assertRaisesRegex(InvalidInput, says):
                _msgpack.unpacked(document)

    def test_a_model_is_called_in_messagepack(self):
        @dataclass
        class Typed:
            prompt: str
            n: int = 1
            x: list[float] = None

        class Model:
            def predict(self, inputs: Typed):
                return {"generated_text": inputs.prompt * inputs.n}

            def chat_completions(self, inputs):
                return Response(b"it is", media_type="text/plain") if inputs.get("own") else inputs["data"]

        call = served(Model)
        asked = {"content_type": "Application/Octet-Stream; v=1"}
        for path in ("/v1/models/model:predict", "/v1/models/model:predict_binary"):
            answer = call(path, body=b"\x82\xa6prompt\xa2ab\xa1n\x02", **asked)
            self.assertEqual((answer.body, answer.content_type), (b"\x81\xaegenerated_text\xa4abab", "application/octet-stream"))
        array_ = {"prompt": "a", "x": Tensor([1.5])}
        self.assertEqual(call(body=_msgpack.packed(array_, as_plain), **asked).body, b"\x81\xaegenerated_text\xa1a")
        refused = call(body=b"\x82\xa6prompt", **asked)
        self.assertEqual((refused.status, refused.headers["x-baseten-error-code"]), (400, "700"))
        self.assertEqual(refused.json, {"error": "Invalid MessagePack payload: the document breaks off"})
        refused = call(body=b"\x80", **asked)
        self.assertEqual(refused.json, {"error": "Input Parsing Error:\n  `prompt`: Field required."})
        chat = lambda value: call("/v1/chat/completions", body=_msgpack.packed(value, as_plain), **asked)  # noqa: E731
        self.assertEqual(_msgpack.unpacked(chat({"data": b"\xff"}).body), b"\xff")
        self.assertEqual(chat({"own": True}).text, "it is")


class ErrorTest(unittest.TestCase):
    def test_what_is_no_json_is_said_in_the_words_of_python(self):
        class Model:
            def predict(self, inputs):
                return inputs

        call = served(Model)
        for body, says in [
            (b"{bad", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
            (b"", "Expecting value: line 1 column 1 (char 0)"),
            (b"\xff", "the body is not UTF-8: invalid start byte at byte 0"),
        ]:
            for path in ("/", "/v1/models/model:predict"):
                answer = call(path, body=body)
                self.assertEqual((answer.status, answer.json), (400, {"error": f"Invalid JSON payload: {says}"}))
                self.assertEqual((answer.headers["x-baseten-error-source"], answer.headers["x-baseten-error-code"]), ("04", "700"))

    def test_a_response_that_is_no_success_has_a_code(self):
        class Model:
            def predict(self, inputs):
                kind, status_code, headers = inputs
                return (Response if kind == "web" else Own)(b"", status_code, headers=headers)

        call = served(Model)
        for kind in ("web", "own"):
            for status_code, headers, code in [
                (200, {}, None),
                (204, {}, None),
                (302, {"location": "/"}, "700"),
                (500, {}, "700"),
                (500, {"x-baseten-error-code": "601"}, "601"),
            ]:
                answer = call(json=[kind, status_code, headers])
                self.assertEqual((answer.status, answer.headers.get("x-baseten-error-code")), (status_code, code))
                self.assertEqual(answer.headers.get("location"), headers.get("location"))

    def test_what_the_application_refuses_is_marked(self):
        class Model:
            def predict(self, inputs):
                raise HTTPException(418, "teapot")

        call = served(Model)
        for method, path, status_code, code in [
            ("POST", "/", 418, "600"),
            ("GET", "/v1/models/model:predict", 405, "700"),
            ("PUT", "/", 405, "700"),
            ("POST", "/v1/embeddings", 404, "700"),
        ]:
            answer = call(path, method=method, json=1)
            self.assertEqual((answer.status, answer.headers["x-baseten-error-code"]), (status_code, code), path)

    def test_a_missing_secret_is_said_as_truss_says_it(self):
        class Model:
            def __init__(self, secrets):
                self.secrets = secrets

            def predict(self, inputs):
                return self.secrets["not_there"]

        with self.assertRaisesRegex(Exception, "^Secret 'not_there' not found. Please ensure that: .*TRUSS_SECRET_not_there"):
            served(Model)(json=1)


class NameTest(unittest.TestCase):
    def test_modules_of_fastapi_are_names_of_one(self):
        for name in ("requests", "responses", "websockets", "exceptions", "datastructures"):
            self.assertIs(getattr(web, name), web)
        self.assertEqual((status.HTTP_404_NOT_FOUND, web.status.WS_1008_POLICY_VIOLATION, status.HTTP_418_IM_A_TEAPOT), (404, 1008, 418))
        self.assertEqual([HTTPException(it).detail for it in (404, 418, 500)], ["Not Found", "I'm a Teapot", "Internal Server Error"])
        self.assertEqual(HTTPException(400, {"a": 1}).detail, {"a": 1})
        answer = RedirectResponse("/x y?a=1", headers={"x": "y"}).made()
        self.assertEqual((answer.status, answer.headers), (307, {"x": "y", "location": "/x%20y?a=1"}))

    def test_a_socket_tells_that_its_client_is_gone(self):
        class Socket:
            closed, sent = None, []

            def __init__(self, *messages):
                self.messages = list(messages)

            def receive(self):
                if self.messages:
                    return self.messages.pop(0)
                self.closed = (1006, "gone")

            def send(self, message):
                self.sent.append(message)
                return True

            def close(self, code, reason):
                self.closed = self.closed or (code, reason)

        def run(awaited):
            try:
                awaited.send(None)
            except StopIteration as end:
                return end.value

        request = SimpleNamespace(headers={}, query={"a": "b c"}, params={}, path="/v1/websocket")
        own = Socket("a", b"b")
        socket = WebSocket(own, request)
        self.assertEqual((str(socket.url), socket.client_state), ("/v1/websocket?a=b%20c", WebSocketState.CONNECTED))
        run(socket.send({"type": "websocket.send", "text": "x"}))
        self.assertEqual(own.sent, ["x"])
        self.assertEqual(run(socket.receive()), {"type": "websocket.receive", "text": "a"})
        self.assertEqual(run(socket.receive()), {"type": "websocket.receive", "bytes": b"b"})
        self.assertEqual(run(socket.receive()), {"type": "websocket.disconnect", "code": 1006, "reason": "gone"})
        self.assertEqual(socket.client_state, WebSocketState.DISCONNECTED)
        try:
            run(socket.receive_text())
        except WebSocketDisconnect as error:
            self.assertEqual((error.code, error.reason), (1006, "gone"))
        self.assertEqual(WebSocketException(status.WS_1008_POLICY_VIOLATION, "no").code, 1008)


class SchemaTest(unittest.TestCase):
    OF = {"type": "object"}

    def test_results_are_told_that_have_a_class(self):
        own, inner = Prompt.model_json_schema(), {key: it for key, it in Prompt.model_json_schema().items() if key != "$defs"}
        words = {
            "properties": {"words": {"title": "Words", "type": "array", "items": {"type": "string"}}, "count": {"title": "Count", "type": "integer"}},
            "required": ["words"],
            "title": "Words",
            "type": "object",
        }
        for returned, schema, is_stream in [
            (Prompt, own, False),
            (Old, Old.schema(), False),
            (list[Prompt], {"$defs": {"Of": self.OF}, "type": "array", "items": inner}, False),
            (list[Words], {"type": "array", "items": words}, False),
            (Words, words, False),
            (Optional[Words], {"anyOf": [words, {"type": "null"}]}, False),
            (dict[str, Words], {"type": "object", "additionalProperties": words}, False),
            (Awaitable[Prompt], own, False),
            (Union[Prompt, Generator[str, None, None]], own, True),
            (AsyncGenerator[str, None], None, True),
            (dict, None, False),
            (list[int], None, False),
            (Any, None, False),
            (None, None, False),
        ]:
            self.assertEqual(told(returned), (schema, is_stream), returned)
        said = typed.schema(Pair)
        self.assertEqual((said["properties"]["first"]["properties"], said["$defs"]), (inner["properties"], {"Of": self.OF}))
        said = typed.schema(list[Old])
        self.assertEqual((said["items"]["properties"]["of"], said["$defs"]), ({"$ref": "#/$defs/Of"}, {"Of": {}}))

    def test_a_model_says_and_reads_what_its_annotations_have(self):
        class Model:
            def predict(self, inputs: list[Prompt]) -> list[Prompt]:
                return [Prompt(it.text * 2) for it in inputs]

        call = served(Model)
        self.assertEqual(call(json=[{"text": "a"}]).json, [{"text": "aa"}])
        self.assertEqual(call(json=[{}]).json, {"error": "Input Parsing Error:\n  `0.text`: Field required."})
        said = Model.app.operations()[-1]
        self.assertTrue(all('"type": "array"' in it for it in (said[4], said[6])), said)

        class Of:
            def predict(self, inputs: Words) -> Old:
                return Old(f"{inputs['words']} {inputs.get('count')}")

        call = served(Of)
        self.assertEqual(call(json={"words": ["a"], "other": 1}).json, {"text": "['a'] None"})
        self.assertEqual(call(json={"words": [1]}).json, {"error": "Input Parsing Error:\n  `words.0`: Input should be a valid string."})

    def test_an_application_reads_them_too(self):
        app = App("typed")

        @app.post("/")
        def pair(context, given: Pair) -> Pair:
            return given

        self.assertEqual(app.answer(json={"first": {"text": "a"}, "second": "3"}).json, {"first": {"text": "a"}, "second": 3})
        self.assertEqual(app.answer(json={"first": {}}).status, 400)
        self.assertEqual(to_json([Prompt("a"), Old("b")]), b'[{"text":"a"},{"text":"b"}]')


if __name__ == "__main__":
    unittest.main()
