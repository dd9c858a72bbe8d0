//go:build !wasip1

package metrics

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Numbers in memory, by the text of their series.
var (
	lock    sync.Mutex
	numbers = map[string]float64{}
)

// Value is the number of a series, in a test, and whether there is one; of a histogram `words` there are those of
// `words_count` and `words_sum`.
func Value(name string, labels map[string]string) (value float64, found bool) {
	var pairs []string
	for label, value := range labels {
		pairs = append(pairs, pair(label, value))
	}
	lock.Lock()
	defer lock.Unlock()
	value, found = numbers[place(name, pairs)]
	return value, found
}

// Forget removes all numbers, in a test.
func Forget() {
	lock.Lock()
	defer lock.Unlock()
	clear(numbers)
}

func pair(label, value string) string { return fmt.Sprintf("%s=%q", label, value) }

func place(name string, pairs []string) string {
	slices.Sort(pairs)
	return name + "{" + strings.Join(pairs, ",") + "}"
}

// ask does what the host does, but for the limit of series.
func (s series) ask(operation operation, number float64) {
	name := s.opts.Name
	if !isFinite(number) || operation == add && number < 0 {
		wrong("`%s` takes a finite number, a counter none below 0, and not %v", name, number)
	}
	var pairs []string
	for at, value := range s.values {
		if len(value) > 200 {
			wrong("a value of %d bytes of the label `%s`, expected at most 200", len(value), s.labels[at])
		}
		pairs = append(pairs, pair(s.labels[at], value))
	}
	lock.Lock()
	defer lock.Unlock()
	switch operation {
	case add, change:
		numbers[place(name, pairs)] += number
	case set:
		numbers[place(name, pairs)] = number
	case observe:
		numbers[place(name+"_count", pairs)]++
		numbers[place(name+"_sum", pairs)] += number
	}
}
