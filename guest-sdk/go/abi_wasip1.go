package guest

// The contract's functions as the component model has them in a module: what the component exports, and what it
// imports. Nothing else here reads or writes addresses.
//
// Arguments and results of imports lie in memory that cabi_realloc made, which `held` keeps until the call is over;
// what a call returns is kept by `returned` until the host has read it. A result is a row of 32-bit words.

import (
	"encoding/json"
	"fmt"
	"unsafe"
)

type word = uint32

const (
	tensorWords   = 7
	responseWords = 7
	specWords     = 5
	inputWords    = 11
)

var (
	held     []unsafe.Pointer
	returned []any
	// The result of the call, and of an import.
	area, imported [10]word
	// What the adapter for WASI's functions takes its memory from, before the runtime has begun and while it works.
	adapter     [4 * 65536]byte
	adapterUsed uintptr
	nothing     uint64
)

//go:wasmexport cabi_realloc
func cabiRealloc(old unsafe.Pointer, oldSize, align, size word) unsafe.Pointer {
	if size == 0 {
		return unsafe.Pointer(&nothing)
	}
	// Of 8 bytes each, so that it is aligned for all.
	made := unsafe.Pointer(unsafe.SliceData(make([]uint64, (size+7)/8)))
	if oldSize > 0 {
		copy(unsafe.Slice((*byte)(made), size), unsafe.Slice((*byte)(old), oldSize))
	}
	held = append(held, made)
	return made
}

// It may not allocate, nor need a larger stack.
//
//go:nosplit
//go:wasmexport cabi_realloc_adapter
func cabiReallocAdapter(_ unsafe.Pointer, _, align, size word) unsafe.Pointer {
	begin := uintptr(unsafe.Pointer(&adapter))
	start := (begin + adapterUsed + uintptr(align) - 1) &^ (uintptr(align) - 1)
	if start-begin+uintptr(size) > uintptr(len(adapter)) {
		return nil
	}
	adapterUsed = start - begin + uintptr(size)
	return unsafe.Pointer(start)
}

// over ends a call: what it was given and what it returned is let go.
func over() {
	clear(held)
	clear(returned)
	held, returned = held[:0], returned[:0]
}

func pointer(address word) unsafe.Pointer { return unsafe.Pointer(uintptr(address)) }

func bytesAt(start unsafe.Pointer, length word) []byte {
	if length == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(start), length)
}

func stringAt(start unsafe.Pointer, length word) string {
	return unsafe.String((*byte)(start), length)
}

// address of the elements of a slice that the host reads after the call.
func address[T any](values []T) word {
	if len(values) == 0 {
		return 8
	}
	returned = append(returned, unsafe.SliceData(values))
	return word(uintptr(unsafe.Pointer(unsafe.SliceData(values))))
}

func text(value string) (word, word) {
	return address(unsafe.Slice(unsafe.StringData(value), len(value))), word(len(value))
}

func wordsAt(start unsafe.Pointer, length word) []word {
	if length == 0 {
		return nil
	}
	return unsafe.Slice((*word)(start), length)
}

// tensorsAt reads a list of tensors.
func tensorsAt(start unsafe.Pointer, length word) Tensors {
	words := wordsAt(start, length*tensorWords)
	tensors := make(Tensors, length)
	for at := range tensors {
		w := words[at*tensorWords : (at+1)*tensorWords]
		var shape []uint64
		if w[4] > 0 {
			shape = unsafe.Slice((*uint64)(pointer(w[3])), w[4])
		}
		tensors[at] = Tensor{
			Name: stringAt(pointer(w[0]), w[1]), Datatype: Datatype(w[2]), Shape: shape, Data: bytesAt(pointer(w[5]), w[6]),
		}
	}
	return tensors
}

// lowered makes a list of tensors.
func lowered(tensors []Tensor) (word, word) {
	words := make([]word, 0, len(tensors)*tensorWords)
	for _, tensor := range tensors {
		name, length := text(tensor.Name)
		words = append(words, name, length, word(tensor.Datatype), address(tensor.Shape), word(len(tensor.Shape)),
			address(tensor.Data), word(len(tensor.Data)))
	}
	return address(words), word(len(tensors))
}

func lowerResponse(to []word, response *Response) {
	status := response.Status
	if status == 0 {
		status = 200
	}
	to[0] = word(status)
	to[1], to[2] = text(response.ContentType)
	headers := make([]word, 0, 4*len(response.Header))
	for name, value := range response.Header {
		start, length := text(name)
		headers = append(headers, start, length)
		start, length = text(value)
		headers = append(headers, start, length)
	}
	to[3], to[4] = address(headers), word(len(response.Header))
	to[5], to[6] = address(response.Body), word(len(response.Body))
}

