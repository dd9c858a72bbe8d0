"""Drives a host's gRPC over TLS, with a key and without: every method wants it, and a stream that rests is not an idle one.

Place in the flow: `tests/it/keys.rs` runs `grpc_keys.py PORT CERTIFICATE KEY`. In: a host with the endpoint `orders`, that wants
the key, and `model_control`. Out: exit status 0, or the assertion that failed.
"""

import queue
import sys
import time

import grpc
from grpc_raw import failure, order
from tritonclient.grpc import service_pb2 as messages
from tritonclient.grpc.service_pb2_grpc import GRPCInferenceServiceStub


def calls(stub, metadata):
    """Every method that names a model, by its name."""
    named = dict(name="orders")
    return {
        "ModelReady": lambda: stub.ModelReady(messages.ModelReadyRequest(**named), metadata=metadata),
        "ModelMetadata": lambda: stub.ModelMetadata(messages.ModelMetadataRequest(**named), metadata=metadata),
        "ModelConfig": lambda: stub.ModelConfig(messages.ModelConfigRequest(**named), metadata=metadata),
        "ModelStatistics": lambda: stub.ModelStatistics(messages.ModelStatisticsRequest(**named), metadata=metadata),
        "ModelInfer": lambda: stub.ModelInfer(order(""), metadata=metadata),
        "RepositoryModelLoad": lambda: stub.RepositoryModelLoad(
            messages.RepositoryModelLoadRequest(model_name="orders"), metadata=metadata
        ),
    }


def streamed(stub, metadata):
    """The error of a request in a stream: empty if it was served."""
    return next(stub.ModelStreamInfer(iter([order("")]), metadata=metadata)).error_message


def main(port, certificate, key):
    with open(certificate, "rb") as file:
        credentials = grpc.ssl_channel_credentials(file.read())
    right = [[("authorization", f"Bearer {key}")], [("x-banana-api-key", key)]]
    wrong = [None, [("authorization", f"Bearer {key}x")], [("authorization", key)]]
    with grpc.secure_channel(f"localhost:{port}", credentials) as channel:
        stub = GRPCInferenceServiceStub(channel)
        for metadata in wrong:
            for name, call in calls(stub, metadata).items():
                code, text, told = failure(call)
                assert code == "UNAUTHENTICATED" and "requires a key" in text, (name, code, text)
                assert told["modelhost-code"] == "unauthorized", (name, told)
            assert "requires a key" in streamed(stub, metadata)
            # Nor does a message that comes in pieces take a place among those that may.
            code, text, _ = failure(lambda: stub.ModelInfer(order("x" * 300_000), metadata=metadata))
            assert code == "UNAUTHENTICATED" and "requires a key" in text, (code, text)
        for metadata in right:
            for call in calls(stub, metadata).values():
                call()
            assert streamed(stub, metadata) == ""
        # Lists and health are open.
        assert stub.ServerLive(messages.ServerLiveRequest()).live
        assert [model.name for model in stub.RepositoryIndex(messages.RepositoryIndexRequest()).models] == ["orders"]

        # Four times as long as a connection may be idle, without a word.
        requests = queue.Queue()
        answers = stub.ModelStreamInfer(iter(requests.get, None), metadata=right[0])
        for pause in (0, 2):
            time.sleep(pause)
            requests.put(order(""))
            assert next(answers).error_message == ""
        requests.put(None)


if __name__ == "__main__":
    main(*sys.argv[1:])
