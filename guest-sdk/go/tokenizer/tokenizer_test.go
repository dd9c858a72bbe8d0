package tokenizer

import (
	"encoding/json"
	"errors"
	"testing"

	"modelhost.example/guest"
)

func TestTokensAreWhatTheTestSays(t *testing.T) {
	defer AnswerWith(nil, nil)
	words, err := Load(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := words.Encode([]string{"a"}, Options{}); err == nil {
		t.Error("nothing was said")
	}
	AnswerWith(func(text, second string) []int64 {
		ids := []int64{1}
		for range text + second {
			ids = append(ids, 7)
		}
		return ids
	}, func(ids []int64) string { return "text" })
	for _, each := range []struct {
		texts, seconds []string
		options        Options
		ids, mask      string
	}{
		{[]string{"ab", ""}, nil, Options{}, "[[1,7,7],[1,0,0]]", "[[1,1,1],[1,0,0]]"},
		{[]string{"abc"}, []string{"d"}, Options{Truncation: 2, Padding: 3}, "[[1,7,0]]", "[[1,1,0]]"},
	} {
		encoding, err := words.checked(each.texts, each.seconds, each.options)
		if err != nil {
			t.Fatal(err)
		}
		ids, _ := json.Marshal(encoding.IDs)
		mask, _ := json.Marshal(encoding.Mask)
		if string(ids) != each.ids || string(mask) != each.mask || encoding.IDs.Name != "input_ids" {
			t.Error(each, string(ids), string(mask))
		}
	}
	if text, err := words.Decode([]int64{1, 2}, true); text != "text" || err != nil {
		t.Error(text, err)
	}
}

func TestErrorsBlameTheRightSide(t *testing.T) {
	words, _ := Load(nil)
	_, ofOptions := words.Encode(nil, Options{Padding: -3})
	_, ofPairs := words.EncodePairs([]string{"a"}, nil, Options{})
	_, ofToken := words.Decode([]int64{-1}, true)
	for err, isCallers := range map[error]bool{
		ofOptions: false, ofPairs: false, ofToken: false, &Error{File, "x"}: false, &Error{Text, "x"}: true,
	} {
		var of *Error
		var invalid *guest.InvalidInput
		if !errors.As(err, &of) || errors.As(err, &invalid) != isCallers {
			t.Error(err)
		}
	}
}
