"""BentoML, as its guide has it: a service with one API.

Started by `peers.py`: `bentoml serve bentoml_server:Iris --port PORT`.
"""

import bentoml
import iris


@bentoml.service(workers=2)
class Iris:
    """One endpoint."""

    def __init__(self):
        self.model = iris.session()

    @bentoml.api(route="/iris")
    def predict(
        self, sepal_length: float, sepal_width: float, petal_length: float, petal_width: float
    ) -> dict:
        """All of the handler."""
        flower = {
            "sepal_length": sepal_length,
            "sepal_width": sepal_width,
            "petal_length": petal_length,
            "petal_width": petal_width,
        }
        return iris.answer(self.model, flower)
