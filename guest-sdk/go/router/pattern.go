package router

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// kinds of segments, the most specific one first.
const (
	literal = iota
	one
	rest
)

// segment is what stands between two slashes of a pattern.
type segment struct {
	kind int
	// Of a literal what it is, of a wildcard its name, if it has one.
	text string
}

// parsed is a pattern, or what is wrong with it.
func parsed(pattern string) (*Route, string) {
	route := &Route{text: pattern}
	method, path, hasMethod := strings.Cut(pattern, " ")
	if !hasMethod {
		method, path = "", pattern
	}
	path = strings.TrimLeft(path, " ")
	if hasMethod && !isMethod(method) {
		return nil, "a method is written in capitals, such as `POST`"
	}
	if !strings.HasPrefix(path, "/") || strings.ContainsFunc(path, isNoPath) || !utf8.ValidString(path) {
		return nil, "a path begins with `/` and has no query"
	}
	route.method = method
	texts := segmentsOf(path)
	for at, text := range texts {
		made, problem := segmentOf(text, at == len(texts)-1)
		switch {
		case problem != "":
			return nil, problem
		case made.kind != literal && slices.Contains(route.names, made.text):
			return nil, "the wildcard `" + made.text + "` is there twice"
		case made.kind != literal:
			route.names = append(route.names, made.text)
		}
		route.segments = append(route.segments, made)
	}
	return route, ""
}

func isMethod(text string) bool {
	isOther := func(c rune) bool { return (c < 'A' || c > 'Z') && c != '-' }
	return text != "" && len(text) <= 20 && !strings.ContainsFunc(text, isOther)
}

func isNoPath(c rune) bool { return c <= ' ' || c == 0x7f || c == '?' || c == '#' }

func segmentOf(text string, isLast bool) (segment, string) {
	inner, isWildcard := strings.CutPrefix(text, "{")
	inner, isClosed := strings.CutSuffix(inner, "}")
	name, isRest := strings.CutSuffix(inner, "...")
	switch {
	case text == "" && isLast:
		return segment{kind: rest}, ""
	case text == "{$}" && isLast:
		return segment{kind: literal}, ""
	case !strings.ContainsAny(text, "{}"):
		return segment{literal, text}, ""
	case !isWildcard || !isClosed || !isName(name):
		return segment{}, "`" + text + "` is no wildcard, which is a whole segment: `{name}`, or `{name...}` or `{$}` at the end"
	case isRest && !isLast:
		return segment{}, "`" + text + "` is not at the end"
	case isRest:
		return segment{rest, name}, ""
	}
	return segment{one, name}, ""
}

// isName says whether a text is a name in Go, as those of wildcards are.
func isName(text string) bool {
	for at, c := range text {
		if c != '_' && !unicode.IsLetter(c) && (at == 0 || !unicode.IsDigit(c)) {
			return false
		}
	}
	return text != ""
}

// segmentsOf has what stands between the slashes of a path; of `/` one that is empty.
func segmentsOf(path string) []string { return strings.Split(strings.TrimPrefix(path, "/"), "/") }

// compare orders routes: those that say more of their first segments come first. Equal ones match the same
// requests.
func compare(a, b *Route) int {
	bySegments := slices.CompareFunc(a.segments, b.segments, func(a, b segment) int {
		if a.kind != literal || b.kind != literal {
			return cmp.Compare(a.kind, b.kind)
		}
		return cmp.Compare(a.text, b.text)
	})
	// HEAD comes before GET, which matches it too, and no method after all.
	return cmp.Or(bySegments, -cmp.Compare(a.method, b.method))
}

// match is what a path's segments have for the wildcards, in order, if the pattern matches them.
func match(own []segment, asked []string) (values []string, matches bool) {
	for at, it := range own {
		if at >= len(asked) {
			return nil, false
		}
		text := asked[at]
		if it.kind == rest {
			text = strings.Join(asked[at:], "/")
		}
		text, isText := decoded(text)
		switch {
		case !isText, it.kind == literal && text != it.text, it.kind == one && text == "":
			return nil, false
		case it.kind == rest:
			return append(values, text), true
		case it.kind == one:
			values = append(values, text)
		}
	}
	return values, len(own) == len(asked)
}

// decoded is a part of a path without percent signs, if it is a text.
func decoded(part string) (string, bool) {
	if strings.IndexByte(part, '%') < 0 {
		return part, true
	}
	text, err := url.PathUnescape(part)
	return text, err == nil && utf8.ValidString(text)
}

// path is the pattern's path as the contract writes it.
func (r *Route) path() string {
	var written strings.Builder
	for _, it := range r.segments {
		written.WriteByte('/')
		switch it.kind {
		case literal:
			written.WriteString(it.text)
		case one:
			written.WriteString("{" + it.text + "}")
		case rest:
			written.WriteString("{*" + cmp.Or(it.text, "rest") + "}")
		}
	}
	return written.String()
}
