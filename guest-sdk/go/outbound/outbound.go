// Package outbound sends requests to other servers: to what the endpoint's `allow_outbound` lists, and to
// nothing else. By the library `outbound`, a component of its own, which `modelhost build` puts into the
// handler's, `[build]` with `with = ["outbound"]` in modelhost.toml.
//
//	response, err := outbound.Get("https://labels.example.com/v1")
//	if err != nil {
//		return nil, err
//	}
//	var labels []string
//	if err := response.JSON(&labels); err != nil {
//		return nil, err
//	}
//	hook := outbound.Webhook{URL: "https://hooks.example.com/done", Attempts: 5}
//	_, err = hook.Signed(os.Getenv("WEBHOOK_SECRET")).Send(map[string]any{"labels": labels})
//
// In a test others answer what the test says, see AnswerWith.
package outbound

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"modelhost.example/guest/internal/encode"
)

// Most bytes of a body that is read whole.
const longest = 16 << 20

// Bytes that are read at once of a body.
const block = 64 << 10

// The time of a request for which none is said.
const usualTimeout = 30 * time.Second

// The beginning of a secret in base64; with nothing behind it, it is empty.
const encoded = "whsec_"

// Kind says why there is no response.
type Kind uint8

// In the order of the interface, but for the last one.
const (
	// Denied: `allow_outbound` does not list the place.
	Denied Kind = iota
	// Prohibited: the place's name leads to an address of this machine, of a private network or of a
	// cloud's metadata.
	Prohibited
	// Invalid: a URL that no request can be sent to, a header that none can have, a value that is no JSON, or
	// an empty secret.
	Invalid
	// TimedOut: not in the time that it had.
	TimedOut
	// Failed: the server refused the connection, broke it off or did not speak HTTP, or the body is other
	// JSON.
	Failed
	// Status: the receiver of a webhook answered with another status than a 2xx.
	Status
	// TooLong: the body has more than 16 MiB. Read it piece by piece.
	TooLong
)

// An Error says why there is no response, or no body. As what a function returns it is 500, and its text goes
// to the log.
type Error struct {
	Kind Kind
	// Of [Invalid] and [Failed], the reason.
	Text string
	// Of [Status], the receiver's.
	Status int
}

func (e *Error) Error() string {
	switch e.Kind {
	case Denied:
		return "`allow_outbound` does not list where the request goes"
	case Prohibited:
		return "the name leads to an address that is not of the internet, and not listed itself"
	case TimedOut:
		return "there was no answer in time"
	case Failed:
		return "the request failed: " + e.Text
	case Status:
		return fmt.Sprintf("the receiver answered with status %d", e.Status)
	case TooLong:
		return fmt.Sprintf("the body is longer than %d bytes", longest)
	}
	return e.Text
}

func invalid(format string, arguments ...any) error {
	return &Error{Kind: Invalid, Text: fmt.Sprintf(format, arguments...)}
}

// A Request to another server.
type Request struct {
	// In capitals; empty for GET.
	Method string
	// With scheme and host.
	URL string
	// The content type among them.
	Header map[string]string
	Body   []byte
	// Unless nil, a value that is the body as JSON, in place of Body.
	JSON any
	// Most time to the head of the response, and between two pieces of its body; 0 for 30 s. The host waits
	// 60 s at most, and 10 s to connect.
	Timeout time.Duration
}

// Get asks for what is at a URL.
func Get(url string) (*Response, error) { return Request{URL: url}.Send() }

// Post sends a body to a URL.
func Post(url, contentType string, body []byte) (*Response, error) {
	header := map[string]string{"content-type": contentType}
	return Request{Method: "POST", URL: url, Header: header, Body: body}.Send()
}

// Send sends the request and waits for the head of the response, of any status. No redirect is followed. An
// error is an [Error].
func (r Request) Send() (*Response, error) {
	request, err := r.checked()
	if err != nil {
		return nil, err
	}
	return send(request)
}

