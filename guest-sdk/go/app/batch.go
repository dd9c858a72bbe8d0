package app

// Requests that a function serves together. In: the requests of one batch, which have the same path. Out: a
// result for each, in their order. A body that cannot be read is the error of its own request, which the
// function does not see when it is called again.

import (
	"errors"
	"fmt"
	"slices"

	"modelhost.example/guest"
)

// A Request is one request of a batch: its body, and its context.
type Request struct {
	*guest.Sample
	Context *guest.Context
	// Of reading the body.
	errs []error
}

// NewRequest makes a request for a test.
func NewRequest(request guest.Request) *Request {
	context := guest.NewContext(request)
	return &Request{Sample: context.Sample(), Context: context}
}

// Text is the body as UTF-8.
func (r *Request) Text() (string, error) {
	text, err := r.Sample.Text()
	return text, r.read(err)
}

// JSON decodes the body, as [guest.Sample.JSON] does.
func (r *Request) JSON(value any) error { return r.read(r.Sample.JSON(value)) }

// Numbers reads fields of the body, as [guest.Sample.Numbers] does.
func (r *Request) Numbers(fields ...string) ([]float32, error) {
	numbers, err := r.Sample.Numbers(fields...)
	return numbers, r.read(err)
}

// Multipart reads the parts of a form with files, as [guest.Sample.Multipart] does.
func (r *Request) Multipart() (guest.Form, error) {
	form, err := r.Sample.Multipart()
	return form, r.read(err)
}

// read remembers what went wrong: it tells whose error it is that a function returns.
func (r *Request) read(err error) error {
	if err != nil {
		r.errs = append(r.errs, err)
	}
	return err
}

// A Result is what one request of a batch gets: a response, or an error.
type Result struct {
	Response *guest.Response
	Err      error
}

// A BatchFunction serves the requests of a batch, and returns a result for each, in their order.
//
// An error is that of all of them. But one that Text, JSON, Numbers or Multipart of a request returned is that request's
// own answer, and the function is called again with the others: it reads all requests before it does anything
// that is not to be done twice.
type BatchFunction func(requests []*Request) ([]Result, error)

type batch struct {
	path     string
	function BatchFunction
}

var batches []batch

// Batch registers a function for the POSTs to a path, as [guest.Context.Path] has it, without wildcards. It
// gets several at once if the endpoint says how many, `batching.max_requests`, and without that one at a
// time; all other requests go to the function of [Serve]. Batch panics if the path is there already.
//
//go:noinline
func Batch(path string, function BatchFunction) {
	if slices.ContainsFunc(batches, func(it batch) bool { return it.path == path }) {
		panic("app.Batch: `" + path + "` is there already")
	}
	batches = append(batches, batch{path, function})
}

// Alone serves a request that no batch has, as a batch of one.
func (f BatchFunction) Alone(
	sample *guest.Sample, context *guest.Context, _ *Output,
) (*guest.Response, error) {
	results, err := f.Together([]*Request{{Sample: sample, Context: context}})
	switch {
	case err != nil:
		return nil, err
	case len(results) != 1:
		return nil, fmt.Errorf("%d results for a batch of 1 request, expected one for each", len(results))
	}
	return results[0].Response, results[0].Err
}

// Together serves requests as the host has it: those that the function cannot read have their own error in
// its place among the results. For tests, whose requests [NewRequest] makes.
func (f BatchFunction) Together(requests []*Request) ([]Result, error) {
	refused := make([]error, len(requests))
	for {
		var left []*Request
		for at, request := range requests {
			if refused[at] == nil {
				left = append(left, request)
			}
		}
		if len(left) == 0 {
			return placed(refused, nil), nil
		}
		results, err := f(left)
		if err == nil {
			return placed(refused, results), nil
		}
		isOfOne := false
		for at, request := range requests {
			is := func(own error) bool { return errors.Is(err, own) }
			if own := slices.IndexFunc(request.errs, is); refused[at] == nil && own >= 0 {
				refused[at], isOfOne = request.errs[own], true
			}
		}
		if !isOfOne {
			return nil, err
		}
	}
}

// placed has the results in their requests' places. Results that are too few or too many stay so: the host
// tells all requests of it.
func placed(refused []error, results []Result) []Result {
	all := make([]Result, 0, len(refused))
	for _, err := range refused {
		switch {
		case err != nil:
			all = append(all, Result{Err: err})
		case len(results) > 0:
			all = append(all, results[0])
			results = results[1:]
		}
	}
	return append(all, results...)
}
