"""Names irises, any number of them in a request of tensors.

In:  `measurements`, FP32 `[flowers, 4]`: in centimetres, or in millimetres if the request's parameter `unit` is `mm`.
Out: `label`, BYTES `[flowers]`, and `probability`, FP32 `[flowers]`.
"""

from array import array

from modelhost_guest import Input, InvalidInput, Tensor, init, input_schema, post_inference_tensors, pre_inference_tensors

UNITS = {"cm": 1.0, "mm": 0.1}

labels = []

# By this a JSON body becomes tensors too.
input_schema(Input("measurements", "FP32", [-1, 4], example=[[5.2, 3.6, 1.4, 0.3]], description="a row for each flower"))


@init
def load(metadata):
    """Runs once, when the handler is loaded. `metadata` is the endpoint's in modelhost.toml."""
    labels[:] = metadata["labels"]


@pre_inference_tensors
def prepare(inputs, context):
    """From the caller's tensors to the model's."""
    measurements = inputs["measurements"]
    unit = context.parameters.get("unit", "cm")
    if unit not in UNITS:
        raise InvalidInput(f"parameter `unit`: expected one of {', '.join(UNITS)}")
    centimetres = array("f", (value * UNITS[unit] for value in measurements.values))
    return Tensor(centimetres, shape=measurements.shape)


@post_inference_tensors
def answer(outputs):
    """From the model's tensors to the caller's."""
    best = [row.top_k(1)[0] for row in outputs["probabilities"]]
    return {
        "label": Tensor([labels[index] for index, _ in best], "BYTES"),
        "probability": Tensor([value for _, value in best], "FP32"),
    }
