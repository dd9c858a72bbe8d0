package guest

// The contract's functions as the component model has them in a module: what the component exports, and what it
// imports. How values lie in memory, and for how long, is internal/abi's. A result is a row of 32-bit words.

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"modelhost.example/guest/internal/abi"
	"modelhost.example/guest/internal/bridge"
)

type word = abi.Word

const (
	tensorWords   = 7
	responseWords = 7
	specWords     = 5
	inputWords    = 11
)

// The result of the call, and of an import.
var area, imported [10]word

// tensorsAt reads a list of tensors.
func tensorsAt(start unsafe.Pointer, length word) Tensors {
	words := abi.WordsAt(start, length*tensorWords)
	tensors := make(Tensors, length)
	for at := range tensors {
		w := words[at*tensorWords : (at+1)*tensorWords]
		var shape []uint64
		if w[4] > 0 {
			shape = unsafe.Slice((*uint64)(abi.Pointer(w[3])), w[4])
		}
		tensors[at] = Tensor{
			Name: abi.StringAt(abi.Pointer(w[0]), w[1]), Datatype: Datatype(w[2]), Shape: shape, Data: abi.BytesAt(abi.Pointer(w[5]), w[6]),
		}
	}
	return tensors
}

// lowered makes a list of tensors.
func lowered(tensors []Tensor) (word, word) {
	words := make([]word, 0, len(tensors)*tensorWords)
	for _, tensor := range tensors {
		name, length := abi.Text(tensor.Name)
		words = append(words, name, length, word(tensor.Datatype), abi.Address(tensor.Shape), word(len(tensor.Shape)),
			abi.Address(tensor.Data), word(len(tensor.Data)))
	}
	return abi.Address(words), word(len(tensors))
}

func lowerResponse(to []word, response *Response) {
	status := response.Status
	if status == 0 {
		status = 200
	}
	to[0] = word(status)
	to[1], to[2] = readable(response.ContentType)
	all := response.Headers()
	headers := make([]word, 0, 4*len(all))
	for _, header := range all {
		for _, text := range header {
			start, length := readable(text)
			headers = append(headers, start, length)
		}
	}
	to[3], to[4] = abi.Address(headers), word(len(all))
	to[5], to[6] = abi.Address(response.Body), word(len(response.Body))
}

func lowerError(to []word, err error) {
	kind, said, response := kindOf(err)
	to[0] = kind
	if response != nil {
		lowerResponse(to[1:], response)
		return
	}
	to[1], to[2] = readable(said)
}

// readable is a text that may have a part of the request in it: the host takes none but UTF-8.
func readable(text string) (word, word) { return abi.Text(strings.ToValidUTF8(text, "?")) }

// failed is the result of a call that returned an error.
func failed(err error) unsafe.Pointer {
	area[0] = 1
	lowerError(area[1:], err)
	return result()
}

func result() unsafe.Pointer { return unsafe.Pointer(&area) }

// guarded calls a function of the handler; a panic is an error.
func guarded[T any](handle word, call func(*Context) (T, error)) (value T, err error) {
	collect()
	defer ended(&err, handle)
	context := &Context{source: &host{handle}}
	value, err = call(context)
	return value, answered(err, context)
}

// ended gives back what the host lent to a call, as a deferred function; a panic of the call is its error.
func ended(err *error, contexts ...word) {
	for _, function := range bridge.AtEnd {
		function()
	}
	for _, handle := range contexts {
		contextDrop(handle)
	}
	if cause := recover(); cause != nil {
		*err = panickedBy(cause)
	}
}

func unregistered(name string) error { return fmt.Errorf("the handler registers no guest.%s", name) }

func returnTensors(tensors []Tensor, err error) unsafe.Pointer {
	if err != nil {
		return failed(err)
	}
	area[0] = 0
	area[1], area[2] = lowered(tensors)
	return result()
}

//go:wasmexport modelhost:handler/init@0.1.0#init
func exportInit(start unsafe.Pointer, length word) unsafe.Pointer {
	err := unregistered("Init")
	if onInit != nil {
		err = initialise(json.RawMessage(abi.BytesAt(start, length)))
	}
	for _, function := range bridge.AfterInit {
		function()
	}
	area[0] = 0
	if err != nil {
		area[0] = 1
		area[1], area[2] = readable(refused(err))
	}
	return result()
}

