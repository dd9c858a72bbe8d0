//go:build !wasip1

package tensor

import (
	"errors"

	"modelhost.example/guest"
)

func compute(call *Call) ([]guest.Tensor, error) {
	if answer == nil {
		return nil, errors.New("the test does not say what comes of tensors: tensor.AnswerWith")
	}
	return answer(*call)
}
