package outbound

// The interface `requests` of the library, as the component model has it in a module.

import (
	"strings"
	"unsafe"

	"modelhost.example/guest/internal/abi"
	"modelhost.example/guest/internal/bridge"
)

type word = abi.Word

//go:wasmimport modelhost:outbound/requests@0.1.0 send
func importSend(
	method, methodLength, url, urlLength, headers, count, body, length, timeout word, result unsafe.Pointer,
)

//go:wasmimport modelhost:outbound/requests@0.1.0 send-webhook
func importSendWebhook(
	url, urlLength, json, length, hasSecret, secret, secretLength, attempts, pause, timeout word,
	result unsafe.Pointer,
)

//go:wasmimport modelhost:outbound/requests@0.1.0 [method]body.read
func importRead(handle word, result unsafe.Pointer)

//go:wasmimport modelhost:outbound/requests@0.1.0 [resource-drop]body
func importDrop(handle word)

// Bodies that this call of the handler has open: each holds a connection, of which there is a limit.
var opened = map[*stream]struct{}{}

func init() { bridge.AtEnd = append(bridge.AtEnd, closeAll) }

func closeAll() {
	for it := range opened {
		it.close()
	}
}

// The result of a call: whether it is an error, and what it has. Of a flag and of a kind only the first byte
// is written, of a status the first two.
type result [5]word

func (r *result) isError() bool { return r[0]&0xff != 0 }

// failed is the error of a result.
func (r *result) failed() error {
	err := &Error{Kind: Kind(r[1] & 0xff)}
	switch err.Kind {
	case Invalid, Failed:
		err.Text = strings.Clone(abi.StringAt(abi.Pointer(r[2]), r[3]))
	case Status:
		err.Status = int(r[2] & 0xffff)
	}
	return err
}

// response is that of a result, whose body is open from then on.
func (r *result) response() (*Response, error) {
	if r.isError() {
		return nil, r.failed()
	}
	texts := abi.TextsAt(abi.Pointer(r[2]), 2*r[3])
	headers := make([]header, len(texts)/2)
	for at := range headers {
		headers[at] = header{texts[2*at], texts[2*at+1]}
	}
	body := &stream{r[4], true}
	opened[body] = struct{}{}
	return made(int(r[1]&0xffff), headers, body), nil
}

func send(it request) (response *Response, err error) {
	// Bodies would fill the memory.
	bridge.Collect()
	abi.Import(func() {
		method, methodLength := abi.Text(it.method)
		url, urlLength := abi.Text(it.url)
		headers := make([]word, 0, 4*len(it.headers))
		for _, each := range it.headers {
			name, nameLength := abi.Text(each.name)
			value, valueLength := abi.Text(each.value)
			headers = append(headers, name, nameLength, value, valueLength)
		}
		told := new(result)
		importSend(method, methodLength, url, urlLength, abi.Address(headers), word(len(it.headers)),
			abi.Address(it.body), word(len(it.body)), it.timeout, abi.Keep(told))
		response, err = told.response()
	})
	return response, err
}

func sendWebhook(it webhook) (response *Response, err error) {
	bridge.Collect()
	abi.Import(func() {
		url, urlLength := abi.Text(it.url)
		secret, secretLength := abi.Text(it.secret)
		told, hasSecret := new(result), word(0)
		if it.secret != "" {
			hasSecret = 1
		}
		importSendWebhook(url, urlLength, abi.Address(it.json), word(len(it.json)), hasSecret, secret,
			secretLength, it.attempts, it.pause, it.timeout, abi.Keep(told))
		response, err = told.response()
	})
	return response, err
}

// stream is the library's body.
type stream struct {
	handle word
	isOpen bool
}

func (s *stream) next() (piece []byte, err error) {
	if !s.isOpen {
		return nil, errClosed
	}
	bridge.Collect()
	abi.Import(func() {
		told := new(result)
		importRead(s.handle, abi.Keep(told))
		switch {
		case told.isError():
			err = told.failed()
		case told[1]&0xff != 0:
			// A piece without bytes is not nil, which is the end.
			if piece = abi.BytesAt(abi.Pointer(told[2]), told[3]); piece == nil {
				piece = []byte{}
			}
		}
	})
	return piece, err
}

func (s *stream) close() {
	if s.isOpen {
		importDrop(s.handle)
		delete(opened, s)
		s.isOpen = false
	}
}
