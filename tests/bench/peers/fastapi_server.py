"""FastAPI on uvicorn, as its guide for a machine learning model has it: the model is loaded before the first request.

Started by `peers.py`: `uvicorn fastapi_server:app --workers 2`.
"""

import contextlib

import fastapi
import iris
import pydantic

models = {}


class Flower(pydantic.BaseModel):
    """The request."""

    sepal_length: float
    sepal_width: float
    petal_length: float
    petal_width: float


@contextlib.asynccontextmanager
async def lifespan(_: fastapi.FastAPI):
    """Loads the model."""
    models["iris"] = iris.session()
    yield


app = fastapi.FastAPI(lifespan=lifespan)


@app.post("/iris")
async def predict(flower: Flower):
    """On the event loop: the model takes microseconds, a thread would cost more."""
    return iris.answer(models["iris"], flower.model_dump())
