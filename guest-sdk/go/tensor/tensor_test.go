package tensor

import (
	"errors"
	"testing"

	"modelhost.example/guest"
)

func TestWhatComesOfTensorsIsWhatTheTestSays(t *testing.T) {
	defer AnswerWith(nil)
	given := guest.NewTensor([]float32{1, 2, 3, 4}, 2, 2)
	if _, err := Argmax(given, -1); err == nil {
		t.Error("nothing was said")
	}
	AnswerWith(func(call Call) ([]guest.Tensor, error) {
		switch call.Operation {
		case "TopK":
			return []guest.Tensor{call.Tensors[0], guest.NewTensor([]int64{int64(call.Count), int64(call.Axis)})}, nil
		case "Suppress":
			return []guest.Tensor{*call.Suppression.Classes}, nil
		case "Softmax":
			return nil, errors.New("as said")
		}
		return call.Tensors[:1], nil
	})
	if _, places, err := TopK(given, 2, -1); err != nil || places.Len() != 2 {
		t.Error(places, err)
	}
	classes := guest.NewTensor([]int64{1, 2})
	if kept, err := Suppress(given, given, Suppression{Classes: &classes}); err != nil || kept.Datatype != guest.Int64 {
		t.Error(kept, err)
	}
	if _, err := Softmax(given, 0); err == nil || err.Error() != "as said" {
		t.Error(err)
	}
	for _, wrong := range []error{
		last(Concat([]guest.Tensor{guest.NewStrings([]string{"a"})}, 0)), last(Argmax(given, 1<<31-1+1<<31)),
		last(Suppress(given, given, Suppression{Classes: &guest.Tensor{Datatype: guest.Bytes}})),
	} {
		if wrong == nil {
			t.Error("no error")
		}
	}
}

func last(_ guest.Tensor, err error) error { return err }