// A Response of another server.
type Response struct {
	Status int
	// By names in lower case. A name that came more than once has its values in one, with commas between
	// them; values that are no text are left out.
	Header map[string]string
	// The body as it comes. It closes itself at its end, and with the call of the handler; close one that is
	// not read to its end.
	Body io.ReadCloser
}

// Bytes reads the rest of the body, of 16 MiB at most, and closes it.
func (r *Response) Bytes() ([]byte, error) {
	defer r.Body.Close()
	// In blocks, since of a slice that grows the garbage would fill the memory. How long it is, a header may
	// say of a body that never comes.
	length, blocks := 0, [][]byte(nil)
	for isOver := false; !isOver; {
		next := make([]byte, block)
		read, err := io.ReadFull(r.Body, next)
		isOver = err == io.EOF || err == io.ErrUnexpectedEOF
		if err != nil && !isOver {
			return nil, err
		}
		blocks, length = append(blocks, next[:read]), length+read
		if length > longest {
			return nil, &Error{Kind: TooLong}
		}
	}
	// Of one block too: what a handler keeps is no longer than the body.
	return bytes.Join(blocks, nil), nil
}

// Text reads the rest of the body as [Response.Bytes] does; for bytes that are no UTF-8 it has U+FFFD.
func (r *Response) Text() (string, error) {
	body, err := r.Bytes()
	return strings.ToValidUTF8(string(body), "\ufffd"), err
}

// JSON decodes the rest of the body into what `into` points at.
func (r *Response) JSON(into any) error {
	body, err := r.Bytes()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return &Error{Kind: Failed, Text: "its json: " + err.Error()}
	}
	return nil
}

// A Webhook is a POST of JSON to one receiver, unsigned unless it is [Webhook.Signed].
type Webhook struct {
	URL string
	// The most attempts; 0 is 1. The next one follows if there was no response, or 408, 429 or a 5xx.
	Attempts int
	// The time between the first two attempts; 0 for 1 s. Each pause is twice the one before, a fifth more
	// or less by chance; seconds that the receiver says in `retry-after` win. None is longer than a minute.
	Pause time.Duration
	// Most time of an attempt, as for a [Request]; 0 for 30 s.
	Timeout time.Duration
	// A pointer: what prints all fields prints its address.
	secret *string
}

// Signed gives the same webhook with a signature, as Standard Webhooks says
// (https://www.standardwebhooks.com). The secret is `whsec_` and base64, or any other text, whose bytes it is
// then; give it as a granted variable, which os.Getenv reads. With an empty one nothing is sent: Send fails,
// [Invalid].
func (w Webhook) Signed(secret string) Webhook {
	w.secret = &secret
	return w
}

// Send sends a value as JSON; the response is a 2xx. An error is an [Error].
func (w Webhook) Send(value any) (*Response, error) {
	webhook, err := w.checked(value)
	if err != nil {
		return nil, err
	}
	return sendWebhook(webhook)
}

// String is without the secret.
func (w Webhook) String() string { return "webhook to " + w.URL }

// GoString is without the secret too.
func (w Webhook) GoString() string {
	return fmt.Sprintf("outbound.Webhook{URL: %q, Attempts: %d, Pause: %d, Timeout: %d}", w.URL, w.Attempts, w.Pause, w.Timeout)
}

type header struct{ name, value string }

// request is a request as the interface has it.
type request struct {
	method, url string
	headers     []header
	body        []byte
	// In milliseconds, as all times of the interface.
	timeout uint32
}

// webhook is a webhook as the interface has it; the empty secret is none.
type webhook struct {
	url                      string
	json                     []byte
	secret                   string
	attempts, pause, timeout uint32
}

func (r Request) checked() (made request, err error) {
	made = request{method: r.Method, url: r.URL, body: r.Body}
	if made.method == "" {
		made.method = "GET"
	}
	isTyped := false
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		one := header{strings.ToLower(name), r.Header[name]}
		made.headers = append(made.headers, one)
		isTyped = isTyped || one.name == "content-type"
	}
	if r.JSON != nil {
		if made.body, err = encode.JSON(r.JSON); err != nil {
			return request{}, invalid("the body: %s", err)
		}
		if !isTyped {
			made.headers = append(made.headers, header{"content-type", "application/json"})
		}
	}
	if err := check(made.method, made.url, made.headers); err != nil {
		return request{}, err
	}
	made.timeout, err = milliseconds(r.Timeout, usualTimeout)
	return made, err
}

