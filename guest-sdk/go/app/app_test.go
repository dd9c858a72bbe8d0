package app

import (
	"errors"
	"testing"

	"modelhost.example/guest"
)

func count(_ *guest.Sample, context *guest.Context, output *Output) (*guest.Response, error) {
	switch context.Path() {
	case "/response":
		return guest.Text("whole").WithStatus(201), nil
	case "/stream":
		for number := range 3 {
			if err := output.Event(number); err != nil {
				return nil, err
			}
		}
		return nil, nil
	case "/breaks":
		_, _ = output.Write([]byte("half"))
		return nil, guest.Invalid("no more")
	case "/both":
		_ = output.Send(guest.Text("sent"))
		return guest.Text("again"), nil
	case "/twice":
		_ = output.Begin(guest.Text("a"))
		return nil, output.Begin(guest.Text("b"))
	case "/sent":
		return nil, output.Send(guest.Text("sent"))
	}
	return nil, nil
}

func TestWhatAnApplicationSendsIsRecorded(t *testing.T) {
	for path, expected := range map[string]struct {
		status      int
		body, fails string
		ended       bool
	}{
		"/response": {201, "whole", "", true},
		"/stream":   {200, "data: 0\n\ndata: 1\n\ndata: 2\n\n", "", true},
		"/sent":     {200, "sent", "", true},
		"/breaks":   {200, "half", "no more", false},
		"/both":     {200, "sent", "the function of app.Serve returned a response after it had sent one", true},
		"/twice":    {200, "a", "the response has begun already", false},
		"/nothing":  {0, "", "the function of app.Serve returned no response and sent none", false},
	} {
		var r Recorder
		err := r.Record(count, guest.Request{Path: path})
		said := ""
		if err != nil {
			said = err.Error()
		}
		if r.Status != expected.status || string(r.Body) != expected.body || said != expected.fails || r.Ended != expected.ended {
			t.Errorf("%s: %d %q %q %t", path, r.Status, r.Body, said, r.Ended)
		}
	}
	gone := Recorder{Gone: true}
	if err := gone.Record(count, guest.Request{Path: "/stream"}); !errors.Is(err, ErrGone) {
		t.Error(err)
	}
}
