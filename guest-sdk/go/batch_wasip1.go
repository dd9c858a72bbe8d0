package guest

// What packages of applications and of sockets have run with a context of the host's: app/batch_wasip1.go and
// websocket/websocket_wasip1.go call it by package bridge. In: words of arguments, and a function. Out: where
// the result lies, or an error. Each context is given back as the call ends, also where the function panics.

import (
	"errors"
	"unsafe"

	"modelhost.example/guest/internal/abi"
)

const (
	// A request of a batch: its sample, and the handle of its context.
	memberWords = 5
	// What it gets: a response, or an error, which is the larger one.
	resultWords = 2 + responseWords
)

// together serves the requests of a batch: it returns a response or an error for each, in two lists of the same
// length, or an error of them all.
type together = func([]*Sample, []*Context) ([]*Response, []error, error)

// guard runs a function that has no result.
func guard(context word, call func(*Context) error) error {
	_, err := guarded(context, func(context *Context) (struct{}, error) { return struct{}{}, call(context) })
	return err
}

// respondAll runs a function of package app for the requests of a batch.
func respondAll(start unsafe.Pointer, length word, call together) unsafe.Pointer {
	collect()
	members := abi.WordsAt(start, length*memberWords)
	samples, contexts, handles := make([]*Sample, length), make([]*Context, length), make([]word, length)
	for at := range samples {
		w := members[at*memberWords : (at+1)*memberWords]
		samples[at] = &Sample{abi.StringAt(abi.Pointer(w[0]), w[1]), abi.BytesAt(abi.Pointer(w[2]), w[3])}
		contexts[at], handles[at] = &Context{source: &host{w[4]}}, w[4]
	}
	responses, errs, err := guardedAll(call, samples, contexts, handles)
	if err != nil {
		return failed(err)
	}
	words := make([]word, resultWords*len(responses))
	for at, response := range responses {
		w := words[at*resultWords : (at+1)*resultWords]
		err := errs[at]
		if err == nil && response == nil {
			err = errors.New("the function of a batch returned no response to a request, and no error")
		}
		if err != nil {
			w[0] = 1
			lowerError(w[1:], err)
			continue
		}
		lowerResponse(w[1:], response)
	}
	area[0], area[1], area[2] = 0, abi.Address(words), word(len(responses))
	return result()
}

func guardedAll(call together, samples []*Sample, contexts []*Context, handles []word) (
	responses []*Response, errs []error, err error,
) {
	defer ended(&err, handles...)
	responses, errs, err = call(samples, contexts)
	// A function may have returned too few, or too many.
	for at := 0; at < min(len(errs), len(contexts)); at++ {
		errs[at] = answered(errs[at], contexts[at])
	}
	return responses, errs, err
}
