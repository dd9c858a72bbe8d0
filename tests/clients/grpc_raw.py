"""Drives a host by gRPC itself: reflection, health, statuses and their metadata, limits, a stream that rests.

Place in the flow: `tests/it/grpc.rs` runs `grpc_raw.py HOST:PORT CASE`; each case is a function here.
In: a host whose endpoints the test has configured. Out: exit status 0, or the assertion that failed; what the test wants
to know on stdout.
"""

import queue
import struct
import sys
import threading
import time

import grpc
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from tritonclient.grpc import service_pb2 as messages
from tritonclient.grpc.service_pb2_grpc import GRPCInferenceServiceStub

SERVICE = "inference.GRPCInferenceService"
SERVING_SERVICES = ["tensorflow.serving.PredictionService", "tensorflow.serving.ModelService"]
LARGEST = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


def order(text, model="orders", **more):
    """A request whose handler does what `text` says."""
    data = text.encode()
    request = messages.ModelInferRequest(model_name=model, **more)
    request.inputs.add(name="order", datatype="BYTES", shape=[1])
    request.raw_input_contents.append(struct.pack("<I", len(data)) + data)
    return request


def failure(call):
    """Code, text and metadata of the failure that `call` must end in."""
    try:
        call()
    except grpc.RpcError as error:
        # A failure without an answer has only these.
        return error.code().name, error.details(), {**dict(error.initial_metadata()), **dict(error.trailing_metadata())}
    raise AssertionError("expected a failure")


def varint(number):
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def method(channel, service, name):
    """A method whose messages are bytes already."""
    return channel.unary_unary(f"/{service}/{name}")


def reflection(channel):
    wanted = {SERVICE, "grpc.health.v1.Health", *SERVING_SERVICES}
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    ask = lambda **what: next(iter(stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(**what)]))))
    found = {s.name for s in ask(list_services="").list_services_response.service}
    assert wanted <= found, found
    file = ask(file_containing_symbol=SERVICE).file_descriptor_response.file_descriptor_proto[0]
    methods = [m.name for m in FileDescriptorProto.FromString(file).service[0].method]
    assert "ModelStreamInfer" in methods and len(methods) == 20, methods
    for name in [*SERVING_SERVICES, "tensorflow.TensorProto"]:
        assert ask(file_containing_symbol=name).file_descriptor_response.file_descriptor_proto, name
    # The same under its later name, whose messages are the same too.
    later = channel.stream_stream(
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
        response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
    )
    answer = next(iter(later(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))))
    assert wanted <= {s.name for s in answer.list_services_response.service}, answer


SERVING, NOT_SERVING, SERVICE_UNKNOWN = b"\x08\x01", b"\x08\x02", b"\x08\x03"


def health(channel):
    check = method(channel, "grpc.health.v1.Health", "Check")
    named = lambda name: b"\x0a" + varint(len(name)) + name.encode()
    assert all(check(asked) == SERVING for asked in [b"", *map(named, [SERVICE, *SERVING_SERVICES])])
    assert failure(lambda: check(named("nobody")))[:2] == ("NOT_FOUND", "there is no such service")
    watch = channel.unary_stream("/grpc.health.v1.Health/Watch")
    assert next(iter(watch(named("nobody")))) == SERVICE_UNKNOWN


def watch(channel):
    """Says what it is told until it is let go."""
    for status in channel.unary_stream("/grpc.health.v1.Health/Watch")(b""):
        print({SERVING: "serving", NOT_SERVING: "not serving"}[status], flush=True)
    print("let go", flush=True)


