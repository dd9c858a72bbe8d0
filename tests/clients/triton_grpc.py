"""Drives a host as users of `tritonclient.grpc` do: every call of theirs that this host answers.

Place in the flow: `tests/it/grpc.rs` runs `triton_grpc.py HOST:PORT CASE`; each case is a function here.
In: a host whose endpoints the test has configured. Out: exit status 0, or the assertion that failed.
"""

import queue
import sys

import ml_dtypes
import numpy as np
import tritonclient.grpc as triton
from tritonclient.grpc import service_pb2 as messages
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

IRIS = np.array([[5.2, 3.6, 1.4, 0.3], [6.7, 3.0, 5.2, 2.3]], np.float32)


def tensor(name, values, datatype=None):
    made = triton.InferInput(name, list(values.shape), datatype or np_to_triton_dtype(values.dtype))
    made.set_data_from_numpy(values)
    return made


def texts(*values):
    return np.array([value.encode() for value in values], dtype=np.object_)


def refused(status, call):
    """The text of the failure that `call` must end in."""
    try:
        call()
    except InferenceServerException as error:
        assert error.status() == f"StatusCode.{status}", error
        return error.message()
    raise AssertionError(f"expected {status}")


def order(client, text, **more):
    return client.infer("orders", [tensor("order", texts(text))], **more)


def questions(client):
    assert client.is_server_live() and client.is_server_ready()
    assert client.is_model_ready("iris") and client.is_model_ready("iris", "1")
    assert not client.is_model_ready("nobody") and not client.is_model_ready("iris", "7")

    server = client.get_server_metadata()
    assert server.name == "modelhost" and server.version, server
    assert {"model_repository", "model_configuration", "statistics"} <= set(server.extensions)

    model = client.get_model_metadata("iris")
    assert (model.name, list(model.versions), model.platform) == ("iris", ["1"], "onnxruntime_onnx"), model
    assert [(i.name, i.datatype, list(i.shape)) for i in model.inputs] == [("input", "FP32", [-1, 4])]
    assert [o.name for o in model.outputs] == ["label", "probabilities"]
    alone = client.get_model_metadata("orders")
    assert (alone.platform, len(alone.inputs), len(alone.outputs)) == ("wasm_handler", 0, 0), alone

    config = client.get_model_config("rows").config
    assert (config.backend, config.platform, config.max_batch_size) == ("onnxruntime", "onnxruntime_onnx", 8)
    assert config.HasField("dynamic_batching") and config.instance_group[0].count >= 1, config
    assert [list(i.dims) for i in config.input] == [[-1], [], []], "without the batch"
    config = client.get_model_config("iris").config
    assert (config.max_batch_size, list(config.input[0].dims)) == (0, [-1, 4]) and not config.HasField("dynamic_batching")

    names = ["iris", "rows", "bytes", "fp16", "bf16", "bool", "int8", "uint64", "defaults", "tensors", "orders"]
    index = client.get_model_repository_index().models
    assert [(m.name, m.version, m.state) for m in index] == [(name, "1", "READY") for name in names], index

    before = client.get_inference_statistics("iris").model_stats[0]
    for _ in range(3):
        client.infer("iris", [tensor("input", IRIS)])
    refused("INVALID_ARGUMENT", lambda: client.infer("iris", [tensor("input", IRIS[:, :3])]))
    after = client.get_inference_statistics("iris").model_stats[0]
    assert (after.name, after.version) == ("iris", "1")
    assert after.inference_count == before.inference_count + 3, after
    stats = after.inference_stats
    assert stats.success.count == after.inference_count and stats.success.ns > 0, stats
    assert stats.fail.count == before.inference_stats.fail.count + 1, stats
    assert stats.compute_infer.ns > 0 and stats.success.ns >= stats.compute_infer.ns, stats
    assert after.last_inference > 1_700_000_000_000, after
    assert [m.name for m in client.get_inference_statistics().model_stats] == names

    text = refused("NOT_FOUND", lambda: client.get_model_metadata("nobody"))
    assert text == "there is no model `nobody`", text
    text = refused("NOT_FOUND", lambda: client.get_inference_statistics("iris", "7"))
    assert text == "model `iris` is served in version 1, not `7`", text
    assert not client.get_system_shared_memory_status().regions


def ensemble(client):
    """Three models of one endpoint as one."""
    model = client.get_model_metadata("sums")
    assert (model.platform, [i.name for i in model.inputs]) == ("ensemble", ["x", "y"]), model
    assert client.get_model_config("sums").config.platform == "ensemble"
    x, y = np.array([1, 2], np.float32), np.array([10, 20], np.float32)
    result = client.infer("sums", [tensor("x", x), tensor("y", y)])
    assert (result.as_numpy("left") == 2 * x + y).all() and (result.as_numpy("right") == x + 2 * y).all()


