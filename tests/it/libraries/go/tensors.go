// Computes what the body says.
package main

import (
	"encoding/json"

	"modelhost.example/guest"
	"modelhost.example/guest/tensor"
)

func init() {
	guest.PreInference(compute)
	guest.PostInference(func(guest.Tensors, *guest.Context) (*guest.Response, error) { return nil, nil })
}

func main() {}

func of[T guest.Element](shape []int, values json.RawMessage) (guest.Tensor, error) {
	var read []T
	err := json.Unmarshal(values, &read)
	return guest.NewTensor(read, shape...), err
}

// bytes are read one by one: encoding/json takes a list of them for base64.
func bytes(shape []int, values json.RawMessage) (guest.Tensor, error) {
	var read []int16
	err := json.Unmarshal(values, &read)
	made := make([]uint8, len(read))
	for at, value := range read {
		made[at] = uint8(value)
	}
	return guest.NewTensor(made, shape...), err
}

func halves(shape []int, values json.RawMessage) (guest.Tensor, error) {
	var read []float32
	err := json.Unmarshal(values, &read)
	made := make([]guest.Float16, len(read))
	for at, value := range read {
		made[at] = guest.ToFloat16(value)
	}
	return guest.NewTensor(made, shape...), err
}

var readers = map[string]func([]int, json.RawMessage) (guest.Tensor, error){
	"BOOL": of[bool], "UINT8": bytes, "UINT16": of[uint16], "UINT32": of[uint32], "UINT64": of[uint64], "INT8": of[int8],
	"INT16": of[int16], "INT32": of[int32], "INT64": of[int64], "FP16": halves, "FP32": of[float32], "FP64": of[float64],
}

func compute(sample *guest.Sample, _ *guest.Context) ([]guest.Tensor, error) {
	var asked struct {
		Operation string
		Tensors   [][3]json.RawMessage
		Values    []float64
	}
	if err := sample.JSON(&asked); err != nil {
		return nil, err
	}
	var given []guest.Tensor
	for _, each := range asked.Tensors {
		var datatype string
		var shape []int
		if err := json.Unmarshal(each[0], &datatype); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(each[1], &shape); err != nil {
			return nil, err
		}
		read, err := readers[datatype](shape, each[2])
		if err != nil {
			return nil, err
		}
		given = append(given, read)
	}
	made, err := called(asked.Operation, given, asked.Values)
	if err != nil {
		return nil, err
	}
	answer := [][3]any{}
	for _, each := range made {
		shape := each.Shape
		if shape == nil {
			shape = []uint64{}
		}
		flat := each
		flat.Shape = []uint64{uint64(each.Len())}
		answer = append(answer, [3]any{each.Datatype.String(), shape, flat})
	}
	response, err := guest.JSON(answer)
	if err != nil {
		return nil, err
	}
	return nil, guest.Respond(response)
}

func called(operation string, given []guest.Tensor, values []float64) ([]guest.Tensor, error) {
	axis := 0
	if len(values) > 0 {
		axis = int(values[len(values)-1])
	}
	var made, places guest.Tensor
	var err error
	switch operation {
	case "argmax":
		made, err = tensor.Argmax(given[0], axis)
	case "top_k":
		made, places, err = tensor.TopK(given[0], int(values[0]), axis)
		return []guest.Tensor{made, places}, err
	case "softmax":
		made, err = tensor.Softmax(given[0], axis)
	case "normalise":
		made, err = tensor.Normalise(given[0], axis)
	case "mean_pool":
		made, err = tensor.MeanPool(given[0], given[1])
	case "concat":
		made, err = tensor.Concat(given, axis)
	case "gather":
		made, err = tensor.Gather(given[0], given[1], axis)
	case "suppress":
		limits := tensor.Suppression{
			MostOverlap: float32(values[0]), LeastScore: float32(values[1]), Most: uint32(values[2]),
		}
		if len(given) == 3 {
			limits.Classes = &given[2]
		}
		made, err = tensor.Suppress(given[0], given[1], limits)
	}
	return []guest.Tensor{made}, err
}