// refused is why a handler is refused: of a panic its line, whose frames are printed.
func refused(err error) string {
	var panicked *panicked
	if !errors.As(err, &panicked) {
		return err.Error()
	}
	fmt.Fprintln(os.Stderr, strings.Join(panicked.frames, "\n"))
	return panicked.line
}

func initialise(metadata json.RawMessage) (err error) {
	defer ended(&err)
	return onInit(metadata)
}

//go:wasmexport cabi_post_modelhost:handler/init@0.1.0#init
func postInit(unsafe.Pointer) { abi.Over() }

//go:wasmexport modelhost:handler/pre-inference@0.1.0#pre-inference
func exportPreInference(kind unsafe.Pointer, kindLength word, body unsafe.Pointer, bodyLength, context word) unsafe.Pointer {
	return returnTensors(guarded(context, func(context *Context) ([]Tensor, error) {
		if onPreInference == nil {
			return nil, unregistered("PreInference")
		}
		return onPreInference(&Sample{abi.StringAt(kind, kindLength), abi.BytesAt(body, bodyLength)}, context)
	}))
}

//go:wasmexport cabi_post_modelhost:handler/pre-inference@0.1.0#pre-inference
func postPreInference(unsafe.Pointer) { abi.Over() }

//go:wasmexport modelhost:handler/post-inference@0.1.0#post-inference
func exportPostInference(start unsafe.Pointer, length, context word) unsafe.Pointer {
	response, err := guarded(context, func(context *Context) (*Response, error) {
		if onPostInference == nil {
			return nil, unregistered("PostInference")
		}
		return onPostInference(tensorsAt(start, length), context)
	})
	switch {
	case err != nil:
		return failed(err)
	case response == nil:
		return failed(fmt.Errorf("the function of guest.PostInference returned no response"))
	default:
		area[0] = 0
		lowerResponse(area[1:], response)
	}
	return result()
}

//go:wasmexport cabi_post_modelhost:handler/post-inference@0.1.0#post-inference
func postPostInference(unsafe.Pointer) { abi.Over() }

//go:wasmexport modelhost:handler/pre-inference-tensors@0.1.0#pre-inference-tensors
func exportPreInferenceTensors(start unsafe.Pointer, length, context word) unsafe.Pointer {
	return returnTensors(guarded(context, func(context *Context) ([]Tensor, error) {
		if onPreInferenceTensors == nil {
			return nil, unregistered("PreInferenceTensors")
		}
		return onPreInferenceTensors(tensorsAt(start, length), context)
	}))
}

//go:wasmexport cabi_post_modelhost:handler/pre-inference-tensors@0.1.0#pre-inference-tensors
func postPreInferenceTensors(unsafe.Pointer) { abi.Over() }

//go:wasmexport modelhost:handler/post-inference-tensors@0.1.0#post-inference-tensors
func exportPostInferenceTensors(start unsafe.Pointer, length, context word) unsafe.Pointer {
	return returnTensors(guarded(context, func(context *Context) ([]Tensor, error) {
		if onPostInferenceTensors == nil {
			return nil, unregistered("PostInferenceTensors")
		}
		return onPostInferenceTensors(tensorsAt(start, length), context)
	}))
}

//go:wasmexport cabi_post_modelhost:handler/post-inference-tensors@0.1.0#post-inference-tensors
func postPostInferenceTensors(unsafe.Pointer) { abi.Over() }

func init() {
	bridge.Collect, bridge.Respond, bridge.RespondAll, bridge.Guard = collect, respond, respondAll, guard
	bridge.Lower, bridge.LowerTensors, bridge.TensorsAt = lowerResponse, lowered, tensorsAt
}

// respond runs a function of package app. A result is nothing where the response has been sent.
func respond(kind unsafe.Pointer, kindLength word, body unsafe.Pointer, bodyLength, context word,
	call func(*Sample, *Context) (*Response, error), over func(*Response, error) (*Response, error)) unsafe.Pointer {
	response, err := over(guarded(context, func(context *Context) (*Response, error) {
		return call(&Sample{abi.StringAt(kind, kindLength), abi.BytesAt(body, bodyLength)}, context)
	}))
	switch {
	case err != nil:
		return failed(err)
	case response == nil:
		area[0], area[1] = 0, 0
	default:
		area[0], area[1] = 0, 1
		lowerResponse(area[2:], response)
	}
	return result()
}

