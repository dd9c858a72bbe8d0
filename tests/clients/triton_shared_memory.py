"""Drives a host with tensors in shared memory as users of `tritonclient` do, over HTTP and over gRPC.

Place in the flow: `tests/it/shared_memory.rs` runs `triton_shared_memory.py HTTP_HOST:PORT GRPC_HOST:PORT PREFIX`.
In: a host with `--shared-memory 4`, `iris` (`iris_dyn`) with `limits.body` of 64 KiB, `fp32` and `bytes` (`identity_…`), and `orders`,
a handler. PREFIX: what the keys of this run begin with. Out: exit status 0, or the assertion that failed.
"""

import os
import sys

import numpy as np
import tritonclient.grpc
import tritonclient.http
import tritonclient.utils.shared_memory as shm
from refusals import refused
from tritonclient.utils import np_to_triton_dtype, serialize_byte_tensor

FLOWERS = np.array([[5.2, 3.6, 1.4, 0.3], [6.7, 3.0, 5.2, 2.3]], np.float32)


class Region:
    """A region of shared memory, registered with the host under its name."""

    def __init__(self, client, name, key, size):
        self.client, self.name, self.key, self.size = client, name, key, size

    def __enter__(self):
        self.handle = shm.create_shared_memory_region(self.name, self.key, self.size)
        self.client.register_system_shared_memory(self.name, self.key, self.size)
        return self

    def __exit__(self, *_):
        self.client.unregister_system_shared_memory(self.name)
        shm.destroy_shared_memory_region(self.handle)


def given(module, name, shape, datatype, region, size, offset=0):
    tensor = module.InferInput(name, list(shape), datatype)
    tensor.set_shared_memory(region, size, offset)
    return tensor


def sent(module, name, values):
    tensor = module.InferInput(name, list(values.shape), np_to_triton_dtype(values.dtype))
    tensor.set_data_from_numpy(values)
    return tensor


def wanted(module, name, region, size, offset=0):
    output = module.InferRequestedOutput(name)
    output.set_shared_memory(region, size, offset)
    return output


