package guest

import (
	"encoding/json"
	"math"
	"strconv"
)

// Numbers are the numbers under these names in the body, a JSON object, in their order. One that is missing, or no
// number, is the caller's fault. It is several times as fast as decoding into a struct.
func (s *Sample) Numbers(names ...string) ([]float32, error) {
	body := s.Body
	if !json.Valid(body) {
		var nothing any
		return nil, malformed(body, json.Unmarshal(body, &nothing))
	}
	// From here on the text is valid, so that nothing runs past its end.
	at := space(body, 0)
	if body[at] != '{' {
		return nil, Invalid("invalid type: %s, expected an object", kind(body[at:]))
	}
	values, found := make([]float32, len(names)), make([]bool, len(names))
	for at = space(body, at+1); body[at] != '}'; {
		if body[at] == ',' {
			at = space(body, at+1)
		}
		end := skip(body, at)
		key := body[at:end]
		at = space(body, space(body, end)+1)
		end = skip(body, at)
		for index, name := range names {
			if !isNamed(key, name) {
				continue
			}
			value, err := number(body[at:end])
			if err != nil {
				return nil, Invalid("`%s`: %s", name, err)
			}
			values[index], found[index] = value, true
		}
		at = space(body, end)
	}
	for index, name := range names {
		if !found[index] {
			return nil, Invalid("missing field `%s`", name)
		}
	}
	return values, nil
}

// isNamed tells whether a key, in quotes, is this name.
func isNamed(key []byte, name string) bool {
	inner := key[1 : len(key)-1]
	if string(inner) == name {
		return true
	}
	for _, c := range inner {
		if c == '\\' {
			var text string
			return json.Unmarshal(key, &text) == nil && text == name
		}
	}
	return false
}

func number(text []byte) (float32, error) {
	if c := text[0]; c != '-' && (c < '0' || c > '9') {
		return 0, Invalid("invalid type: %s, expected f32", kind(text))
	}
	value, err := strconv.ParseFloat(string(text), 32)
	if err != nil || math.IsInf(value, 0) {
		return 0, Invalid("number out of range")
	}
	return float32(value), nil
}

// kind is the type of a JSON value, with the value if it is short.
func kind(text []byte) string {
	end := skip(text, 0)
	shown := string(text[:min(end, 40)])
	switch text[0] {
	case '{':
		return "map"
	case '[':
		return "sequence"
	case '"':
		return "string " + shown
	case 't', 'f':
		return "boolean `" + shown + "`"
	case 'n':
		return "null"
	}
	return "number `" + shown + "`"
}

// space is where the next character is that is no white space.
func space(text []byte, at int) int {
	for at < len(text) && (text[at] == ' ' || text[at] == '\n' || text[at] == '\t' || text[at] == '\r') {
		at++
	}
	return at
}

// skip is the end of the value that begins here.
func skip(text []byte, at int) int {
	depth := 0
	for at < len(text) {
		switch text[at] {
		case '"':
			for at++; text[at] != '"'; at++ {
				if text[at] == '\\' {
					at++
				}
			}
			at++
		case '{', '[':
			depth++
			at++
		case '}', ']':
			if depth == 0 {
				return at
			}
			depth--
			at++
		case ',', ':', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return at
			}
			at++
			continue
		default:
			for at < len(text) && !ends(text[at]) {
				at++
			}
		}
		if depth == 0 {
			return at
		}
	}
	return at
}

func ends(c byte) bool {
	switch c {
	case ',', ':', '}', ']', ' ', '\n', '\t', '\r':
		return true
	}
	return false
}
