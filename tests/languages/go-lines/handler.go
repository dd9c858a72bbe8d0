// An error of each kind, by the request's `kind`. A comment at the end of a line is the name that the test has for it.
package main

import (
	"errors"

	"example.com/it/names"
	"modelhost.example/guest"
	"modelhost.example/guest/app"
	"modelhost.example/guest/router"
)

func init() {
	router.Handle("POST /kinds", kinds)
	router.Handle("POST /background", background)
}

func main() {}

type wrong struct{}

func (wrong) MarshalJSON() ([]byte, error) {
	var table map[string]int
	table["a"] = 1 // marshal
	return nil, nil
}

func kinds(sample *guest.Sample, _ *guest.Context, _ *app.Output) (*guest.Response, error) {
	var given struct {
		Kind string `json:"kind"`
	}
	if err := sample.JSON(&given); err != nil {
		return nil, err
	}
	switch given.Kind {
	case "own":
		panic(errors.New("of my own\nin two lines")) // own
	case "helper":
		return guest.JSON(names.Get(nil)) // helper
	case "library":
		return guest.JSON(wrong{}) // library
	case "recursion":
		return guest.JSON(names.Deep(0))
	case "memory":
		var all [][]byte
		for {
			all = append(all, make([]byte, 1<<20)) // memory
		}
	case "caller":
		return nil, guest.Invalid("not this")
	}
	for {
	}
}

func background(_ *guest.Sample, _ *guest.Context, output *app.Output) (*guest.Response, error) {
	if err := output.Send(guest.Text("started")); err != nil {
		return nil, err
	}
	return guest.JSON(names.Get(nil)) // background
}