func lowerError(err error) {
	kind, said, response := kindOf(err)
	area[0], area[1] = 1, kind
	if response != nil {
		lowerResponse(area[2:], response)
		return
	}
	area[2], area[3] = text(said)
}

func result() unsafe.Pointer { return unsafe.Pointer(&area) }

// guarded calls a function of the handler; a panic is an error.
func guarded[T any](handle word, call func(*Context) (T, error)) (value T, err error) {
	collect()
	source := &host{handle}
	defer func() {
		contextDrop(handle)
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v", panicked)
		}
	}()
	return call(&Context{source})
}

func unregistered(name string) error { return fmt.Errorf("the handler registers no guest.%s", name) }

func returnTensors(tensors []Tensor, err error) unsafe.Pointer {
	if err != nil {
		lowerError(err)
		return result()
	}
	area[0] = 0
	area[1], area[2] = lowered(tensors)
	return result()
}

//go:wasmexport modelhost:handler/init@0.1.0#init
func exportInit(start unsafe.Pointer, length word) unsafe.Pointer {
	err := unregistered("Init")
	if onInit != nil {
		err = initialise(json.RawMessage(bytesAt(start, length)))
	}
	area[0] = 0
	if err != nil {
		area[0] = 1
		area[1], area[2] = text(err.Error())
	}
	return result()
}

func initialise(metadata json.RawMessage) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v", panicked)
		}
	}()
	return onInit(metadata)
}

//go:wasmexport cabi_post_modelhost:handler/init@0.1.0#init
func postInit(unsafe.Pointer) { over() }

//go:wasmexport modelhost:handler/pre-inference@0.1.0#pre-inference
func exportPreInference(kind unsafe.Pointer, kindLength word, body unsafe.Pointer, bodyLength, context word) unsafe.Pointer {
	return returnTensors(guarded(context, func(context *Context) ([]Tensor, error) {
		if onPreInference == nil {
			return nil, unregistered("PreInference")
		}
		return onPreInference(&Sample{stringAt(kind, kindLength), bytesAt(body, bodyLength)}, context)
	}))
}

//go:wasmexport cabi_post_modelhost:handler/pre-inference@0.1.0#pre-inference
func postPreInference(unsafe.Pointer) { over() }

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
		lowerError(err)
	case response == nil:
		lowerError(fmt.Errorf("the function of guest.PostInference returned no response"))
	default:
		area[0] = 0
		lowerResponse(area[1:], response)
	}
	return result()
}

//go:wasmexport cabi_post_modelhost:handler/post-inference@0.1.0#post-inference
func postPostInference(unsafe.Pointer) { over() }

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
func postPreInferenceTensors(unsafe.Pointer) { over() }

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
func postPostInferenceTensors(unsafe.Pointer) { over() }

//go:wasmexport modelhost:handler/input-schema@0.1.0#input-schema
func exportInputSchema() unsafe.Pointer {
	words := make([]word, 0, len(inputs)*inputWords)
	for _, input := range inputs {
		name, length := text(input.Name)
		words = append(words, name, length, word(input.Datatype), address(input.Shape), word(len(input.Shape)))
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
		words = append(words, required, has, address(example), word(len(example)))
		start, length := text(input.Description)
		words = append(words, start, length)
	}
	area[0], area[1] = address(words), word(len(inputs))
	return result()
}

//go:wasmexport cabi_post_modelhost:handler/input-schema@0.1.0#input-schema
func postInputSchema(unsafe.Pointer) { over() }

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

func (h *host) text(question int) string {
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
	return stringAt(pointer(imported[0]), imported[1])
}

func (h *host) header(name string) (string, bool) {
	contextHeader(h.handle, unsafe.Pointer(unsafe.StringData(name)), word(len(name)), unsafe.Pointer(&imported))
	if imported[0]&0xff == 0 {
		return "", false
	}
	return stringAt(pointer(imported[1]), imported[2]), true
}

func (h *host) sample() *Sample {
	contextSample(h.handle, unsafe.Pointer(&imported))
	return &Sample{stringAt(pointer(imported[0]), imported[1]), bytesAt(pointer(imported[2]), imported[3])}
}

func (h *host) signature() Signature {
	contextSignature(h.handle, unsafe.Pointer(&imported))
	specs := func(start, length word) []TensorSpec {
		words := wordsAt(pointer(start), length*specWords)
		specs := make([]TensorSpec, length)
		for at := range specs {
			w := words[at*specWords : (at+1)*specWords]
			var shape []int64
			if w[4] > 0 {
				shape = unsafe.Slice((*int64)(pointer(w[3])), w[4])
			}
			specs[at] = TensorSpec{stringAt(pointer(w[0]), w[1]), Datatype(w[2]), shape}
		}
		return specs
	}
	return Signature{specs(imported[0], imported[1]), specs(imported[2], imported[3])}
}
