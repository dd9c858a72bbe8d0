package models

import (
	"errors"
	"testing"

	"modelhost.example/guest"
)

func TestWhatAModelAnswersIsWhatTheTestSays(t *testing.T) {
	if _, err := Infer(""); err == nil {
		t.Error("nothing was said of models")
	}
	AnswerWith(func(model string, inputs guest.Tensors) (guest.Tensors, error) {
		if model == "none" {
			return nil, errorOf(noSuchModel, model)
		}
		return inputs, nil
	}, "iris")
	if names := Names(); len(names) != 1 || names[0] != "iris" {
		t.Error(names)
	}
	outputs, err := Infer("iris", guest.NewTensor([]float32{1, 2}, 1, 2))
	if err != nil || len(outputs) != 1 {
		t.Fatal(outputs, err)
	}
	_, err = Infer("none")
	var failed *Error
	if !errors.As(err, &failed) || failed.Text != "the endpoint has no model `none`" {
		t.Error(err)
	}
	if !errors.Is(errorOf(timedOut, ""), ErrTimedOut) || errorOf(overloaded, "").Error() != "answered with status 503" {
		t.Error("errors without a text")
	}
}
