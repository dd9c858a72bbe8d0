// Package app is what applications for modelhost are written with in Go: handlers that answer requests by themselves, at
// once, in pieces, or before they go on working. See package guest for samples, contexts, responses and errors.
//
//	func init() { app.Serve(serve) }
//
//	func serve(sample *guest.Sample, context *guest.Context, output *app.Output) (*guest.Response, error)
package app

import (
	"errors"
	"fmt"

	"modelhost.example/guest"
	"modelhost.example/guest/internal/encode"
)

// ErrGone says that there is no client any more: what follows is for nothing, and the function may return.
var ErrGone = errors.New("the client is gone")

// A Function answers a request: it returns a response, or answers by the output and returns none. A response that has
// begun ends properly when the function returns without an error; with one, it breaks off.
type Function func(sample *guest.Sample, context *guest.Context, output *Output) (*guest.Response, error)

var onServe Function

// Serve registers the function that answers each request to the endpoint's path, of any method, and to all paths below
// it. The context's path is the one below the endpoint's, at least `/`.
func Serve(function Function) { onServe = function }

// Output is the response of one request, in pieces. It is good for one call.
type Output struct {
	to    sink
	state int
}

// states of an output.
const (
	untouched = iota
	begun
	ended
)

// sink is where a response goes: the host, or a test.
type sink interface {
	begin(*guest.Response) error
	write([]byte) bool
	finish()
	send(*guest.Response) error
	drop()
}

// Begin sends the response's head, once; what its Body has is the first piece.
func (o *Output) Begin(head *guest.Response) error {
	if o.state != untouched {
		return errors.New("the response has begun already")
	}
	if err := o.to.begin(head); err != nil {
		return err
	}
	o.state = begun
	if len(head.Body) == 0 {
		return nil
	}
	_, err := o.Write(head.Body)
	return err
}

// Write sends a piece, and waits while the client does not read. Without [Output.Begin] before it, the head is that of
// bytes with status 200.
func (o *Output) Write(piece []byte) (int, error) {
	if o.state == untouched {
		if err := o.Begin(&guest.Response{ContentType: "application/octet-stream"}); err != nil {
			return 0, err
		}
	}
	if o.state != begun {
		return 0, errors.New("the response has ended already")
	}
	if !o.to.write(piece) {
		return 0, ErrGone
	}
	return len(piece), nil
}

// Event sends a server-sent event with a value as JSON. Without [Output.Begin] before it, the head is that of events.
func (o *Output) Event(value any) error {
	if o.state == untouched {
		if err := o.Begin(&guest.Response{ContentType: "text/event-stream"}); err != nil {
			return err
		}
	}
	written, err := encode.JSON(value)
	if err != nil {
		return fmt.Errorf("the event: %w", err)
	}
	_, err = o.Write(fmt.Appendf(nil, "data: %s\n\n", written))
	return err
}

// Send sends a whole response and ends it, so that the function may work on, for as long as the endpoint's
// `background_timeout`.
func (o *Output) Send(response *guest.Response) error {
	if o.state != untouched {
		return errors.New("the response has begun already")
	}
	o.state = ended
	return o.to.send(response)
}

// over ends what the function has begun. Without a response, and without one that was sent, there is an error.
func (o *Output) over(response *guest.Response, err error) (*guest.Response, error) {
	if o.state == begun && response == nil && err == nil {
		o.state = ended
		o.to.finish()
		return nil, nil
	}
	if o.state != ended {
		o.to.drop()
	}
	switch {
	case err != nil:
		return nil, err
	case response != nil && o.state != untouched:
		return nil, errors.New("the function of app.Serve returned a response after it had sent one")
	case response == nil && o.state == untouched:
		return nil, errors.New("the function of app.Serve returned no response and sent none")
	}
	return response, nil
}

// A Recorder has what a [Function] sent in a test.
type Recorder struct {
	// The head, and all pieces as its body.
	guest.Response
	// Whether the response ended properly.
	Ended bool
	// Set before the call, there is no client: writes fail with [ErrGone].
	Gone bool
}

// Record calls a function and keeps what the client gets.
func (r *Recorder) Record(function Function, request guest.Request) error {
	context := guest.NewContext(request)
	output := &Output{to: r}
	response, err := output.over(function(context.Sample(), context, output))
	if err == nil && response != nil {
		r.Response, r.Ended = *response, true
	}
	return err
}

func (r *Recorder) begin(head *guest.Response) error {
	r.Response = *head
	r.Body = nil
	if r.Status == 0 {
		r.Status = 200
	}
	return nil
}

func (r *Recorder) write(piece []byte) bool {
	if !r.Gone {
		r.Body = append(r.Body, piece...)
	}
	return !r.Gone
}

func (r *Recorder) finish() { r.Ended = true }

func (r *Recorder) send(response *guest.Response) error {
	r.Response, r.Ended = *response, true
	return nil
}

func (r *Recorder) drop() {}
