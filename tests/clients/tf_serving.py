"""Drives a host as clients of TensorFlow Serving do: `tensorflow-serving-api`'s stubs and messages over gRPC.

Place in the flow: `tests/it/tf_serving.rs` runs `tf_serving.py HOST:PORT URL CASE`; each case is a function here.
In: a host whose endpoints the test has configured, by gRPC and by HTTP. Out: exit status 0, or the assertion that failed.
"""

import json
import sys
import types
import urllib.request

import grpc
import ml_dtypes
import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool
from tritonclient.grpc import service_pb2 as oip
from tritonclient.grpc.service_pb2_grpc import GRPCInferenceServiceStub


def without_tensorflow():
    """Puts the one file of messages in its place that only TensorFlow itself has as this client wants it."""
    codes = descriptor_pb2.FileDescriptorProto(
        name="tensorflow/core/protobuf/error_codes.proto", package="tensorflow.error", syntax="proto3"
    )
    enum = codes.enum_type.add(name="Code")
    for number, name in sorted((status.value[0], status.name) for status in grpc.StatusCode):
        enum.value.add(name=name, number=number)
    descriptor_pool.Default().AddSerializedFile(codes.SerializeToString())
    module = types.ModuleType("tensorflow.core.protobuf.error_codes_pb2")
    module.xla_dot_tsl_dot_protobuf_dot_error__codes__pb2 = None
    sys.modules[module.__name__] = module


without_tensorflow()

from tensorflow.core.example.example_pb2 import Example
from tensorflow.core.framework import types_pb2
from tensorflow.core.framework.tensor_pb2 import TensorProto
from tensorflow_serving.apis import (
    classification_pb2, get_model_metadata_pb2, get_model_status_pb2, inference_pb2, model_service_pb2_grpc, predict_pb2,
    prediction_service_pb2_grpc, regression_pb2,
)

IRIS = np.array([[5.2, 3.6, 1.4, 0.3], [6.7, 3.0, 5.2, 2.3]], np.float32)
DATA_TYPES = {
    "bool": "BOOL", "uint8": "UINT8", "uint16": "UINT16", "uint32": "UINT32", "uint64": "UINT64", "int8": "INT8",
    "int16": "INT16", "int32": "INT32", "int64": "INT64", "float16": "HALF", "bfloat16": "BFLOAT16", "float32": "FLOAT",
    "float64": "DOUBLE", "object": "STRING",
}
FIELDS = {
    "float16": "half_val", "bfloat16": "half_val", "float32": "float_val", "float64": "double_val", "int64": "int64_val",
    "uint32": "uint32_val", "uint64": "uint64_val", "bool": "bool_val", "object": "string_val",
}
OIP_NAMES = {"float16": "FP16", "bfloat16": "BF16", "float32": "FP32", "float64": "FP64", "object": "BYTES"}


def field(dtype):
    return FIELDS.get(dtype, "int_val")


def content(values):
    """`tensor_content`, as TensorFlow fills it."""
    if values.dtype != object:
        return values.tobytes()
    texts = values.flatten().tolist()
    return b"".join(varint(len(text)) for text in texts) + b"".join(texts)


def varint(number):
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def empty(dtype, *shape):
    proto = TensorProto(dtype=types_pb2.DataType.Value(f"DT_{DATA_TYPES[dtype]}"))
    for extent in shape:
        proto.tensor_shape.dim.add(size=extent)
    return proto


def tensor(values, typed=False):
    proto = empty(values.dtype.name, *values.shape)
    if typed:
        # Halves stand there as their bits.
        bits = values.view(np.uint16) if values.dtype.name in ("float16", "bfloat16") else values
        getattr(proto, field(values.dtype.name)).extend(bits.flatten().tolist())
    else:
        proto.tensor_content = content(values)
    return proto


