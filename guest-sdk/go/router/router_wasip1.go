package router

// The contract's `operations`.

import (
	"unsafe"

	"modelhost.example/guest/internal/abi"
)

type word = abi.Word

var result [2]word

//go:wasmexport modelhost:handler/operations@0.1.0#operations
func exportOperations() unsafe.Pointer {
	var words []word
	text := func(value string) {
		start, length := abi.Text(value)
		words = append(words, start, length)
	}
	orNone := func(value string) {
		isThere := word(0)
		if value != "" {
			isThere = 1
		}
		words = append(words, isThere)
		text(value)
	}
	all := operations()
	for _, it := range all {
		text(it.method)
		text(it.path)
		text(it.Summary)
		text(it.Consumes)
		orNone(it.Input)
		text(it.Produces)
		orNone(it.Output)
	}
	result = [2]word{abi.Address(words), word(len(all))}
	return unsafe.Pointer(&result)
}

//go:wasmexport cabi_post_modelhost:handler/operations@0.1.0#operations
func postOperations(unsafe.Pointer) { abi.Over() }
