// An application of net/http's own mux.
package main

import (
	"fmt"
	"io"
	"net/http"

	"modelhost.example/guest/nethttp"
)

func init() {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /rooms/{room}", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "1"})
		http.SetCookie(w, &http.Cookie{Name: "b", Value: "2"})
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "%s: %s, %s, %s", r.PathValue("room"), body, r.URL.Query().Get("q"), r.Header.Get("X-Tenant"))
	})
	mux.HandleFunc("GET /pieces", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for number := range 3 {
			fmt.Fprintf(w, "data: %d\n\n", number)
			w.(http.Flusher).Flush()
		}
	})
	mux.HandleFunc("GET /panic", func(http.ResponseWriter, *http.Request) { panic("of the handler's") })
	nethttp.Serve(mux, "x-tenant")
}

func main() {}
