"""Calls every method of tritonclient's two clients once, against a served model, and says which end in an error.

Place in the flow: `tests/it/oip_clients.rs` runs `triton_methods.py HTTP_HOST:PORT GRPC_HOST:PORT`.
In: a host with `iris` (`iris_dyn`) and `--model-control`, without shared memory. Out: a line for each method that was refused,
`http METHOD: message`; exit status 0 if every method of the clients was tried.
"""

import inspect
import queue
import sys

import numpy as np
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException

FLOWERS = np.array([[5.2, 3.6, 1.4, 0.3]], np.float32)


def calls(module, client):
    """Every method, by its name, with arguments as its users give them."""

    def given():
        tensor = module.InferInput("input", [1, 4], "FP32")
        tensor.set_data_from_numpy(FLOWERS)
        return [tensor]

    wanted = [module.InferRequestedOutput("probabilities", class_count=2)]
    options = dict(outputs=wanted, request_id="7", priority=1, timeout=1_000_000, parameters={"own": "x"})

    def infer():
        result = client.infer("iris", given(), model_version="1", **options)
        response = result.get_response()
        assert (response["id"] if isinstance(response, dict) else response.id) == "7", response
        assert result.as_numpy("probabilities").tolist()[0].startswith(b"0.98"), result.as_numpy("probabilities")

    def async_infer():
        if module is tritonclient.http:
            client.async_infer("iris", given(), **options).get_result()
        else:
            answers = queue.Queue()
            client.async_infer("iris", given(), callback=lambda result, error: answers.put((result, error)), **options)
            assert answers.get(timeout=60)[1] is None

    def stream():
        answers = queue.Queue()
        client.start_stream(callback=lambda result, error: answers.put((result, error)))
        client.async_stream_infer("iris", given(), enable_empty_final_response=True, **options)
        assert answers.get(timeout=60)[1] is None
        client.stop_stream()

    named = lambda name, *arguments, **more: lambda: getattr(client, name)(*arguments, **more)
    return {
        "is_server_live": named("is_server_live"),
        "is_server_ready": named("is_server_ready"),
        "is_model_ready": named("is_model_ready", "iris", "1"),
        "get_server_metadata": named("get_server_metadata"),
        "get_model_metadata": named("get_model_metadata", "iris"),
        "get_model_config": named("get_model_config", "iris"),
        "get_model_repository_index": named("get_model_repository_index"),
        "load_model": named("load_model", "iris"),
        "unload_model": named("unload_model", "other", unload_dependents=True),
        "get_inference_statistics": lambda: (client.get_inference_statistics(), client.get_inference_statistics("iris")),
        "update_trace_settings": named("update_trace_settings", "iris", {"trace_level": ["TIMESTAMPS"]}),
        "get_trace_settings": lambda: (client.get_trace_settings(), client.get_trace_settings("iris")),
        "update_log_settings": named("update_log_settings", {"log_verbose_level": 1}),
        "get_log_settings": named("get_log_settings"),
        "get_system_shared_memory_status": named("get_system_shared_memory_status"),
        "register_system_shared_memory": named("register_system_shared_memory", "r", "/nothing-here", 4),
        "unregister_system_shared_memory": named("unregister_system_shared_memory"),
        "get_cuda_shared_memory_status": named("get_cuda_shared_memory_status"),
        "register_cuda_shared_memory": named("register_cuda_shared_memory", "c", b"AAAA", 0, 4),
        "unregister_cuda_shared_memory": named("unregister_cuda_shared_memory"),
        "infer": infer,
        "async_infer": async_infer,
        "async_stream_infer": stream,
    }


# Of the client alone, or called with another method.
LOCAL = {"close", "generate_request_body", "parse_response_body", "start_stream", "stop_stream", "register_plugin",
         "unregister_plugin", "plugin"}


def main(http, grpc):
    for kind, module, address in [("http", tritonclient.http, http), ("grpc", tritonclient.grpc, grpc)]:
        with module.InferenceServerClient(address) as client:
            known = calls(module, client)
            methods = {name for name, _ in inspect.getmembers(client, inspect.ismethod) if not name.startswith("_")}
            assert methods - LOCAL <= set(known), methods - LOCAL - set(known)
            for name in [name for name in known if name in methods]:
                try:
                    known[name]()
                except InferenceServerException as error:
                    print(f"{kind} {name}: {error.message()}")


main(*sys.argv[1:])
