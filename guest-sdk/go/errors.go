package guest

import (
	"errors"
	"fmt"

	"modelhost.example/guest/internal/bridge"
)

// InvalidInput is an error that is the caller's to mend: 400 with this text, which the caller reads. Any other error
// is 500, and its text goes to the log.
type InvalidInput struct{ Text string }

func (e *InvalidInput) Error() string { return e.Text }

// Invalid makes an [InvalidInput].
func Invalid(format string, arguments ...any) error {
	return &InvalidInput{fmt.Sprintf(format, arguments...)}
}

// rejection answers with a response in place of what is left to do.
type rejection struct{ response *Response }

func (r *rejection) Error() string { return fmt.Sprintf("answered with status %d", r.response.Status) }

// Respond is an error that answers with this response and skips what is left. Any status: a cache hit is a 200.
func Respond(response *Response) error { return &rejection{response} }

// unsupportedMediaType is a body of another type than the one that was asked for: 415.
type unsupportedMediaType struct{ text string }

func (e *unsupportedMediaType) Error() string { return e.text }

// answered makes of it the answer to the request of a context. Any other error stays as it is.
func answered(err error, context *Context) error {
	var unsupported *unsupportedMediaType
	if errors.As(err, &unsupported) {
		return Respond(refusal(context, 415, "unsupported_media_type", unsupported.text))
	}
	return err
}

// kinds of errors, in the order of the contract.
const (
	kindInvalidInput = iota
	kindInternal
	kindRespond
)

// kindOf sorts an error: its kind, its text, and the response that it carries.
func kindOf(err error) (uint32, string, *Response) {
	var invalid *InvalidInput
	var rejected *rejection
	switch err = answered(err, nil); {
	case errors.As(err, &invalid):
		return kindInvalidInput, invalid.Text, nil
	case errors.As(err, &rejected):
		return kindRespond, "", rejected.response
	}
	return kindInternal, err.Error(), nil
}

func init() { bridge.AnswerTo, bridge.Refusal = answerTo, refusal }

// answerTo is the response that the host would make of an error for a request's client; none of one that is for
// the log.
func answerTo(err error, context *Context) *Response {
	kind, text, response := kindOf(answered(err, context))
	if kind != kindInvalidInput {
		return response
	}
	return refusal(context, 400, "invalid_input", text)
}

// refusal is an error in the form of the host's own. Without a context it is not known whose it is.
func refusal(context *Context, status int, code, text string) *Response {
	id := ""
	if context != nil {
		id = context.RequestID()
	}
	response, err := JSON(struct {
		Error     string `json:"error"`
		Code      string `json:"code"`
		Stage     string `json:"stage"`
		RequestID string `json:"request_id,omitempty"`
	}{text, code, "pre_inference", id})
	if err != nil {
		response = Text(text)
	}
	return response.WithStatus(status)
}
