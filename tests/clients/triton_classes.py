"""Asks a host for classes as users of `tritonclient` do, with `class_count`, over HTTP and over gRPC.

Place in the flow: `tests/it/classification.rs` runs `triton_classes.py HOST:PORT GRPC_HOST:PORT`.
In: a host with `iris`, the same model with batches and labels as `named`, and others that have no classes. Out: exit status 0,
or the assertion that failed.
"""

import sys

import numpy as np
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

IRIS = np.array([[5.2, 3.6, 1.4, 0.3], [6.7, 3.0, 5.2, 2.3]], np.float32)
LABELS = ["setosa", "versicolor"]


def tensor(module, name, values):
    made = module.InferInput(name, list(values.shape), np_to_triton_dtype(values.dtype))
    made.set_data_from_numpy(values)
    return made


def check(module, address, **binary):
    with module.InferenceServerClient(address) as client:

        def ask(model, inputs, *outputs):
            wanted = [module.InferRequestedOutput(name, class_count=count, **binary) for name, count in outputs]
            return client.infer(model, [tensor(module, name, values) for name, values in inputs.items()], outputs=wanted)

        def refused(text, *asked):
            try:
                ask(*asked)
            except InferenceServerException as error:
                assert error.message() == text, error.message()
            else:
                raise AssertionError(text)

        assert "classification" in extensions(client)
        scores = ask("iris", {"input": IRIS}, ("probabilities", 0)).as_numpy("probabilities")

        def expected(row, count, labels=()):
            order = sorted(range(len(row)), key=lambda index: -row[index])[:count]
            names = [f":{labels[index]}" if index < len(labels) else "" for index in order]
            return [f"{row[index]:.6f}:{index}{name}" for index, name in zip(order, names)]

        def texts(values):
            return [text.decode() if isinstance(text, bytes) else text for text in values]

        # With batches, row by row.
        result = ask("named", {"input": IRIS}, ("probabilities", 2), ("label", 0))
        found = result.as_numpy("probabilities")
        assert found.shape == (2, 2) and result.as_numpy("label").tolist() == [0, 2], result.get_response()
        for texts_of_row, row in zip(found, scores):
            assert texts(texts_of_row) == expected(row, 2, LABELS), (texts_of_row, row)
        # Without, as a whole; no more than there are.
        found = ask("iris", {"input": IRIS}, ("probabilities", 4)).as_numpy("probabilities")
        assert found.shape == (4,) and texts(found) == expected(scores.flatten(), 4), found
        found = ask("iris", {"input": IRIS}, ("probabilities", 4_000_000_000)).as_numpy("probabilities")
        assert found.shape == (6,), found
        # Integers are written as such.
        assert texts(ask("iris", {"input": IRIS}, ("label", 1)).as_numpy("label")) == ["2:1"]
        # Many values: those of the highest numbers.
        many = np.arange(500_000, dtype=np.float32)
        assert texts(ask("fp32", {"x": many}, ("y", 2)).as_numpy("y")) == ["499999.000000:499999", "499998.000000:499998"]

        words = {"x": np.array([b"a"], dtype=np.object_)}
        refused("output `y`: BYTES has no classes, only numbers have", "bytes", words, ("y", 1))
        refused("output `probabilities`: asked for twice" if module is tritonclient.http else
                "output `probabilities` is asked for twice", "iris", {"input": IRIS}, ("probabilities", 1), ("probabilities", 2))
        # The next one is served.
        assert ask("iris", {"input": IRIS}, ("probabilities", 0)).as_numpy("probabilities").tolist() == scores.tolist()


def extensions(client):
    metadata = client.get_server_metadata()
    return metadata["extensions"] if isinstance(metadata, dict) else metadata.extensions


if __name__ == "__main__":
    http, grpc = sys.argv[1:]
    for is_binary in [True, False]:
        check(tritonclient.http, http, binary_data=is_binary)
    check(tritonclient.grpc, grpc)
