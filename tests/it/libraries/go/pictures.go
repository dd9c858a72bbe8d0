// Pictures to bytes, as a header says.
package main

import (
	"encoding/json"

	"modelhost.example/guest"
	"modelhost.example/guest/image"
)

func init() {
	guest.PreInference(prepare)
	guest.PostInference(answer)
}

func main() {}

var (
	fits    = map[string]image.Fit{"cover": image.Cover, "contain": image.Contain}
	filters = map[string]image.Filter{
		"nearest": image.Nearest, "box": image.Box, "bicubic": image.Bicubic, "lanczos": image.Lanczos,
	}
	colours   = map[string]image.Colours{"grey": image.Grey}
	layouts   = map[string]image.Layout{"pixels": image.Pixels}
	datatypes = map[string]guest.Datatype{"UINT8": guest.Uint8}
)

func prepare(sample *guest.Sample, context *guest.Context) ([]guest.Tensor, error) {
	var said struct {
		Size                                   []int
		Fit, Filter, Colours, Layout, Datatype string
		Mean                                   []float32
	}
	header, _ := context.Header("x-preparation")
	if err := json.Unmarshal([]byte(header), &said); err != nil {
		return nil, err
	}
	preparation := image.Preparation{
		Fit: fits[said.Fit], Filter: filters[said.Filter], Colours: colours[said.Colours], Layout: layouts[said.Layout],
		Datatype: datatypes[said.Datatype], Mean: said.Mean,
	}
	if len(said.Size) == 2 {
		preparation.Width, preparation.Height = said.Size[0], said.Size[1]
	}
	if _, err := image.Inspect(sample.Body); err != nil {
		return nil, err
	}
	picture, err := image.Prepare(sample.Body, preparation)
	if err != nil {
		return nil, err
	}
	return []guest.Tensor{picture.Tensor}, nil
}

func answer(outputs guest.Tensors, _ *guest.Context) (*guest.Response, error) {
	shape, err := json.Marshal(outputs[0].Shape)
	return &guest.Response{Header: map[string]string{"x-shape": string(shape)}, Body: outputs[0].Data}, err
}
