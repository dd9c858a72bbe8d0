// Package websocket serves WebSockets: a function is called once for each client, and talks with it for as
// long as both like.
//
//	func init() { websocket.Serve(talk) }
//
//	func talk(socket *websocket.Socket, context *guest.Context) error {
//		for message := range socket.Messages() {
//			if err := socket.Send(message); err != nil {
//				return err
//			}
//		}
//		return nil
//	}
//
// It does so beside the functions of an application or of a model, or alone. In an application of routes
// package router leads sockets to functions. In a test a [Recorder] is the client.
package websocket

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"
	"unicode/utf8"
	"unsafe"

	"modelhost.example/guest"
	"modelhost.example/guest/internal/bridge"
	"modelhost.example/guest/internal/encode"
)

// ErrTimeout says that no message came in the time that [Socket.ReceiveTimeout] was given.
var ErrTimeout = errors.New("no message came in that time")

// A CloseError says that the socket is closed, and how (RFC 6455, section 7.4). As what a [Function] returns
// it is no failure: the conversation is over.
type CloseError struct {
	// 1005: the client closed without a code; 1006: it went without a close.
	Code int
	// May be empty.
	Reason string
}

func (e *CloseError) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("the socket is closed, with %d", e.Code)
	}
	return fmt.Sprintf("the socket is closed, with %d: %s", e.Code, e.Reason)
}

// Kind of a message.
type Kind uint8

// The kinds, by their numbers in the protocol.
const (
	Text   Kind = 1
	Binary Kind = 2
)

// A Message of one side.
type Message struct {
	Kind Kind
	// Of a text its UTF-8.
	Data []byte
}

// JSON decodes the message into what `value` points at, as encoding/json does.
func (m Message) JSON(value any) error { return json.Unmarshal(m.Data, value) }

// A Function talks with a client. Its context is the request of the handshake.
//
// The socket opens at its first use, and until then an error is the answer to the handshake, as to any
// request: [guest.Respond] answers with a response, and [guest.Invalid] with 400. Later an error closes the
// socket with 1011, and its text goes to the log; without one it is closed with 1000.
type Function func(socket *Socket, context *guest.Context) error

var onSocket Function

// Serve registers the function that serves each client's socket: on the endpoint's path, of an application on
// all paths below it too.
//
//go:noinline
func Serve(function Function) {
	onSocket = function
	link()
}

// peer is the other side: the host, or a test. What it is asked fails with a [CloseError] if the socket is
// closed.
type peer interface {
	protocols() []string
	accept(protocol string) error
	refuse(response *guest.Response) error
	// receive waits for so many milliseconds at most, or for any time.
	receive(hasTimeout bool, timeout uint32) (Message, error)
	send(kind Kind, data []byte) error
	close(code uint16, reason string) error
}

// Socket is a client's. It is good for one call, and for one goroutine at a time.
type Socket struct {
	peer   peer
	isOpen bool
	closed *CloseError
}

// Protocols are the subprotocols that the client offers, in its order of preference; none once the socket is
// open.
func (s *Socket) Protocols() []string {
	if s.isOpen {
		return nil
	}
	return s.peer.protocols()
}

// Accept opens the socket, with one of the client's subprotocols, or with none, which is the empty one.
func (s *Socket) Accept(protocol string) error {
	if s.isOpen {
		return errors.New("the socket is open already")
	}
	if protocol != "" && !slices.Contains(s.peer.protocols(), protocol) {
		return fmt.Errorf("the client offers no subprotocol %q", protocol)
	}
	if err := s.peer.accept(protocol); err != nil {
		return err
	}
	s.isOpen = true
	return nil
}

// Receive waits for the next message. Once the socket is closed, and all that the client sent has been
// received, the error is a [CloseError].
func (s *Socket) Receive() (Message, error) { return s.receive(false, 0) }

// ReceiveTimeout waits for at most this long; then the error is [ErrTimeout].
func (s *Socket) ReceiveTimeout(timeout time.Duration) (Message, error) {
	return s.receive(true, uint32(min(encode.Milliseconds(max(timeout, 0)), math.MaxUint32)))
}

func (s *Socket) receive(hasTimeout bool, timeout uint32) (message Message, err error) {
	err = s.asked(func() error {
		message, err = s.peer.receive(hasTimeout, timeout)
		return err
	})
	return message, err
}

// Messages has the messages of the client, until the socket is closed.
func (s *Socket) Messages() iter.Seq[Message] {
	return func(yield func(Message) bool) {
		for {
			message, err := s.Receive()
			if err != nil || !yield(message) {
				return
			}
		}
	}
}

// Send sends a message, and waits while the client does not read. It fails with a [CloseError] if the socket
// is closed, and with another error if the message is longer than the endpoint's `limits.socket_message`.
func (s *Socket) Send(message Message) error {
	switch {
	case message.Kind != Text && message.Kind != Binary:
		return fmt.Errorf("a message has no kind %d", message.Kind)
	case message.Kind == Text && !utf8.Valid(message.Data):
		return errors.New("the text is not UTF-8")
	}
	return s.asked(func() error { return s.peer.send(message.Kind, message.Data) })
}

// SendText sends a text, as [Socket.Send] does.
func (s *Socket) SendText(text string) error {
	// It is only read.
	return s.Send(Message{Text, unsafe.Slice(unsafe.StringData(text), len(text))})
}

// SendBinary sends bytes, as [Socket.Send] does.
func (s *Socket) SendBinary(data []byte) error { return s.Send(Message{Binary, data}) }

// SendJSON sends a text of what encoding/json writes of a value.
func (s *Socket) SendJSON(value any) error {
	written, err := encode.JSON(value)
	if err != nil {
		return fmt.Errorf("the message: %w", err)
	}
	return s.Send(Message{Text, written})
}

// Close closes the socket after what was sent, with a code of 1000 to 1003, 1007 to 1011, or 3000 to 4999,
// and a reason of at most 123 bytes. The first close counts: it is no error if the socket is closed.
func (s *Socket) Close(code int, reason string) error {
	switch {
	case code < 0 || code > math.MaxUint16:
		return fmt.Errorf("code %d is not one that is sent", code)
	case !utf8.ValidString(reason):
		return errors.New("the reason is not UTF-8")
	}
	err := s.asked(func() error { return s.peer.close(uint16(code), reason) })
	switch {
	case s.closed != nil && err == error(s.closed):
		return nil
	case err == nil && s.closed == nil:
		s.closed = &CloseError{code, reason}
	}
	return err
}

// Closed is how the socket was closed, once a call has found that out; nil before.
func (s *Socket) Closed() *CloseError { return s.closed }

// asked calls the peer, for which the socket is open.
func (s *Socket) asked(call func() error) error {
	if !s.isOpen {
		if err := s.Accept(""); err != nil {
			return err
		}
	}
	err := call()
	if closed, is := err.(*CloseError); is {
		if s.closed == nil {
			s.closed = closed
		}
		return s.closed
	}
	return err
}

// serve calls a function. What it returns before the socket is open is the answer to the handshake.
func (s *Socket) serve(function Function, context *guest.Context) error {
	err := function(s, context)
	var closed *CloseError
	switch {
	case err == nil && !s.isOpen:
		return s.Accept("")
	case err == nil, errors.As(err, &closed) && closed == s.closed:
		return nil
	case s.isOpen:
		return err
	}
	answerTo := bridge.AnswerTo.(func(error, *guest.Context) *guest.Response)
	if response := answerTo(err, context); response != nil {
		return s.peer.refuse(response)
	}
	return err
}
