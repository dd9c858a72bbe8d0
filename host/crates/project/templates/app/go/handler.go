// Names irises: one, or several while the caller watches, or several while the caller does not wait.
//
//   - `GET /` says what there is;
//   - `POST /classify` takes `{"measurements": [5.2, 3.6, 1.4, 0.3]}`, in centimetres;
//   - `POST /stream` takes `{"flowers": [[…], …]}` and sends an event for each;
//   - `POST /jobs` takes the same, answers at once, and works after that.
package main

import (
	"encoding/json"
	"fmt"

	"modelhost.example/guest"
	"modelhost.example/guest/app"
	"modelhost.example/guest/models"
	"modelhost.example/guest/router"
)

func init() {
	guest.Init(load)
	router.Handle("GET /{$}", describe)
	router.Handle("POST /classify", classify)
	router.Handle("POST /stream", stream).Describe(router.Operation{Produces: "text/event-stream"})
	router.Handle("POST /jobs", job)
}

func main() {}

var settings struct {
	Labels []string `json:"labels"`
}

// load runs once, when the handler is loaded. `metadata` is the endpoint's in modelhost.toml.
func load(metadata json.RawMessage) error {
	return json.Unmarshal(metadata, &settings)
}

func describe(*guest.Sample, *guest.Context, *app.Output) (*guest.Response, error) {
	return guest.JSON(map[string]any{"labels": settings.Labels, "model": models.Names()[0]})
}

func classify(sample *guest.Sample, _ *guest.Context, _ *app.Output) (*guest.Response, error) {
	var flower struct {
		Measurements []float32 `json:"measurements"`
	}
	if err := sample.JSON(&flower); err != nil {
		return nil, err
	}
	found, err := name(flower.Measurements)
	if err != nil {
		return nil, err
	}
	return guest.JSON(found)
}

type flowers struct {
	Flowers [][]float32 `json:"flowers"`
}

// stream sends each event while the next one is made.
func stream(sample *guest.Sample, _ *guest.Context, output *app.Output) (*guest.Response, error) {
	var given flowers
	if err := sample.JSON(&given); err != nil {
		return nil, err
	}
	for _, measurements := range given.Flowers {
		found, err := name(measurements)
		if err != nil {
			return nil, err
		}
		if err := output.Event(found); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// job answers, then works; what it prints is in the log, with the request's id.
func job(sample *guest.Sample, _ *guest.Context, output *app.Output) (*guest.Response, error) {
	var given flowers
	if err := sample.JSON(&given); err != nil {
		return nil, err
	}
	started, err := guest.JSON(map[string]bool{"started": true})
	if err != nil {
		return nil, err
	}
	if err := output.Send(started); err != nil {
		return nil, err
	}
	for _, measurements := range given.Flowers {
		found, err := name(measurements)
		if err != nil {
			return nil, err
		}
		fmt.Println(found.Label)
	}
	return nil, nil
}

type named struct {
	Label       string  `json:"label"`
	Probability float32 `json:"probability"`
}

// name asks the model.
func name(measurements []float32) (named, error) {
	if len(measurements) != 4 {
		return named{}, guest.Invalid("expected 4 `measurements`, got %d", len(measurements))
	}
	outputs, err := models.Infer("", guest.NewTensor(measurements, 1, 4))
	if err != nil {
		return named{}, err
	}
	output, err := outputs.Named("probabilities")
	if err != nil {
		return named{}, err
	}
	probabilities, err := guest.Row[float32](output, 0)
	if err != nil {
		return named{}, err
	}
	best := guest.Argmax(probabilities)
	return named{settings.Labels[best], probabilities[best]}, nil
}
