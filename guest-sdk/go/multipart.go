package guest

import (
	"bytes"
	"net/url"
	"strings"
	"unicode/utf8"
)

// Limits of a body of several parts, the same in every language's SDK.
const (
	mostParts       = 1000
	longestHeaders  = 8 << 10
	longestBoundary = 70
)

// A Part is one part of a form with files.
type Part struct {
	// The field's name.
	Name string
	// Whether it is a file, and the file's name: the caller's choice, so no path to be opened.
	IsFile   bool
	Filename string
	// text/plain if the part says none.
	ContentType string
	// It is not copied.
	Body []byte
}

// Text is the part's contents as UTF-8.
func (p *Part) Text() (string, error) {
	if !utf8.Valid(p.Body) {
		return "", Invalid("the part `%s` is not UTF-8", p.Name)
	}
	return string(p.Body), nil
}

// A Form has the parts of a body, in order.
type Form []Part

// Value is the text of the first field of this name. Without one it is the caller's fault.
func (f Form) Value(name string) (string, error) {
	for at := range f {
		if f[at].Name == name && !f[at].IsFile {
			return f[at].Text()
		}
	}
	return "", Invalid("missing field `%s`", name)
}

// File is the first file of this name. Without one it is the caller's fault.
func (f Form) File(name string) (*Part, error) {
	for at := range f {
		if f[at].Name == name && f[at].IsFile {
			return &f[at], nil
		}
	}
	return nil, Invalid("missing file `%s`", name)
}

// Multipart reads a body of several parts, `multipart/form-data`, as browsers and curl send forms with files: at
// most 1,000 parts, with 8 KiB of headers each. Another content type is answered with 415. (The package
// mime/multipart brings package net into the component, and takes more than a form.)
func (s *Sample) Multipart() (Form, error) {
	essence, parameters, _ := strings.Cut(s.ContentType, ";")
	if essence = strings.TrimSpace(essence); !strings.EqualFold(essence, "multipart/form-data") {
		return nil, unsupported("multipart/form-data", essence)
	}
	boundary, found := parameter(parameters, "boundary")
	if !found {
		return nil, malformedForm("the content type has no boundary")
	}
	if len(boundary) < 1 || len(boundary) > longestBoundary {
		return nil, Invalid("malformed multipart: the boundary has not 1 to %d bytes", longestBoundary)
	}
	delimiter := []byte("\r\n--" + boundary)
	// The first delimiter may stand at the very beginning, without the line end before it.
	rest, isLast, found := []byte(nil), false, false
	if after, has := bytes.CutPrefix(s.Body, delimiter[2:]); has {
		rest, isLast, found = lineEnd(after)
	}
	if !found {
		_, rest, isLast, found = delimited(s.Body, delimiter)
	}
	if !found {
		return nil, malformedForm("no boundary is in the body")
	}
	form := Form{}
	for !isLast {
		var contents []byte
		contents, rest, isLast, found = delimited(rest, delimiter)
		if !found {
			return nil, malformedForm("the last boundary is missing")
		}
		if len(form) == mostParts {
			return nil, Invalid("more than %d parts", mostParts)
		}
		part, err := partOf(contents)
		if err != nil {
			return nil, err
		}
		form = append(form, part)
	}
	return form, nil
}

func malformedForm(text string) error { return Invalid("malformed multipart: %s", text) }

func unsupported(expected, got string) error {
	if runes := []rune(got); len(runes) > 40 {
		got = string(runes[:40])
	}
	return &unsupportedMediaType{"expected `" + expected + "`, got `" + got + "`"}
}

// lineEnd looks at what comes after a boundary: the end of its line, `--` if it is the last one, or neither, if
// it is none.
func lineEnd(text []byte) (rest []byte, isLast, found bool) {
	if bytes.HasPrefix(text, []byte("--")) {
		return nil, true, true
	}
	rest = bytes.TrimLeft(text, " \t")
	return rest, false, bytes.HasPrefix(rest, []byte("\r\n"))
}

// delimited is what stands before the first boundary, and what comes after it.
func delimited(text, delimiter []byte) (before, rest []byte, isLast, found bool) {
	for from := 0; ; {
		at := bytes.Index(text[from:], delimiter)
		if at < 0 {
			return nil, nil, false, false
		}
		after := from + at + len(delimiter)
		if rest, isLast, found := lineEnd(text[after:]); found {
			return text[:from+at], rest, isLast, true
		}
		from = after
	}
}

