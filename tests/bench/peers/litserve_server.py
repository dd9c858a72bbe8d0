"""LitServe, as its README has it: a class with `setup`, `decode_request`, `predict`, `encode_response`.

Started by `peers.py`: `litserve_server.py PORT`.
"""

import sys

import iris
import litserve


class Iris(litserve.LitAPI):
    """One endpoint."""

    def setup(self, device):
        """Once in every worker."""
        self.model = iris.session()

    def decode_request(self, request):
        """The body is parsed already."""
        return request

    def predict(self, flower):
        """All of the handler."""
        return iris.answer(self.model, flower)

    def encode_response(self, output):
        """It is JSON already."""
        return output


if __name__ == "__main__":
    server = litserve.LitServer(Iris(api_path="/iris"), accelerator="cpu", workers_per_device=2)
    server.run(host="127.0.0.1", port=int(sys.argv[1]), generate_client_file=False, log_level="warning")
