"""Asks for versions of a model as clients of TensorFlow Serving and Triton do, over gRPC.

Place in the flow: `tests/it/model_versions.rs` runs `tf_versions.py HOST:PORT URL`.
In: a host with the endpoint `m`, served in versions 10 and 2: of `x` the second gives the sum, the tenth its shape.
Out: exit status 0, or the assertion that failed.
"""

import sys

import numpy as np
from tf_serving import Client, get_model_status_pb2, oip, refused, spec

X = {"x": np.array([1, 2], np.float32)}


def main(client):
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = "m"
    assert [it.version for it in client.models.GetModelStatus(request).model_version_status] == [10, 2]
    assert [it.version for it in client.models.GetModelStatus(spec(request, 2)).model_version_status] == [2]
    assert client.predict("m", X, version=2)["total"].tolist() == 3
    assert [list(client.predict("m", X, **more)) for more in ({}, {"version": 10})] == [["rows"], ["rows"]]
    missing = "model `m` is served in versions 10, 2, not `1`"
    refused("NOT_FOUND", missing, lambda: client.predict("m", X, version=1))
    refused("NOT_FOUND", missing, lambda: client.metadata("m", version=1))
    assert client.metadata("m", version=2).model_spec.version.value == 2

    for version, expected in [("", "10"), ("2", "2")]:
        request = oip.ModelInferRequest(model_name="m", model_version=version)
        request.inputs.add(name="x", datatype="FP32", shape=[2])
        request.raw_input_contents.append(X["x"].tobytes())
        assert client.oip.ModelInfer(request).model_version == expected
    assert list(client.oip.ModelMetadata(oip.ModelMetadataRequest(name="m")).versions) == ["2", "10"]


main(Client(*sys.argv[1:]))
