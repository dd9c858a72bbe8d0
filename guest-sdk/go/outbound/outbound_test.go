package outbound

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"modelhost.example/guest"
)

func isOf(err error, kind Kind) bool {
	var of *Error
	return errors.As(err, &of) && of.Kind == kind
}

func TestOthersAnswerWhatTheTestSays(t *testing.T) {
	defer AnswerWith(nil)
	if _, err := Get("https://a.example"); !isOf(err, Failed) {
		t.Error("nothing was said", err)
	}
	var seen []Request
	AnswerWith(func(request Request) (*guest.Response, error) {
		seen = append(seen, request)
		if request.URL == "https://denied.example" {
			return nil, &Error{Kind: Denied}
		}
		response, err := guest.JSON([]string{"cat"})
		response.Header = map[string]string{"X-Kind": "b"}
		return response, err
	})
	response, err := Get("https://a.example/labels")
	if err != nil {
		t.Fatal(err)
	}
	if response.Status != 200 || response.Header["x-kind"] != "b" || response.Header["content-type"] != "application/json" {
		t.Error(response)
	}
	var labels []string
	if err := response.JSON(&labels); err != nil || len(labels) != 1 || labels[0] != "cat" {
		t.Error(labels, err)
	}
	if _, err := Post("https://denied.example", "text/plain", []byte("a")); !isOf(err, Denied) {
		t.Error(err)
	}
	put := Request{
		Method: "PUT", URL: "https://a", Header: map[string]string{"X-B": "1", "X-A": "é"}, JSON: 7, Timeout: time.Microsecond,
	}
	if response, err = put.Send(); err != nil {
		t.Fatal(err)
	}
	if text, err := response.Text(); text != `["cat"]` || err != nil {
		t.Error(text, err)
	}
	for at, expected := range []string{
		`GET https://a.example/labels map[]  30s`,
		`POST https://denied.example map[content-type:text/plain] a 30s`,
		`PUT https://a map[content-type:application/json x-a:é x-b:1] 7 1ms`,
	} {
		r := seen[at]
		if got := fmt.Sprint(r.Method, " ", r.URL, " ", r.Header, " ", string(r.Body), " ", r.Timeout); got != expected {
			t.Error(got, "is not", expected)
		}
	}
}

func TestAWebhookIsAPostWhoseAnswerIsA2xx(t *testing.T) {
	defer AnswerWith(nil)
	status := 204
	AnswerWith(func(request Request) (*guest.Response, error) {
		contentType := request.Header["content-type"]
		if request.Method != "POST" || string(request.Body) != `{"a":1}` || contentType != "application/json" {
			t.Error(request)
		}
		return guest.Text("").WithStatus(status), nil
	})
	hook := Webhook{
		URL: "https://a/b", Attempts: 3, Pause: time.Millisecond, Timeout: time.Second,
	}.Signed("whsec_c2VjcmV0")
	response, err := hook.Send(map[string]int{"a": 1})
	if err != nil || response.Status != 204 {
		t.Error(response, err)
	}
	status = 410
	var of *Error
	if _, err := hook.Send(map[string]int{"a": 1}); !errors.As(err, &of) || of.Kind != Status || of.Status != 410 {
		t.Error(err)
	}
	written, err := json.Marshal(hook)
	if err != nil {
		t.Error(err)
	}
	all := []any{hook, &hook, []Webhook{hook}, map[string]any{"a": hook}, struct{ hook Webhook }{hook}}
	shown := append([]string{string(written)}, fmt.Sprintf("%x %q", hook, hook))
	for _, each := range all {
		shown = append(shown, fmt.Sprintf("%v %+v %#v %s", each, each, each, each))
	}
	for _, text := range shown {
		if strings.Contains(text, "whsec") || strings.Contains(text, fmt.Sprintf("%x", "whsec")) {
			t.Error(text)
		}
	}
}

