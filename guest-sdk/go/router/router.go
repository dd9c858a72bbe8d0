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
// `/openapi.json` and `/docs` have.
package router

import (
	"slices"
	"strings"

	"modelhost.example/guest"
	"modelhost.example/guest/app"
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
}

// Describe says what the route is for, and what it takes and returns.
func (r *Route) Describe(operation Operation) { r.operation = operation }

// routes, the most specific ones first.
var routes []*Route

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
	if problem != "" {
		panic("router.Handle: `" + pattern + "`: " + problem)
	}
	route.function = function
	at, isThere := slices.BinarySearchFunc(routes, route, compare)
	if isThere {
		panic("router.Handle: `" + pattern + "`: the route is there already, as `" + routes[at].text + "`")
	}
	routes = slices.Insert(routes, at, route)
	return route
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
			for at, value := range values {
				context.SetPathValue(route.names[at], value)
			}
			return route.function(sample, context, output)
		}
		allowed = append(allowed, route.method)
	}
	if len(allowed) == 0 {
		return refusal(404, "not_found", "there is nothing at this path")
	}
	if slices.Contains(allowed, "GET") {
		allowed = append(allowed, "HEAD")
	}
	slices.Sort(allowed)
	response, err := refusal(405, "method_not_allowed", "the path is there for other methods")
	if err == nil {
		response.Header = map[string]string{"allow": strings.Join(slices.Compact(allowed), ", ")}
	}
	return response, err
}

func refusal(status int, code, text string) (*guest.Response, error) {
	response, err := guest.JSON(struct {
		Error string `json:"error"`
		Code  string `json:"code"`
	}{text, code})
	if err != nil {
		return nil, err
	}
	return response.WithStatus(status), nil
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
