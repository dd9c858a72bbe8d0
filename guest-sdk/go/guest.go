// Package guest is what handlers for modelhost are written with in Go.
//
// A handler is a package main that registers its functions and does nothing else:
//
//	func init() {
//		guest.PreInference(prepare)
//		guest.PostInference(answer)
//	}
//
//	func main() {}
//
// `modelhost build` makes a component of it, which exports what is registered. Registering is all that a program
// does when it starts: work that is to be done once belongs into the function of [Init].
package guest

import "encoding/json"

// An Input is one input that the handler takes.
type Input struct {
	Name     string
	Datatype Datatype
	// [1] is a scalar, in JSON the bare value; -1 is any extent.
	Shape []int64
	// Whether a request without it is served.
	Optional bool
	// A value: documentation, and tried out when the handler is loaded. Needed unless the input is optional.
	Example any
	// For people.
	Description string
}

var (
	onInit                 func(json.RawMessage) error
	onPreInference         func(*Sample, *Context) ([]Tensor, error)
	onPostInference        func(Tensors, *Context) (*Response, error)
	onPreInferenceTensors  func(Tensors, *Context) ([]Tensor, error)
	onPostInferenceTensors func(Tensors, *Context) ([]Tensor, error)
	inputs                 []Input
)

// Init registers what runs once, when the handler is loaded, with the endpoint's metadata as JSON; `null` if there is
// none. An error refuses the handler. What it leaves in memory is what every instance begins with.
//
//go:noinline
func Init(function func(metadata json.RawMessage) error) { onInit = function }

// PreInference registers the function from a request's body to the model's inputs.
//
//go:noinline
func PreInference(function func(sample *Sample, context *Context) ([]Tensor, error)) {
	onPreInference = function
}

// PostInference registers the function from the model's outputs to the response.
//
//go:noinline
func PostInference(function func(outputs Tensors, context *Context) (*Response, error)) {
	onPostInference = function
}

// PreInferenceTensors registers the function from a request's tensors (Open Inference Protocol) to the model's inputs.
//
//go:noinline
func PreInferenceTensors(function func(inputs Tensors, context *Context) ([]Tensor, error)) {
	onPreInferenceTensors = function
}

// PostInferenceTensors registers the function from the model's outputs to the tensors of the response.
//
//go:noinline
func PostInferenceTensors(function func(outputs Tensors, context *Context) ([]Tensor, error)) {
	onPostInferenceTensors = function
}

// InputSchema registers what the handler takes. The endpoint's configuration may say the same, and wins.
//
//go:noinline
func InputSchema(declared ...Input) { inputs = declared }
