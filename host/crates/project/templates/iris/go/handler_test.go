// Unit tests, without a host: go test

package main

import (
	"reflect"
	"strings"
	"testing"

	"modelhost.example/guest"
)

const body = `{"sepal_length": 5.2, "sepal_width": 3.6, "petal_length": 1.4, "petal_width": 0.3}`

func TestAFlowerBecomesOneRow(t *testing.T) {
	tensors, err := prepare(&guest.Sample{Body: []byte(body)}, nil)
	expected := []guest.Tensor{guest.NewTensor([]float32{5.2, 3.6, 1.4, 0.3}, 1, 4)}
	if err != nil || !reflect.DeepEqual(tensors, expected) {
		t.Fatal(tensors, err)
	}
}

func TestAMeasurementThatIsMissingIsNamed(t *testing.T) {
	_, err := prepare(&guest.Sample{Body: []byte(strings.Replace(body, "petal_width", "width", 1))}, nil)
	if err == nil || err.Error() != "missing field `petal_width`" {
		t.Fatal(err)
	}
}

func TestTheLargestProbabilityNamesTheFlower(t *testing.T) {
	if err := load([]byte(`{"labels": ["a", "b"]}`)); err != nil {
		t.Fatal(err)
	}
	outputs := guest.Tensors{guest.NewTensor([]float32{0.25, 0.75}, 1, 2).Named("probabilities")}
	response, err := answer(outputs, nil)
	if err != nil || string(response.Body) != `{"class_label":"b","class_index":1,"probabilities":[0.25,0.75]}` {
		t.Fatal(response, err)
	}
}
