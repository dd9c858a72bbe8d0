//go:build !wasip1

package outbound

import (
	"strings"
	"time"

	"modelhost.example/guest"
)

var answer func(Request) (*guest.Response, error)

// AnswerWith says, in a test, what others answer; nil ends that. It is given requests as they would go out,
// with names of headers in lower case and of forms that can be sent; a webhook is one POST, unsigned, of any number of attempts.
func AnswerWith(function func(request Request) (*guest.Response, error)) { answer = function }

func send(it request) (*Response, error) {
	if answer == nil {
		return nil, &Error{Kind: Failed, Text: "the test does not say what others answer: outbound.AnswerWith"}
	}
	headers := map[string]string{}
	for _, each := range it.headers {
		headers[each.name] = each.value
	}
	timeout := time.Duration(it.timeout) * time.Millisecond
	said, err := answer(Request{Method: it.method, URL: it.url, Header: headers, Body: it.body, Timeout: timeout})
	if err != nil {
		return nil, err
	}
	var answered []header
	for name, value := range said.Header {
		answered = append(answered, header{strings.ToLower(name), value})
	}
	if said.ContentType != "" {
		answered = append(answered, header{"content-type", said.ContentType})
	}
	status := said.Status
	if status == 0 {
		status = 200
	}
	return made(status, answered, &whole{said.Body}), nil
}

func sendWebhook(it webhook) (*Response, error) {
	typed := []header{{"content-type", "application/json"}}
	response, err := send(request{"POST", it.url, typed, it.json, it.timeout})
	if err != nil || response.Status/100 == 2 {
		return response, err
	}
	_ = response.Body.Close()
	return nil, &Error{Kind: Status, Status: response.Status}
}

// whole is a body in one piece.
type whole struct{ left []byte }

func (w *whole) next() ([]byte, error) {
	piece := w.left
	w.left = nil
	return piece, nil
}

func (w *whole) close() {}
