package websocket

// The contract's `websocket` and `websockets`.
//
// Imports are linked, and so are in the component, only where a program calls Serve: nothing but `link` leads
// to them.

import (
	"errors"
	"strings"
	"unsafe"

	"modelhost.example/guest"
	"modelhost.example/guest/internal/abi"
	"modelhost.example/guest/internal/bridge"
)

type word = abi.Word

var (
	guard = bridge.Guard.(func(context word, call func(*guest.Context) error) error)
	lower = bridge.Lower.(func([]word, *guest.Response))
	// Set by `link`.
	converse func(upgrade word, context *guest.Context) error
	// The result of the export, and of an import. Of a flag, and of a variant's kind, only the first byte is
	// written.
	returned [3]word
	result   [5]word
	// The client of the call that is under way: an instance with a handle of it serves no other.
	current *host
)

//go:wasmexport modelhost:handler/websocket@0.1.0#websocket
func exportWebsocket(upgrade, context word) unsafe.Pointer {
	err := guard(context, func(context *guest.Context) error {
		if converse == nil {
			return errors.New("the handler registers no function by websocket.Serve")
		}
		return converse(upgrade, context)
	})
	returned[0] = 0
	if err != nil {
		returned[0] = 1
		// It may have a part of a message in it, and the host takes no text but UTF-8.
		returned[1], returned[2] = abi.Text(strings.ToValidUTF8(err.Error(), "?"))
	}
	return unsafe.Pointer(&returned)
}

//go:wasmexport cabi_post_modelhost:handler/websocket@0.1.0#websocket
func postWebsocket(unsafe.Pointer) { abi.Over() }

//go:wasmimport modelhost:handler/websockets@0.1.0 [resource-drop]upgrade
func importDropUpgrade(upgrade word)

//go:wasmimport modelhost:handler/websockets@0.1.0 [method]upgrade.protocols
func importProtocols(upgrade word, result unsafe.Pointer)

//go:wasmimport modelhost:handler/websockets@0.1.0 [static]upgrade.accept
func importAccept(upgrade, hasProtocol, protocol, length word, result unsafe.Pointer)

//go:wasmimport modelhost:handler/websockets@0.1.0 [static]upgrade.refuse
func importRefuse(
	upgrade, status, kind, kindLength, headers, headersLength, body, bodyLength word, result unsafe.Pointer,
)

//go:wasmimport modelhost:handler/websockets@0.1.0 [resource-drop]socket
func importDropSocket(socket word)

//go:wasmimport modelhost:handler/websockets@0.1.0 [method]socket.receive
func importReceive(socket, hasTimeout, timeout word, result unsafe.Pointer)

//go:wasmimport modelhost:handler/websockets@0.1.0 [method]socket.send
func importSend(socket, kind, data, length word, result unsafe.Pointer)

//go:wasmimport modelhost:handler/websockets@0.1.0 [method]socket.close
func importClose(socket, code, reason, length word, result unsafe.Pointer)

// kinds of messages and of errors, in the order of the contract.
const (
	textKind = iota
	binaryKind

	closedKind   = 0
	timedOutKind = 1
)

func link() {
	if converse != nil {
		return
	}
	bridge.AtEnd = append(bridge.AtEnd, func() {
		if current != nil {
			current.drop()
		}
	})
	converse = func(upgrade word, context *guest.Context) error {
		current = &host{upgrade: upgrade}
		return (&Socket{peer: current}).serve(onSocket, context)
	}
}

// host is the host's handshake, and the socket that comes of it; 0 for a handle that is given up.
type host struct{ upgrade, socket word }

func (h *host) drop() {
	if h.upgrade != 0 {
		importDropUpgrade(h.upgrade)
	}
	if h.socket != 0 {
		importDropSocket(h.socket)
	}
	h.upgrade, h.socket, current = 0, 0, nil
}

func into() unsafe.Pointer { return unsafe.Pointer(&result) }

func textAt(at int) string { return strings.Clone(abi.StringAt(abi.Pointer(result[at]), result[at+1])) }

// failed is the error of a result.
func failed() error {
	switch {
	case result[0]&0xff == 0:
		return nil
	case result[1]&0xff == closedKind:
		return &CloseError{int(result[2] & 0xffff), textAt(3)}
	case result[1]&0xff == timedOutKind:
		return ErrTimeout
	}
	return errors.New(textAt(2))
}

func (h *host) protocols() (all []string) {
	if h.upgrade == 0 {
		return nil
	}
	abi.Import(func() {
		importProtocols(h.upgrade, into())
		all = abi.TextsAt(abi.Pointer(result[0]), result[1])
	})
	return all
}

// answered runs an import that takes the handshake, and has no error but a text.
func (h *host) answered(call func(upgrade word)) (err error) {
	upgrade := h.upgrade
	if h.upgrade = 0; upgrade == 0 {
		return errors.New("the handshake is answered already")
	}
	abi.Import(func() {
		if call(upgrade); result[0]&0xff != 0 {
			err = errors.New(textAt(1))
		}
	})
	return err
}

func (h *host) accept(protocol string) error {
	err := h.answered(func(upgrade word) {
		has := word(0)
		if protocol != "" {
			has = 1
		}
		start, length := abi.Text(protocol)
		importAccept(upgrade, has, start, length, into())
	})
	if err == nil {
		h.socket = result[1]
	}
	return err
}

func (h *host) refuse(response *guest.Response) error {
	return h.answered(func(upgrade word) {
		var w [7]word
		lower(w[:], response)
		importRefuse(upgrade, w[0], w[1], w[2], w[3], w[4], w[5], w[6], into())
	})
}

func (h *host) receive(hasTimeout bool, timeout uint32) (message Message, err error) {
	// A long conversation would fill the memory: nothing that the host has made is at stake here.
	bridge.Collect()
	abi.Import(func() {
		has := word(0)
		if hasTimeout {
			has = 1
		}
		if importReceive(h.socket, has, timeout, into()); result[0]&0xff != 0 {
			err = failed()
			return
		}
		kind := Text
		if result[1]&0xff == binaryKind {
			kind = Binary
		}
		message = Message{kind, abi.BytesAt(abi.Pointer(result[2]), result[3])}
	})
	return message, err
}

func (h *host) send(kind Kind, data []byte) (err error) {
	bridge.Collect()
	abi.Import(func() {
		sent := word(textKind)
		if kind == Binary {
			sent = binaryKind
		}
		importSend(h.socket, sent, abi.Address(data), word(len(data)), into())
		err = failed()
	})
	return err
}

func (h *host) close(code uint16, reason string) (err error) {
	abi.Import(func() {
		start, length := abi.Text(reason)
		importClose(h.socket, word(code), start, length, into())
		err = failed()
	})
	return err
}