func TestWhatCannotBeSentIsNotSent(t *testing.T) {
	defer AnswerWith(nil)
	AnswerWith(func(request Request) (*guest.Response, error) {
		t.Error(request)
		return nil, nil
	})
	for _, request := range []Request{
		{URL: "https://\xff"}, {URL: "ftp://a"}, {URL: "a"}, {}, {URL: "https://a", Method: "\xff"},
		{URL: "https://a", Method: "A B"}, {URL: "https://a", Timeout: -1}, {URL: "https://a", JSON: math.NaN()},
	} {
		if _, err := request.Send(); !isOf(err, Invalid) {
			t.Error(request, err)
		}
	}
	for name, value := range map[string]string{
		"a": "\xff", "b": "1\r\nc: 2", "d": "\x00", "e": "\x7f", "x y": "1", "": "1", "f\n": "1", "\xff": "1",
	} {
		request := Request{URL: "https://a", Header: map[string]string{name: value}}
		if _, err := request.Send(); !isOf(err, Invalid) {
			t.Errorf("%q: %q: %v", name, value, err)
		}
	}
	fine := Webhook{URL: "https://a"}
	for _, hook := range []Webhook{
		{}, {URL: "\xff"}, {URL: "ftp://a"}, fine.Signed("\xff"), fine.Signed(""), fine.Signed("whsec_"),
		{URL: "https://a", Attempts: -1}, {URL: "https://a", Pause: -1}, {URL: "https://a", Timeout: -1},
	} {
		if _, err := hook.Send(1); !isOf(err, Invalid) {
			t.Error(hook, err)
		}
	}
	if _, err := fine.Signed("").Send(1); err == nil || err.Error() != "the secret is empty" {
		t.Error(err)
	}
	if _, err := fine.Send(func() {}); !isOf(err, Invalid) {
		t.Error(err)
	}
}

func TestEveryErrorHasAText(t *testing.T) {
	for kind := Denied; kind <= TooLong; kind++ {
		if text := (&Error{Kind: kind, Text: "a", Status: 500}).Error(); text == "" {
			t.Error(kind)
		}
	}
	if text := (&Error{Kind: Failed, Text: "refused"}).Error(); text != "the request failed: refused" {
		t.Error(text)
	}
}

// pieces are those of a body, and then an error or the end.
type pieces struct {
	left   []string
	err    error
	closed int
}

func (p *pieces) next() ([]byte, error) {
	if len(p.left) == 0 {
		return nil, p.err
	}
	piece := []byte(p.left[0])
	p.left = p.left[1:]
	return piece, nil
}

func (p *pieces) close() { p.closed++ }

func TestABodyIsReadInPiecesAndClosedOnce(t *testing.T) {
	broken := &Error{Kind: Failed, Text: "the response broke off"}
	for _, each := range []struct {
		from *pieces
		err  error
	}{
		{&pieces{left: []string{"abc", "", "defgh"}}, nil},
		{&pieces{left: []string{"abc", "defgh"}, err: broken}, broken},
	} {
		response := made(200, nil, each.from)
		var read []string
		buffer := make([]byte, 4)
		for {
			length, err := response.Body.Read(buffer)
			if err != nil {
				if err != each.err && (each.err != nil || err != io.EOF) {
					t.Error(err)
				}
				break
			}
			read = append(read, string(buffer[:length]))
		}
		if got := strings.Join(read, "|"); got != "abc|defg|h" {
			t.Error(got)
		}
		if _, again := response.Body.Read(buffer); again == nil {
			t.Error("it is over")
		}
		if err := response.Body.Close(); err != nil || each.from.closed != 1 {
			t.Error(err, each.from.closed)
		}
	}
	given := &pieces{left: []string{"abc", "def"}}
	response := made(200, nil, given)
	if _, err := response.Body.Read(make([]byte, 1)); err != nil {
		t.Error(err)
	}
	_ = response.Body.Close()
	if _, err := response.Bytes(); !isOf(err, Failed) || given.closed != 1 {
		t.Error(err, given.closed)
	}
}

func TestABodyThatIsReadWholeHasALimit(t *testing.T) {
	mebibyte := strings.Repeat("x", 1<<20)
	for _, each := range []struct {
		mebibytes int
		more      string
		fits      bool
	}{{16, "", true}, {16, "x", false}} {
		from := &pieces{left: []string{each.more}}
		for range each.mebibytes {
			from.left = append(from.left, mebibyte)
		}
		response := made(200, []header{{"content-length", "99999999999"}, {"via", "a"}, {"via", "b"}}, from)
		whole, err := response.Bytes()
		if each.fits != (err == nil && len(whole) == 16<<20) || !each.fits && !isOf(err, TooLong) || from.closed != 1 {
			t.Error(len(whole), err, from.closed)
		}
		if response.Header["via"] != "a, b" {
			t.Error(response.Header)
		}
	}
}
