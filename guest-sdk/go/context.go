package guest

import (
	"encoding/json"
	"maps"
	"strings"
)

// TensorSpec is what a model expects or returns under one name.
type TensorSpec struct {
	Name     string
	Datatype Datatype
	// -1 is any extent.
	Shape []int64
}

// Signature has a model's inputs and outputs, in the model's order.
type Signature struct{ Inputs, Outputs []TensorSpec }

// source is where a context comes from: the host, or a test.
type source interface {
	text(question int) string
	header(name string) (string, bool)
	sample() *Sample
	signature() Signature
}

// questions whose answer is a text.
const (
	requestID = iota
	method
	path
	query
	metadata
	parameters
)

// Context is the request being served. What is not asked for is not fetched. It is good for one call.
type Context struct {
	source source
	values map[string]string
}

// RequestID is from the header `x-request-id`, or made by the host.
func (c *Context) RequestID() string { return c.source.text(requestID) }

// Method is in upper case.
func (c *Context) Method() string { return c.source.text(method) }

// Path is without the query.
func (c *Context) Path() string { return c.source.text(path) }

// Query is without the question mark; net/url reads it.
func (c *Context) Query() string { return c.source.text(query) }

// PathValue is what the wildcard of this name in a pattern of package router matched, decoded; empty if there
// is none.
func (c *Context) PathValue(name string) string { return c.values[name] }

// SetPathValue sets what PathValue is for a name: for packages that lead requests to functions.
func (c *Context) SetPathValue(name, value string) {
	if c.values == nil {
		c.values = map[string]string{}
	}
	c.values[name] = value
}

// Header is the header's first value, if it has one. Names match in any case.
func (c *Context) Header(name string) (string, bool) { return c.source.header(name) }

// Sample is the request's body again, for PostInference.
func (c *Context) Sample() *Sample { return c.source.sample() }

// Signature has the model's inputs and outputs.
func (c *Context) Signature() Signature { return c.source.signature() }

// Metadata decodes the endpoint's metadata.
func (c *Context) Metadata(value any) error {
	return json.Unmarshal([]byte(c.source.text(metadata)), value)
}

// Parameters decodes the request's parameters of the Open Inference Protocol.
func (c *Context) Parameters(value any) error {
	return json.Unmarshal([]byte(c.source.text(parameters)), value)
}

// Request is what a test says of a request, see [NewContext].
type Request struct {
	ID, Method, Path, Query string
	Header                  map[string]string
	Body                    []byte
	ContentType             string
	// By the names of a pattern's wildcards.
	PathValues map[string]string
	// As JSON; empty is `null` and `{}`.
	Metadata, Parameters string
	Signature            Signature
}

// NewContext makes a context for a test.
func NewContext(request Request) *Context {
	return &Context{given{request}, maps.Clone(request.PathValues)}
}

type given struct{ request Request }

func (g given) text(question int) string {
	r := g.request
	texts := [...]string{r.ID, r.Method, r.Path, r.Query, r.Metadata, r.Parameters}
	defaults := [...]string{"test", "POST", "/", "", "null", "{}"}
	if texts[question] == "" {
		return defaults[question]
	}
	return texts[question]
}

func (g given) header(name string) (string, bool) {
	for own, value := range g.request.Header {
		if strings.EqualFold(own, name) {
			return value, true
		}
	}
	return "", false
}

func (g given) sample() *Sample {
	return &Sample{ContentType: g.request.ContentType, Body: g.request.Body}
}

func (g given) signature() Signature { return g.request.Signature }
