package metrics

// The contract's `metrics`.

import (
	"unsafe"

	"modelhost.example/guest/internal/abi"
	"modelhost.example/guest/internal/bridge"
)

type word = abi.Word

//go:wasmimport modelhost:handler/metrics@0.1.0 describe
func importDescribe(name, nameLength, kind, help, helpLength, bounds, length word, result unsafe.Pointer)

//go:wasmimport modelhost:handler/metrics@0.1.0 add
func importAdd(name, nameLength word, by float64, labels, length word, result unsafe.Pointer)

//go:wasmimport modelhost:handler/metrics@0.1.0 set
func importSet(name, nameLength word, value float64, labels, length word, result unsafe.Pointer)

//go:wasmimport modelhost:handler/metrics@0.1.0 change
func importChange(name, nameLength word, by float64, labels, length word, result unsafe.Pointer)

//go:wasmimport modelhost:handler/metrics@0.1.0 observe
func importObserve(name, nameLength word, value float64, labels, length word, result unsafe.Pointer)

var (
	// The result of a call. Of the flag only the first byte is written.
	result struct {
		isError      uint8
		text, length word
	}
	// The metrics whose help text the host has.
	described []*metric
)

// A later start of the host begins with the memory that `init` left, so each instance describes its metrics.
func init() {
	bridge.AfterInit = append(bridge.AfterInit, func() {
		for _, it := range described {
			it.isDescribed = false
		}
		described = nil
	})
}

// ask calls the host; what it refuses is a panic.
func (s series) ask(operation operation, number float64) {
	// Many values of labels would fill the memory.
	bridge.Collect()
	refused := ""
	into := unsafe.Pointer(&result)
	abi.Import(func() {
		name, nameLength := abi.Text(s.opts.Name)
		result.isError = 0
		if !s.isDescribed {
			help, helpLength := abi.Text(s.opts.Help)
			importDescribe(name, nameLength, word(s.kind), help, helpLength, abi.Address(s.opts.Buckets), word(len(s.opts.Buckets)), into)
			if result.isError == 0 {
				s.isDescribed = true
				described = append(described, s.metric)
			}
		}
		if result.isError == 0 {
			labels := make([]word, 0, 4*len(s.values))
			for at, value := range s.values {
				for _, text := range [2]string{s.labels[at], value} {
					start, length := abi.Text(text)
					labels = append(labels, start, length)
				}
			}
			imports := [...]func(word, word, float64, word, word, unsafe.Pointer){importAdd, importSet, importChange, importObserve}
			imports[operation](name, nameLength, number, abi.Address(labels), word(len(s.values)), into)
		}
		if result.isError != 0 {
			refused = string(abi.BytesAt(abi.Pointer(result.text), result.length))
		}
	})
	if refused != "" {
		wrong("%s", refused)
	}
}
