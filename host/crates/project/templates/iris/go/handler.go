// Names an iris from four measurements.
//
// In:  `{"sepal_length": 5.2, "sepal_width": 3.6, "petal_length": 1.4, "petal_width": 0.3}`, in centimetres.
// Out: `{"class_label": "setosa", "class_index": 0, "probabilities": [0.98, 0.02, 0.0]}`.
//
// The model takes `[rows, 4]` floats; its output `probabilities` holds one for each class.
package main

import (
	"encoding/json"

	"modelhost.example/guest"
)

func init() {
	guest.Init(load)
	guest.PreInference(prepare)
	guest.PostInference(answer)
}

func main() {}

var settings struct {
	Labels []string `json:"labels"`
}

// load runs once, when the handler is loaded. `metadata` is the endpoint's in modelhost.toml.
func load(metadata json.RawMessage) error {
	return json.Unmarshal(metadata, &settings)
}

// prepare is from the request to the model's input.
func prepare(sample *guest.Sample, _ *guest.Context) ([]guest.Tensor, error) {
	flower, err := sample.Numbers("sepal_length", "sepal_width", "petal_length", "petal_width")
	if err != nil {
		return nil, err
	}
	return []guest.Tensor{guest.NewTensor(flower, 1, len(flower))}, nil
}

type flower struct {
	ClassLabel    string    `json:"class_label"`
	ClassIndex    int       `json:"class_index"`
	Probabilities []float32 `json:"probabilities"`
}

// answer is from the model's outputs to the response.
func answer(outputs guest.Tensors, _ *guest.Context) (*guest.Response, error) {
	output, err := outputs.Named("probabilities")
	if err != nil {
		return nil, err
	}
	probabilities, err := guest.Row[float32](output, 0)
	if err != nil {
		return nil, err
	}
	best := guest.Argmax(probabilities)
	return guest.JSON(flower{settings.Labels[best], best, probabilities})
}