func (w Webhook) checked(value any) (made webhook, err error) {
	made = webhook{url: w.URL, attempts: uint32(w.Attempts)}
	if w.secret != nil {
		if made.secret = *w.secret; made.secret == "" || made.secret == encoded {
			return webhook{}, invalid("the secret is empty")
		}
	}
	if made.json, err = encode.JSON(value); err != nil {
		return webhook{}, invalid("the webhook: %s", err)
	}
	if int64(w.Attempts) < 0 || int64(w.Attempts) > math.MaxUint32 {
		return webhook{}, invalid("%d attempts", w.Attempts)
	}
	if !utf8.ValidString(made.secret) {
		return webhook{}, invalid("the secret is no UTF-8")
	}
	if err := check("POST", w.URL, nil); err != nil {
		return webhook{}, err
	}
	if made.pause, err = milliseconds(w.Pause, time.Second); err != nil {
		return webhook{}, err
	}
	made.timeout, err = milliseconds(w.Timeout, usualTimeout)
	return made, err
}

// milliseconds of a time, or of the usual one if none is said.
func milliseconds(span, usual time.Duration) (uint32, error) {
	if span < 0 {
		return 0, invalid("a time of %s", span)
	}
	if span == 0 {
		span = usual
	}
	return uint32(min(encode.Milliseconds(span), math.MaxUint32)), nil
}

// check refuses what the library would, so that a test sees it too.
func check(method, url string, headers []header) error {
	if !isToken(method) {
		return invalid("the method is none")
	}
	if !utf8.ValidString(url) {
		return invalid("the URL is no UTF-8")
	}
	if !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "https://") {
		return invalid("the URL does not begin with `http://` or `https://`")
	}
	isControl := func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
	for _, each := range headers {
		if !isToken(each.name) || !utf8.ValidString(each.value) || strings.ContainsFunc(each.value, isControl) {
			return invalid("a header cannot be sent")
		}
	}
	return nil
}

// isToken says whether it is a name of a header, or a method.
func isToken(text string) bool {
	isOther := func(r rune) bool {
		isOfName := '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		return !isOfName && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	}
	return text != "" && !strings.ContainsFunc(text, isOther)
}

// made is a response of headers, and of the pieces of a body.
func made(status int, headers []header, from source) *Response {
	response := &Response{Status: status, Header: map[string]string{}, Body: &body{from: from}}
	for _, each := range headers {
		if before, isThere := response.Header[each.name]; isThere {
			each.value = before + ", " + each.value
		}
		response.Header[each.name] = each.value
	}
	return response
}

// source is where a body comes from: the library, or a test.
type source interface {
	// next is the next piece; nil at the end.
	next() ([]byte, error)
	close()
}

// body reads pieces of any length.
type body struct {
	// nil: it is at its end, has broken off, or is closed.
	from source
	rest []byte
	// The error of Read once there is no more.
	over error
}

func (b *body) Read(buffer []byte) (int, error) {
	if len(buffer) == 0 {
		return 0, nil
	}
	for len(b.rest) == 0 {
		if b.from == nil {
			return 0, b.over
		}
		piece, err := b.from.next()
		if err == nil && piece == nil {
			err = io.EOF
		}
		if b.rest = piece; err != nil {
			b.end(err)
		}
	}
	length := copy(buffer, b.rest)
	b.rest = b.rest[length:]
	return length, nil
}

func (b *body) Close() error {
	b.rest = nil
	b.end(errClosed)
	return nil
}

func (b *body) end(over error) {
	if b.from != nil {
		b.from.close()
		b.from, b.over = nil, over
	}
}

var errClosed = &Error{Kind: Failed, Text: "the response is closed"}
