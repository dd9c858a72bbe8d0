"""Drives a host with tritonclient's HTTP client and asserts what it sees.

Arguments: HOST:PORT. The host serves, with `--model-control`: `identity_X` for every datatype X, `iris_dyn`, `rows`.
Out: one line for each thing that was tried; a failed assertion ends it with a traceback.
"""

import sys

import ml_dtypes
import numpy as np
import tritonclient.http as http
from tritonclient.utils import InferenceServerException

FLOWERS = np.array([[5.2, 3.6, 1.4, 0.3], [6.7, 3.0, 5.2, 2.3]], dtype=np.float32)
CODINGS = [None, "gzip", "deflate"]

VALUES = {
    "BOOL": np.array([True, False]),
    "UINT8": np.array([0, 255], dtype=np.uint8),
    "UINT16": np.array([0, 65535], dtype=np.uint16),
    "UINT32": np.array([0, 2**32 - 1], dtype=np.uint32),
    "UINT64": np.array([0, 2**64 - 1], dtype=np.uint64),
    "INT8": np.array([-128, 127], dtype=np.int8),
    "INT16": np.array([-(2**15), 2**15 - 1], dtype=np.int16),
    "INT32": np.array([-(2**31), 2**31 - 1], dtype=np.int32),
    "INT64": np.array([-(2**63), 2**63 - 1], dtype=np.int64),
    "FP16": np.array([0.5, -65504], dtype=np.float16),
    "BF16": np.array([0.5, -2], dtype=ml_dtypes.bfloat16),
    "FP32": np.array([0.1, -3e38], dtype=np.float32),
    "FP64": np.array([0.1, -1e308], dtype=np.float64),
    "BYTES": np.array(["hé".encode(), b""], dtype=np.object_),
}
# What the client itself sends in binary only.
BINARY_ONLY = {"FP16", "BF16"}


def tensor(name, datatype, values, binary=True):
    found = http.InferInput(name, list(values.shape), datatype)
    found.set_data_from_numpy(values, binary_data=binary)
    return found


def same(found, expected):
    assert found.tolist() == expected.tolist(), (found, expected)


def refused(call, status, words):
    try:
        call()
    except InferenceServerException as error:
        assert error.status() == status and words in error.message(), error
    else:
        raise AssertionError(f"{words} was not refused")


def every_datatype(client):
    for datatype, values in VALUES.items():
        for binary_in in [True] if datatype in BINARY_ONLY else [True, False]:
            # Without outputs the client asks for all of them in binary.
            for outputs in None, [http.InferRequestedOutput("y", binary_data=False)]:
                inputs = [tensor("x", datatype, values, binary_in)]
                found = client.infer(f"identity_{datatype.lower()}", inputs, outputs=outputs).as_numpy("y")
                if datatype == "BYTES":
                    # Of JSON the client makes text.
                    found = np.array([t if isinstance(t, bytes) else t.encode() for t in found], dtype=np.object_)
                same(found, values)
        print("datatype", datatype)


def iris(client):
    flowers = tensor("input", "FP32", FLOWERS)
    for coding_in in CODINGS:
        for coding_out in CODINGS:
            result = client.infer("iris_dyn", [flowers], request_id="r1", request_compression_algorithm=coding_in,
                                  response_compression_algorithm=coding_out)
            same(result.as_numpy("label"), np.array([0, 2]))
            assert result.as_numpy("probabilities").shape == (2, 3)
            response = result.get_response()
            assert (response["id"], response["model_name"], response["model_version"]) == ("r1", "iris_dyn", "1")
    only = client.infer("iris_dyn", [flowers], model_version="1", outputs=[http.InferRequestedOutput("label")])
    assert [output["name"] for output in only.get_response()["outputs"]] == ["label"]
    assert only.as_numpy("probabilities") is None
    pending = [client.async_infer("iris_dyn", [flowers]) for _ in range(20)]
    for one in pending:
        same(one.get_result().as_numpy("label"), np.array([0, 2]))
    # An answer that is large enough to be packed.
    large = np.arange(100_000, dtype=np.float32)
    for coding in CODINGS:
        result = client.infer("identity_fp32", [tensor("x", "FP32", large)], request_compression_algorithm=coding,
                              response_compression_algorithm=coding)
        assert np.array_equal(result.as_numpy("y"), large)
    print("iris")


def several(client):
    x = np.array([[1, 2], [3, 4]], dtype=np.float32)
    inputs = [tensor("x", "FP32", x), tensor("index", "INT64", np.array([2, 0]), False),
              tensor("text", "BYTES", np.array([b"a", b"b"], dtype=np.object_))]
    wanted = [http.InferRequestedOutput("picked", binary_data=False), http.InferRequestedOutput("y")]
    result = client.infer("rows", inputs, outputs=wanted)
    same(result.as_numpy("y"), 2 * x)
    same(result.as_numpy("picked"), np.array([3, 1], dtype=np.float32))
    assert result.as_numpy("same") is None
    print("several")


def models(client):
    assert client.is_server_live() and client.is_server_ready()
    assert "binary_tensor_data" in client.get_server_metadata()["extensions"]
    assert client.is_model_ready("iris_dyn") and client.is_model_ready("iris_dyn", "1")
    assert not client.is_model_ready("nobody") and not client.is_model_ready("iris_dyn", "7")
    metadata = client.get_model_metadata("iris_dyn")
    assert metadata["inputs"] == [{"name": "input", "datatype": "FP32", "shape": [-1, 4]}], metadata
    config = client.get_model_config("iris_dyn")
    assert config["input"][0]["data_type"] == "TYPE_FP32" and config["max_batch_size"] == 0, config
    statistics = client.get_inference_statistics("iris_dyn")["model_stats"][0]
    assert statistics["inference_stats"]["success"]["count"] == statistics["inference_count"] > 0, statistics
    assert len(client.get_inference_statistics()["model_stats"]) == len(client.get_model_repository_index())
    print("models")


def repository(client):
    client.unload_model("iris_dyn")
    assert not client.is_model_ready("iris_dyn")
    index = {model["name"]: model["state"] for model in client.get_model_repository_index()}
    assert index["iris_dyn"] == "UNAVAILABLE" and index["rows"] == "READY", index
    refused(lambda: client.infer("iris_dyn", [tensor("input", "FP32", FLOWERS)]), "503", "is not loaded")
    client.load_model("iris_dyn")
    assert client.is_model_ready("iris_dyn")
    refused(lambda: client.load_model("nobody"), "404", "there is no model `nobody`")
    refused(lambda: client.load_model("iris_dyn", config="{}"), "400", "files of the server")
    print("repository")


def errors(client):
    flowers = tensor("input", "FP32", FLOWERS)
    refused(lambda: client.infer("nobody", [flowers]), "404", "there is no model `nobody`")
    refused(lambda: client.infer("iris_dyn", [tensor("input", "FP32", FLOWERS[:, :3])]), "400", "expected FP32 [N, 4]")
    refused(lambda: client.infer("iris_dyn", [flowers], sequence_id=7, sequence_start=True), "400", "keeps no state")
    refused(lambda: client.infer("iris_dyn", [flowers], outputs=[http.InferRequestedOutput("x")]), "400", "no output `x`")
    print("errors")


def main():
    with http.InferenceServerClient(sys.argv[1], concurrency=8) as client:
        for part in every_datatype, iris, several, models, repository, errors:
            part(client)


if __name__ == "__main__":
    main()
