"""A model of Triton's Python backend; Triton brings `triton_python_backend_utils` and calls the class."""

import json

import iris
import numpy
import triton_python_backend_utils as triton


class TritonPythonModel:
    """One endpoint."""

    def initialize(self, args):
        """Once in every instance."""
        self.model = iris.session()

    def execute(self, requests):
        """A response for each request."""
        return [self.respond(request) for request in requests]

    def respond(self, request):
        """All of the handler."""
        sample = triton.get_input_tensor_by_name(request, "sample").as_numpy()[0]
        text = json.dumps(iris.answer(self.model, json.loads(sample)))
        tensor = triton.Tensor("answer", numpy.array([text.encode()], numpy.object_))
        return triton.InferenceResponse(output_tensors=[tensor])