def cached(client):
    """The second of two equal requests is answered from the cache, to the bit."""
    x = np.array([1, 2], np.float32)
    ask = lambda: client.infer("add", [tensor("a", x), tensor("b", x)])
    first, again = ask(), ask()
    assert first.as_numpy("sum").tobytes() == again.as_numpy("sum").tobytes() == (x + x).tobytes()
    stats = client.get_inference_statistics("add").model_stats[0]
    assert (stats.inference_count, stats.execution_count) == (2, 1), stats
    assert (stats.inference_stats.cache_hit.count, stats.inference_stats.cache_miss.count) == (1, 1), stats
    assert stats.inference_stats.cache_hit.ns > 0, stats


def iris(result, rows=2):
    assert list(result.as_numpy("label")) == [0, 2][:rows]
    assert np.allclose(result.as_numpy("probabilities")[0], [0.9819308, 0.0180693, 1.737e-8], atol=1e-6)


def infer(client):
    result = client.infer("iris", [tensor("input", IRIS)], request_id="mine", model_version="1")
    iris(result)
    answer = result.get_response()
    assert (answer.id, answer.model_name, answer.model_version) == ("mine", "iris", "1"), answer
    assert [o.name for o in answer.outputs] == ["label", "probabilities"]

    wanted = [triton.InferRequestedOutput("probabilities")]
    answer = client.infer("iris", [tensor("input", IRIS)], outputs=wanted).get_response()
    assert [(o.name, o.datatype, list(o.shape)) for o in answer.outputs] == [("probabilities", "FP32", [2, 3])]
    assert len(answer.raw_output_contents) == 1
    for algorithm in ["gzip", "deflate"]:
        iris(client.infer("iris", [tensor("input", IRIS)], compression_algorithm=algorithm))

    # Inputs with defaults.
    pair = tensor("x", np.array([[1, 2]], np.float32))
    assert client.infer("defaults", [pair]).as_numpy("y").tolist() == [[2, 14]]
    scale = tensor("scale", np.array([3], np.float32))
    assert client.infer("defaults", [scale, pair]).as_numpy("y").tolist() == [[3, 16]]
    described = client.get_model_config("defaults").config.input
    assert [(i.name, i.optional) for i in described] == [("x", False), ("scale", True), ("offset", True)], described

    # Every datatype whose bytes need care, exactly.
    halves = np.array([1.5, -2.0, 6.1e-5, np.inf], np.float16)
    assert (client.infer("fp16", [tensor("x", halves)]).as_numpy("y") == halves).all()
    brains = np.array([1.5, -2.0, 3.0e38], ml_dtypes.bfloat16)
    assert (client.infer("bf16", [tensor("x", brains, "BF16")]).as_numpy("y") == brains).all()
    words = texts("", "setosa", "vîrginica", "x" * 70_000)
    assert list(client.infer("bytes", [tensor("x", words)]).as_numpy("y")) == list(words)
    truth = np.array([True, False])
    assert (client.infer("bool", [tensor("x", truth)]).as_numpy("y") == truth).all()
    large = np.array([0, 2**64 - 1], np.uint64)
    assert (client.infer("uint64", [tensor("x", large)]).as_numpy("y") == large).all()
    many = np.random.default_rng(0).random((50_000, 4), dtype=np.float32)
    assert client.infer("iris", [tensor("input", many)]).as_numpy("label").shape == (50_000,)
    none = np.zeros((0,), np.uint64)
    assert client.infer("uint64", [tensor("x", none)]).as_numpy("y").shape == (0,)

    # The handler of tensors, with parameters.
    result = client.infer(
        "tensors", [tensor("x", np.array([1.5], np.float32))], parameters={"a": 1, "b": "two", "c": True}
    )
    assert list(result.as_numpy("x")) == [3.0]
    assert result.as_numpy("parameters")[0] == b'{"a":1,"b":"two","c":true}', result.as_numpy("parameters")

    # What a handler learns of the request, and what it answers by itself.
    seen = order(client, "", headers={"x-note": "here", "x-request-id": "abc"}, priority=3).as_numpy("seen")[0].decode()
    assert '"path":"/inference.GRPCInferenceService/ModelInfer"' in seen and '"method":"POST"' in seen, seen
    assert '"note":"here"' in seen and '"request_id":"abc"' in seen and '"priority":3' in seen, seen
    result = order(client, 'respond 200 application/json {"out":"hi!","n":[1,2]}')
    assert result.as_numpy("out")[0] == b"hi!" and list(result.as_numpy("n")) == [1, 2]
    assert order(client, "respond 200 text/plain hi!").as_numpy("output")[0] == b"hi!"
    assert len(order(client, "respond 204  ").get_response().outputs) == 0

    for outputs, parameters, text in [
        ([triton.InferRequestedOutput("nothing")], None, "there is no output `nothing`, but `label`, `probabilities`"),
        ([triton.InferRequestedOutput("label")] * 2, None, "output `label` is asked for twice"),
    ]:
        call = lambda: client.infer("iris", [tensor("input", IRIS)], outputs=outputs, parameters=parameters)
        found = refused("INVALID_ARGUMENT", call)
        assert found == text, found
    found = refused("INVALID_ARGUMENT", lambda: client.infer("iris", [tensor("input", IRIS)], sequence_id=7))
    assert found == "`sequence_id`: this model keeps no state between requests, each is on its own", found
    shared = triton.InferInput("input", [1, 4], "FP32")
    shared.set_shared_memory("region", 16)
    found = refused("INVALID_ARGUMENT", lambda: client.infer("iris", [shared]))
    assert found == "input `input`: shared memory is not served", found


