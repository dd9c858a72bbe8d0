package models

import (
	"strings"
	"unsafe"

	"modelhost.example/guest"
	"modelhost.example/guest/internal/abi"
	"modelhost.example/guest/internal/bridge"
)

//go:wasmimport modelhost:handler/models@0.1.0 infer
func importInfer(model, length, inputs, count abi.Word, result unsafe.Pointer)

//go:wasmimport modelhost:handler/models@0.1.0 names
func importNames(result unsafe.Pointer)

var (
	lower     = bridge.LowerTensors.(func([]guest.Tensor) (abi.Word, abi.Word))
	tensorsAt = bridge.TensorsAt.(func(unsafe.Pointer, abi.Word) guest.Tensors)
	// The result of a call: a list, or the kind of an error and its text.
	result [4]abi.Word
)

func names() (all []string) {
	abi.Import(func() {
		importNames(unsafe.Pointer(&result))
		all = abi.TextsAt(abi.Pointer(result[0]), result[1])
	})
	return all
}

func infer(model string, inputs []guest.Tensor) (outputs guest.Tensors, err error) {
	abi.Import(func() {
		name, length := abi.Text(model)
		list, count := lower(inputs)
		importInfer(name, length, list, count, unsafe.Pointer(&result))
		if result[0]&0xff == 0 {
			outputs = tensorsAt(abi.Pointer(result[1]), result[2])
			return
		}
		kind, text := result[1]&0xff, ""
		if kind != overloaded && kind != timedOut {
			text = strings.Clone(abi.StringAt(abi.Pointer(result[2]), result[3]))
		}
		err = errorOf(kind, text)
	})
	return outputs, err
}
