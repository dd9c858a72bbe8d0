package router

import (
	"slices"
	"strings"
	"testing"

	"modelhost.example/guest"
	"modelhost.example/guest/app"
	"modelhost.example/guest/websocket"
)

// named answers with what it is called, and what the wildcards matched.
func named(name string, wildcards ...string) app.Function {
	return func(_ *guest.Sample, context *guest.Context, _ *app.Output) (*guest.Response, error) {
		said := name
		for _, wildcard := range wildcards {
			said += " " + wildcard + "=" + context.PathValue(wildcard)
		}
		return guest.Text(said), nil
	}
}

func TestRequestsReachTheMostSpecificRoute(t *testing.T) {
	routes = nil
	defer func() { routes = nil }()
	Handle("GET /files/{path...}", named("file", "path"))
	Handle("GET /items/{id}", named("item", "id"))
	Handle("POST /items/{id}", named("change", "id"))
	Handle("GET /items/{id}/tags/{type}", named("tag", "id", "type"))
	Handle("GET /items/new", named("new"))
	Handle("HEAD /items/new", named("head"))
	Handle("GET /{$}", named("root"))
	Handle("GET /café", named("café"))
	Handle("POST /tree/", named("tree"))
	Handle("POST /tree/{$}", named("trunk"))
	Handle("/any", named("any"))
	Handle("PUT /any", named("put"))
	for request, expected := range map[string]string{
		"GET /":                  "root",
		"GET /a":                 "404",
		"POST /":                 "405 GET, HEAD",
		"GET /items/7":           "item id=7",
		"HEAD /items/7":          "item id=7",
		"POST /items/7":          "change id=7",
		"DELETE /items/7":        "405 GET, HEAD, POST",
		"GET /items/new":         "new",
		"HEAD /items/new":        "head",
		"POST /items/new":        "change id=new",
		"PUT /items/new":         "405 GET, HEAD, POST",
		"GET /items/a%20b%2Fc":   "item id=a b/c",
		"GET /items/":            "404",
		"GET /items":             "404",
		"GET /items/%ff":         "404",
		"GET /items/%zz":         "404",
		"GET /items/7/tags/x":    "tag id=7 type=x",
		"GET /items/7/tags":      "404",
		"GET /items/7/":          "404",
		"GET /files/a/b%20c.txt": "file path=a/b c.txt",
		"GET /files/":            "file path=",
		"GET /files":             "404",
		"GET /caf%C3%A9":         "café",
		"POST /tree":             "404",
		"POST /tree/":            "trunk",
		"POST /tree/a/b":         "tree",
		"GET /tree/":             "405 POST",
		"PUT /any":               "put",
		"PATCH /any":             "any",
	} {
		method, path, _ := strings.Cut(request, " ")
		var r app.Recorder
		if err := r.Record(Serve, guest.Request{Method: method, Path: path}); err != nil {
			t.Fatal(request, err)
		}
		said := string(r.Body)
		switch r.Status {
		case 404:
			if said = "404"; string(r.Body) != `{"error":"there is nothing at this path","code":"not_found","stage":"pre_inference","request_id":"test"}` {
				t.Error(string(r.Body))
			}
		case 405:
			if said = "405 " + r.Header["allow"]; string(r.Body) != `{"error":"the path is there for other methods","code":"method_not_allowed","stage":"pre_inference","request_id":"test"}` {
				t.Error(string(r.Body))
			}
		}
		if said != expected {
			t.Errorf("%s: %s, expected %s", request, said, expected)
		}
	}
}

func TestRoutesAreTold(t *testing.T) {
	routes = nil
	defer func() { routes = nil }()
	function := named("")
	Handle("POST /classify", function).Describe(Operation{Summary: "Classifies", Input: `{"type":"object"}`, Produces: "text/event-stream"})
	Handle("GET /files/{path...}", function)
	Handle("GET  /tree/{id}/", function)
	Handle("GET /{$}", function)
	Handle("/other", function)
	expected := []told{
		{"GET", "/", Operation{}},
		{"POST", "/classify", Operation{Summary: "Classifies", Consumes: "application/json", Input: `{"type":"object"}`, Produces: "text/event-stream"}},
		{"GET", "/files/{*path}", Operation{}},
		{"GET", "/tree/{id}/{*rest}", Operation{}},
	}
	if all := operations(); !slices.Equal(all, expected) {
		t.Error(all)
	}
}