def array(proto):
    """An answer's tensor, which has its elements in the field of their type."""
    name = types_pb2.DataType.Name(proto.dtype).removeprefix("DT_")
    dtype = next(dtype for dtype, known in DATA_TYPES.items() if known == name)
    assert not proto.tensor_content, proto
    values = list(getattr(proto, field(dtype)))
    if dtype in ("float16", "bfloat16"):
        made = np.array(values, np.uint16).view(getattr(ml_dtypes, dtype, dtype))
    else:
        made = np.array(values, dtype)
    return made.reshape([dim.size for dim in proto.tensor_shape.dim])


def texts(*values):
    return np.array([value.encode() for value in values], dtype=object)


class Client:
    def __init__(self, address, url):
        channel = grpc.insecure_channel(address, options=[("grpc.max_send_message_length", -1)])
        self.channel, self.url = channel, url
        self.serving = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        self.models = model_service_pb2_grpc.ModelServiceStub(channel)
        self.oip = GRPCInferenceServiceStub(channel)

    def answer(self, model, inputs, **more):
        request = predict_pb2.PredictRequest()
        request.model_spec.name = model
        for name, value in inputs.items():
            request.inputs[name].CopyFrom(value if isinstance(value, TensorProto) else tensor(value))
        request.output_filter.extend(more.pop("outputs", []))
        return self.serving.Predict.with_call(spec(request, **more), timeout=60)

    def predict(self, model, inputs, **more):
        answer, _ = self.answer(model, inputs, **more)
        return {name: array(proto) for name, proto in answer.outputs.items()}

    def infer(self, model, inputs):
        """The same by the Open Inference Protocol: bytes of every output."""
        request = oip.ModelInferRequest(model_name=model)
        for name, value in inputs.items():
            kind = OIP_NAMES.get(value.dtype.name, value.dtype.name.upper())
            request.inputs.add(name=name, datatype=kind, shape=value.shape)
            request.raw_input_contents.append(value.tobytes())
        answer = self.oip.ModelInfer(request)
        return {output.name: data for output, data in zip(answer.outputs, answer.raw_output_contents)}

    def rest(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(f"{self.url}/v1/models/{path}", data) as answer:
            return json.load(answer)

    def metadata(self, model, fields=("signature_def",), **more):
        request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=fields)
        request.model_spec.name = model
        return self.serving.GetModelMetadata(spec(request, **more))

    def signatures(self, model):
        found = get_model_metadata_pb2.SignatureDefMap()
        assert self.metadata(model).metadata["signature_def"].Unpack(found)
        return found.signature_def

    def state(self, model, **more):
        request = get_model_status_pb2.GetModelStatusRequest()
        request.model_spec.name = model
        [version] = self.models.GetModelStatus(spec(request, **more)).model_version_status
        assert version.status.error_code == 0, version
        return version.version, get_model_status_pb2.ModelVersionStatus.State.Name(version.state)

    def classify(self, model, *examples, **more):
        request = listed(classification_pb2.ClassificationRequest(), model, examples, more)
        return self.serving.Classify(spec(request, **more), timeout=60)

    def regress(self, model, *examples, **more):
        request = listed(regression_pb2.RegressionRequest(), model, examples, more)
        return self.serving.Regress(spec(request, **more), timeout=60)


def spec(request, version=None, label=None, signature=None):
    if version is not None:
        request.model_spec.version.value = version
    if label is not None:
        request.model_spec.version_label = label
    if signature is not None:
        request.model_spec.signature_name = signature
    return request


def listed(request, model, examples, more):
    request.model_spec.name = model
    context = more.pop("context", None)
    if context is None:
        request.input.example_list.examples.extend(examples)
    else:
        request.input.example_list_with_context.examples.extend(examples)
        request.input.example_list_with_context.context.CopyFrom(context)
    return request


def example(**features):
    made = Example()
    for name, values in features.items():
        values = np.asarray(values)
        kind = {"f": "float_list", "i": "int64_list", "O": "bytes_list"}[values.dtype.kind]
        getattr(made.features.feature[name], kind).value.extend(values.tolist())
    return made