def typed(client):
    """Contents in the typed fields, as clients without numpy send them."""

    def call(model, datatype, shape, contents, raw=()):
        request = messages.ModelInferRequest(model_name=model, raw_input_contents=raw)
        given = request.inputs.add(name="input" if model == "iris" else "x", datatype=datatype, shape=shape)
        for field, values in contents.items():
            getattr(given.contents, field).extend(values)
        return triton.InferResult(client._client_stub.ModelInfer(request))

    iris(call("iris", "FP32", [2, 4], {"fp32_contents": IRIS.flatten().tolist()}))
    assert list(call("bytes", "BYTES", [2], {"bytes_contents": [b"a", b"bc"]}).as_numpy("y")) == [b"a", b"bc"]
    assert list(call("bool", "BOOL", [2], {"bool_contents": [True, False]}).as_numpy("y")) == [True, False]
    assert list(call("int8", "INT8", [2], {"int_contents": [-128, 127]}).as_numpy("y")) == [-128, 127]
    assert list(call("uint64", "UINT64", [1], {"uint64_contents": [2**64 - 1]}).as_numpy("y")) == [2**64 - 1]
    for datatype, field, values in [
        ("INT16", "int_contents", [-(2**15), 2**15 - 1]),
        ("INT32", "int_contents", [-(2**31), 2**31 - 1]),
        ("INT64", "int64_contents", [-(2**63), 2**63 - 1]),
        ("UINT8", "uint_contents", [0, 255]),
        ("UINT16", "uint_contents", [0, 2**16 - 1]),
        ("UINT32", "uint_contents", [0, 2**32 - 1]),
        ("FP64", "fp64_contents", [1.5, -1e300]),
    ]:
        assert list(call("orders", datatype, [2], {field: values}).as_numpy("x")) == values, datatype

    import grpc

    for model, datatype, shape, contents, raw, text in [
        ("fp16", "FP16", [1, 1], {"fp32_contents": [1.0]}, [], "input `x`: FP16 comes in `raw_input_contents` only"),
        ("iris", "FP32", [1, 4], {"int_contents": [1]}, [], "input `input`: FP32 comes in `fp32_contents`, got `int_contents`"),
        ("iris", "FP32", [1, 4], {"fp32_contents": [1.0]}, [], "input `input`: FP32 of shape [1, 4] takes 4 elements, got 1"),
        ("int8", "INT8", [1], {"int_contents": [300]}, [], "input `x`: element 0: 300 is out of range for INT8"),
        ("iris", "FP32", [1, -4], {}, [], "input `input`: an extent of a shape cannot be -4"),
        ("iris", "FLOAT", [1, 4], {}, [], "input `input`: `FLOAT` is no datatype"),
        ("iris", "FP32", [1, 4], {}, [b"123"], "input `input`: FP32 of shape [1, 4] takes 16 bytes, got 3"),
        ("iris", "FP32", [1, 4], {}, [b"", b""], "expected 1 `raw_input_contents`, one for each input, got 2"),
        ("iris", "FP32", [1, 4], {"fp32_contents": [1.0]}, [b""], "input `input` has both `contents` and `raw_input_contents`"),
        ("iris", "FP32", [2**40, 2**40], {}, [b""], "input `input`: shape [1099511627776, 1099511627776] has more elements than memory can hold"),
        ("iris", "INT64", [1, 4], {}, [b"\0" * 32], "input `input`: expected FP32 [N, 4], got INT64 [1, 4]"),
    ]:
        try:
            call(model, datatype, shape, contents, raw)
        except grpc.RpcError as error:
            assert (error.code(), error.details()) == (grpc.StatusCode.INVALID_ARGUMENT, text), error
        else:
            raise AssertionError(text)


