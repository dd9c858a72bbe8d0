// Package nethttp serves with an [http.Handler]: a mux, or what a framework built on net/http makes.
//
//	func init() {
//		mux := http.NewServeMux()
//		mux.HandleFunc("GET /rooms/{room}", room)
//		nethttp.Serve(mux)
//	}
//
// net/http makes a component some megabytes larger; package router does without it. There is no server in a component:
// http.ListenAndServe fails, and so does http.Client (package outbound sends requests).
package nethttp

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"

	"modelhost.example/guest"
	"modelhost.example/guest/app"
)

// standard are the headers that a request has in r.Header if the client sent them. The host gives headers by their
// names alone.
var standard = []string{
	"Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "Access-Control-Request-Headers",
	"Access-Control-Request-Method", "Authorization", "Cache-Control", "Content-Type", "Cookie", "Forwarded", "From",
	"Host", "If-Match", "If-Modified-Since", "If-None-Match", "If-Unmodified-Since", "Idempotency-Key", "Last-Event-Id",
	"Origin", "Pragma", "Prefer", "Range", "Referer", "Te", "Traceparent", "Tracestate", "User-Agent", "X-Api-Key",
	"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Prefix", "X-Forwarded-Proto", "X-Real-Ip", "X-Request-Id",
	"X-Requested-With",
}

// Serve registers the handler for each request to the endpoint's path, of any method, and to all paths below it. `headers`
// are those that it reads beside the usual ones (Accept, Authorization, Cookie, X-Forwarded-For and the like): others are
// not in r.Header.
func Serve(handler http.Handler, headers ...string) { app.Serve(Function(handler, headers...)) }

// Function is what [Serve] registers, to be called among other functions or in a test.
//
// What the handler writes is one response when it returns; from its first Flush on, pieces. A client that is gone ends
// r.Context, and Write says [app.ErrGone]. A panic with [http.ErrAbortHandler] breaks the response off.
func Function(handler http.Handler, headers ...string) app.Function {
	return func(sample *guest.Sample, about *guest.Context, output *app.Output) (*guest.Response, error) {
		within, cancel := context.WithCancel(context.Background())
		defer cancel()
		request, err := requestOf(within, sample, about, headers)
		if err != nil {
			return nil, err
		}
		writer := &writer{output: output, cancel: cancel, header: http.Header{}}
		if isAborted := serve(handler, writer, request); isAborted {
			return nil, http.ErrAbortHandler
		}
		return writer.end()
	}
}

func serve(handler http.Handler, writer *writer, request *http.Request) (isAborted bool) {
	defer func() {
		if cause := recover(); cause == http.ErrAbortHandler {
			isAborted = true
		} else if cause != nil {
			panic(cause)
		}
	}()
	handler.ServeHTTP(writer, request)
	return false
}

func requestOf(within context.Context, sample *guest.Sample, about *guest.Context, headers []string) (*http.Request, error) {
	target := about.Path()
	if query := about.Query(); query != "" {
		target += "?" + query
	}
	address, err := url.ParseRequestURI(target)
	if err != nil {
		return nil, guest.Invalid("the path or the query is no part of an address: %v", err)
	}
	request := &http.Request{
		Method: about.Method(), URL: address, RequestURI: target,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(sample.Body)), ContentLength: int64(len(sample.Body)),
	}
	for _, names := range [][]string{standard, headers} {
		for _, name := range names {
			if value, is := about.Header(name); is {
				request.Header.Set(name, value)
			}
		}
	}
	if sample.ContentType != "" {
		request.Header.Set("Content-Type", sample.ContentType)
	}
	// As net/http has them: the host is a field of its own.
	request.Host = request.Header.Get("Host")
	request.Header.Del("Host")
	return request.WithContext(within), nil
}

// writer is the response of one request.
type writer struct {
	output *app.Output
	cancel context.CancelFunc
	header http.Header
	// What header was when the status was set: what is changed later is not sent.
	sent   http.Header
	status int
	body   bytes.Buffer
	// Whether the head is with the client.
	isBegun bool
}

func (w *writer) Header() http.Header { return w.header }

func (w *writer) WriteHeader(status int) {
	// Informational ones are the server's.
	if w.status == 0 && status >= 200 {
		w.status, w.sent = status, w.header.Clone()
	}
}

func (w *writer) Write(piece []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if !w.isBegun {
		return w.body.Write(piece)
	}
	written, err := w.output.Write(piece)
	if err != nil {
		w.cancel()
	}
	return written, err
}

func (w *writer) WriteString(text string) (int, error) { return w.Write([]byte(text)) }

// Flush sends what was written.
func (w *writer) Flush() { _ = w.FlushError() }

// FlushError is the same for http.ResponseController.
func (w *writer) FlushError() error {
	if w.isBegun {
		return nil
	}
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	w.isBegun = true
	err := w.output.Begin(w.response())
	if err != nil {
		w.cancel()
	}
	return err
}

func (w *writer) end() (*guest.Response, error) {
	if w.isBegun {
		return nil, nil
	}
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	return w.response(), nil
}

func (w *writer) response() *guest.Response {
	response := &guest.Response{Status: w.status, ContentType: w.sent.Get("Content-Type"), Body: w.body.Bytes()}
	if response.ContentType == "" && len(response.Body) > 0 {
		response.ContentType = http.DetectContentType(response.Body)
	}
	for name, values := range w.sent {
		// The length and the connection are the host's.
		switch name {
		case "Content-Type", "Content-Length", "Transfer-Encoding", "Connection", "Date":
			continue
		}
		for _, value := range values {
			response.Add(strings.ToLower(name), value)
		}
	}
	return response
}