def refused(status, text, call):
    """`call` must fail so; its metadata."""
    try:
        call()
    except grpc.RpcError as error:
        assert (error.code().name, error.details()) == (status, text), (error.code().name, error.details())
        return {**dict(error.initial_metadata()), **dict(error.trailing_metadata())}
    raise AssertionError(f"expected {status}: {text}")


def questions(client):
    signatures = client.signatures("iris")
    assert list(signatures) == ["serving_default"]
    signature = signatures["serving_default"]
    assert signature.method_name == "tensorflow/serving/predict" and list(signature.inputs) == ["input"]
    told = signature.inputs["input"]
    assert (told.name, told.dtype) == ("input", types_pb2.DT_FLOAT)
    assert [dim.size for dim in told.tensor_shape.dim] == [-1, 4] and not told.tensor_shape.unknown_rank
    assert {name: types_pb2.DataType.Name(it.dtype) for name, it in signature.outputs.items()} == {
        "label": "DT_INT64", "probabilities": "DT_FLOAT",
    }
    # The same over HTTP.
    rest = client.rest("iris/metadata")["metadata"]["signature_def"]["signature_def"]["serving_default"]
    assert rest["method_name"] == signature.method_name and set(rest["outputs"]) == set(signature.outputs)
    answer = client.metadata("iris", version=1)
    assert (answer.model_spec.name, answer.model_spec.version.value) == ("iris", 1), answer
    alone = client.signatures("orders")["serving_default"]
    assert not alone.inputs and not alone.outputs
    assert client.state("iris") == client.state("iris", version=1) == (1, "AVAILABLE")
    assert client.state("orders") == (1, "AVAILABLE")

    text = "there is no model `nobody`"
    for call in [client.metadata, client.state, client.classify, lambda name: client.predict(name, {})]:
        assert refused("NOT_FOUND", text, lambda: call("nobody"))["modelhost-code"] == "not_found"
    text = "model `iris` is served in version 1, not `7`"
    for call in [client.metadata, client.state, client.regress, lambda name, version: client.predict(name, {}, version=version)]:
        refused("NOT_FOUND", text, lambda: call("iris", version=7))
    text = "versions have no labels here, so none is `stable`: send `version`, or neither for the one that is served"
    for call in [client.metadata, client.state, client.classify, lambda name, label: client.predict(name, {}, label=label)]:
        refused("INVALID_ARGUMENT", text, lambda: call("iris", label="stable"))
    text = "there is no `model_spec`: its `name` is the model's"
    refused("INVALID_ARGUMENT", text, lambda: client.serving.Predict(predict_pb2.PredictRequest()))
    text = "`metadata_field` is empty; it is `signature_def`"
    refused("INVALID_ARGUMENT", text, lambda: client.metadata("iris", []))
    text = "there is no field `graph` of metadata, but `signature_def`"
    refused("INVALID_ARGUMENT", text, lambda: client.metadata("iris", ["signature_def", "graph"]))
    refused("UNIMPLEMENTED", "", lambda: client.serving.MultiInference(inference_pb2.MultiInferenceRequest()))


