package app

// The contract's `respond` and `streaming`.

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
	respond  = bridge.Respond.(bridgeRespond)
	lower    = bridge.Lower.(func([]word, *guest.Response))
	imported [3]word
)

type bridgeRespond = func(kind unsafe.Pointer, kindLength word, body unsafe.Pointer, bodyLength, context word,
	call func(*guest.Sample, *guest.Context) (*guest.Response, error),
	over func(*guest.Response, error) (*guest.Response, error)) unsafe.Pointer

//go:wasmexport modelhost:handler/respond@0.1.0#respond
func exportRespond(kind unsafe.Pointer, kindLength word, body unsafe.Pointer, bodyLength, context, output word) unsafe.Pointer {
	out := &Output{to: hostOutput(output)}
	call := func(sample *guest.Sample, context *guest.Context) (*guest.Response, error) {
		if onServe == nil {
			return nil, errors.New("the handler registers no function by app.Serve")
		}
		return onServe(sample, context, out)
	}
	return respond(kind, kindLength, body, bodyLength, context, call, out.over)
}

//go:wasmexport cabi_post_modelhost:handler/respond@0.1.0#respond
func postRespond(unsafe.Pointer) { abi.Over() }

//go:wasmimport modelhost:handler/streaming@0.1.0 [resource-drop]output
func outputDrop(handle word)

//go:wasmimport modelhost:handler/streaming@0.1.0 [method]output.begin
func outputBegin(handle, status, kind, kindLength, headers, headersLength word, result unsafe.Pointer)

//go:wasmimport modelhost:handler/streaming@0.1.0 [method]output.write
func outputWrite(handle, piece, length word) word

//go:wasmimport modelhost:handler/streaming@0.1.0 [static]output.finish
func outputFinish(handle word)

//go:wasmimport modelhost:handler/streaming@0.1.0 [static]output.send
func outputSend(handle, status, kind, kindLength, headers, headersLength, body, bodyLength word, result unsafe.Pointer)

// hostOutput is the host's handle of an output.
type hostOutput word

// told runs an import whose result is nothing or a text of what is wrong.
func told(call func(result unsafe.Pointer)) (err error) {
	abi.Import(func() {
		call(unsafe.Pointer(&imported))
		if imported[0]&0xff != 0 {
			err = errors.New(strings.Clone(abi.StringAt(abi.Pointer(imported[1]), imported[2])))
		}
	})
	return err
}

func (h hostOutput) begin(head *guest.Response) error {
	return told(func(result unsafe.Pointer) {
		var w [7]word
		lower(w[:], head)
		outputBegin(word(h), w[0], w[1], w[2], w[3], w[4], result)
	})
}

func (h hostOutput) write(piece []byte) (isRead bool) {
	// A long stream would fill the memory: nothing that the host has made is at stake here.
	bridge.Collect()
	abi.Import(func() { isRead = outputWrite(word(h), abi.Address(piece), word(len(piece))) != 0 })
	return isRead
}

func (h hostOutput) finish() { outputFinish(word(h)) }

func (h hostOutput) send(response *guest.Response) error {
	return told(func(result unsafe.Pointer) {
		var w [7]word
		lower(w[:], response)
		outputSend(word(h), w[0], w[1], w[2], w[3], w[4], w[5], w[6], result)
	})
}

func (h hostOutput) drop() { outputDrop(word(h)) }