def statuses(channel):
    stub = GRPCInferenceServiceStub(channel)
    iris = messages.ModelInferRequest(model_name="iris")
    iris.inputs.add(name="input", datatype="FP32", shape=[1, 3])
    iris.raw_input_contents.append(b"\0" * 12)
    for request, code, text, name, stage in [
        (order("", "nobody"), "NOT_FOUND", "there is no model `nobody`", "not_found", "admit"),
        (iris, "INVALID_ARGUMENT", "input `input`: expected FP32 [N, 4], got FP32 [1, 3]", "invalid_input", "pre_inference"),
        (order("invalid"), "INVALID_ARGUMENT", "the order is `invalid`", "invalid_input", "pre_inference"),
        (order("panic"), "INTERNAL", None, "plugin_trap", "pre_inference"),
        (order("hog"), "INTERNAL", None, "plugin_out_of_memory", "pre_inference"),
        (order("internal"), "INTERNAL", None, "plugin_error", "pre_inference"),
        (order("spin:20000"), "DEADLINE_EXCEEDED", None, "plugin_timeout", "pre_inference"),
        (order("respond 200 application/json [1,[2]]"), "INTERNAL", None, "plugin_bad_output", "post_inference"),
    ]:
        found = failure(lambda: stub.ModelInfer(request, metadata=[("x-request-id", f"id-{name}")], timeout=60))
        metadata = found[2]
        assert found[0] == code and (text is None or found[1] == text), found
        assert (metadata["modelhost-code"], metadata["modelhost-stage"]) == (name, stage), found
        assert metadata["x-request-id"] == f"id-{name}", found
        # Whose failure it is, where a handler had the request.
        assert ("x-handler-digest" in metadata) == (request.model_name == "orders"), found
        assert "secret" not in found[1], found
        stub.ModelInfer(order(""))
    for status, code in [
        (400, "INVALID_ARGUMENT"), (401, "UNAUTHENTICATED"), (403, "PERMISSION_DENIED"), (404, "NOT_FOUND"),
        (409, "ABORTED"), (418, "INVALID_ARGUMENT"), (429, "RESOURCE_EXHAUSTED"), (500, "INTERNAL"),
        (501, "UNIMPLEMENTED"), (503, "UNAVAILABLE"), (504, "DEADLINE_EXCEEDED"),
    ]:
        found = failure(lambda: stub.ModelInfer(order(f"respond {status} text/plain téa {status}")))
        assert found[:2] == (code, f"téa {status}"), found
        assert "modelhost-code" not in found[2] and len(found[2]["x-handler-digest"]) == 64, found
    # Longer than a client takes as a header.
    text = failure(lambda: stub.ModelInfer(order("respond 400 text/plain " + "ü" * 100_000)))[1]
    assert 1000 <= len(text) <= 1024 and set(text) == {"ü"}, len(text)

    # An answer names its request and its handler; so does one to a call that there is not.
    _, call = stub.ModelInfer.with_call(order(""), metadata=[("x-request-id", "mine")])
    metadata = dict(call.initial_metadata())
    assert metadata["x-request-id"] == "mine" and len(metadata["x-handler-digest"]) == 64, metadata
    for service, name in [(SERVICE, "Nothing"), ("nobody.Nothing", "Nothing")]:
        code, _, metadata = failure(lambda: method(channel, service, name)(b""))
        assert code == "UNIMPLEMENTED" and metadata["x-request-id"], metadata


def timeout(channel):
    """`limits.request_timeout` is 1 s here; the handler may sleep for longer."""
    stub = GRPCInferenceServiceStub(channel)
    code, text, metadata = failure(lambda: stub.ModelInfer(order("sleep:20000")))
    assert code == "DEADLINE_EXCEEDED" and metadata["modelhost-code"] in ("request_timeout", "plugin_timeout"), metadata
    # One request's time is up and its stream goes on.
    requests = [order("sleep:20000", id="a"), order("", id="b")]
    answers = list(stub.ModelStreamInfer(iter(requests)))
    assert [a.infer_response.id for a in answers] == ["a", "b"]
    assert [bool(a.error_message) for a in answers] == [True, False], answers
    parameters = answers[0].infer_response.parameters
    assert parameters["modelhost-stage"].string_param == "pre_inference" and parameters["x-request-id"].string_param


def overload(channel):
    """One place and none to wait here."""
    stub = GRPCInferenceServiceStub(channel)
    first = stub.ModelInfer.future(order("sleep:1500"))
    # The other endpoint has its own places.
    refusal, deadline = None, time.monotonic() + 60
    while refusal is None and time.monotonic() < deadline:
        # Either of two that come together may be the one that is refused.
        if first.done():
            first = stub.ModelInfer.future(order("sleep:1500"))
        try:
            stub.ModelInfer(order(""))
        except grpc.RpcError as error:
            refusal = error
    assert refusal.code() == grpc.StatusCode.UNAVAILABLE, refusal
    assert dict(refusal.trailing_metadata())["modelhost-code"] == "overloaded", refusal
    stub.ModelInfer(order("", "neighbour"))
    first.result(timeout=60)
    stub.ModelInfer(order(""))


def served(channel):
    """Both endpoints answer, whatever others have begun and not sent."""
    stub = GRPCInferenceServiceStub(channel)
    for model in ["orders", "neighbour"] * 20:
        stub.ModelInfer(order("", model), timeout=30)