func TestSocketsReachTheirRoutes(t *testing.T) {
	sockets = nil
	defer func() { sockets = nil }()
	tells := func(name string) websocket.Function {
		return func(socket *websocket.Socket, context *guest.Context) error {
			return socket.SendText(name + " " + context.PathValue("room"))
		}
	}
	WebSocket("/rooms/{room}", tells("room"))
	WebSocket("/rooms/lobby", tells("lobby"))
	WebSocket("/tree/{room...}", tells("tree"))
	for path, expected := range map[string]string{
		"/rooms/a%20b": "room a b", "/rooms/lobby": "lobby ", "/tree/a/b": "tree a/b", "/rooms": "", "/": "",
	} {
		var r websocket.Recorder
		if err := r.Record(ServeWebSocket, guest.Request{Path: path}); err != nil {
			t.Fatal(path, err)
		}
		if said := strings.Join(r.Texts(), "|"); said != expected || (r.Refusal != nil) != (expected == "") {
			t.Errorf("%s: %s, expected %s", path, said, expected)
		}
		if r.Refusal != nil && (r.Refusal.Status != 404 || !strings.Contains(string(r.Refusal.Body), "not_found")) {
			t.Error(path, r.Refusal)
		}
	}
	for pattern, expected := range map[string]string{
		"GET /rooms":    "each handshake is a GET: the pattern is a path alone",
		"rooms":         "a path begins with `/` and has no query",
		"/rooms/{name}": "the route is there already, as `/rooms/{room}`",
	} {
		panics(t, "router.WebSocket: `"+pattern+"`: "+expected, func() { WebSocket(pattern, tells("")) })
	}
}

func TestABatchIsARouteOfItsOwn(t *testing.T) {
	routes = nil
	defer func() { routes = nil }()
	count := func(requests []*app.Request) (results []app.Result, err error) {
		for _, request := range requests {
			var number int
			if err := request.JSON(&number); err != nil {
				return nil, err
			}
			results = append(results, app.Result{Response: guest.Text("counted")})
		}
		return results, nil
	}
	Batch("/count", count).Describe(Operation{Summary: "Counts"})
	Batch("/café/{$}", count)
	Handle("GET /count", named("get"))
	for request, expected := range map[string]string{
		"POST /count": "counted", "GET /count": "get", "POST /caf%C3%A9/": "counted", "GET /caf%C3%A9/": "405",
	} {
		method, path, _ := strings.Cut(request, " ")
		var r app.Recorder
		if err := r.Record(Serve, guest.Request{Method: method, Path: path, Body: []byte("1")}); err != nil {
			t.Fatal(request, err)
		}
		if said := string(r.Body); said != expected && !(r.Status == 405 && expected == "405") {
			t.Errorf("%s: %s, expected %s", request, said, expected)
		}
	}
	var r app.Recorder
	err := r.Record(Serve, guest.Request{Path: "/count", Body: []byte("x")})
	if err == nil || !strings.HasPrefix(err.Error(), "malformed json: ") {
		t.Error(err)
	}
	expected := []told{
		{"POST", "/café/", Operation{Consumes: "application/json"}},
		{"POST", "/count", Operation{Summary: "Counts", Consumes: "application/json"}},
		{"GET", "/count", Operation{}},
	}
	if all := operations(); !slices.Equal(all, expected) {
		t.Error(all)
	}
	for path, expected := range map[string]string{
		"/{id}":       "a batch has one path, without wildcards; `{$}` is for a slash at the end",
		"/tree/":      "a batch has one path, without wildcards; `{$}` is for a slash at the end",
		"POST /other": "a path begins with `/` and has no query",
		"/count":      "the route is there already, as `POST /count`",
	} {
		panics(t, "router.Batch: `"+path+"`: "+expected, func() { Batch(path, count) })
	}
}

// panics calls a function that has to.
func panics(t *testing.T, expected string, call func()) {
	t.Helper()
	defer func() {
		if said := recover(); said != expected {
			t.Errorf("%v, expected %s", said, expected)
		}
	}()
	call()
}

func TestPatternsThatCannotBeReadPanic(t *testing.T) {
	routes = nil
	defer func() { routes = nil }()
	Handle("GET /items/{id}", named(""))
	for pattern, expected := range map[string]string{
		"get /":             "a method is written in capitals, such as `POST`",
		" /":                "a method is written in capitals, such as `POST`",
		"":                  "a path begins with `/` and has no query",
		"GET items":         "a path begins with `/` and has no query",
		"GET /a?b":          "a path begins with `/` and has no query",
		"GET /a b":          "a path begins with `/` and has no query",
		"GET /a{b}":         "`a{b}` is no wildcard, which is a whole segment: `{name}`, or `{name...}` or `{$}` at the end",
		"GET /{*all}":       "`{*all}` is no wildcard, which is a whole segment: `{name}`, or `{name...}` or `{$}` at the end",
		"GET /{1}":          "`{1}` is no wildcard, which is a whole segment: `{name}`, or `{name...}` or `{$}` at the end",
		"GET /{}":           "`{}` is no wildcard, which is a whole segment: `{name}`, or `{name...}` or `{$}` at the end",
		"GET /{$}/a":        "`{$}` is no wildcard, which is a whole segment: `{name}`, or `{name...}` or `{$}` at the end",
		"GET /{all...}/a":   "`{all...}` is not at the end",
		"GET /{a}/{a}":      "the wildcard `a` is there twice",
		"GET /items/{name}": "the route is there already, as `GET /items/{id}`",
	} {
		panics(t, "router.Handle: `"+pattern+"`: "+expected, func() { Handle(pattern, named("")) })
	}
}
