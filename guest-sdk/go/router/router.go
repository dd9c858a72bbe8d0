// Package router leads requests of an application to functions, by patterns of method and path as net/http
// has them.
//
//	func init() {
//		router.Handle("POST /classify", classify)
//		router.Handle("GET /items/{id}", item)
//	}
//
//	func item(sample *guest.Sample, context *guest.Context, output *app.Output) (*guest.Response, error) {
//		id := context.PathValue("id")
//		…
//
// The application serves by it as soon as this package is imported, and says what it serves, which the host's
// `/openapi.json` and `/docs` have. [WebSocket] leads sockets to functions, and [Batch] serves several
// requests at once.
package router

import (
	"net/url"
	"slices"
	"strings"

	"modelhost.example/guest"
	"modelhost.example/guest/app"
	"modelhost.example/guest/internal/bridge"
	"modelhost.example/guest/websocket"
)

// An Operation is what callers are told of a route. All of it is optional.
type Operation struct {
	// For people.
	Summary string
	// The media type of the body; empty for JSON, and with GET for none.
	Consumes string
	// JSON Schema of the body, as JSON text.
	Input string
	// The media type of the response, such as text/event-stream.
	Produces string
	// JSON Schema of the response, as JSON text.
	Output string
}

// A Route is a pattern and its function.
type Route struct {
	text, method string
	segments     []segment
	// Of the wildcards, in order.
	names     []string
	function  app.Function
	operation Operation
	// Of a socket, in place of the function.
	talk websocket.Function
}

// Describe says what the route is for, and what it takes and returns.
func (r *Route) Describe(operation Operation) { r.operation = operation }

// routes, and those of sockets, the most specific ones first.
var routes, sockets []*Route

func init() { app.Serve(Serve) }

// Handle registers a function for the requests that match a pattern, `METHOD /path`:
//
//   - A wildcard `{name}` matches one segment, and `{name...}` at the end all that follows.
//     [guest.Context.PathValue] has what they matched, decoded.
//   - A path that ends in `/` matches all paths that begin with it; one that ends in `/{$}` only itself.
//   - GET matches HEAD too. A pattern without a method matches all methods that no other pattern of its path
//     has, and is not told to callers.
//
// If several patterns match a path, the most specific one serves it, as their first segments say:
// `/items/new` before `/items/{id}`. Handle panics if the pattern cannot be read, or is there already.
func Handle(pattern string, function app.Function) *Route {
	route, problem := parsed(pattern)
	if problem == "" {
		route.function = function
		problem = added(&routes, route)
	}
	must("Handle", pattern, problem)
	return route
}

// Batch registers a function for the POSTs to a path, which has no wildcards. It gets several of them at
// once, as [app.Batch] says. Batch panics as [Handle] does.
func Batch(path string, function app.BatchFunction) *Route {
	route, problem := parsed("POST " + path)
	isWild := func(it segment) bool { return it.kind != literal }
	if problem == "" && slices.ContainsFunc(route.segments, isWild) {
		problem = "a batch has one path, without wildcards; `{$}` is for a slash at the end"
	}
	if problem == "" {
		route.function = function.Alone
		problem = added(&routes, route)
	}
	must("Batch", path, problem)
	// As clients send it.
	asked := url.URL{Path: route.path()}
	app.Batch(asked.EscapedPath(), function)
	return route
}

// WebSocket registers a function for the sockets at the paths that a pattern without a method matches. Where
// none matches the handshake is answered with 404. WebSocket panics as [Handle] does.
func WebSocket(pattern string, function websocket.Function) {
	route, problem := parsed(pattern)
	if problem == "" && route.method != "" {
		problem = "each handshake is a GET: the pattern is a path alone"
	}
	if problem == "" {
		route.talk = function
		problem = added(&sockets, route)
	}
	must("WebSocket", pattern, problem)
	websocket.Serve(ServeWebSocket)
}

// added puts a route in its place, or says what is wrong.
func added(to *[]*Route, route *Route) (problem string) {
	at, isThere := slices.BinarySearchFunc(*to, route, compare)
	if isThere {
		return "the route is there already, as `" + (*to)[at].text + "`"
	}
	*to = slices.Insert(*to, at, route)
	return ""
}

func must(name, pattern, problem string) {
	if problem != "" {
		panic("router." + name + ": `" + pattern + "`: " + problem)
	}
}

// Serve leads a request to the function of its route. Without one the response is 404; or 405, if the path is
// there for other methods. It is the application's function unless app.Serve registers another one, which may
// call it.
func Serve(sample *guest.Sample, context *guest.Context, output *app.Output) (*guest.Response, error) {
	method, asked := context.Method(), segmentsOf(context.Path())
	var allowed []string
	for _, route := range routes {
		values, matches := match(route.segments, asked)
		if !matches {
			continue
		}
		if route.method == method || route.method == "" || route.method == "GET" && method == "HEAD" {
			route.set(context, values)
			return route.function(sample, context, output)
		}
		allowed = append(allowed, route.method)
	}
	if len(allowed) == 0 {
		return nothing(context), nil
	}
	if slices.Contains(allowed, "GET") {
		allowed = append(allowed, "HEAD")
	}
	slices.Sort(allowed)
	response := refusal(context, 405, "method_not_allowed", "the path is there for other methods")
	response.Header = map[string]string{"allow": strings.Join(slices.Compact(allowed), ", ")}
	return response, nil
}

// ServeWebSocket leads a socket to the function of its route. It is what serves the application's sockets
// unless websocket.Serve registers another function, which may call it.
func ServeWebSocket(socket *websocket.Socket, context *guest.Context) error {
	asked := segmentsOf(context.Path())
	for _, route := range sockets {
		if values, matches := match(route.segments, asked); matches {
			route.set(context, values)
			return route.talk(socket, context)
		}
	}
	return guest.Respond(nothing(context))
}

// set tells the context what the wildcards matched.
func (r *Route) set(context *guest.Context, values []string) {
	for at, value := range values {
		context.SetPathValue(r.names[at], value)
	}
}

func nothing(context *guest.Context) *guest.Response {
	return refusal(context, 404, "not_found", "there is nothing at this path")
}

// refusal is an error in the form of the host's own.
func refusal(context *guest.Context, status int, code, text string) *guest.Response {
	made := bridge.Refusal.(func(*guest.Context, int, string, string) *guest.Response)
	return made(context, status, code, text)
}

// told is an operation as the contract has it.
type told struct {
	method, path string
	Operation
}

// operations has all routes as they are told to callers.
func operations() []told {
	var all []told
	for _, route := range routes {
		if route.method == "" {
			continue
		}
		it := told{route.method, route.path(), route.operation}
		if it.Consumes == "" && route.method != "GET" {
			it.Consumes = "application/json"
		}
		all = append(all, it)
	}
	return all
}