def reachable(channel):
    """Only the endpoints that speak gRPC are there."""
    stub = GRPCInferenceServiceStub(channel)
    for model in ["http", "v1", "v2", "grpc", "all"]:
        request = messages.ModelInferRequest(model_name=model)
        for name in "ab":
            request.inputs.add(name=name, datatype="FP32", shape=[2])
            request.raw_input_contents.append(struct.pack("<2f", 1, 2))
        metadata = messages.ModelMetadataRequest(name=model)
        for call in [lambda: stub.ModelInfer(request), lambda: stub.ModelMetadata(metadata)]:
            if model in ("grpc", "all"):
                call()
            else:
                assert failure(call)[0] == "NOT_FOUND", model


def sizes(channel):
    """`limits.body` is 1 MiB for `orders` and 4 MiB for `neighbour`."""
    stub, send = GRPCInferenceServiceStub(channel), method(channel, SERVICE, "ModelInfer")
    body = lambda size: order("x" * (size - 4))
    stub.ModelInfer(body(1 << 20))
    for request in [body((1 << 20) + 1), body(4 << 20)]:
        code, text, metadata = failure(lambda: stub.ModelInfer(request))
        assert (code, text) == ("RESOURCE_EXHAUSTED", "the inputs are longer than 1048576 bytes"), text
        assert metadata["modelhost-code"] == "body_too_large"
    # Typed contents count by what they become.
    unfolds = messages.ModelInferRequest(model_name="orders")
    unfolds.inputs.add(name="x", datatype="INT64", shape=[200_000]).contents.int64_contents.extend([1] * 200_000)
    code, _, metadata = failure(lambda: stub.ModelInfer(unfolds))
    assert (code, metadata["modelhost-code"]) == ("RESOURCE_EXHAUSTED", "body_too_large")
    largest = order("x" * ((4 << 20) - 4), "neighbour")
    stub.ModelInfer(largest)
    # Longer than any endpoint takes: by the announced length, or unpacked.
    longest = (4 << 20) + (64 << 10)
    code, text, metadata = failure(lambda: send(b"\0" * (longest + 1)))
    assert (code, text) == ("RESOURCE_EXHAUSTED", f"the message is longer than {longest} bytes"), (code, text)
    assert metadata["modelhost-code"] == "body_too_large"
    bomb = lambda: stub.ModelInfer(order("x" * (64 << 20), "neighbour"), compression=grpc.Compression.Gzip)
    assert failure(bomb)[0] == "RESOURCE_EXHAUSTED"
    # Little on the wire that would be much in memory: inputs without a name.
    many = b"\x0a\x06orders" + b"\x2a\x00" * 1_000_000
    code, text, _ = failure(lambda: send(many))
    assert (code, text) == (
        "INVALID_ARGUMENT", "the message has more than 10000 inputs, outputs, parameters and extents"), text
    # No protobuf at all.
    assert failure(lambda: send(b"\xff" * 100))[:2] == ("INVALID_ARGUMENT", "the message cannot be read")
    # A stream ends with a message that cannot be read; what was sent before is answered.
    requests = iter([order("", id="a"), body(1 << 20), order("x" * (8 << 20), id="c")])
    answers = stub.ModelStreamInfer(requests)
    assert next(answers).infer_response.id == "a" and next(answers).error_message == ""
    assert failure(lambda: next(answers))[0] == "RESOURCE_EXHAUSTED"
    stub.ModelInfer(order(""))
    stub.ModelInfer(largest)


def packed(channel):
    """Long compressed messages, both ways, one after another."""
    infer = GRPCInferenceServiceStub(channel).ModelInfer
    for _ in range(4):
        answer = infer(order("x" * (30 << 20)), compression=grpc.Compression.Gzip)
        assert len(answer.raw_output_contents[0]) > 30 << 20


def bounded_stream(channel):
    """Far more requests in one stream than are served at the same time, and than the endpoint has places: none is refused."""
    stub = GRPCInferenceServiceStub(channel)
    answers = stub.ModelStreamInfer(order("sleep:5", id=str(n)) for n in range(300))
    ids = []
    for answer in answers:
        assert not answer.error_message, answer
        ids.append(int(answer.infer_response.id))
    assert ids == list(range(300))