// partOf reads a part: line end, headers, empty line, contents.
func partOf(text []byte) (Part, error) {
	head, _, found := bytes.Cut(text[:min(len(text), longestHeaders+4)], []byte("\r\n\r\n"))
	if !found {
		return Part{}, Invalid("malformed multipart: no end of a part's headers within %d bytes", longestHeaders)
	}
	if !utf8.Valid(head) {
		return Part{}, malformedForm("the headers of a part are not UTF-8")
	}
	part, disposition := Part{ContentType: "text/plain", Body: text[len(head)+4:]}, ""
	for line := range strings.SplitSeq(string(head), "\r\n") {
		if line == "" {
			continue
		}
		name, value, found := strings.Cut(line, ":")
		if !found {
			return Part{}, malformedForm("a header without a colon")
		}
		value = strings.TrimSpace(value)
		switch strings.ToLower(name) {
		case "content-disposition":
			disposition = value
		case "content-type":
			part.ContentType = value
		case "content-transfer-encoding":
			switch strings.ToLower(value) {
			case "binary", "8bit", "7bit":
			default:
				return Part{}, malformedForm("a part with a transfer encoding, which forms do not have")
			}
		}
	}
	kind, parameters, _ := strings.Cut(disposition, ";")
	name, found := parameter(parameters, "name")
	if !found || !strings.EqualFold(strings.TrimSpace(kind), "form-data") {
		return Part{}, malformedForm("a part without `content-disposition: form-data; name=…`")
	}
	part.Name = unescaped.Replace(name)
	if extended, found := parameter(parameters, "filename*"); found {
		filename, fits := decodedName(extended)
		if !fits {
			return Part{}, malformedForm("a `filename*` that is not `UTF-8''` and a name with percent signs")
		}
		part.Filename, part.IsFile = filename, true
	} else if filename, found := parameter(parameters, "filename"); found {
		part.Filename, part.IsFile = unescaped.Replace(filename), true
	}
	return part, nil
}

// unescaped has what browsers and curl write in names in place of `"`, CR and LF.
var unescaped = strings.NewReplacer("%22", `"`, "%0D", "\r", "%0A", "\n")

// decodedName is the text of `UTF-8”na%C3%AFve.txt` (RFC 8187).
func decodedName(extended string) (string, bool) {
	charset, rest, _ := strings.Cut(extended, "'")
	_, encoded, found := strings.Cut(rest, "'")
	// A percent sign without two digits stays.
	var plain strings.Builder
	for at := 0; at < len(encoded); at++ {
		if at+2 < len(encoded) && encoded[at] == '%' {
			if text, err := url.PathUnescape(encoded[at : at+3]); err == nil {
				plain.WriteString(text)
				at += 2
				continue
			}
		}
		plain.WriteByte(encoded[at])
	}
	name := plain.String()
	switch strings.ToLower(charset) {
	case "utf-8":
		return name, found && utf8.ValidString(name)
	case "iso-8859-1":
		var wide strings.Builder
		for at := range len(name) {
			wide.WriteRune(rune(name[at]))
		}
		return wide.String(), found
	}
	return "", false
}

// parameter is the first one of this name (RFC 9110, section 5.6.6). A backslash protects a quote or another
// backslash alone.
func parameter(parameters, name string) (string, bool) {
	for {
		key, after, found := strings.Cut(strings.TrimLeft(parameters, " \t;"), "=")
		if !found {
			return "", false
		}
		var value string
		if quoted, has := strings.CutPrefix(after, `"`); has {
			if value, parameters, found = unquoted(quoted); !found {
				return "", false
			}
		} else {
			end := strings.IndexByte(after, ';')
			if end < 0 {
				end = len(after)
			}
			value, parameters = strings.TrimRight(after[:end], " \t"), after[end:]
		}
		if strings.EqualFold(key, name) {
			return value, true
		}
	}
}

// unquoted reads a quoted string whose opening quote is gone.
func unquoted(text string) (value, rest string, found bool) {
	var plain strings.Builder
	for at := 0; at < len(text); at++ {
		switch {
		case text[at] == '"':
			return plain.String(), text[at+1:], true
		case text[at] == '\\' && at+1 < len(text) && (text[at+1] == '"' || text[at+1] == '\\'):
			at++
		}
		plain.WriteByte(text[at])
	}
	return "", "", false
}
