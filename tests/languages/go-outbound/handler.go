// An application that sends what the body of a `POST /` says, and answers with what came of it, as in every
// language (tests/it/libraries/outbound.rs):
//
//	{"do": "get", "url": "http://…", "headers": {"x-a": "b"}, "json": [1], "secret": "…", "attempts": 2,
//	 "pause_ms": 1, "timeout_ms": 500}
//
// All but `do` and `url` may be left out. `headers` are not of a webhook, `json` is the body of a post and
// of a webhook, `secret`, `attempts` and `pause_ms` are of a webhook alone.
//
//	get, post, webhook: {"status": 200, "headers": {"content-type": "…"}, "text": "…"}
//	pieces:             {"status": 200, "pieces": 3, "bytes": 70000}, a get that is read piece by piece
//	whole:              {"status": 200, "bytes": 70000}, a get that is read as a whole
//	left:               {"status": 200}, a get of which one piece is read; the rest is left
//
// Without a response it is {"error": "denied"}, or prohibited, invalid, timed-out, failed, too-long, or
// {"error": "status", "status": 404}; with 200 too.
package main

import (
	"encoding/json"
	"errors"
	"io"
	"time"

	"modelhost.example/guest"
	"modelhost.example/guest/app"
	"modelhost.example/guest/outbound"
)

func init() { app.Serve(serve) }

func main() {}

type order struct {
	Do, URL   string
	Headers   map[string]string
	JSON      json.RawMessage
	Secret    *string
	Attempts  int
	PauseMS   time.Duration `json:"pause_ms"`
	TimeoutMS time.Duration `json:"timeout_ms"`
}

var kinds = map[outbound.Kind]string{
	outbound.Denied: "denied", outbound.Prohibited: "prohibited", outbound.Invalid: "invalid",
	outbound.TimedOut: "timed-out", outbound.Failed: "failed", outbound.Status: "status", outbound.TooLong: "too-long",
}

func serve(sample *guest.Sample, _ *guest.Context, _ *app.Output) (*guest.Response, error) {
	var given order
	if err := sample.JSON(&given); err != nil {
		return nil, err
	}
	answer, err := done(given)
	var failed *outbound.Error
	if errors.As(err, &failed) {
		answer, err = map[string]any{"error": kinds[failed.Kind]}, nil
		if failed.Kind == outbound.Status {
			answer["status"] = failed.Status
		}
	}
	if err != nil {
		return nil, err
	}
	return guest.JSON(answer)
}

func done(given order) (map[string]any, error) {
	response, err := sent(given)
	if err != nil {
		return nil, err
	}
	answer := map[string]any{"status": response.Status}
	switch given.Do {
	case "pieces":
		pieces, bytes, buffer := 0, 0, make([]byte, 1<<20)
		for {
			length, err := response.Body.Read(buffer)
			if err == io.EOF {
				break
			}
			if err != nil {
				return nil, err
			}
			pieces, bytes = pieces+1, bytes+length
		}
		answer["pieces"], answer["bytes"] = pieces, bytes
	case "whole":
		body, err := response.Bytes()
		if err != nil {
			return nil, err
		}
		answer["bytes"] = len(body)
	case "left":
		if _, err := response.Body.Read(make([]byte, 1)); err != nil && err != io.EOF {
			return nil, err
		}
	default:
		answer["headers"] = response.Header
		if answer["text"], err = response.Text(); err != nil {
			return nil, err
		}
	}
	return answer, nil
}

func sent(given order) (*outbound.Response, error) {
	timeout := given.TimeoutMS * time.Millisecond
	request := outbound.Request{URL: given.URL, Header: given.Headers, Timeout: timeout}
	switch given.Do {
	case "webhook":
		webhook := outbound.Webhook{
			URL: given.URL, Attempts: given.Attempts, Pause: given.PauseMS * time.Millisecond, Timeout: timeout,
		}
		if given.Secret != nil {
			webhook = webhook.Signed(*given.Secret)
		}
		return webhook.Send(given.JSON)
	case "post":
		request.Method = "POST"
		if given.JSON != nil {
			request.JSON = given.JSON
		}
	case "get", "pieces", "whole", "left":
	default:
		return nil, guest.Invalid("there is no `%s`", given.Do)
	}
	return request.Send()
}