def predict(client):
    answer, call = client.answer("iris", {"input": IRIS}, version=1, signature="serving_default")
    assert (answer.model_spec.name, answer.model_spec.version.value) == ("iris", 1), answer
    assert answer.model_spec.signature_name == "serving_default", answer
    assert dict(call.initial_metadata())["x-request-id"]
    found = {name: array(proto) for name, proto in answer.outputs.items()}
    # To the bit what the Open Inference Protocol says, and to the last digit what REST says.
    raw = client.infer("iris", {"input": IRIS})
    assert {name: values.tobytes() for name, values in found.items()} == raw
    rest = client.rest("iris:predict", {"inputs": IRIS.tolist()})["outputs"]
    assert np.array_equal(np.array(rest["probabilities"], np.float32), found["probabilities"])
    assert rest["label"] == found["label"].tolist() == [0, 2]
    assert np.array_equal(found["probabilities"], client.predict("iris", {"input": tensor(IRIS, typed=True)})["probabilities"])

    [name] = client.predict("iris", {"input": IRIS}, outputs=["probabilities"])
    assert name == "probabilities"
    many = np.random.default_rng(0).random((50_000, 4), dtype=np.float32)
    assert client.predict("iris", {"input": many})["label"].shape == (50_000,)
    added = client.predict("add", {"a": np.array([1, 2], np.float32), "b": np.array([3, 4], np.float32)})
    assert added["sum"].tolist() == [4, 6]

    # Handlers: of tensors; of bodies, with what they see and what they answer by themselves.
    assert client.predict("tensors", {"x": np.array([1.5], np.float32)})["x"].tolist() == [3]
    order = lambda text: client.predict("orders", {"order": texts(text)})
    seen = order("")["seen"][0].decode()
    assert '"path":"/tensorflow.serving.PredictionService/Predict"' in seen, seen
    assert order('respond 200 application/json {"out":"hi!","n":[1,2]}')["n"].tolist() == [1, 2]
    assert order("respond 200 text/plain hi!")["output"].tolist() == [b"hi!"]
    refused("PERMISSION_DENIED", "no", lambda: order("respond 403 text/plain no"))
    refused("INVALID_ARGUMENT", "the order is `invalid`", lambda: order("invalid"))

    text = "there is no signature `other`; the model is served by `serving_default`"
    metadata = refused("FAILED_PRECONDITION", text, lambda: client.predict("iris", {"input": IRIS}, signature="other"))
    assert metadata["modelhost-code"] == "invalid_input" and metadata["x-request-id"], metadata
    for inputs, outputs, text in [
        ({"input": IRIS}, ["nothing"], "there is no output `nothing`, but `label`, `probabilities`"),
        ({"input": IRIS}, ["label", "label"], "output `label` is asked for twice"),
        ({}, [], "input `input`: missing, expected FP32 [N, 4]"),
        ({"input": IRIS.astype(np.int64)}, [], "input `input`: expected FP32 [N, 4], got INT64 [2, 4]"),
    ]:
        refused("INVALID_ARGUMENT", text, lambda: client.predict("iris", inputs, outputs=outputs))


def datatypes(client):
    """Every datatype both ways, by its bytes and by its field."""
    brains = np.array([1.5, -2.0, 3.0e38, np.inf], ml_dtypes.bfloat16)
    for name, values in [
        ("bool", np.array([[True], [False]])),
        *[(name, np.array([np.iinfo(name).min, 7, np.iinfo(name).max], name)) for name in DATA_TYPES if "int" in name],
        ("fp16", np.array([1.5, -2.0, 6.1e-5, np.inf], np.float16)),
        ("bf16", brains),
        ("fp32", np.array([0.1, -np.inf, 3e-45], np.float32)),
        ("fp64", np.array([0.1, -1e300], np.float64)),
        ("bytes", texts("", "setosa", "vîrginica", "x" * 70_000)),
    ]:
        values = values.reshape(-1)
        for typed in [False, True]:
            found = client.predict(name, {"x": tensor(values, typed)})["y"]
            assert found.dtype == values.dtype and found.tolist() == values.tolist(), (name, typed, found)
        assert client.predict(name, {"x": values[:0]})["y"].shape == (0,), name


def repeated(client):
    """The last value of a field stands for all that are missing, and none for zeros."""
    for name, dtype, given, expected in [
        ("fp32", "float32", [1.5, 2.5], [1.5, 2.5, 2.5, 2.5]),
        ("fp32", "float32", [], [0, 0, 0, 0]),
        ("int8", "int8", [-3], [-3] * 4),
        ("bool", "bool", [True], [True] * 4),
        ("fp16", "float16", [0x3C00], [1.0] * 4),
        ("bytes", "object", [b"a", b"bc"], [b"a", b"bc", b"bc", b"bc"]),
        ("bytes", "object", [], [b""] * 4),
    ]:
        proto = empty(dtype, 4)
        getattr(proto, field(dtype)).extend(given)
        assert client.predict(name, {"x": proto})["y"].tolist() == expected, (name, given)


