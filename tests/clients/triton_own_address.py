"""Registers shared memory over an address of this machine that is no loopback one: that of a client elsewhere, to the host.

Place in the flow: `tests/it/shared_memory.rs` runs `triton_own_address.py HTTP_HOST:PORT GRPC_HOST:PORT`.
In: a host with `--shared-memory` on that address. Out: exit status 0, or the assertion that failed.
"""

import sys

import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException

for module, address in zip((tritonclient.http, tritonclient.grpc), sys.argv[1:], strict=True):
    client = module.InferenceServerClient(address)
    try:
        client.register_system_shared_memory("r", "/anything", 1)
    except InferenceServerException as error:
        assert "only by clients of the server's own machine" in error.message(), error.message()
    else:
        raise AssertionError(f"{module.__name__}: registered")
    client.unregister_system_shared_memory()