//go:wasmexport modelhost:handler/input-schema@0.1.0#input-schema
func exportInputSchema() unsafe.Pointer {
	words := make([]word, 0, len(inputs)*inputWords)
	for _, input := range inputs {
		name, length := abi.Text(input.Name)
		words = append(words, name, length, word(input.Datatype), abi.Address(input.Shape), word(len(input.Shape)))
		required := word(1)
		if input.Optional {
			required = 0
		}
		example, has := []byte(nil), word(0)
		if input.Example != nil {
			written, err := json.Marshal(input.Example)
			if err != nil {
				panic(err)
			}
			example, has = written, 1
		}
		words = append(words, required, has, abi.Address(example), word(len(example)))
		start, length := abi.Text(input.Description)
		words = append(words, start, length)
	}
	area[0], area[1] = abi.Address(words), word(len(inputs))
	return result()
}

//go:wasmexport cabi_post_modelhost:handler/input-schema@0.1.0#input-schema
func postInputSchema(unsafe.Pointer) { abi.Over() }

//go:wasmimport modelhost:handler/types@0.1.0 [resource-drop]context
func contextDrop(handle word)

//go:wasmimport modelhost:handler/types@0.1.0 [method]context.request-id
func contextRequestID(handle word, result unsafe.Pointer)

//go:wasmimport modelhost:handler/types@0.1.0 [method]context.method
func contextMethod(handle word, result unsafe.Pointer)

//go:wasmimport modelhost:handler/types@0.1.0 [method]context.path
func contextPath(handle word, result unsafe.Pointer)

//go:wasmimport modelhost:handler/types@0.1.0 [method]context.query
func contextQuery(handle word, result unsafe.Pointer)

//go:wasmimport modelhost:handler/types@0.1.0 [method]context.metadata
func contextMetadata(handle word, result unsafe.Pointer)

//go:wasmimport modelhost:handler/types@0.1.0 [method]context.parameters
func contextParameters(handle word, result unsafe.Pointer)

//go:wasmimport modelhost:handler/types@0.1.0 [method]context.header
func contextHeader(handle word, name unsafe.Pointer, length word, result unsafe.Pointer)

//go:wasmimport modelhost:handler/types@0.1.0 [method]context.sample
func contextSample(handle word, result unsafe.Pointer)

//go:wasmimport modelhost:handler/types@0.1.0 [method]context.signature
func contextSignature(handle word, result unsafe.Pointer)

// host is the request's context at the host. Results lie in `imported`: a stack may move while the host allocates.
type host struct{ handle word }

func (h *host) text(question int) (text string) {
	abi.Import(func() {
		into := unsafe.Pointer(&imported)
		switch question {
		case requestID:
			contextRequestID(h.handle, into)
		case method:
			contextMethod(h.handle, into)
		case path:
			contextPath(h.handle, into)
		case query:
			contextQuery(h.handle, into)
		case metadata:
			contextMetadata(h.handle, into)
		default:
			contextParameters(h.handle, into)
		}
		text = abi.StringAt(abi.Pointer(imported[0]), imported[1])
	})
	return text
}

func (h *host) header(name string) (value string, isThere bool) {
	abi.Import(func() {
		start := unsafe.Pointer(unsafe.StringData(name))
		contextHeader(h.handle, start, word(len(name)), unsafe.Pointer(&imported))
		if isThere = imported[0]&0xff != 0; isThere {
			value = abi.StringAt(abi.Pointer(imported[1]), imported[2])
		}
	})
	return value, isThere
}

func (h *host) sample() (sample *Sample) {
	abi.Import(func() {
		contextSample(h.handle, unsafe.Pointer(&imported))
		kind, body := abi.Pointer(imported[0]), abi.Pointer(imported[2])
		sample = &Sample{abi.StringAt(kind, imported[1]), abi.BytesAt(body, imported[3])}
	})
	return sample
}

func (h *host) signature() (signature Signature) {
	abi.Import(func() {
		contextSignature(h.handle, unsafe.Pointer(&imported))
		signature = Signature{specsAt(imported[0], imported[1]), specsAt(imported[2], imported[3])}
	})
	return signature
}

// specsAt reads a list of what a model expects or returns.
func specsAt(start, length word) []TensorSpec {
	words := abi.WordsAt(abi.Pointer(start), length*specWords)
	specs := make([]TensorSpec, length)
	for at := range specs {
		w := words[at*specWords : (at+1)*specWords]
		var shape []int64
		if w[4] > 0 {
			shape = unsafe.Slice((*int64)(abi.Pointer(w[3])), w[4])
		}
		specs[at] = TensorSpec{abi.StringAt(abi.Pointer(w[0]), w[1]), Datatype(w[2]), shape}
	}
	return specs
}