def inference(module, client, prefix):
    plain = client.infer("iris", [sent(module, "input", FLOWERS)]).as_numpy("probabilities")
    size, out = FLOWERS.nbytes, plain.nbytes
    with Region(client, "in", f"/{prefix}-in", 4096) as first, Region(client, "out", f"/{prefix}-out", 4096) as second:
        shm.set_shared_memory_region(first.handle, [np.zeros(4, np.float32), FLOWERS])
        inputs = [given(module, "input", FLOWERS.shape, "FP32", "in", size, 16)]
        # From there to the answer, from there to there, and from the request to there.
        found = client.infer("iris", inputs, outputs=[module.InferRequestedOutput("probabilities")])
        assert np.array_equal(found.as_numpy("probabilities"), plain)
        for inputs in inputs, [sent(module, "input", FLOWERS)]:
            shm.set_shared_memory_region(second.handle, [np.full(1024, 7, np.float32)])
            outputs = [wanted(module, "probabilities", "out", out + 8, 64), module.InferRequestedOutput("label")]
            found = client.infer("iris", inputs, outputs=outputs)
            written = shm.get_contents_as_numpy(second.handle, np.float32, plain.shape, 64)
            assert np.array_equal(written, plain), written
            around = shm.get_contents_as_numpy(second.handle, np.float32, [1024])
            assert (around[:16] == 7).all() and (around[16 + out // 4 :] == 7).all()
            # The other output is in the answer.
            assert found.as_numpy("label").tolist() == [0, 2], found.as_numpy("label")
            output = found.get_output("probabilities")
            if isinstance(output, dict):
                assert "data" not in output and "parameters" not in output, output
            else:
                assert output.parameters["shared_memory_region"].string_param == "out", output
        # One region for both.
        found = client.infer("iris", inputs, outputs=[wanted(module, "probabilities", "in", 1024, 1024)])
        assert np.array_equal(shm.get_contents_as_numpy(first.handle, np.float32, plain.shape, 1024), plain)

        for words, inputs, outputs in [
            ("Unable to find shared memory region: 'nobody'", [("nobody", size, 0)], []),
            ("Invalid offset + byte size for shared memory region: 'in'", [("in", 4097, 0)], []),
            ("Invalid offset + byte size for shared memory region: 'in'", [("in", size, 2**62)], []),
            ("input `input`: ", [("in", size - 4, 0)], []),
            ("Unable to find shared memory region: 'nobody'", [("in", size, 16)], [("nobody", out, 0)]),
            ("Invalid offset + byte size for shared memory region: 'out'", [("in", size, 16)], [("out", out, 4090)]),
            ("should be at least 24 bytes to hold the results", [("in", size, 16)], [("out", out - 1, 0)]),
        ]:
            inputs = [given(module, "input", FLOWERS.shape, "FP32", *place) for place in inputs]
            outputs = [wanted(module, "probabilities", *place) for place in outputs]
            refused(words, lambda: client.infer("iris", inputs, outputs=outputs or None))

        # A region that its owner shortens ends a request, and neither the process nor its neighbour's region.
        os.truncate(f"/dev/shm/{prefix}-in", 0)
        inputs = [given(module, "input", FLOWERS.shape, "FP32", "in", size, 16)]
        refused("region 'in' has become shorter", lambda: client.infer("iris", inputs))
        inputs, outputs = [sent(module, "input", FLOWERS)], [wanted(module, "probabilities", "in", out)]
        refused("region 'in' has become shorter", lambda: client.infer("iris", inputs, outputs=outputs))
        client.infer("iris", inputs, outputs=[wanted(module, "probabilities", "out", out)])
        assert np.array_equal(shm.get_contents_as_numpy(second.handle, np.float32, plain.shape), plain)
        assert os.stat(f"/dev/shm/{prefix}-in").st_size == 0


def bytes_and_limits(module, client, prefix):
    texts = np.array(["hé".encode(), b"", b"abc"], np.object_)
    packed = serialize_byte_tensor(texts)
    size = len(packed.item())
    with Region(client, "texts", f"/{prefix}-texts", 256 << 10) as region:
        shm.set_shared_memory_region(region.handle, [packed])
        inputs = [given(module, "x", texts.shape, "BYTES", "texts", size)]
        client.infer("bytes", inputs, outputs=[wanted(module, "y", "texts", 100, 1000)])
        assert shm.get_contents_as_numpy(region.handle, np.object_, [3], 1000).tolist() == texts.tolist()
        # A handler gets what was there, as if it had come with the request.
        client.infer("orders", [given(module, "order", [1], "BYTES", "texts", 4, 200_000)])
        # What is read counts as a body does: 64 KiB here, and no limit that matters for the neighbour.
        client.infer("fp32", [given(module, "x", [1 << 16], "FP32", "texts", 256 << 10)])
        refused("than", lambda: client.infer("iris", [given(module, "input", [5000, 4], "FP32", "texts", 80_000)]))


def regions(module, client, prefix):
    def listed(name=""):
        found = client.get_system_shared_memory_status(name)
        if isinstance(found, list):
            return {region["name"]: (region["key"], region["offset"], region["byte_size"]) for region in found}
        return {name: (region.key, region.offset, region.byte_size) for name, region in found.regions.items()}

    assert listed() == {}
    key = f"/{prefix}-r"
    handle = shm.create_shared_memory_region("r", key, 64)
    try:
        client.register_system_shared_memory("a b é", key, 32, offset=32)
        client.register_system_shared_memory("r", key, 64)
        assert listed() == {"a b é": (key, 32, 32), "r": (key, 0, 64)}, listed()
        assert listed("r") == {"r": (key, 0, 64)}
        refused("Unable to find system shared memory region: 'x'", lambda: listed("x"))
        for words, name, key_given, size, offset in [
            ("shared memory region 'r' already in manager", "r", key, 64, 0),
            ("Unable to open shared memory region: '/nothing-here'", "s", "/nothing-here", 64, 0),
            ("Unable to open shared memory region: '/../../etc/passwd'", "s", "/../../etc/passwd", 64, 0),
            ("Unable to open shared memory region: '/.'", "s", "/.", 64, 0),
            ("failed to register shared memory region 's': invalid args", "s", key, 65, 0),
            ("failed to register shared memory region 's': invalid args", "s", key, 64, 1),
            ("failed to register shared memory region 's': invalid args", "s", key, 1, 2**64 - 1),
        ]:
            refused(words, lambda: client.register_system_shared_memory(name, key_given, size, offset=offset))
        # There are four at most.
        for name in "st":
            client.register_system_shared_memory(name, key, 64)
        refused("there are 4 shared memory regions already", lambda: client.register_system_shared_memory("u", key, 64))
        client.unregister_system_shared_memory("a b é")
        client.unregister_system_shared_memory("a b é")
        assert sorted(listed()) == ["r", "s", "t"]
        client.unregister_system_shared_memory()
        assert listed() == {}
    finally:
        shm.destroy_shared_memory_region(handle)
    found = client.get_cuda_shared_memory_status()
    assert found == [] or not found.regions
    refused("CUDA shared memory is not supported", lambda: client.register_cuda_shared_memory("c", b"AAAA", 0, 64))
    client.unregister_cuda_shared_memory()


def main(http, grpc, prefix):
    for module, address in [(tritonclient.http, http), (tritonclient.grpc, grpc)]:
        with module.InferenceServerClient(address) as client:
            metadata = client.get_server_metadata()
            extensions = metadata["extensions"] if isinstance(metadata, dict) else metadata.extensions
            assert "system_shared_memory" in extensions, extensions
            regions(module, client, prefix)
            inference(module, client, prefix)
            bytes_and_limits(module, client, prefix)


main(*sys.argv[1:])
