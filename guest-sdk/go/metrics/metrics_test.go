package metrics

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"strings"
	"testing"
)

var (
	flowers  = NewCounter(Opts{Name: "flowers", Help: "Flowers by species"}, "species", "size")
	requests = NewCounter(Opts{Name: "requests_total"})
	age      = NewGauge(Opts{Name: "age_seconds"})
	words    = NewHistogram(Opts{Name: "words", Buckets: []float64{1, 10, math.Inf(1)}}, "of")
)

func TestNumbersAreKeptBySeries(t *testing.T) {
	defer Forget()
	flowers.With("setosa", "1").Inc()
	flowers.With("setosa", "1").Add(2.5)
	requests.Inc()
	age.Set(12)
	age.Inc()
	age.Dec()
	age.Sub(2)
	words.With("x").Observe(3)
	words.With("x").Observe(5)
	for _, it := range []struct {
		name   string
		labels map[string]string
		value  float64
	}{
		{"flowers_total", map[string]string{"species": "setosa", "size": "1"}, 3.5},
		{"requests_total", nil, 1},
		{"age_seconds", nil, 10},
		{"words_count", map[string]string{"of": "x"}, 2},
		{"words_sum", map[string]string{"of": "x"}, 8},
	} {
		if value, found := Value(it.name, it.labels); !found || value != it.value {
			t.Error(it, value, found)
		}
	}
	if _, found := Value("flowers_total", map[string]string{"species": "virginica", "size": "1"}); found {
		t.Error("a series that was never changed")
	}
	Forget()
	if _, found := Value("age_seconds", nil); found {
		t.Error("a number that was forgotten")
	}
}

func TestNamesAndLabelsHaveTheRulesOfTheHost(t *testing.T) {
	var rules struct {
		Names []struct {
			Kind, Name string
			Times      int
			Good       bool
		}
		Labels []struct {
			Labels []string
			Good   bool
		}
	}
	// The rules of all SDKs.
	text, err := os.ReadFile("../../../tests/languages/metrics.json")
	if err == nil {
		err = json.Unmarshal(text, &rules)
	}
	if err != nil {
		t.Fatal(err)
	}
	isGood := func(made func()) (good bool) {
		defer func() { good = recover() == nil }()
		made()
		return
	}
	for _, it := range rules.Names {
		opts := Opts{Name: strings.Repeat(it.Name, max(it.Times, 1))}
		kinds := map[string]func(){
			"counter":   func() { NewCounter(opts) },
			"gauge":     func() { NewGauge(opts) },
			"histogram": func() { NewHistogram(opts) },
		}
		if isGood(kinds[it.Kind]) != it.Good {
			t.Error(it)
		}
	}
	for _, it := range rules.Labels {
		if isGood(func() { NewGauge(Opts{Name: "a"}, it.Labels...) }) != it.Good {
			t.Error(it)
		}
	}
}

func TestWhatCannotBeUsedIsSaid(t *testing.T) {
	defer Forget()
	labelled := func(labels ...string) func() {
		return func() { NewCounter(Opts{Name: "a"}, labels...) }
	}
	of := func(opts Opts) func() { return func() { NewHistogram(opts) } }
	for expected, made := range map[string]func(){
		"a name of 101 bytes":                      of(Opts{Name: strings.Repeat("a", 101)}),
		"the name \"a-b\" has other":               of(Opts{Name: "a-b"}),
		"begins with `modelhost_`":                 of(Opts{Name: "modelhost_a"}),
		"ends in `_sum`":                           of(Opts{Name: "a_sum"}),
		"one line":                                 of(Opts{Name: "a", Help: "x\ny"}),
		"at most 200 bytes":                        of(Opts{Name: "a", Help: strings.Repeat("é", 101)}),
		"the bound 1 of":                           of(Opts{Name: "a", Buckets: []float64{2, 1}}),
		"31 buckets":                               of(Opts{Name: "a", Buckets: make([]float64, 31)}),
		"is no histogram":                          func() { NewGauge(Opts{Name: "a", Buckets: []float64{1}}) },
		"the label `le` of `a_total`":              labelled("le"),
		"the label `__a`":                          labelled("__a"),
		"the label `b` twice":                      labelled("b", "b"),
		"9 labels, expected at most 8":             labelled(strings.Split("bcdefghij", "")...),
		"0 values for the 2 labels":                func() { flowers.Inc() },
		"1 values for the 0 labels":                func() { requests.With("a") },
		"202 bytes of the label `species`":         func() { flowers.With(strings.Repeat("é", 101), "1").Inc() },
		"the value of the label `of` is not UTF-8": func() { words.With("\xff").Observe(1) },
		"`requests_total` takes a finite number":   func() { requests.Add(-1) },
		"`age_seconds` takes a finite number":      func() { age.Set(math.Inf(1)) },
		"a counter none below 0, and not NaN":      func() { words.With("x").Observe(math.NaN()) },
	} {
		func() {
			defer func() {
				err, _ := recover().(error)
				var said *Error
				if !errors.As(err, &said) || !strings.Contains(said.Text, expected) {
					t.Errorf("%v, expected %s", err, expected)
				}
			}()
			made()
		}()
	}
	if len(numbers) != 0 {
		t.Error("numbers were changed", numbers)
	}
}
