package blobs

// `wasi:blobstore`, and the streams of `wasi:io` as far as objects go by them.

import (
	"strings"
	"time"
	"unsafe"

	"modelhost.example/guest/internal/abi"
	"modelhost.example/guest/internal/bridge"
)

type word = abi.Word

//go:wasmimport wasi:blobstore/blobstore@0.2.0-draft get-container
func importGetContainer(name, length word, result unsafe.Pointer)

//go:wasmimport wasi:blobstore/container@0.2.0-draft [resource-drop]container
func importDropContainer(container word)

//go:wasmimport wasi:blobstore/container@0.2.0-draft [method]container.get-data
func importGetData(container, name, length word, start, end uint64, result unsafe.Pointer)

//go:wasmimport wasi:blobstore/container@0.2.0-draft [method]container.write-data
func importWriteData(container, name, length, value word, result unsafe.Pointer)

//go:wasmimport wasi:blobstore/container@0.2.0-draft [method]container.has-object
func importHasObject(container, name, length word, result unsafe.Pointer)

//go:wasmimport wasi:blobstore/container@0.2.0-draft [method]container.object-info
func importObjectInfo(container, name, length word, result unsafe.Pointer)

//go:wasmimport wasi:blobstore/container@0.2.0-draft [method]container.delete-object
func importDeleteObject(container, name, length word, result unsafe.Pointer)

//go:wasmimport wasi:blobstore/container@0.2.0-draft [method]container.clear
func importClear(container word, result unsafe.Pointer)

//go:wasmimport wasi:blobstore/container@0.2.0-draft [method]container.list-objects
func importListObjects(container word, result unsafe.Pointer)

//go:wasmimport wasi:blobstore/container@0.2.0-draft [resource-drop]stream-object-names
func importDropNames(names word)

//go:wasmimport wasi:blobstore/container@0.2.0-draft [method]stream-object-names.read-stream-object-names
func importReadNames(names word, most uint64, result unsafe.Pointer)

//go:wasmimport wasi:blobstore/types@0.2.0-draft [method]incoming-value.size
func importSize(value word) uint64

//go:wasmimport wasi:blobstore/types@0.2.0-draft [static]incoming-value.incoming-value-consume-async
func importConsume(value word, result unsafe.Pointer)

//go:wasmimport wasi:blobstore/types@0.2.0-draft [resource-drop]outgoing-value
func importDropOutgoing(value word)

//go:wasmimport wasi:blobstore/types@0.2.0-draft [static]outgoing-value.new-outgoing-value
func importNewOutgoing() word

//go:wasmimport wasi:blobstore/types@0.2.0-draft [method]outgoing-value.outgoing-value-write-body
func importWriteBody(value word, result unsafe.Pointer)

//go:wasmimport wasi:blobstore/types@0.2.0-draft [static]outgoing-value.finish
func importFinish(value word, result unsafe.Pointer)

//go:wasmimport wasi:io/streams@0.2.12 [resource-drop]input-stream
func importDropInput(stream word)

//go:wasmimport wasi:io/streams@0.2.12 [method]input-stream.blocking-read
func importRead(stream word, length uint64, result unsafe.Pointer)

//go:wasmimport wasi:io/streams@0.2.12 [resource-drop]output-stream
func importDropOutput(stream word)

//go:wasmimport wasi:io/streams@0.2.12 [method]output-stream.check-write
func importCheckWrite(stream word, result unsafe.Pointer)

//go:wasmimport wasi:io/streams@0.2.12 [method]output-stream.write
func importWrite(stream, piece, length word, result unsafe.Pointer)

//go:wasmimport wasi:io/streams@0.2.12 [method]output-stream.subscribe
func importSubscribe(stream word) word

//go:wasmimport wasi:io/poll@0.2.12 [method]pollable.block
func importBlock(pollable word)

//go:wasmimport wasi:io/poll@0.2.12 [resource-drop]pollable
func importDropPollable(pollable word)

//go:wasmimport wasi:io/error@0.2.12 [method]error.to-debug-string
func importDebugString(failure word, result unsafe.Pointer)

//go:wasmimport wasi:io/error@0.2.12 [resource-drop]error
func importDropError(failure word)

var (
	// The result of a call. Of a flag only the first byte is written.
	result struct {
		_       [0]uint64
		isError uint8
		// What follows lies here, from the second word on if it has a number of 64 bits.
		words [9]word
	}
	// What this call of the handler reads and writes: an instance with an open stream serves no other
	// request.
	opened = map[interface{ drop() }]struct{}{}
)

func init() { bridge.AtEnd = append(bridge.AtEnd, closeAll) }

func closeAll() {
	for it := range opened {
		it.drop()
	}
}

func into() unsafe.Pointer { return unsafe.Pointer(&result) }

func textAt(at int) string { return abi.StringAt(abi.Pointer(result.words[at]), result.words[at+1]) }

func long(at int) uint64 { return uint64(result.words[at]) | uint64(result.words[at+1])<<32 }

// failed is the error of a container or a value, whose text begins at this word.
func failed(at int) error { return &Error{Text: strings.Clone(textAt(at))} }

// broken is the error of a stream, which begins at this word, and whether it is no more than its end.
func broken(at int) (err error, isEnd bool) {
	if result.words[at]&0xff != 0 {
		return errClosed, true
	}
	failure := result.words[at+1]
	importDebugString(failure, into())
	text := (*[2]word)(into())
	err = &Error{Text: strings.Clone(abi.StringAt(abi.Pointer(text[0]), text[1]))}
	importDropError(failure)
	return err, false
}

