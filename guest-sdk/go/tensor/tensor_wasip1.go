package tensor

import (
	"errors"
	"unsafe"

	"modelhost.example/guest"
	"modelhost.example/guest/internal/abi"
)

//go:wasmimport modelhost:tensor/arithmetic@0.1.0 argmax
func importArgmax(datatype, shape, rank, data, length abi.Word, axis int32, result unsafe.Pointer)

//go:wasmimport modelhost:tensor/arithmetic@0.1.0 top-k
func importTopK(datatype, shape, rank, data, length, count abi.Word, axis int32, result unsafe.Pointer)

//go:wasmimport modelhost:tensor/arithmetic@0.1.0 softmax
func importSoftmax(datatype, shape, rank, data, length abi.Word, axis int32, result unsafe.Pointer)

//go:wasmimport modelhost:tensor/arithmetic@0.1.0 normalise
func importNormalise(datatype, shape, rank, data, length abi.Word, axis int32, result unsafe.Pointer)

//go:wasmimport modelhost:tensor/arithmetic@0.1.0 mean-pool
func importMeanPool(
	datatype, shape, rank, data, length, ofMask, maskShape, maskRank, mask, maskLength abi.Word, result unsafe.Pointer,
)

//go:wasmimport modelhost:tensor/arithmetic@0.1.0 concat
func importConcat(tensors, length abi.Word, axis int32, result unsafe.Pointer)

//go:wasmimport modelhost:tensor/arithmetic@0.1.0 gather
func importGather(
	datatype, shape, rank, data, length, ofPlaces, placesShape, placesRank, places, placesLength abi.Word, axis int32,
	result unsafe.Pointer,
)

//go:wasmimport modelhost:tensor/arithmetic@0.1.0 suppress
func importSuppress(arguments, result unsafe.Pointer)

// A tensor as it lies in memory; of an argument every byte of the datatype's word is written, of a result the first.
type lowered struct{ datatype, shape, rank, data, length abi.Word }

// A result: two tensors at most, or in their place a text. Of `isError` the first byte is written.
type result struct {
	isError abi.Word
	tensors [2]lowered
}

// The arguments of `suppress`.
type suppression struct {
	boxes, scores           lowered
	hasClasses              abi.Word
	classes                 lowered
	mostOverlap, leastScore float32
	most                    uint32
}

func lower(tensor guest.Tensor) lowered {
	return lowered{
		abi.Word(tensor.Datatype), abi.Address(tensor.Shape), abi.Word(len(tensor.Shape)), abi.Address(tensor.Data),
		abi.Word(len(tensor.Data)),
	}
}

func (l lowered) lifted() guest.Tensor {
	return guest.Tensor{
		Datatype: guest.Datatype(l.datatype), Shape: abi.ExtentsAt(abi.Pointer(l.shape), l.rank),
		Data: abi.BytesAt(abi.Pointer(l.data), l.length),
	}
}

func compute(call *Call) (made []guest.Tensor, err error) {
	abi.Import(func() {
		given := make([]lowered, len(call.Tensors))
		for at, tensor := range call.Tensors {
			given[at] = lower(tensor)
		}
		told := new(result)
		count := invoke(call, given, abi.Keep(told))
		if told.isError&0xff != 0 {
			text := (*[2]abi.Word)(unsafe.Pointer(&told.tensors))
			err = errors.New(string(abi.BytesAt(abi.Pointer(text[0]), text[1])))
			return
		}
		for _, tensor := range told.tensors[:count] {
			made = append(made, tensor.lifted())
		}
	})
	return made, err
}

// invoke calls the import, and says how many tensors its result has.
func invoke(call *Call, given []lowered, into unsafe.Pointer) int {
	if call.Operation == "Concat" {
		importConcat(abi.Address(given), abi.Word(len(given)), call.Axis, into)
		return 1
	}
	a, b := given[0], given[len(given)-1]
	switch call.Operation {
	case "Argmax":
		importArgmax(a.datatype, a.shape, a.rank, a.data, a.length, call.Axis, into)
	case "TopK":
		importTopK(a.datatype, a.shape, a.rank, a.data, a.length, call.Count, call.Axis, into)
		return 2
	case "Softmax":
		importSoftmax(a.datatype, a.shape, a.rank, a.data, a.length, call.Axis, into)
	case "Normalise":
		importNormalise(a.datatype, a.shape, a.rank, a.data, a.length, call.Axis, into)
	case "MeanPool":
		importMeanPool(a.datatype, a.shape, a.rank, a.data, a.length, b.datatype, b.shape, b.rank, b.data, b.length, into)
	case "Gather":
		importGather(a.datatype, a.shape, a.rank, a.data, a.length, b.datatype, b.shape, b.rank, b.data, b.length, call.Axis, into)
	case "Suppress":
		said := &call.Suppression
		arguments := &suppression{
			boxes: a, scores: b, mostOverlap: said.MostOverlap, leastScore: said.LeastScore, most: said.Most,
		}
		if said.Classes != nil {
			arguments.hasClasses, arguments.classes = 1, lower(*said.Classes)
		}
		importSuppress(abi.Keep(arguments), into)
	}
	return 1
}
