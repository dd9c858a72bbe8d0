//go:build !wasip1

package kv

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const longestKey = 1024

// Buckets in memory, which do what the host's do, but for limits.
var (
	lock    sync.Mutex
	buckets = map[string]map[string]stored{}
)

type stored struct {
	value []byte
	// Zero for one that stays.
	end time.Time
}

// Forget removes all values, in a test.
func Forget() {
	lock.Lock()
	defer lock.Unlock()
	clear(buckets)
}

func (b *Bucket) open() error { return nil }

// values has those of the bucket that are not over.
func (b *Bucket) values() map[string]stored {
	values := buckets[b.name]
	if values == nil {
		values = map[string]stored{}
		buckets[b.name] = values
	}
	for key, it := range values {
		if !it.end.IsZero() && !time.Now().Before(it.end) {
			delete(values, key)
		}
	}
	return values
}

// with calls a function with the values, unless the key cannot be one.
func (b *Bucket) with(key string, call func(values map[string]stored) error) error {
	if length := len(key); length < 1 || length > longestKey {
		return invalid("a key of %d bytes, expected 1 to %d", length, longestKey)
	}
	lock.Lock()
	defer lock.Unlock()
	return call(b.values())
}

func made(value []byte, ttl uint64) stored {
	it := stored{value: append([]byte{}, value...)}
	if ttl > 0 {
		it.end = time.Now().Add(time.Duration(ttl) * time.Millisecond)
	}
	return it
}

func (b *Bucket) get(key string) (value []byte, found bool, err error) {
	err = b.with(key, func(values map[string]stored) error {
		it, is := values[key]
		if found = is; found {
			value = append([]byte{}, it.value...)
		}
		return nil
	})
	return value, found, err
}

func (b *Bucket) set(key string, value []byte, ttl uint64) error {
	return b.with(key, func(values map[string]stored) error {
		values[key] = made(value, ttl)
		return nil
	})
}

func (b *Bucket) add(key string, value []byte, ttl uint64) (added bool, err error) {
	err = b.with(key, func(values map[string]stored) error {
		if _, found := values[key]; !found {
			values[key], added = made(value, ttl), true
		}
		return nil
	})
	return added, err
}

func (b *Bucket) increment(key string, by int64, ttl uint64) (sum int64, err error) {
	err = b.with(key, func(values map[string]stored) error {
		it, found := values[key]
		if !found {
			it = made([]byte("0"), ttl)
		}
		number, err := strconv.ParseInt(string(it.value), 10, 64)
		if err != nil {
			return invalid("the value is not a whole number of 64 bits")
		}
		if sum = number + by; (by > 0) != (sum > number) && by != 0 {
			return invalid("the sum is beyond 64 bits")
		}
		it.value = strconv.AppendInt(nil, sum, 10)
		values[key] = it
		return nil
	})
	return sum, err
}

func (b *Bucket) swap(key string, current, value []byte) (swapped bool, err error) {
	err = b.with(key, func(values map[string]stored) error {
		it, found := values[key]
		if swapped = found == (current != nil) && bytes.Equal(it.value, current); swapped {
			values[key] = stored{append([]byte{}, value...), it.end}
		}
		return nil
	})
	return swapped, err
}

func (b *Bucket) delete(key string) error {
	return b.with(key, func(values map[string]stored) error {
		delete(values, key)
		return nil
	})
}

func (b *Bucket) keys(prefix, cursor string, limit uint32) (keys []string, next string, err error) {
	lock.Lock()
	defer lock.Unlock()
	for key := range b.values() {
		if strings.HasPrefix(key, prefix) && key > cursor {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	if len(keys) > int(limit) {
		keys = keys[:limit]
		next = keys[limit-1]
	}
	return keys, next, nil
}