def malformed(client):
    """What is no tensor is refused by name, and the next request is served."""

    def proto(dtype, shape, **fields):
        made = empty(dtype, *shape)
        for name, value in fields.items():
            if isinstance(value, bytes):
                setattr(made, name, value)
            else:
                getattr(made, name).extend(value)
        return made

    unknown, no_rank, quantized = proto("float32", [1]), proto("float32", []), proto("float32", [1])
    unknown.dtype, no_rank.tensor_shape.unknown_rank, quantized.dtype = 77, True, types_pb2.DT_QINT8
    for model, tensor_proto, text in [
        ("fp32", proto("float32", [2], tensor_content=b"\0" * 7), "FP32 of shape [2] takes 8 bytes, got 7"),
        ("fp32", proto("float32", [2], tensor_content=b"\0" * 12), "FP32 of shape [2] takes 8 bytes, got 12"),
        ("fp32", proto("float32", [2], float_val=[1, 2, 3]), "DT_FLOAT of shape [2] takes 2 elements, got 3"),
        ("fp32", proto("float32", [0], float_val=[1]), "DT_FLOAT of shape [0] takes 0 elements, got 1"),
        ("fp32", proto("float32", [1], int_val=[1]), "DT_FLOAT comes in `float_val` or `tensor_content`, got `int_val`"),
        ("fp32", proto("float32", [1], float_val=[1], tensor_content=b"\0" * 4), "it has both `tensor_content` and `float_val`"),
        ("fp32", proto("float32", [-1]), "an extent of a shape cannot be -1"),
        ("fp32", proto("float32", [2**40, 2**40]), "shape [1099511627776, 1099511627776] has more elements than memory can hold"),
        ("fp32", proto("float32", [1] * 33), "the shape has 33 extents, more than 32"),
        ("fp32", no_rank, "its shape has no rank"),
        ("fp32", unknown, "there is no `dtype` 77"),
        ("fp32", quantized, "this server has no datatype for DT_QINT8"),
        ("fp32", TensorProto(), "it has no `dtype`"),
        ("int8", proto("int8", [1], int_val=[300]), "element 0: 300 is out of range for INT8"),
        ("fp16", proto("float16", [1], half_val=[-1]), "element 0: -1 is out of range for FP16"),
        ("bool", proto("bool", [1], tensor_content=b"\2"), "BOOL data holds a byte that is neither 0 nor 1"),
        ("bytes", proto("object", [2], tensor_content=b"\1\1a"), "`tensor_content` does not hold 2 strings"),
        ("bytes", proto("object", [1], tensor_content=b"\1ab"), "`tensor_content` does not hold 1 strings"),
        ("bytes", proto("object", [2**40], tensor_content=b"\xff" * 9), "`tensor_content` does not hold 1099511627776 strings"),
    ]:
        refused("INVALID_ARGUMENT", f"input `x`: {text}", lambda: client.predict(model, {"x": tensor_proto}))
        neighbour(client)


def neighbour(client):
    assert client.predict("add", {"a": np.ones(2, np.float32), "b": np.ones(2, np.float32)})["sum"].tolist() == [2, 2]


