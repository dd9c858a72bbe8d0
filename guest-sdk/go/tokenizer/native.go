//go:build !wasip1

package tokenizer

import "modelhost.example/guest"

func load([]byte) (*Tokenizer, error) { return &Tokenizer{}, nil }

func (t *Tokenizer) encode(texts, seconds []string, options Options) (*Encoding, error) {
	if answer == nil {
		return nil, unsaid("the tokens of a text are")
	}
	rows, length := make([][]int64, len(texts)), 0
	for at, text := range texts {
		second := ""
		if seconds != nil {
			second = seconds[at]
		}
		rows[at] = answer(text, second)
		if options.Truncation > 0 {
			rows[at] = rows[at][:min(len(rows[at]), int(options.Truncation))]
		}
		length = max(length, len(rows[at]))
	}
	if options.Padding > 0 {
		length = int(options.Padding)
	}
	ids, mask := make([]int64, len(rows)*length), make([]int64, len(rows)*length)
	for row, of := range rows {
		if len(of) > length {
			return nil, &Error{Text, "a text of more tokens than a row has"}
		}
		for at, id := range of {
			ids[row*length+at], mask[row*length+at] = id, 1
		}
	}
	tensor := func(name string, values []int64) guest.Tensor {
		return guest.NewTensor(values, len(rows), length).Named(name)
	}
	return &Encoding{
		IDs: tensor("input_ids", ids), Mask: tensor("attention_mask", mask),
		Types: tensor("token_type_ids", make([]int64, len(ids))), Offsets: guest.NewTensor([]int64(nil)).Named("offsets"),
	}, nil
}

func (t *Tokenizer) decode(ids []uint32, _ bool) (string, error) {
	if decoded == nil {
		return "", unsaid("the text of tokens is")
	}
	wide := make([]int64, len(ids))
	for at, id := range ids {
		wide[at] = int64(id)
	}
	return decoded(wide), nil
}

func (t *Tokenizer) id(string) (int64, bool) { return 0, false }

func (t *Tokenizer) token(uint32) (string, bool) { return "", false }

func (t *Tokenizer) size() int { return 0 }

func (t *Tokenizer) close() {}

func unsaid(what string) error {
	return &Error{Unusable, "the test does not say what " + what + ": tokenizer.AnswerWith"}
}
