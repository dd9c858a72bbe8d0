package nethttp

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"

	"modelhost.example/guest"
	"modelhost.example/guest/app"
)

func mux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /rooms/{room}", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "1"})
		http.SetCookie(w, &http.Cookie{Name: "b", Value: "2"})
		w.Header().Set("X-Tenant", r.Header.Get("X-Tenant"))
		w.WriteHeader(http.StatusCreated)
		w.Header().Set("X-Late", "not sent")
		fmt.Fprintf(w, "%s %s %s %s %d", r.PathValue("room"), r.URL.Query().Get("q"), r.Host, body, r.ContentLength)
	})
	mux.HandleFunc("GET /pieces", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for number := range 3 {
			fmt.Fprintf(w, "data: %d\n\n", number)
			w.(http.Flusher).Flush()
			if r.Context().Err() != nil {
				return
			}
		}
	})
	mux.HandleFunc("GET /abort", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "half")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	mux.HandleFunc("GET /nothing", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /html", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html><p>yes") })
	return mux
}

func record(t *testing.T, request guest.Request) (*app.Recorder, error) {
	t.Helper()
	recorder := &app.Recorder{}
	return recorder, recorder.Record(Function(mux(), "x-tenant"), request)
}

func TestARequestAndItsResponseAreThoseOfNetHTTP(t *testing.T) {
	got, err := record(t, guest.Request{
		Method: "POST", Path: "/rooms/a%20b", Query: "q=1&q=2", Body: []byte("hello"),
		Header: map[string]string{"host": "here:80", "x-tenant": "t", "x-other": "o"},
	})
	if err != nil || got.Status != 201 || string(got.Body) != "a b 1 here:80 hello 5" || !got.Ended {
		t.Fatalf("%v: %d %q", err, got.Status, got.Body)
	}
	headers := got.Headers()
	for _, header := range [][2]string{{"set-cookie", "a=1"}, {"set-cookie", "b=2"}, {"x-tenant", "t"}} {
		if !slices.Contains(headers, header) {
			t.Errorf("no %v in %v", header, headers)
		}
	}
	if len(headers) != 3 || got.ContentType != "text/plain; charset=utf-8" {
		t.Errorf("%v, %s", headers, got.ContentType)
	}
}

func TestStatusesAreTheMuxs(t *testing.T) {
	for _, expected := range []struct {
		method, path, contentType string
		status                    int
	}{
		{"GET", "/none", "text/plain; charset=utf-8", 404},
		{"GET", "/rooms/a", "text/plain; charset=utf-8", 405},
		{"GET", "/nothing", "", 200},
		{"GET", "/html", "text/html; charset=utf-8", 200},
	} {
		got, err := record(t, guest.Request{Method: expected.method, Path: expected.path})
		if err != nil || got.Status != expected.status || got.ContentType != expected.contentType {
			t.Errorf("%v: %v %d %s", expected, err, got.Status, got.ContentType)
		}
	}
}

func TestPiecesAreSentAsTheyAreFlushed(t *testing.T) {
	got, err := record(t, guest.Request{Method: "GET", Path: "/pieces"})
	if err != nil || string(got.Body) != "data: 0\n\ndata: 1\n\ndata: 2\n\n" || !got.Ended || got.ContentType != "text/event-stream" {
		t.Fatalf("%v: %q %v", err, got.Body, got.Ended)
	}
	gone := &app.Recorder{Gone: true}
	if err := gone.Record(Function(mux()), guest.Request{Method: "GET", Path: "/pieces"}); err != nil {
		t.Fatal(err)
	}
	if len(gone.Body) != 0 {
		t.Fatalf("%q was sent to no client", gone.Body)
	}
	if got, err := record(t, guest.Request{Method: "GET", Path: "/abort"}); !errors.Is(err, http.ErrAbortHandler) || got.Ended {
		t.Fatalf("%v, ended: %v", err, got.Ended)
	}
}