// with calls a function with a container of the host.
func (c *Container) with(call func(container word) error) (err error) {
	bridge.Collect()
	abi.Import(func() {
		name, length := abi.Text(c.name)
		if importGetContainer(name, length, into()); result.isError != 0 {
			err = failed(0)
			return
		}
		container := result.words[0]
		err = call(container)
		importDropContainer(container)
	})
	return err
}

// asked says what is wrong with the result of an import that is called with a container and the name of an
// object.
func asked(call func(container, name, length word, result unsafe.Pointer), container word, name string, errorAt int) error {
	start, length := abi.Text(name)
	if call(container, start, length, into()); result.isError != 0 {
		return failed(errorAt)
	}
	return nil
}

func (c *Container) open() error { return c.with(func(word) error { return nil }) }

func (c *Container) read(name string, first, last uint64) (from source, size int64, err error) {
	err = c.with(func(container word) error {
		start, length := abi.Text(name)
		if importGetData(container, start, length, first, last, into()); result.isError != 0 {
			return failed(0)
		}
		value := result.words[0]
		size = int64(importSize(value))
		if importConsume(value, into()); result.isError != 0 {
			return failed(0)
		}
		it := &input{result.words[0]}
		opened[it], from = struct{}{}, it
		return nil
	})
	return from, size, err
}

func (c *Container) write(name string) (to sink, err error) {
	err = c.with(func(container word) error {
		value := importNewOutgoing()
		start, length := abi.Text(name)
		if importWriteData(container, start, length, value, into()); result.isError != 0 {
			defer importDropOutgoing(value)
			return failed(0)
		}
		if importWriteBody(value, into()); result.isError != 0 {
			importDropOutgoing(value)
			return &Error{Text: "the object is being written already"}
		}
		it := &output{value, result.words[0]}
		opened[it], to = struct{}{}, it
		return nil
	})
	return to, err
}

func (c *Container) info(name string) (info Info, found bool, err error) {
	err = c.with(func(container word) error {
		if err := asked(importHasObject, container, name, 0); err != nil {
			return err
		}
		if found = result.words[0]&0xff != 0; !found {
			return nil
		}
		if err := asked(importObjectInfo, container, name, 1); err != nil {
			return err
		}
		info = Info{int64(long(7)), time.Unix(int64(long(5)), 0)}
		return nil
	})
	return info, found, err
}

func (c *Container) delete(name string) error {
	return c.with(func(container word) error { return asked(importDeleteObject, container, name, 0) })
}

func (c *Container) clear() error {
	return c.with(func(container word) error {
		if importClear(container, into()); result.isError != 0 {
			return failed(0)
		}
		return nil
	})
}

func (c *Container) names(most int) (names []string, err error) {
	err = c.with(func(container word) error {
		if importListObjects(container, into()); result.isError != 0 {
			return failed(0)
		}
		list := result.words[0]
		defer importDropNames(list)
		for isEnd := false; !isEnd && len(names) < most; {
			if importReadNames(list, uint64(min(mostNames, most-len(names))), into()); result.isError != 0 {
				return failed(0)
			}
			names = append(names, abi.TextsAt(abi.Pointer(result.words[0]), result.words[1])...)
			isEnd = result.words[2]&0xff != 0
		}
		return nil
	})
	return names, err
}

// input is the host's stream of an object that is read; 0 when it is closed.
type input struct{ stream word }

func (i *input) read(buffer []byte) (length int, err error) {
	if i.stream == 0 {
		return 0, errClosed
	}
	// A large object would fill the memory with its pieces.
	bridge.Collect()
	abi.Import(func() {
		if importRead(i.stream, uint64(len(buffer)), into()); result.isError == 0 {
			length = copy(buffer, abi.BytesAt(abi.Pointer(result.words[0]), result.words[1]))
			return
		}
		if said, isEnd := broken(0); !isEnd {
			err = said
		}
	})
	return length, err
}

func (i *input) close() { i.drop() }

func (i *input) drop() {
	if i.stream != 0 {
		importDropInput(i.stream)
		delete(opened, i)
		i.stream = 0
	}
}

// output is the host's value of an object that is written, and its stream; 0 when it is closed.
type output struct{ value, stream word }

func (o *output) write(piece []byte) (err error) {
	if o.stream == 0 {
		return errClosed
	}
	bridge.Collect()
	abi.Import(func() {
		for len(piece) > 0 {
			if importCheckWrite(o.stream, into()); result.isError != 0 {
				err, _ = broken(1)
				return
			}
			room := long(1)
			if room == 0 {
				pollable := importSubscribe(o.stream)
				importBlock(pollable)
				importDropPollable(pollable)
				continue
			}
			length := min(uint64(len(piece)), room)
			if importWrite(o.stream, abi.Address(piece), word(length), into()); result.isError != 0 {
				err, _ = broken(0)
				return
			}
			piece = piece[length:]
		}
	})
	return err
}

func (o *output) finish() (err error) {
	if o.stream == 0 {
		return errClosed
	}
	abi.Import(func() {
		o.closeStream()
		if importFinish(o.value, into()); result.isError != 0 {
			err = failed(0)
		}
	})
	return err
}

func (o *output) giveUp() { o.drop() }

func (o *output) drop() {
	if o.stream != 0 {
		o.closeStream()
		importDropOutgoing(o.value)
	}
}

// closeStream is what has to be done before the value is finished or dropped.
func (o *output) closeStream() {
	importDropOutput(o.stream)
	delete(opened, o)
	o.stream = 0
}
