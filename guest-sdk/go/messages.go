package guest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"modelhost.example/guest/internal/encode"
)

// Sample is a request's body.
type Sample struct {
	// The header `content-type`, or empty.
	ContentType string
	Body        []byte
}

// Text is the body as UTF-8.
func (s *Sample) Text() (string, error) {
	if !utf8.Valid(s.Body) {
		return "", Invalid("the body is not UTF-8")
	}
	return string(s.Body), nil
}

// JSON decodes the body into what `value` points at, as encoding/json does. What does not fit is the caller's
// fault. A field that is missing keeps its value: see [Sample.Numbers] for what is required.
func (s *Sample) JSON(value any) error {
	err := json.Unmarshal(s.Body, value)
	var mistyped *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &mistyped) && mistyped.Field != "":
		return Invalid("`%s`: invalid type: %s, expected %s", mistyped.Field, mistyped.Value, mistyped.Type)
	case errors.As(err, &mistyped):
		return Invalid("invalid type: %s, expected %s", mistyped.Value, mistyped.Type)
	}
	return malformed(s.Body, err)
}

// malformed is the error of a body that encoding/json cannot read.
func malformed(body []byte, err error) error {
	switch {
	case len(bytes.TrimSpace(body)) == 0:
		return Invalid("malformed json: the body is empty")
	case bytes.HasPrefix(body, []byte("\ufeff")):
		return Invalid("malformed json: the body begins with a byte order mark")
	}
	return Invalid("malformed json: %s", err)
}

// A Response answers a request.
type Response struct {
	// 200 to 599; 0 is 200.
	Status      int
	ContentType string
	Header      map[string]string
	Body        []byte
	// Further headers, names and values.
	added [][2]string
}

// Add adds a header, or another value of one: two cookies are two of `set-cookie`.
func (r *Response) Add(name, value string) *Response {
	r.added = append(r.added, [2]string{name, value})
	return r
}

// Headers are all headers, names and values, those of Header before those that were added.
func (r *Response) Headers() [][2]string {
	all := make([][2]string, 0, len(r.Header)+len(r.added))
	for name, value := range r.Header {
		all = append(all, [2]string{name, value})
	}
	return append(all, r.added...)
}

// JSON makes a response of what encoding/json writes of a value. NaN and infinities, which JSON does not
// have, are an error, but those of a tensor are null.
func JSON(value any) (*Response, error) {
	body, err := encode.JSON(value)
	if err != nil {
		return nil, fmt.Errorf("the response: %w", err)
	}
	return &Response{Status: 200, ContentType: "application/json", Body: body}, nil
}

// Text makes a response of a text.
func Text(text string) *Response {
	return &Response{Status: 200, ContentType: "text/plain; charset=utf-8", Body: []byte(text)}
}

// WithStatus is the same response with another status.
func (r *Response) WithStatus(status int) *Response {
	r.Status = status
	return r
}
