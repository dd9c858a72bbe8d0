// Texts to tokens, as the body says, and back.
package main

import (
	"encoding/json"
	"errors"
	"os"

	"modelhost.example/guest"
	"modelhost.example/guest/tokenizer"
)

func init() {
	guest.Init(load)
	guest.PreInference(encode)
	guest.PostInference(func(guest.Tensors, *guest.Context) (*guest.Response, error) { return nil, nil })
}

func main() {}

var loaded = map[string]*tokenizer.Tokenizer{}

func load(json.RawMessage) error {
	for _, name := range []string{"wordpiece", "bytelevel", "unigram", "fallback"} {
		file, err := os.ReadFile("/mnt/project/" + name + ".json")
		if err != nil {
			return err
		}
		if loaded[name], err = tokenizer.Load(file); err != nil {
			return err
		}
	}
	return nil
}

// length is a number of tokens, or a name.
func length(said json.RawMessage, names map[string]int, unsaid string) int {
	name, number := unsaid, 0
	if json.Unmarshal(said, &number) == nil && said != nil {
		return number
	}
	_ = json.Unmarshal(said, &name)
	return names[name]
}

func encode(sample *guest.Sample, _ *guest.Context) ([]guest.Tensor, error) {
	var said struct {
		File      *string
		Tokenizer string
		Asked     struct {
			Texts, Seconds      []string
			SpecialTokens       *bool `json:"special_tokens"`
			Padding, Truncation json.RawMessage
			Offsets             bool
		}
	}
	if err := sample.JSON(&said); err != nil {
		return nil, err
	}
	words, asked := loaded[said.Tokenizer], said.Asked
	if said.File != nil {
		var err error
		if words, err = tokenizer.Load([]byte(*said.File)); err != nil {
			return nil, err
		}
		defer words.Close()
	}
	options := tokenizer.Options{
		WithoutSpecialTokens: asked.SpecialTokens != nil && !*asked.SpecialTokens,
		Padding:              tokenizer.Padding(length(asked.Padding, map[string]int{"off": -1, "file": -2}, "longest")),
		Truncation:           tokenizer.Truncation(length(asked.Truncation, map[string]int{"off": -1}, "file")),
	}
	if asked.Offsets {
		options.Offsets = tokenizer.Runes
	}
	made, err := words.Encode(asked.Texts, options)
	if asked.Seconds != nil {
		made, err = words.EncodePairs(asked.Texts, asked.Seconds, options)
	}
	if err != nil {
		return nil, err
	}
	answer := map[string]any{"ids": made.IDs, "mask": made.Mask, "types": made.Types, "text": ""}
	if asked.Offsets {
		answer["offsets"] = made.Offsets
	}
	if len(asked.Texts) > 0 {
		first, err := guest.Row[int64](made.IDs, 0)
		if err != nil {
			return nil, err
		}
		if answer["text"], err = words.Decode(first, true); err != nil {
			return nil, err
		}
	}
	token, _ := words.Token(5)
	if id, ok := words.ID(token); !ok || id != 5 || words.Size() <= 100 {
		return nil, errors.New("no token 5")
	}
	if _, ok := words.Token(1 << 31); ok {
		return nil, errors.New("a token of no number")
	}
	response, err := guest.JSON(answer)
	if err != nil {
		return nil, err
	}
	return nil, guest.Respond(response)
}
