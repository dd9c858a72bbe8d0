package app

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"modelhost.example/guest"
)

// sums answers with the sum of each request's numbers, and how many requests there were.
func sums(requests []*Request) ([]Result, error) {
	var all [][]float64
	for _, request := range requests {
		var numbers []float64
		if err := request.JSON(&numbers); err != nil {
			return nil, fmt.Errorf("numbers: %w", err)
		}
		all = append(all, numbers)
	}
	var results []Result
	for _, numbers := range all {
		sum := 0.0
		for _, number := range numbers {
			sum += number
		}
		switch sum {
		case 1:
			return nil, errors.New("as asked")
		case 2:
			results = append(results, Result{Err: guest.Invalid("no 2")})
		case 3:
			continue
		case 4:
			results = append(results, Result{}, Result{})
		default:
			results = append(results, Result{Response: guest.Text(fmt.Sprint(sum, " of ", len(requests)))})
		}
	}
	return results, nil
}

// answers is what the requests with these bodies get.
func answers(function BatchFunction, bodies ...string) (all []string, err error) {
	var requests []*Request
	for _, body := range bodies {
		requests = append(requests, NewRequest(guest.Request{Path: "/sums", Body: []byte(body)}))
	}
	results, err := function.Together(requests)
	for _, it := range results {
		switch {
		case it.Err != nil:
			all = append(all, it.Err.Error())
		case it.Response != nil:
			all = append(all, string(it.Response.Body))
		default:
			all = append(all, "none")
		}
	}
	return all, err
}

func TestRequestsAreServedTogether(t *testing.T) {
	const unread = "invalid type: object, expected []float64"
	for _, it := range []struct{ bodies, expected []string }{
		{[]string{"[5]", "[2, 4.5]"}, []string{"5 of 2", "6.5 of 2"}},
		{[]string{"{}", "[5]", "x", "[6]"}, []string{unread, "5 of 2", "malformed json: invalid character 'x' looking for beginning of value", "6 of 2"}},
		{[]string{"{}", "{}"}, []string{unread, unread}},
		{[]string{"[2]", "[5]"}, []string{"no 2", "5 of 2"}},
		// The host says that results are missing, or too many.
		{[]string{"[3]", "{}", "[5]"}, []string{"5 of 2", unread}},
		{[]string{"[4]", "{}"}, []string{"none", unread, "none"}},
	} {
		if all, err := answers(sums, it.bodies...); err != nil || !slices.Equal(all, it.expected) {
			t.Errorf("%q: %q %v, expected %q", it.bodies, all, err, it.expected)
		}
	}
	if _, err := answers(sums, "{}", "[1]", "[5]"); err == nil || err.Error() != "as asked" {
		t.Error(err)
	}
}

// Errors of several requests may be returned at once, and an error that was passed over is none.
func TestAnErrorIsThatOfTheRequestThatWasRead(t *testing.T) {
	calls := 0
	all, err := answers(func(requests []*Request) (results []Result, err error) {
		calls++
		for _, request := range requests {
			var one int
			err = errors.Join(err, request.JSON(&one))
			if _, err := request.Numbers("a"); err == nil {
				return nil, errors.New("a number has no fields")
			}
			text, _ := request.Text()
			results = append(results, Result{Response: guest.Text(text)})
		}
		return results, err
	}, "[]", "5", "{}")
	expected := []string{"invalid type: array, expected int", "5", "invalid type: object, expected int"}
	if err != nil || !slices.Equal(all, expected) || calls != 2 {
		t.Error(all, err, calls)
	}
}

func TestABatchOfOneIsARequest(t *testing.T) {
	for body, expected := range map[string]string{
		"[5]": "5 of 1", "{}": "invalid type: object, expected []float64", "[2]": "no 2", "[1]": "as asked",
		"[3]": "0 results for a batch of 1 request, expected one for each",
		"[4]": "2 results for a batch of 1 request, expected one for each",
	} {
		var got Recorder
		said := ""
		if err := got.Record(BatchFunction(sums).Alone, guest.Request{Body: []byte(body)}); err != nil {
			said = err.Error()
		}
		if said += string(got.Body); said != expected {
			t.Errorf("%s: %s, expected %s", body, said, expected)
		}
	}
}

func TestAPathHasOneFunction(t *testing.T) {
	defer func() {
		batches = nil
		if said := recover(); said != "app.Batch: `/sums` is there already" {
			t.Error(said)
		}
	}()
	Batch("/sums", sums)
	Batch("/others", sums)
	Batch("/sums", sums)
}
