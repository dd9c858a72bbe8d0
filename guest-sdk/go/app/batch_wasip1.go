package app

// The contract's `respond-all`.

import (
	"fmt"
	"unsafe"

	"modelhost.example/guest"
	"modelhost.example/guest/internal/abi"
	"modelhost.example/guest/internal/bridge"
)

var (
	respondAll = bridge.RespondAll.(bridgeRespondAll)
	paths      [2]word
)

type bridgeRespondAll = func(members unsafe.Pointer, count word,
	call func([]*guest.Sample, []*guest.Context) ([]*guest.Response, []error, error)) unsafe.Pointer

//go:wasmexport modelhost:handler/respond-all@0.1.0#paths
func exportPaths() unsafe.Pointer {
	var all []string
	for _, it := range batches {
		all = append(all, it.path)
	}
	start, length := abi.Texts(all)
	paths = [2]word{start, length}
	return unsafe.Pointer(&paths)
}

//go:wasmexport cabi_post_modelhost:handler/respond-all@0.1.0#paths
func postPaths(unsafe.Pointer) { abi.Over() }

//go:wasmexport modelhost:handler/respond-all@0.1.0#respond-all
func exportRespondAll(members unsafe.Pointer, count word) unsafe.Pointer {
	return respondAll(members, count, together)
}

//go:wasmexport cabi_post_modelhost:handler/respond-all@0.1.0#respond-all
func postRespondAll(unsafe.Pointer) { abi.Over() }

// together has the function of the requests' path serve them.
func together(samples []*guest.Sample, contexts []*guest.Context) ([]*guest.Response, []error, error) {
	requests := make([]*Request, len(samples))
	for at := range requests {
		requests[at] = &Request{Sample: samples[at], Context: contexts[at]}
	}
	path := ""
	if len(contexts) > 0 {
		path = contexts[0].Path()
	}
	for _, it := range batches {
		if it.path != path {
			continue
		}
		results, err := it.function.Together(requests)
		responses, errs := make([]*guest.Response, len(results)), make([]error, len(results))
		for at, it := range results {
			responses[at], errs[at] = it.Response, it.Err
		}
		return responses, errs, err
	}
	return nil, nil, fmt.Errorf("the handler registers no function by app.Batch for `%s`", path)
}