def asynchronous(client):
    answers = queue.Queue()
    for number in range(40):
        values = np.full((1, 4), number, np.float32)
        client.async_infer(
            "tensors", [tensor("x", values)], lambda result, error, n=number: answers.put((n, result, error))
        )
    for _ in range(40):
        number, result, error = answers.get(timeout=60)
        assert error is None and (result.as_numpy("x") == 2 * number).all(), (number, error)

    # The caller's own limit, and a caller who changes their mind.
    text = refused("DEADLINE_EXCEEDED", lambda: order(client, "sleep:20000", client_timeout=0.3))
    assert text, text
    cancelled = queue.Queue()
    call = client.async_infer("orders", [tensor("order", texts("sleep:20000"))], lambda result, error: cancelled.put(error))
    call.cancel()
    assert cancelled.get(timeout=60).status() == "StatusCode.CANCELLED"
    order(client, "")


def stream(client):
    answers = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    sent = []
    for number in range(60):
        # The first ones take longest, and must be answered first all the same.
        text = "invalid" if number == 30 else f"sleep:{max(0, 40 - 4 * number)}"
        sent.append(text)
        client.async_stream_infer(
            "orders", [tensor("order", texts(text))], request_id=str(number), enable_empty_final_response=True
        )
    for number, text in enumerate(sent):
        result, error = answers.get(timeout=60)
        if number == 30:
            assert error is not None and error.message() == "the order is `invalid`", error
            continue
        answer = result.get_response()
        assert error is None and answer.id == str(number), (number, error)
        assert answer.parameters["triton_final_response"].bool_param
        assert result.as_numpy("order")[0] == text.encode()
        assert "triton_enable" not in result.as_numpy("seen")[0].decode()
    # Several models in one stream; one that there is not.
    client.async_stream_infer("iris", [tensor("input", IRIS)])
    client.async_stream_infer("nobody", [tensor("input", IRIS)])
    client.async_stream_infer("tensors", [tensor("x", np.array([1.0], np.float32))])
    iris(answers.get(timeout=60)[0])
    assert answers.get(timeout=60)[1].message() == "there is no model `nobody`"
    assert list(answers.get(timeout=60)[0].as_numpy("x")) == [2.0]
    client.stop_stream()
    assert answers.empty()

    # A client that leaves in the middle: its requests end with it.
    client.start_stream(lambda result, error: answers.put((result, error)))
    for _ in range(3):
        client.async_stream_infer("orders", [tensor("order", texts("sleep:20000"))])
    client.stop_stream(cancel_requests=True)
    order(client, "")


def control(client):
    client.unload_model("iris")
    assert not client.is_model_ready("iris")
    index = {m.name: (m.state, m.reason) for m in client.get_model_repository_index().models}
    assert index["iris"] == ("UNAVAILABLE", "unloaded") and index["rows"] == ("READY", ""), index
    stub, request = client._client_stub, messages.RepositoryIndexRequest(ready=True)
    assert "iris" not in [m.name for m in stub.RepositoryIndex(request).models]
    text = refused("UNAVAILABLE", lambda: client.infer("iris", [tensor("input", IRIS)]))
    assert text == "model `iris` is not loaded", text
    refused("UNAVAILABLE", lambda: client.get_model_metadata("iris"))
    client.load_model("iris")
    assert client.is_model_ready("iris")
    iris(client.infer("iris", [tensor("input", IRIS)]))
    text = refused("INVALID_ARGUMENT", lambda: client.load_model("iris", config="{}"))
    assert "not taken from clients" in text, text
    refused("NOT_FOUND", lambda: client.load_model("nobody"))
    text = refused("INVALID_ARGUMENT", lambda: client.unload_model("orders"))
    assert text == "`orders` has no model that could be unloaded", text


def no_control(client):
    for call in [client.load_model, client.unload_model]:
        text = refused("INVALID_ARGUMENT", lambda: call("iris"))
        assert "--model-control" in text, text
    assert client.is_model_ready("iris")


def heads(client):
    many = {f"x-{n}": "1" for n in range(90)}
    text = refused("RESOURCE_EXHAUSTED", lambda: client.is_server_live(headers=many))
    assert "headers, of at most 64" in text, text
    long = {f"x-{n}": "1" * 4000 for n in range(30)}
    text = refused("RESOURCE_EXHAUSTED", lambda: client.is_server_live(headers=long))
    assert "the head is longer than 65536 bytes" in text, text
    text = refused("NOT_FOUND", lambda: client.get_model_metadata("a\n\x1b[31m"))
    assert text == r"there is no model `a\n\u{1b}[31m`", text


if __name__ == "__main__":
    address, case = sys.argv[1:]
    with triton.InferenceServerClient(address) as client:
        globals()[case](client)
