"""Names irises: one, or several while the caller watches, or several while the caller does not wait.

- `GET /` says what there is;
- `POST /classify` takes `{"measurements": [5.2, 3.6, 1.4, 0.3]}`, in centimetres;
- `POST /stream` takes `{"flowers": [[…], …]}` and sends an event for each;
- `POST /jobs` takes the same, answers at once, and works after that.
"""

from modelhost_guest import App, InvalidInput, Tensor, models

app = App()


@app.init
def load(metadata):
    """Runs once, when the handler is loaded. What it returns is the context of every request."""
    return {"labels": metadata["labels"]}


@app.get("/")
def describe(context, request):
    return {"labels": context["labels"], "model": models.names()[0]}


@app.handler("/classify")
def classify(context, request):
    return name(context, request.json["measurements"])


@app.handler("/stream")
def stream(context, request):
    """A generator is a stream: each piece is sent while the next one is made."""
    for measurements in flowers(request):
        yield name(context, measurements)


@app.background("/jobs")
def job(context, request):
    """Runs after the answer; what it prints is in the log, with the request's id."""
    for measurements in flowers(request):
        print(name(context, measurements)["label"])


def flowers(request):
    """The measurements of several. What a caller can correct is `InvalidInput`, which is answered with 400."""
    found = request.json["flowers"]
    if not isinstance(found, list):
        raise InvalidInput("`flowers` is a list of measurements")
    return found


def name(context, measurements):
    """Asks the model."""
    is_good = isinstance(measurements, list) and all(isinstance(it, (int, float)) for it in measurements)
    if not is_good or len(measurements) != 4:
        raise InvalidInput("`measurements` are 4 numbers")
    [(best, probability)] = models.infer(Tensor([measurements], "FP32"))["probabilities"].top_k(1)
    return {"label": context["labels"][best], "probability": probability}
