package abi

// Nothing but this package reads addresses.
//
// Arguments of exports and results of imports lie in memory that cabi_realloc made, which `held` keeps until the call is
// over; what a call returns, or an import is given, is kept by `given` until it has been read. No collector runs meanwhile,
// see collect_wasip1.go of the package guest; but stacks move, so that what an address is taken of is never on one.

import "unsafe"

// Word is a 32-bit word, of which a result is a row.
type Word = uint32

// Passed counts the bytes that the host, or the handler, was given.
var Passed uint64

var (
	held  []unsafe.Pointer
	given []any
	// What the adapter for WASI's functions takes its memory from, before the runtime has begun and while it works.
	adapter     [4 * 65536]byte
	adapterUsed uintptr
	nothing     uint64
)

//go:wasmexport cabi_realloc
func cabiRealloc(old unsafe.Pointer, oldSize, align, size Word) unsafe.Pointer {
	if size == 0 {
		return unsafe.Pointer(&nothing)
	}
	// Of 8 bytes each, so that it is aligned for all.
	made := unsafe.Pointer(unsafe.SliceData(make([]uint64, (size+7)/8)))
	if oldSize > 0 {
		copy(unsafe.Slice((*byte)(made), size), unsafe.Slice((*byte)(old), oldSize))
	}
	held = append(held, made)
	Passed += uint64(size)
	return made
}

// It may not allocate, nor need a larger stack.
//
//go:nosplit
//go:wasmexport cabi_realloc_adapter
func cabiReallocAdapter(_ unsafe.Pointer, _, align, size Word) unsafe.Pointer {
	begin := uintptr(unsafe.Pointer(&adapter))
	start := (begin + adapterUsed + uintptr(align) - 1) &^ (uintptr(align) - 1)
	if start-begin+uintptr(size) > uintptr(len(adapter)) {
		return nil
	}
	adapterUsed = start - begin + uintptr(size)
	return unsafe.Pointer(start)
}

// Over ends a call: what it was given and what it returned is let go.
func Over() {
	clear(held)
	clear(given)
	held, given = held[:0], given[:0]
}

// Import runs a function that calls an import and reads its result. What was made for the call is let go after it, but for
// what the function keeps.
func Import(call func()) {
	before, returned := len(held), len(given)
	call()
	clear(held[before:])
	clear(given[returned:])
	held, given = held[:before], given[:returned]
}

// Pointer is where an address leads.
func Pointer(address Word) unsafe.Pointer { return unsafe.Pointer(uintptr(address)) }

// Keep is the address of a value, which stays where it is until it has been read.
func Keep[T any](value *T) unsafe.Pointer {
	given = append(given, value)
	return unsafe.Pointer(value)
}

// BytesAt reads a list of bytes.
func BytesAt(start unsafe.Pointer, length Word) []byte {
	if length == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(start), length)
}

// StringAt reads a text.
func StringAt(start unsafe.Pointer, length Word) string {
	return unsafe.String((*byte)(start), length)
}

// TextsAt reads a list of texts.
func TextsAt(start unsafe.Pointer, length Word) []string {
	words := WordsAt(start, 2*length)
	texts := make([]string, length)
	for at := range texts {
		texts[at] = StringAt(Pointer(words[2*at]), words[2*at+1])
	}
	return texts
}

// WordsAt reads a list of words.
func WordsAt(start unsafe.Pointer, length Word) []Word {
	if length == 0 {
		return nil
	}
	return unsafe.Slice((*Word)(start), length)
}

// ExtentsAt reads a shape.
func ExtentsAt(start unsafe.Pointer, length Word) []uint64 {
	if length == 0 {
		return nil
	}
	return unsafe.Slice((*uint64)(start), length)
}

// Address of the elements of a slice that is read after the call, or by an import.
func Address[T any](values []T) Word {
	if len(values) == 0 {
		return 8
	}
	given = append(given, unsafe.SliceData(values))
	Passed += uint64(len(values)) * uint64(unsafe.Sizeof(values[0]))
	return Word(uintptr(unsafe.Pointer(unsafe.SliceData(values))))
}

// Text is where a text lies, and its length.
func Text(value string) (Word, Word) {
	return Address(unsafe.Slice(unsafe.StringData(value), len(value))), Word(len(value))
}

// Texts is where a list of texts lies, and their number.
func Texts(values []string) (Word, Word) {
	words := make([]Word, 0, 2*len(values))
	for _, value := range values {
		start, length := Text(value)
		words = append(words, start, length)
	}
	return Address(words), Word(len(values))
}
