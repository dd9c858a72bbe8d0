package guest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const (
	formType = "multipart/form-data; boundary=XX"
	formHead = `Content-Disposition: form-data; name="a"`
)

// shown has `name|filename|type|body` for each part, or the error.
func shown(text, contentType string) string {
	body := strings.ReplaceAll(text, "\n", "\r\n")
	form, err := (&Sample{ContentType: contentType, Body: []byte(body)}).Multipart()
	if err != nil {
		return err.Error()
	}
	var all []string
	for _, part := range form {
		filename := "-"
		if part.IsFile {
			filename = part.Filename
		}
		all = append(all, fmt.Sprintf("%s|%s|%s|%s", part.Name, filename, part.ContentType, part.Body))
	}
	return strings.Join(all, "; ")
}

func TestPartsAreFound(t *testing.T) {
	named := func(more string) string { return "--XX\n" + formHead + more + "\n\n1\n--XX--" }
	for _, it := range [][3]string{
		{formType, "preamble\n--XX\nContent-Disposition: form-data; name=\"title\"\n\nhello\n--XX  \ncontent-type: image/png\n" +
			"Content-Disposition: form-data; name=file; filename=\"a \\\"b\\\".png\"\n\n--X\n\n--XXY\n--XX--\nepilogue",
			"title|-|text/plain|hello; file|a \"b\".png|image/png|--X\r\n\r\n--XXY"},
		{`Multipart/Form-Data; boundary="a b"`, "--a b--", ""},
		{formType, named(`; filename="a%22%0D%0A%20.txt"`), "a|a\"\r\n%20.txt|text/plain|1"},
		{formType, named("; filename=x; filename*=utf-8'de'%C3%BC%2F%.txt"), "a|ü/%.txt|text/plain|1"},
		{formType, named("; filename*=ISO-8859-1''%FC"), "a|ü|text/plain|1"},
		{formType, named(`; filename=""`), "a||text/plain|1"},
		{formType, named(`; filename="C:\a\ü.txt"`), `a|C:\a\ü.txt|text/plain|1`},
	} {
		if found := shown(it[1], it[0]); found != it[2] {
			t.Errorf("%q: %q, expected %q", it[1], found, it[2])
		}
	}
}

func TestWhatIsNoFormIsRefused(t *testing.T) {
	many := func(count int) string { return strings.Repeat("--XX\n"+formHead+"\n\n1\n", count) + "--XX--" }
	for body, expected := range map[string]string{
		"":                                  "malformed multipart: no boundary is in the body",
		"--XXY\n":                           "malformed multipart: no boundary is in the body",
		"--XX\n":                            "malformed multipart: the last boundary is missing",
		"--XX\n" + formHead + "\n\nx\n--XX": "malformed multipart: the last boundary is missing",
		"--XX\n" + formHead + "\n--XX--":    "malformed multipart: no end of a part's headers within 8192 bytes",
		"--XX\n" + formHead + "\nx: " + strings.Repeat("y", 9000) + "\n\n1\n--XX--": "malformed multipart: no end of a part's headers within 8192 bytes",
		"--XX\n\nhello\n--XX--":      "malformed multipart: a part without `content-disposition: form-data; name=…`",
		"--XX\nnonsense\n\n\n--XX--": "malformed multipart: a header without a colon",
		"--XX\nx: \xff\n\n\n--XX--":  "malformed multipart: the headers of a part are not UTF-8",
		many(1001):                   "more than 1000 parts",
		"--XX\n" + formHead + "\ncontent-transfer-encoding: base64\n\n\n--XX--": "malformed multipart: a part with a transfer encoding, which forms do not have",
		"--XX\n" + formHead + "; filename*=UTF-8''%FF\n\n\n--XX--":              "malformed multipart: a `filename*` that is not `UTF-8''` and a name with percent signs",
	} {
		if found := shown(body, formType); found != expected {
			t.Errorf("%.100q: %q, expected %q", body, found, expected)
		}
	}
	if count := strings.Count(shown(many(1000), formType), ";"); count != 999 {
		t.Error(count)
	}
	for kind, expected := range map[string]string{
		"multipart/form-data": "malformed multipart: the content type has no boundary",
		"multipart/form-data; boundary=" + strings.Repeat("x", 71): "malformed multipart: the boundary has not 1 to 70 bytes",
	} {
		if found := shown("", kind); found != expected {
			t.Errorf("%s: %q", kind, found)
		}
	}
	_, err := (&Sample{ContentType: "text/plain; a=b"}).Multipart()
	refused := answerTo(err, NewContext(Request{}))
	expected := "{\"error\":\"expected `multipart/form-data`, got `text/plain`\",\"code\":\"unsupported_media_type\"," +
		"\"stage\":\"pre_inference\",\"request_id\":\"test\"}"
	if refused.Status != 415 || string(refused.Body) != expected {
		t.Error(string(refused.Body))
	}
}

func TestPartsAreNamed(t *testing.T) {
	file := "\r\n--XX\r\n" + formHead + "; filename=x\r\n\r\n1"
	field := "--XX\r\n" + formHead + "\r\n\r\nh\xc3\xa9"
	form, err := (&Sample{ContentType: formType, Body: []byte(field + file + "\r\n--XX--")}).Multipart()
	if err != nil {
		t.Fatal(err)
	}
	value, err := form.Value("a")
	found, fileErr := form.File("a")
	if value != "hé" || err != nil || fileErr != nil || string(found.Body) != "1" {
		t.Error(value, err, found, fileErr)
	}
	if _, err := form.Value("b"); err == nil || err.Error() != "missing field `b`" {
		t.Error(err)
	}
	if _, err := form.File("b"); err == nil || err.Error() != "missing file `b`" {
		t.Error(err)
	}
}

func TestAResponseHasSeveralValuesOfAHeader(t *testing.T) {
	response := Text("").Add("set-cookie", "a=1").Add("set-cookie", "b=2")
	response.Header = map[string]string{"x-a": "1"}
	expected := [][2]string{{"x-a", "1"}, {"set-cookie", "a=1"}, {"set-cookie", "b=2"}}
	if found := response.Headers(); !slices.Equal(found, expected) {
		t.Error(found)
	}
}
