"""Write handlers for modelhost in Python: what happens to a request before the model and to the prediction after it, or all of it.

The same module runs in the component and in a unit test, where there is no host.
"""

from . import blobs, image, jobs, kv, metrics, models, outbound, sockets, tensor, tokenizer, typed
from ._tensor import Tensor, Tensors
from .app import App
from .context import Context, Signature, TensorSpec
from .errors import BlobError, InvalidInput, JobError, KvError
from .handler import (
    Input,
    init,
    input_schema,
    post_inference,
    post_inference_tensors,
    pre_inference,
    pre_inference_tensors,
)
from .image import ImageError
from .messages import Answer, Event, Response, Sample
from .models import ModelError
from .outbound import OutboundError
from .porting import NotPorted, unported
from .request import Request
from .sockets import Socket, websocket
from .tokenizer import TokenizerError
from .truss import truss

__all__ = [
    "Answer",
    "App",
    "BlobError",
    "Context",
    "Event",
    "ImageError",
    "Input",
    "InvalidInput",
    "JobError",
    "KvError",
    "ModelError",
    "NotPorted",
    "OutboundError",
    "Request",
    "Response",
    "Sample",
    "Signature",
    "Socket",
    "Tensor",
    "TensorSpec",
    "Tensors",
    "TokenizerError",
    "blobs",
    "image",
    "init",
    "input_schema",
    "jobs",
    "kv",
    "metrics",
    "models",
    "outbound",
    "post_inference",
    "post_inference_tensors",
    "pre_inference",
    "pre_inference_tensors",
    "sockets",
    "tensor",
    "tokenizer",
    "truss",
    "typed",
    "unported",
    "websocket",
]
