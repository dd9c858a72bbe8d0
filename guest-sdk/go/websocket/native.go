//go:build !wasip1

package websocket

// The client of a unit test, in the place of the host.

import (
	"bytes"
	"fmt"
	"strings"

	"modelhost.example/guest"
)

func link() {}

// A Recorder is the client of a [Function] in a test, and has what the function did.
type Recorder struct {
	// Set before the call: the messages that the client sends, and how it closes the socket after them, with
	// 1000 unless it is said. At a message without a kind the client waits, until the time of a
	// ReceiveTimeout is over.
	Says   []Message
	Leaves *CloseError
	// The messages that the function sent.
	Sent []Message
	// The subprotocol that it chose.
	Protocol string
	// How it closed the socket itself; its return closes it too.
	Close *CloseError
	// The response with which the handshake was refused.
	Refusal *guest.Response

	offers []string
}

// Record calls a function for a client. The subprotocols that it offers are in the request's header
// `sec-websocket-protocol`. The error is one that would close the socket with 1011.
func (r *Recorder) Record(function Function, request guest.Request) error {
	request.Method = "GET"
	context := guest.NewContext(request)
	r.offers = nil
	offered, _ := context.Header("sec-websocket-protocol")
	for protocol := range strings.SplitSeq(offered, ",") {
		if protocol = strings.TrimSpace(protocol); protocol != "" {
			r.offers = append(r.offers, protocol)
		}
	}
	return (&Socket{peer: (*client)(r)}).serve(function, context)
}

// Texts are the texts among the messages that the function sent.
func (r *Recorder) Texts() (texts []string) {
	for _, message := range r.Sent {
		if message.Kind == Text {
			texts = append(texts, string(message.Data))
		}
	}
	return texts
}

// client is a Recorder as the function's socket sees it.
type client Recorder

func (c *client) protocols() []string { return c.offers }

func (c *client) accept(protocol string) error {
	c.Protocol = protocol
	return nil
}

func (c *client) refuse(response *guest.Response) error {
	c.Refusal = response
	return nil
}

func (c *client) receive(hasTimeout bool, _ uint32) (Message, error) {
	for c.Close == nil && len(c.Says) > 0 {
		message := c.Says[0]
		c.Says = c.Says[1:]
		switch {
		case message.Kind != 0:
			return message, nil
		case hasTimeout:
			return message, ErrTimeout
		}
	}
	switch {
	case c.Close != nil:
		return Message{}, c.Close
	case c.Leaves != nil:
		return Message{}, c.Leaves
	}
	return Message{}, &CloseError{Code: 1000}
}

func (c *client) send(kind Kind, data []byte) error {
	if c.Close != nil {
		return c.Close
	}
	c.Sent = append(c.Sent, Message{kind, bytes.Clone(data)})
	return nil
}

func (c *client) close(code uint16, reason string) error {
	for _, codes := range [][2]uint16{{1000, 1003}, {1007, 1011}, {3000, 4999}} {
		if code < codes[0] || code > codes[1] {
			continue
		}
		if len(reason) > 123 {
			return fmt.Errorf("the reason has %d bytes, of at most 123", len(reason))
		}
		if c.Close == nil {
			c.Close = &CloseError{int(code), reason}
		}
		return nil
	}
	return fmt.Errorf("code %d is not one that is sent", code)
}
