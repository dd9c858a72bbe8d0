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
	switch {
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
	kind, text, response := kindOf(err)
	if kind != kindInvalidInput {
		return response
	}
	return refusal(context, 400, "invalid_input", text)
}

// refusal is an error in the form of the host's own.
func refusal(context *Context, status int, code, text string) *Response {
	response, err := JSON(struct {
		Error     string `json:"error"`
		Code      string `json:"code"`
		Stage     string `json:"stage"`
		RequestID string `json:"request_id"`
	}{text, code, "pre_inference", context.RequestID()})
	if err != nil {
		response = Text(text)
	}
	return response.WithStatus(status)
}
