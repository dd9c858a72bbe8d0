// Package models calls the endpoint's models: none, one or many times for a request. What applications are
// for, and what a handler's other functions may do as well.
package models

import (
	"errors"
	"fmt"

	"modelhost.example/guest"
)

// ErrTimedOut says that a model has not answered in the request's time.
var ErrTimedOut = errors.New("the model has not answered in the request's time")

// An Error of a model: the inputs do not fit it, it failed, or a limit of the endpoint's is reached. As what
// a function returns it is 500, and its text goes to the log.
type Error struct{ Text string }

func (e *Error) Error() string { return e.Text }

// Infer runs a model of the endpoint, by its name in the configuration; the empty name is the first one. The
// outputs are in the model's order. Without a place in the model's queue the error answers with 503, if it is
// returned.
func Infer(model string, inputs ...guest.Tensor) (guest.Tensors, error) { return infer(model, inputs) }

// Names returns the names of the endpoint's models, in the configuration's order. The first one is what the
// empty name means.
func Names() []string { return names() }

// kinds of errors, in the order of the contract.
const (
	noSuchModel = iota
	invalidInput
	overloaded
	timedOut
	failed
	limit
)

func errorOf(kind uint32, text string) error {
	switch kind {
	case noSuchModel:
		return &Error{fmt.Sprintf("the endpoint has no model `%s`", text)}
	case overloaded:
		return guest.Respond(guest.Text("overloaded").WithStatus(503))
	case timedOut:
		return ErrTimedOut
	}
	return &Error{text}
}
