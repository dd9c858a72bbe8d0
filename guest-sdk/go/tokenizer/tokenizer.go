// Package tokenizer makes a model's numbers of texts, and texts of numbers, by the library `tokenizer`: a component of its
// own, which `modelhost build` puts into the handler's, `[build]` with `with = ["tokenizer"]` in modelhost.toml.
//
//	var words *tokenizer.Tokenizer
//
//	func load(json.RawMessage) error {
//		file, err := os.ReadFile("/mnt/project/tokenizer.json")
//		if err != nil {
//			return err
//		}
//		words, err = tokenizer.Load(file)
//		return err
//	}
//
//	func prepare(sample *guest.Sample, _ *guest.Context) ([]guest.Tensor, error) {
//		encoding, err := words.Encode([]string{string(sample.Body)}, tokenizer.Options{Truncation: 256})
//		if err != nil {
//			return nil, err
//		}
//		return []guest.Tensor{encoding.IDs, encoding.Mask}, nil
//	}
//
// In a test the tokens of a text are what the test says, see AnswerWith.
package tokenizer

import (
	"fmt"

	"modelhost.example/guest"
)

// Padding makes rows as long as each other: a number of tokens, or one of these.
type Padding int

const (
	// Longest is the length of the longest row.
	Longest Padding = 0
	// NoPadding: rows of different lengths are an error.
	NoPadding Padding = -1
	// PaddingAsFile is what the file says; Longest if it says nothing.
	PaddingAsFile Padding = -2
)

// Truncation is the most tokens of a row, the special ones among them, or one of these.
type Truncation int

const (
	// AsFile is what the file says; none if it says nothing.
	AsFile Truncation = 0
	// NoTruncation: rows are as long as they are.
	NoTruncation Truncation = -1
)

// Unit is what the places of tokens in a text are counted in.
type Unit uint8

const (
	// NoOffsets: they are not asked for.
	NoOffsets Unit = iota
	Bytes
	Runes
)

// Options say how texts become rows of tokens. The zero value: with special tokens, as long as the longest row, cut off as
// the file says.
type Options struct {
	// Leaves out the tokens that the model expects around texts.
	WithoutSpecialTokens bool
	Padding              Padding
	Truncation           Truncation
	// What the places of tokens are counted in, if they are asked for.
	Offsets Unit
}

// Encoding has rows of tokens, a row for each text: INT64 tensors [texts, length], with the names that most models give
// their inputs.
type Encoding struct {
	// IDs is input_ids. Mask, attention_mask, is 0 for what only fills a row. Types, token_type_ids, is 1 for the second
	// text of a pair.
	IDs, Mask, Types guest.Tensor
	// [texts, length, 2]: where in its text a token begins and ends, 0 and 0 for a special one. Empty if not asked for.
	Offsets guest.Tensor
}

// Kind says whose error it is.
type Kind uint8

// In the order of the interface.
const (
	// File: the tokenizer.json cannot be used.
	File Kind = iota
	// Unusable: a value of the options, or a token, cannot be used.
	Unusable
	// Text: the texts cannot be encoded.
	Text
)

// Error is why there are no tokens. A handler may return it as it is: 400 with the text if it is of [Text], 500 else.
type Error struct {
	Kind Kind
	Text string
}

func (e *Error) Error() string { return e.Text }

// Unwrap is the caller's error, if it is the caller's.
func (e *Error) Unwrap() error {
	if e.Kind != Text {
		return nil
	}
	return &guest.InvalidInput{Text: e.Text}
}

// Tokenizer is a tokenizer.json that was read.
type Tokenizer struct{ handle uint32 }

// Load reads the bytes of a tokenizer.json: in the function of guest.Init, or in a request. An error is an [Error].
func Load(json []byte) (*Tokenizer, error) { return load(json) }

// Encode makes a row of tokens of each text. An error is an [Error].
func (t *Tokenizer) Encode(texts []string, options Options) (*Encoding, error) {
	return t.checked(texts, nil, options)
}

// EncodePairs makes a row of tokens of each pair of texts: the first of each with the first of the other.
func (t *Tokenizer) EncodePairs(texts, seconds []string, options Options) (*Encoding, error) {
	if len(texts) != len(seconds) {
		return nil, &Error{Unusable, fmt.Sprintf("%d texts with %d second ones", len(texts), len(seconds))}
	}
	return t.checked(texts, seconds, options)
}

func (t *Tokenizer) checked(texts, seconds []string, options Options) (*Encoding, error) {
	if options.Padding < PaddingAsFile || options.Truncation < NoTruncation || !is32(int(max(options.Padding, 0))) ||
		!is32(int(max(options.Truncation, 0))) || options.Offsets > Runes {
		text := fmt.Sprintf("padding of %d, truncation of %d, offsets in %d", options.Padding, options.Truncation, options.Offsets)
		return nil, &Error{Unusable, text}
	}
	return t.encode(texts, seconds, options)
}

// Decode is the text of tokens, with the special ones or without.
func (t *Tokenizer) Decode(ids []int64, skipSpecialTokens bool) (string, error) {
	narrow := make([]uint32, len(ids))
	for at, id := range ids {
		if !is32(int(id)) {
			return "", &Error{Unusable, fmt.Sprintf("token %d", id)}
		}
		narrow[at] = uint32(id)
	}
	return t.decode(narrow, skipSpecialTokens)
}

// ID is the number of a token, if there is one.
func (t *Tokenizer) ID(token string) (int64, bool) { return t.id(token) }

// Token is the token of a number, if there is one.
func (t *Tokenizer) Token(id int64) (string, bool) {
	if !is32(int(id)) {
		return "", false
	}
	return t.token(uint32(id))
}

// Size is the number of tokens, those among them that were added to the model's.
func (t *Tokenizer) Size() int { return t.size() }

// Close gives its memory back. One that is to stay needs no call.
func (t *Tokenizer) Close() { t.close() }

var (
	answer  func(text, second string) []int64
	decoded func(ids []int64) string
)

// AnswerWith says, in a test, which tokens a text has, or the two of a pair, and what text tokens are; nil ends that. In a
// component it does nothing.
func AnswerWith(encode func(text, second string) []int64, decode func(ids []int64) string) {
	answer, decoded = encode, decode
}

func is32(value int) bool { return value >= 0 && uint64(value) <= 1<<32-1 }
