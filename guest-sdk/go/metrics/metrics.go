// Package metrics has counters, gauges and histograms of the handler's own, which stand in /metrics beside the
// server's.
//
//	var (
//		flowers = metrics.NewCounter(metrics.Opts{Name: "flowers_total", Help: "Flowers by species"}, "species")
//		lookup  = metrics.NewHistogram(metrics.Opts{Name: "lookup_seconds", Buckets: []float64{0.001, 0.01, 0.1}})
//	)
//
//	func count(species string, started time.Time) {
//		flowers.With(species).Inc()
//		lookup.Observe(time.Since(started).Seconds())
//	}
//
// As in Prometheus' package for Go, what cannot be used is a mistake of the program's, and a panic with an [Error]:
// a name, another number of labels, a value of a label beyond 200 bytes, a counter that would shrink. More series
// than the endpoint may have are dropped without one. In a test the numbers are in memory: Value reads them, and
// Forget begins anew.
package metrics

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// An Error says what cannot be used of a metric. Functions panic with it.
type Error struct{ Text string }

func (e *Error) Error() string { return e.Text }

// Opts say what a metric is.
type Opts struct {
	// Of letters, digits and `_`. A counter's that does not end in `_total` gets it.
	Name string
	// One line of at most 200 bytes.
	Help string
	// Of a histogram: at most 30 upper bounds, each greater than the one before. Without, they are those of
	// Prometheus, 0.005 to 10.
	Buckets []float64
}

// A Counter is a number that only grows, for each row of values of its labels.
type Counter struct{ series }

// A Gauge is a number that goes up and down. Of all instances the one that set it last holds.
type Gauge struct{ series }

// A Histogram has the distribution of numbers over buckets.
type Histogram struct{ series }

// NewCounter makes a counter, with the names of its labels. It is a variable of the package.
func NewCounter(opts Opts, labels ...string) *Counter { return &Counter{made(counter, opts, labels)} }

// NewGauge makes a gauge, with the names of its labels.
func NewGauge(opts Opts, labels ...string) *Gauge { return &Gauge{made(gauge, opts, labels)} }

// NewHistogram makes a histogram, with the names of its labels.
func NewHistogram(opts Opts, labels ...string) *Histogram {
	return &Histogram{made(histogram, opts, labels)}
}

// With is the series with these values of the labels, in the order of their names.
func (c *Counter) With(values ...string) *Counter { return &Counter{c.with(values)} }

// With is the series with these values of the labels, in the order of their names.
func (g *Gauge) With(values ...string) *Gauge { return &Gauge{g.with(values)} }

// With is the series with these values of the labels, in the order of their names.
func (h *Histogram) With(values ...string) *Histogram { return &Histogram{h.with(values)} }

// Inc adds 1.
func (c *Counter) Inc() { c.Add(1) }

// Add adds a number that is not negative.
func (c *Counter) Add(by float64) { c.change(add, by) }

// Set sets the number.
func (g *Gauge) Set(value float64) { g.change(set, value) }

// Inc adds 1.
func (g *Gauge) Inc() { g.Add(1) }

// Dec subtracts 1.
func (g *Gauge) Dec() { g.Add(-1) }

// Add adds a number.
func (g *Gauge) Add(by float64) { g.change(change, by) }

// Sub subtracts a number.
func (g *Gauge) Sub(by float64) { g.Add(-by) }

// Observe counts a number into the buckets.
func (h *Histogram) Observe(value float64) { h.change(observe, value) }

// The contract's kinds, in its order.
type kind uint32

const (
	counter kind = iota
	gauge
	histogram
)

// A change is a function of the contract.
type operation int

const (
	add operation = iota
	set
	change
	observe
)

type metric struct {
	kind        kind
	opts        Opts
	labels      []string
	isDescribed bool
}

// A metric with values of its labels.
type series struct {
	*metric
	values []string
}

func made(of kind, opts Opts, labels []string) series {
	opts.Name = named(opts.Name, of)
	if len(opts.Help) > 200 || strings.ContainsAny(opts.Help, "\r\n") || !utf8.ValidString(opts.Help) {
		wrong("the help text of `%s` is not one line of at most 200 bytes", opts.Name)
	}
	if of != histogram && len(opts.Buckets) > 0 {
		wrong("`%s` has buckets, and is no histogram", opts.Name)
	}
	// The last bucket of Prometheus, which every histogram has.
	if last := len(opts.Buckets) - 1; last >= 0 && math.IsInf(opts.Buckets[last], 1) {
		opts.Buckets = opts.Buckets[:last]
	}
	if len(opts.Buckets) > 30 {
		wrong("`%s` has %d buckets, expected at most 30", opts.Name, len(opts.Buckets))
	}
	for at, bound := range opts.Buckets {
		if !isFinite(bound) || at > 0 && bound <= opts.Buckets[at-1] {
			wrong("the bound %v of `%s` is not finite, or not greater than the one before", bound, opts.Name)
		}
	}
	if len(labels) > 8 {
		wrong("`%s` has %d labels, expected at most 8", opts.Name, len(labels))
	}
	for at, label := range labels {
		written(label, 50)
		if strings.HasPrefix(label, "__") || slices.Contains([]string{"endpoint", "le", "quantile"}, label) {
			wrong("the label `%s` of `%s` has a name of the server's", label, opts.Name)
		}
		if slices.Contains(labels[:at], label) {
			wrong("`%s` has the label `%s` twice", opts.Name, label)
		}
	}
	return series{metric: &metric{kind: of, opts: opts, labels: labels}}
}

func (s series) with(values []string) series {
	if len(values) != len(s.labels) {
		wrong("%d values for the %d labels of `%s`", len(values), len(s.labels), s.opts.Name)
	}
	return series{s.metric, values}
}

func (s series) change(operation operation, number float64) {
	s = s.with(s.values)
	for at, value := range s.values {
		if !utf8.ValidString(value) {
			wrong("the value of the label `%s` is not UTF-8", s.labels[at])
		}
	}
	s.ask(operation, number)
}

func wrong(format string, arguments ...any) { panic(&Error{fmt.Sprintf(format, arguments...)}) }

func isFinite(number float64) bool { return !math.IsInf(number, 0) && !math.IsNaN(number) }

// named is the name of a metric, a counter's with its end.
func named(name string, of kind) string {
	written(name, 100)
	for _, beginning := range []string{"modelhost_", "process_"} {
		if strings.HasPrefix(name, beginning) {
			wrong("the metric `%s` begins with `%s`, which names the server's", name, beginning)
		}
	}
	for _, end := range []string{"_bucket", "_count", "_sum", "_created"} {
		if strings.HasSuffix(name, end) {
			wrong("the metric `%s` ends in `%s`, which names a part of one", name, end)
		}
	}
	isTotal := strings.HasSuffix(name, "_total")
	switch {
	case of == counter && !isTotal:
		return name + "_total"
	case of != counter && isTotal:
		wrong("the metric `%s` ends in `_total`, which names a counter", name)
	}
	return name
}

// written refuses a name of other characters.
func written(name string, most int) {
	if len(name) < 1 || len(name) > most {
		wrong("a name of %d bytes, expected 1 to %d", len(name), most)
	}
	for at := range len(name) {
		c := name[at]
		isLetter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
		if !isLetter && (at == 0 || c < '0' || c > '9') {
			wrong("the name %q has other characters than letters, digits and `_`, or begins with a digit", name)
		}
	}
}
