// Unit tests, without a host: go test

package main

import (
	"strings"
	"testing"

	"modelhost.example/guest"
	"modelhost.example/guest/app"
	"modelhost.example/guest/models"
	"modelhost.example/guest/router"
)

// answer is what a client gets.
func answer(t *testing.T, path, body string) string {
	t.Helper()
	if err := load([]byte(`{"labels": ["a", "b"]}`)); err != nil {
		t.Fatal(err)
	}
	models.AnswerWith(func(string, guest.Tensors) (guest.Tensors, error) {
		return guest.Tensors{guest.NewTensor([]float32{0.25, 0.75}, 1, 2).Named("probabilities")}, nil
	})
	var got app.Recorder
	request := guest.Request{Path: path, Body: []byte(body), ContentType: "application/json"}
	if err := got.Record(router.Serve, request); err != nil {
		return err.Error()
	}
	return string(got.Body)
}

func TestOneFlowerIsNamed(t *testing.T) {
	if said := answer(t, "/classify", `{"measurements": [5.2, 3.6, 1.4, 0.3]}`); said != `{"label":"b","probability":0.75}` {
		t.Error(said)
	}
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	if said := answer(t, "/classify", `{}`); said != "expected 4 `measurements`, got 0" {
		t.Error(said)
	}
}

func TestSeveralAreNamedOneAfterAnother(t *testing.T) {
	said := answer(t, "/stream", `{"flowers": [[5.2, 3.6, 1.4, 0.3], [5.2, 3.6, 1.4, 0.3]]}`)
	if said != strings.Repeat("data: {\"label\":\"b\",\"probability\":0.75}\n\n", 2) {
		t.Error(said)
	}
}

func TestAJobIsAnsweredAtOnce(t *testing.T) {
	if said := answer(t, "/jobs", `{"flowers": []}`); said != `{"started":true}` {
		t.Error(said)
	}
}
