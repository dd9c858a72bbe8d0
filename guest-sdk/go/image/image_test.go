package image

import (
	"errors"
	"slices"
	"testing"

	"modelhost.example/guest"
)

func TestAPictureIsWhatTheTestSays(t *testing.T) {
	defer AnswerWith(nil)
	if _, err := Prepare([]byte("file"), Preparation{}); err == nil {
		t.Error("nothing was said")
	}
	AnswerWith(func(file []byte, preparation Preparation) (*Picture, error) {
		if string(file) == "broken" {
			return nil, &Error{Invalid, "broken"}
		}
		if preparation.Scale != 1.0/255 || preparation.Datatype != guest.FP32 {
			t.Error("what is not said", preparation)
		}
		return &Picture{Tensor: guest.NewTensor([]float32{1, 2, 3}, 1, 3, 1, 1), Width: 3, Height: 2}, nil
	})
	picture, err := Prepare([]byte("file"), Preparation{Width: 1, Height: 1})
	if err != nil || picture.Width != 3 || !slices.Equal(picture.Tensor.Shape, []uint64{1, 3, 1, 1}) {
		t.Error(picture, err)
	}
	// A file is the caller's.
	var invalid *guest.InvalidInput
	if _, err := Prepare([]byte("broken"), Preparation{}); !errors.As(err, &invalid) || invalid.Text != "broken" {
		t.Error(err)
	}
}

func TestWhatIsSaidWronglyIsTheHandlers(t *testing.T) {
	for _, wrong := range []Preparation{
		{Fit: 3}, {Filter: 9}, {Datatype: guest.FP64}, {Layout: 2}, {Width: 4}, {Width: -1, Height: -1}, {MostPixels: -1},
	} {
		_, err := Prepare(nil, wrong)
		var of *Error
		var invalid *guest.InvalidInput
		if !errors.As(err, &of) || of.Kind != Unusable || errors.As(err, &invalid) {
			t.Error(wrong, err)
		}
	}
}
