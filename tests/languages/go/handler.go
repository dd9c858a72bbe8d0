// Does as the body says (`{"do": "file"}`), and makes each tensor anew, by the type of its elements.
package main

import (
	"encoding/json"
	"errors"
	"os"

	"modelhost.example/guest"
)

func init() {
	guest.Init(load)
	guest.PreInference(prepare)
	guest.PostInference(answer)
	guest.PreInferenceTensors(tensors)
	guest.PostInferenceTensors(tensors)
}

func main() {}

var settings struct {
	Label string `json:"label"`
}

func load(metadata json.RawMessage) error {
	return json.Unmarshal(metadata, &settings)
}

func prepare(sample *guest.Sample, _ *guest.Context) ([]guest.Tensor, error) {
	var order struct {
		Do string `json:"do"`
	}
	if err := sample.JSON(&order); err != nil {
		return nil, err
	}
	text := order.Do
	switch text {
	case "invalid":
		return nil, guest.Invalid("as asked")
	case "internal":
		return nil, errors.New("as asked")
	case "respond":
		return nil, guest.Respond(guest.Text("teapot").WithStatus(418))
	case "file":
		bytes, err := os.ReadFile("/mnt/project/greeting.json")
		if err != nil {
			return nil, err
		}
		var file struct {
			Greeting string `json:"greeting"`
		}
		if err := json.Unmarshal(bytes, &file); err != nil {
			return nil, err
		}
		text = file.Greeting
	}
	return []guest.Tensor{guest.NewStrings([]string{text}).Named("text")}, nil
}

func answer(outputs guest.Tensors, _ *guest.Context) (*guest.Response, error) {
	output, err := outputs.Named("text")
	if err != nil {
		return nil, err
	}
	texts, err := output.Strings()
	if err != nil {
		return nil, err
	}
	return guest.JSON(map[string]string{"answer": texts[0], "label": settings.Label})
}

func of[T guest.Element](it guest.Tensor) (guest.Tensor, error) {
	values, err := guest.Values[T](it)
	if err != nil {
		return it, err
	}
	return like(it, guest.NewTensor(values)), nil
}

// like is a tensor with the name and the shape of another; NewTensor makes no scalar.
func like(it, made guest.Tensor) guest.Tensor {
	made.Name, made.Shape = it.Name, it.Shape
	return made
}

func again(it guest.Tensor) (guest.Tensor, error) {
	switch it.Datatype {
	case guest.Bool:
		return of[bool](it)
	case guest.Uint8:
		return of[uint8](it)
	case guest.Uint16:
		return of[uint16](it)
	case guest.Uint32:
		return of[uint32](it)
	case guest.Uint64:
		return of[uint64](it)
	case guest.Int8:
		return of[int8](it)
	case guest.Int16:
		return of[int16](it)
	case guest.Int32:
		return of[int32](it)
	case guest.Int64:
		return of[int64](it)
	case guest.FP16:
		return of[guest.Float16](it)
	case guest.BF16:
		return of[guest.BFloat16](it)
	case guest.FP32:
		return of[float32](it)
	case guest.FP64:
		return of[float64](it)
	}
	texts, err := it.Strings()
	if err != nil {
		return it, err
	}
	return like(it, guest.NewStrings(texts)), nil
}

func tensors(given guest.Tensors, _ *guest.Context) ([]guest.Tensor, error) {
	made := make([]guest.Tensor, len(given))
	for at, it := range given {
		var err error
		if made[at], err = again(it); err != nil {
			return nil, err
		}
	}
	return made, nil
}
