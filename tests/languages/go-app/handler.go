// An application with a stream: each number is an event, sent while the next one is made.
package main

import (
	"encoding/json"
	"errors"

	"modelhost.example/guest"
	"modelhost.example/guest/app"
	"modelhost.example/guest/models"
)

func init() {
	guest.Init(load)
	app.Serve(serve)
}

func main() {}

var settings struct {
	Label string `json:"label"`
}

func load(metadata json.RawMessage) error {
	return json.Unmarshal(metadata, &settings)
}

func serve(sample *guest.Sample, context *guest.Context, output *app.Output) (*guest.Response, error) {
	switch context.Method() + " " + context.Path() {
	case "GET /label":
		return guest.JSON(settings)
	case "POST /stream", "POST /breaks":
		var order struct{ To int }
		if err := sample.JSON(&order); err != nil {
			return nil, err
		}
		for number := range order.To {
			if err := output.Event(map[string]int{"number": number}); err != nil {
				return nil, err
			}
		}
		if context.Path() == "/breaks" {
			return nil, errors.New("as asked")
		}
		return nil, nil
	case "POST /scores":
		var order struct{ Model string }
		if err := sample.JSON(&order); err != nil {
			return nil, err
		}
		outputs, err := models.Infer(order.Model, guest.NewTensor([]float32{5.2, 3.6, 1.4, 0.3}, 1, 4))
		if err != nil {
			return nil, err
		}
		last, err := outputs.Last()
		if err != nil {
			return nil, err
		}
		scores, err := guest.Values[float32](last)
		if err != nil {
			return nil, err
		}
		return guest.JSON(map[string]any{"scores": scores})
	case "POST /works":
		if err := output.Send(guest.Text("started").WithStatus(202)); err != nil {
			return nil, err
		}
		println("worked")
		return nil, nil
	}
	return nil, guest.Respond(guest.Text("no such path").WithStatus(404))
}
