// Package tensor computes what a handler does with tensors most, by the library `tensor`: a component of its own, which
// `modelhost build` puts into the handler's, `[build]` with `with = ["tensor"]` in modelhost.toml.
//
// An axis is counted from 0, or back from -1, which is the last. Elements are of any datatype but BYTES; what is computed of
// FP16, BF16, FP32 and FP64 is FP32. An error says why tensors do not fit. In a test AnswerWith says what comes of them.
package tensor

import (
	"fmt"

	"modelhost.example/guest"
)

// Suppression says which boxes go.
type Suppression struct {
	// Classes of the boxes, INT64 [boxes]: a box goes only for one of its own. Nil: for any.
	Classes *guest.Tensor
	// A box goes that a better one overlaps by more than this (intersection over union).
	MostOverlap float32
	// A box of a lower score goes.
	LeastScore float32
	// Not more stay; 0 for any number.
	Most uint32
}

// Call is a call of a function of this package, as a test sees it.
type Call struct {
	// The function's name, such as "Argmax".
	Operation string
	// Its tensors, in order; the classes of a Suppression are in Suppression.
	Tensors     []guest.Tensor
	Count       uint32
	Axis        int32
	Suppression Suppression
}

// Argmax is the places of the largest values along an axis, the first of several: INT64, without this axis.
func Argmax(tensor guest.Tensor, axis int) (guest.Tensor, error) {
	return one(axis, Call{Operation: "Argmax", Tensors: []guest.Tensor{tensor}})
}

// TopK is the largest values along an axis, the largest first, and their places as INT64.
func TopK(tensor guest.Tensor, count, axis int) (values, places guest.Tensor, err error) {
	if count < 0 || uint64(count) > 1<<32-1 {
		return values, places, fmt.Errorf("the %d largest", count)
	}
	made, err := several(2, axis, Call{Operation: "TopK", Tensors: []guest.Tensor{tensor}, Count: uint32(count)})
	if err != nil {
		return values, places, err
	}
	return made[0], made[1], nil
}

// Softmax is values as shares of 1 along an axis.
func Softmax(tensor guest.Tensor, axis int) (guest.Tensor, error) {
	return one(axis, Call{Operation: "Softmax", Tensors: []guest.Tensor{tensor}})
}

// Normalise is values divided by their length (L2) along an axis; zeros stay zeros.
func Normalise(tensor guest.Tensor, axis int) (guest.Tensor, error) {
	return one(axis, Call{Operation: "Normalise", Tensors: []guest.Tensor{tensor}})
}

// MeanPool is [texts, length, values] to [texts, values]: the mean of those for which the mask, [texts, length], is not 0.
func MeanPool(tensor, mask guest.Tensor) (guest.Tensor, error) {
	return one(0, Call{Operation: "MeanPool", Tensors: []guest.Tensor{tensor, mask}})
}

// Concat is tensors of one datatype, one after the other along an axis.
func Concat(tensors []guest.Tensor, axis int) (guest.Tensor, error) {
	return one(axis, Call{Operation: "Concat", Tensors: tensors})
}

// Gather is the entries of an axis at places, INT64 or INT32, counted back from -1 where they are negative.
func Gather(tensor, places guest.Tensor, axis int) (guest.Tensor, error) {
	return one(axis, Call{Operation: "Gather", Tensors: []guest.Tensor{tensor, places}})
}

// Suppress is the places, INT64, of the boxes that stay, the best first (non-maximum suppression). Boxes are [boxes, 4]
// (left, top, right, bottom), scores [boxes].
func Suppress(boxes, scores guest.Tensor, suppression Suppression) (guest.Tensor, error) {
	return one(0, Call{Operation: "Suppress", Tensors: []guest.Tensor{boxes, scores}, Suppression: suppression})
}

var answer func(Call) ([]guest.Tensor, error)

// AnswerWith says, in a test, what comes of a call; nil ends that. In a component it does nothing.
func AnswerWith(function func(Call) ([]guest.Tensor, error)) { answer = function }

func one(axis int, call Call) (guest.Tensor, error) {
	made, err := several(1, axis, call)
	if err != nil {
		return guest.Tensor{}, err
	}
	return made[0], nil
}

func several(count, axis int, call Call) ([]guest.Tensor, error) {
	if call.Axis = int32(axis); int(call.Axis) != axis {
		return nil, fmt.Errorf("axis %d", axis)
	}
	given := call.Tensors
	if call.Suppression.Classes != nil {
		given = append(given[:len(given):len(given)], *call.Suppression.Classes)
	}
	for _, tensor := range given {
		if tensor.Datatype >= guest.Bytes {
			return nil, fmt.Errorf("a tensor of %s has no numbers", tensor.Datatype)
		}
	}
	made, err := compute(&call)
	if err == nil && len(made) != count {
		err = fmt.Errorf("tensor.%s is %d tensors, not %d", call.Operation, count, len(made))
	}
	return made, err
}