def limits(client):
    """`limits.body` is 1 MiB for `fp32` and `bytes`, and 4 MiB for their neighbour."""
    too_long = "the inputs are longer than 1048576 bytes"
    mebi = 1 << 20
    # A few bytes that stand for a mebibyte, and for a tebibyte.
    for model, dtype, extent, given in [
        ("fp32", "float32", mebi // 4 + 1, [1.0]), ("fp32", "float32", mebi // 4 + 1, []),
        ("fp32", "float32", 2**38, [1.0]), ("bytes", "object", 2**38, []),
        ("bytes", "object", mebi // 8, [b"", b"12345"]), ("bytes", "object", 2**38, [b"x"]),
    ]:
        proto = empty(dtype, extent)
        getattr(proto, field(dtype)).extend(given)
        metadata = refused("RESOURCE_EXHAUSTED", too_long, lambda: client.predict(model, {"x": proto}))
        assert metadata["modelhost-code"] == "body_too_large", metadata
        neighbour(client)
    half = np.zeros(mebi // 8, np.float32)
    assert len(client.predict("fp32", {"x": np.zeros(mebi // 4, np.float32)})["y"]) == mebi // 4
    refused("RESOURCE_EXHAUSTED", too_long, lambda: client.predict("fp32", {"x": half, "y": half, "z": half[:1]}))

    # What would take far more as a value than as bytes.
    text = "the message has more than 10000 inputs, outputs and extents"
    shape = empty("float32", *[1] * 20_000)
    refused("INVALID_ARGUMENT", text, lambda: client.predict("fp32", {"x": shape}))
    inputs = {str(number): empty("float32") for number in range(5_000)}
    refused("INVALID_ARGUMENT", text, lambda: client.predict("fp32", inputs))
    text = "the message has more than 1048576 elements of `string_val`"
    words = empty("object", mebi + 1)
    words.string_val.extend([b""] * (mebi + 1))
    refused("INVALID_ARGUMENT", text, lambda: client.predict("bytes", {"x": words}))
    text = "the message has more than 262144 examples, features and parts of them"
    refused("INVALID_ARGUMENT", text, lambda: client.classify("iris", *[Example()] * (1 << 18)))
    # A context is there for each of many examples.
    context = example(input=np.zeros(mebi // 64, np.float32))
    call = lambda: client.classify("fp32", *[Example()] * 100, context=example(x=np.zeros(mebi // 64, np.float32)))
    refused("RESOURCE_EXHAUSTED", too_long, call)
    refused("RESOURCE_EXHAUSTED", too_long, lambda: client.classify("parsed", *[Example()] * 100, context=context))
    neighbour(client)


def examples(client):
    """Models whose inputs have names get the features of these names."""
    flowers = [example(input=row) for row in IRIS]
    answer = client.classify("iris", *flowers)
    assert (answer.model_spec.name, answer.model_spec.version.value) == ("iris", 1), answer
    probabilities = client.predict("iris", {"input": IRIS})["probabilities"]
    rows = answer.result.classifications
    assert [[it.label for it in row.classes] for row in rows] == [["0", "1", "2"]] * 2, answer
    assert np.array_equal(np.array([[it.score for it in row.classes] for row in rows], np.float32), probabilities)
    shared = client.classify("iris", Example(), flowers[1], context=flowers[0])
    assert shared.result == answer.result, shared
    named = client.classify("zipmap_text", *[example(float_input=row) for row in IRIS]).result.classifications[0].classes
    assert sorted(it.label for it in named) == ["setosa", "versicolor", "virginica"], named

    regressions = client.regress("fp32", *[example(x=[value]) for value in [0.1, -2.5]]).result.regressions
    assert [it.value for it in regressions] == np.array([0.1, -2.5], np.float32).tolist()
    text = "output `probabilities` of shape [2, 3] is no number for each of 2 examples"
    refused("INVALID_ARGUMENT", text, lambda: client.regress("iris", *flowers))
    for model, given, text in [
        ("iris", [], "there are no examples in `input`"),
        ("iris", [flowers[0], Example()], "example 1: feature `input`: it is missing"),
        ("iris", [example(input=[1.0, 2.0])], "feature `input`: 4 values are expected, got 2"),
        ("iris", [flowers[0], example(input=[1.0])], "example 1: feature `input`: the first example has 4 values, this one 1"),
        ("iris", [example(input=[1, 2, 3, 4])], "example 0: feature `input`: FP32 comes in `float_list`"),
        ("orders", flowers, "`orders` takes no examples: no signature names its inputs; hint: ask for a prediction"),
        ("int8", [example(x=[300])], "example 0: feature `x`: element 0: 300 is out of range for INT8"),
        ("int8", [example(x=[3])], "the model makes no classification: it has no output `scores`, and not exactly one of "
         "floating-point numbers, but `y`; hint: ask for a prediction"),
    ]:
        refused("INVALID_ARGUMENT", text, lambda: client.classify(model, *given))
    text = "there is no signature `other`; the model is served by `serving_default`"
    refused("INVALID_ARGUMENT", text, lambda: client.classify("iris", *flowers, signature="other"))


def parsed(client):
    """SavedModels whose signatures are of classification and regression parse examples by themselves."""
    assert client.signatures("classes")["classify"].method_name == "tensorflow/serving/classify"
    given = [example(x=[0.25, 0.5, 0.75]), example(x=[1.0, 2.0, 3.0], scale=[0.5])]
    answer = client.classify("classes", *given)
    assert answer.model_spec.signature_name == "classify", answer
    scores = [[0.25, 0.5, 0.75], [0.5, 1.0, 1.5]]
    expected = [list(zip(["low", "mid", "high"], row)) for row in scores]
    found = [[(it.label, it.score) for it in row.classes] for row in answer.result.classifications]
    assert found == expected, found
    shared = client.classify("classes", example(scale=[1.0]), given[1], context=example(x=[0.25, 0.5, 0.75], scale=[0.1]))
    assert shared.result == answer.result, shared
    sums = client.regress("numbers", *given, signature="regress").result.regressions
    assert [it.value for it in sums] == [1.5, 3.0], sums

    refused("INVALID_ARGUMENT", "the method of the model's signature is `tensorflow/serving/classify`, not "
            "`tensorflow/serving/regress`", lambda: client.regress("classes", *given))
    # The same by tensors: encoded examples.
    inputs = {"inputs": np.array([it.SerializeToString() for it in given], object)}
    tensors = client.predict("classes", inputs)
    assert tensors["scores"].tolist() == scores and tensors["classes"][1].tolist() == [b"low", b"mid", b"high"]
    rest = client.rest("classes/metadata")["metadata"]["signature_def"]["signature_def"]["classify"]
    assert rest["method_name"] == "tensorflow/serving/classify", rest


def unloaded(client):
    assert client.state("iris") == (1, "END")
    text = "model `iris` is not loaded"
    refused("UNAVAILABLE", text, lambda: client.predict("iris", {"input": IRIS}))
    refused("UNAVAILABLE", text, lambda: client.metadata("iris"))


def without_grpc(client):
    """The endpoint is served over HTTP alone."""
    text = "there is no model `iris`"
    for call in [client.state, client.metadata, client.classify, lambda name: client.predict(name, {"input": IRIS})]:
        refused("NOT_FOUND", text, lambda: call("iris"))
    assert client.rest("iris:predict", {"inputs": IRIS.tolist()})["outputs"]["label"] == [0, 2]


def keys(client):
    """Every endpoint requires a key."""
    text = "`iris` requires a key: send `authorization: Bearer KEY`"
    for call in [lambda: client.state("iris"), lambda: client.metadata("iris"), lambda: client.predict("iris", {"input": IRIS})]:
        metadata = refused("UNAUTHENTICATED", text, call)
        assert metadata["modelhost-code"] == "unauthorized", metadata
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "iris"
    request.inputs["input"].CopyFrom(tensor(IRIS))
    answer = client.serving.Predict(request, metadata=[("authorization", "Bearer a-key-of-the-tests")])
    assert array(answer.outputs["label"]).tolist() == [0, 2]


if __name__ == "__main__":
    address, url, case = sys.argv[1:]
    globals()[case](Client(address, url))
