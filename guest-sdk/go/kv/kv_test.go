package kv

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"
)

func TestATestHasBucketsInMemory(t *testing.T) {
	defer Forget()
	bucket, err := Open("a")
	if err != nil {
		t.Fatal(err)
	}
	value := []byte("v")
	if err := bucket.Set("k/1", value, 0); err != nil {
		t.Fatal(err)
	}
	value[0] = 'x'
	again, _ := Open("a")
	if value, found, err := again.Get("k/1"); string(value) != "v" || !found || err != nil {
		t.Error(value, found, err)
	}
	other, _ := Open("b")
	if value, found, err := other.Get("k/1"); value != nil || found || err != nil {
		t.Error(value, found, err)
	}
	if err := bucket.SetJSON("k/2", []int{1, 2}, time.Minute); err != nil {
		t.Error(err)
	}
	var numbers []int
	if found, err := bucket.GetJSON("k/2", &numbers); !found || err != nil || !slices.Equal(numbers, []int{1, 2}) {
		t.Error(numbers, found, err)
	}
	if _, err := bucket.GetJSON("k/1", &numbers); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	if err := bucket.Set("gone", nil, time.Nanosecond); err != nil {
		t.Error(err)
	}
	time.Sleep(2 * time.Millisecond)
	if _, found, err := bucket.Get("gone"); found || err != nil {
		t.Error(found, err)
	}
	Forget()
	if keys, err := bucket.Keys(""); len(keys) != 0 || err != nil {
		t.Error(keys, err)
	}
}

func TestConditionsAndNumbers(t *testing.T) {
	defer Forget()
	bucket, _ := Open("a")
	did := func(expected bool) func(bool, error) {
		return func(done bool, err error) {
			t.Helper()
			if done != expected || err != nil {
				t.Error(done, err)
			}
		}
	}
	did(false)(bucket.Swap("k", []byte{}, nil))
	did(true)(bucket.Swap("k", nil, []byte{}))
	did(false)(bucket.Swap("k", nil, []byte("w")))
	did(true)(bucket.Swap("k", []byte{}, []byte("w")))
	did(false)(bucket.Add("k", nil, 0))
	did(true)(bucket.Add("new", nil, time.Second))
	value, found, err := bucket.Get("new")
	if value == nil || !found || err != nil {
		t.Error("an empty value is not nil", value, found, err)
	}
	for _, step := range []struct {
		by, sum int64
		fails   bool
	}{{2, 2, false}, {-5, -3, false}, {0, -3, false}, {math.MinInt64, 0, true}, {math.MaxInt64, math.MaxInt64 - 3, false}, {4, 0, true}} {
		sum, err := bucket.Increment("n", step.by, 0)
		if errors.Is(err, ErrInvalid) != step.fails || !step.fails && sum != step.sum {
			t.Error(step, sum, err)
		}
	}
	if _, err := bucket.Increment("k", 1, 0); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	for range 2 {
		if err := bucket.Delete("k"); err != nil {
			t.Error(err)
		}
	}
}

func TestKeysComeInPages(t *testing.T) {
	defer Forget()
	bucket, _ := Open("a")
	for number := range 2500 {
		_ = bucket.Set(fmt.Sprintf("k/%04d", number), nil, 0)
	}
	_ = bucket.Set("other", nil, 0)
	keys, err := bucket.Keys("k/")
	if err != nil || len(keys) != 2500 || !slices.IsSorted(keys) {
		t.Error(len(keys), err)
	}
	if page, next, err := bucket.Page("k/", "k/0004", 2); err != nil || !slices.Equal(page, []string{"k/0005", "k/0006"}) || next != "k/0006" {
		t.Error(page, next, err)
	}
}

func TestWhatCannotBeUsedIsSaid(t *testing.T) {
	defer Forget()
	bucket, _ := Open("a")
	long := string(make([]byte, 1025))
	_, _, ofGet := bucket.Get("\xff")
	_, _, ofPage := bucket.Page("\xff", "", 1)
	_, ofOpen := Open("\xff")
	for expected, err := range map[string]error{
		"the key is not UTF-8":                    ofGet,
		"the prefix or the cursor is not UTF-8":   ofPage,
		"the bucket's name is not UTF-8":          ofOpen,
		"a time to live of -1s":                   bucket.Set("k", nil, -time.Second),
		"a key of 0 bytes, expected 1 to 1024":    bucket.Delete(""),
		"a key of 1025 bytes, expected 1 to 1024": bucket.Delete(long),
		"the value of `k`: JSON has no number NaN; a tensor, and a pointer that is nil, are written with null": bucket.SetJSON("k", math.NaN(), 0),
	} {
		var said *Error
		if !errors.Is(err, ErrInvalid) || !errors.As(err, &said) || said.Text != expected {
			t.Errorf("%v, expected %s", err, expected)
		}
	}
	for kind, expected := range []error{ErrNoSuchBucket, ErrInvalid, ErrLimit, ErrUnavailable} {
		if err := errorOf(uint32(kind), "a"); !errors.Is(err, expected) || err.Error() == "" {
			t.Error(kind, err)
		}
	}
	for ttl, expected := range map[time.Duration]uint64{0: 0, 1: 1, time.Millisecond: 1, 1500 * time.Microsecond: 2, math.MaxInt64: 9223372036855} {
		if milliseconds, err := checked("k", ttl); milliseconds != expected || err != nil {
			t.Error(ttl, milliseconds, err)
		}
	}
}
