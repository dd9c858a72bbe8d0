package tokenizer

import (
	"unsafe"

	"modelhost.example/guest"
	"modelhost.example/guest/internal/abi"
)

//go:wasmimport modelhost:tokenizer/tokenizers@0.1.0 [static]tokenizer.load
func importLoad(json unsafe.Pointer, length abi.Word, result unsafe.Pointer)

//go:wasmimport modelhost:tokenizer/tokenizers@0.1.0 [method]tokenizer.encode
func importEncode(
	handle, texts, textsLength, seconds, secondsLength, specialTokens, padding, paddingTo, truncation, truncationTo, hasOffsets, unit abi.Word,
	result unsafe.Pointer,
)

//go:wasmimport modelhost:tokenizer/tokenizers@0.1.0 [method]tokenizer.decode
func importDecode(handle, ids, length, skipSpecialTokens abi.Word, result unsafe.Pointer)

//go:wasmimport modelhost:tokenizer/tokenizers@0.1.0 [method]tokenizer.id-of
func importIDOf(handle, token, length abi.Word, result unsafe.Pointer)

//go:wasmimport modelhost:tokenizer/tokenizers@0.1.0 [method]tokenizer.token-of
func importTokenOf(handle, id abi.Word, result unsafe.Pointer)

//go:wasmimport modelhost:tokenizer/tokenizers@0.1.0 [method]tokenizer.size
func importSize(handle abi.Word) abi.Word

//go:wasmimport modelhost:tokenizer/tokenizers@0.1.0 [resource-drop]tokenizer
func importDrop(handle abi.Word)

// The interface's variants.
const (
	paddingOff = iota
	paddingLongest
	paddingTo
	paddingAsFile
)

const (
	truncationOff = iota
	truncationTo
	truncationAsFile
)

// A result: whether it is an error, of which only the first byte is written, and what it has. A word of an enum is one whose
// first byte counts.
type result [11]abi.Word

func (r *result) isFirst() bool { return r[0]&0xff == 0 }

func (r *result) text(at int) string {
	return string(abi.BytesAt(abi.Pointer(r[at]), r[at+1]))
}

func (r *result) failed() error { return &Error{Kind(r[1] & 0xff), r.text(2)} }

func flag(is bool) abi.Word {
	if is {
		return 1
	}
	return 0
}

func load(json []byte) (made *Tokenizer, err error) {
	abi.Import(func() {
		told := new(result)
		importLoad(abi.Pointer(abi.Address(json)), abi.Word(len(json)), abi.Keep(told))
		if !told.isFirst() {
			err = told.failed()
			return
		}
		made = &Tokenizer{told[1]}
	})
	return made, err
}

func (t *Tokenizer) encode(texts, seconds []string, options Options) (made *Encoding, err error) {
	padding, paddedTo := abi.Word(paddingTo), abi.Word(max(options.Padding, 0))
	switch options.Padding {
	case Longest:
		padding = paddingLongest
	case NoPadding:
		padding = paddingOff
	case PaddingAsFile:
		padding = paddingAsFile
	}
	truncation, most := abi.Word(truncationTo), abi.Word(max(options.Truncation, 0))
	switch options.Truncation {
	case AsFile:
		truncation = truncationAsFile
	case NoTruncation:
		truncation = truncationOff
	}
	abi.Import(func() {
		firsts, count := abi.Texts(texts)
		others, ofOthers := abi.Texts(seconds)
		told := new(result)
		importEncode(t.handle, firsts, count, others, ofOthers, flag(!options.WithoutSpecialTokens), padding, paddedTo, truncation,
			most, flag(options.Offsets != NoOffsets), abi.Word(max(options.Offsets, Bytes)-Bytes), abi.Keep(told))
		if !told.isFirst() {
			err = told.failed()
			return
		}
		rows, length := uint64(told[1]), uint64(told[2])
		tensor := func(name string, at int, shape ...uint64) guest.Tensor {
			data := abi.BytesAt(abi.Pointer(told[at]), told[at+1])
			return guest.Tensor{Name: name, Datatype: guest.Int64, Shape: shape, Data: data}
		}
		made = &Encoding{
			IDs: tensor("input_ids", 3, rows, length), Mask: tensor("attention_mask", 5, rows, length),
			Types: tensor("token_type_ids", 7, rows, length), Offsets: tensor("offsets", 9, 0),
		}
		if options.Offsets != NoOffsets {
			made.Offsets.Shape = []uint64{rows, length, 2}
		}
	})
	return made, err
}

func (t *Tokenizer) decode(ids []uint32, skipSpecialTokens bool) (text string, err error) {
	abi.Import(func() {
		told := new(result)
		importDecode(t.handle, abi.Address(ids), abi.Word(len(ids)), flag(skipSpecialTokens), abi.Keep(told))
		if !told.isFirst() {
			err = told.failed()
			return
		}
		text = told.text(1)
	})
	return text, err
}

func (t *Tokenizer) id(token string) (id int64, ok bool) {
	abi.Import(func() {
		start, length := abi.Text(token)
		told := new(result)
		importIDOf(t.handle, start, length, abi.Keep(told))
		id, ok = int64(told[1]), !told.isFirst()
	})
	return id, ok
}

func (t *Tokenizer) token(id uint32) (token string, ok bool) {
	abi.Import(func() {
		told := new(result)
		importTokenOf(t.handle, id, abi.Keep(told))
		if ok = !told.isFirst(); ok {
			token = told.text(1)
		}
	})
	return token, ok
}

func (t *Tokenizer) size() int { return int(importSize(t.handle)) }

func (t *Tokenizer) close() { importDrop(t.handle) }