def load(channel):
    """Clients that go on until the server is gone: every request that was accepted is answered rightly."""
    stub = GRPCInferenceServiceStub(channel)
    wrong, answered, ended = [], [0], []

    def unary():
        while True:
            try:
                answer = stub.ModelInfer(order("sleep:3"))
            except grpc.RpcError as error:
                refused = error.code() == grpc.StatusCode.UNAVAILABLE and "onnection refused" in error.details()
                return ended.append(None) if refused else wrong.append(("unary", error.code(), error.details()))
            if len(answer.outputs) != 2:
                wrong.append(answer)
            answered[0] += 1

    def stream():
        """One request after another; the stream ends between an answer and the next request, or with one more sent."""
        requests = queue.Queue()
        requests.put(order("sleep:3"))
        try:
            for answer in stub.ModelStreamInfer(iter(requests.get, None)):
                if answer.error_message:
                    wrong.append(answer.error_message)
                answered[0] += 1
                requests.put(order("sleep:3"))
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.UNAVAILABLE or error.details() != "the server is shutting down":
                wrong.append(("stream", error.code(), error.details()))
        ended.append(None)

    threads = [threading.Thread(target=work, daemon=True) for work in [unary] * 6 + [stream] * 3]
    for thread in threads:
        thread.start()
    while answered[0] < 200:
        assert not wrong, wrong
        time.sleep(0.005)
    print("under load", flush=True)
    for thread in threads:
        thread.join(60)
    assert not wrong and len(ended) == len(threads), (wrong, len(ended))


def stays(channel):
    """Four requests that take long, three of them in a stream; told by a line on stdin, their caller cancels them."""
    stub = GRPCInferenceServiceStub(channel)
    calls = [stub.ModelInfer.future(order("sleep:50000")), stub.ModelStreamInfer(order("sleep:50000") for _ in range(3))]
    sys.stdin.readline()
    for call in calls:
        call.cancel()


leaves = stays


def flood(channel):
    """Forty messages of 8 MiB to an endpoint whose places are taken: some wait, the others are refused for want of memory."""
    stub = GRPCInferenceServiceStub(channel)
    request = messages.ModelInferRequest(model_name="flooded")
    request.inputs.add(name="x", datatype="UINT8", shape=[8 << 20])
    request.raw_input_contents.append(bytes(8 << 20))
    calls = [stub.ModelInfer.future(request) for _ in range(40)]
    while sum(call.done() for call in calls) < 30:
        time.sleep(0.05)
    ended = [failure(call.result) for call in calls if call.done()]
    assert all("memory" in text and it["modelhost-code"] == "overloaded" for _, text, it in ended), ended[0]
    for call in calls:
        call.cancel()


def resting(channel):
    """A stream that is open and says nothing, until the server lets it go."""
    stub, requests = GRPCInferenceServiceStub(channel), queue.Queue()
    answers = stub.ModelStreamInfer(iter(requests.get, None))
    requests.put(order(""))
    next(answers)
    print("resting", flush=True)
    code, text, metadata = failure(lambda: next(answers))
    assert (code, text) == ("UNAVAILABLE", "the server is shutting down"), (code, text)
    assert metadata["modelhost-code"] == "shutting_down", metadata
    print("let go", flush=True)


def traced(channel):
    """One call with a trace context among its metadata."""
    request = messages.ModelInferRequest(model_name="iris")
    request.inputs.add(name="input", datatype="FP32", shape=[1, 4])
    request.raw_input_contents.append(struct.pack("<4f", 5.2, 3.6, 1.4, 0.3))
    context = [("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"), ("tracestate", "a=1")]
    GRPCInferenceServiceStub(channel).ModelInfer(request, metadata=context)


def logged(channel):
    """A call, a stream of two, and calls that reach no endpoint."""
    def asked():
        request = messages.ModelInferRequest(model_name="bare")
        request.inputs.add(name="input", datatype="FP32", shape=[1, 4])
        request.raw_input_contents.append(struct.pack("<4f", 5.2, 3.6, 1.4, 0.3))
        return request
    stub = GRPCInferenceServiceStub(channel)
    context = [("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")]
    stub.ModelInfer(asked(), metadata=context)
    answers = list(stub.ModelStreamInfer(iter([asked(), asked()])))
    assert len(answers) == 2 and not any(answer.error_message for answer in answers), answers
    assert stub.ServerLive(messages.ServerLiveRequest()).live
    failure(lambda: stub.ModelMetadata(messages.ModelMetadataRequest(name="none")))


if __name__ == "__main__":
    address, case = sys.argv[1:]
    with grpc.insecure_channel(address, options=LARGEST) as channel:
        globals()[case](channel)
