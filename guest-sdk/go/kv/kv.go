// Package kv keeps values that outlive a request, in the buckets that the endpoint grants,
// `kv = ["default"]`.
//
//	requests, err := kv.Open("requests")
//	if err != nil {
//		return nil, err
//	}
//	count, err := requests.Increment(client, 1, time.Minute)
//	if err != nil {
//		return nil, err
//	}
//	if count > 100 {
//		return guest.Text("try again in a minute").WithStatus(429), nil
//	}
//
// A handler that imports this package is loaded only by an endpoint that grants a bucket. In a test the
// values are in memory, in any bucket, and Forget begins anew.
package kv

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"modelhost.example/guest/internal/encode"
)

// Kinds of an [Error], for errors.Is.
var (
	// ErrNoSuchBucket says that the endpoint grants no bucket of this name.
	ErrNoSuchBucket = errors.New("no such bucket")
	// ErrInvalid says that a key, a time to live or a value cannot be used.
	ErrInvalid = errors.New("invalid")
	// ErrLimit says that it is beyond a limit of the endpoint. Nothing was changed.
	ErrLimit = errors.New("beyond a limit")
	// ErrUnavailable says that the store cannot be used now; whether a write was done is not known.
	ErrUnavailable = errors.New("unavailable")
)

// An Error says why a bucket has not done what it should. As what a function returns it is 500, and its text
// goes to the log.
type Error struct {
	// One of [ErrNoSuchBucket], [ErrInvalid], [ErrLimit] and [ErrUnavailable].
	Kind error
	Text string
}

func (e *Error) Error() string { return e.Text }

func (e *Error) Unwrap() error { return e.Kind }

// A Bucket has keys and their values. It may be a variable of the package that guest.Init sets: the host is
// asked for it at its first use in each call.
//
// A key is UTF-8, of 1 to 1024 bytes. A value that is written with a time to live is gone after it; with 0 it
// stays until it is deleted. Each method but Keys is one step, also among hosts that share their values. Any
// may return an [Error].
type Bucket struct{ name string }

// Open opens a bucket: `default`, or `shared/sessions` for one that several endpoints are granted.
func Open(name string) (*Bucket, error) {
	bucket := &Bucket{name}
	if !utf8.ValidString(name) {
		return nil, invalid("the bucket's name is not UTF-8")
	}
	if err := bucket.open(); err != nil {
		return nil, err
	}
	return bucket, nil
}

// Get returns the value of a key, and whether it is there. A value that is there is not nil, even if it is
// empty.
func (b *Bucket) Get(key string) (value []byte, found bool, err error) {
	if err := check(key); err != nil {
		return nil, false, err
	}
	return b.get(key)
}

// GetJSON decodes a value that was set as JSON into what `value` points at, and says whether the key is
// there.
func (b *Bucket) GetJSON(key string, value any) (found bool, err error) {
	text, found, err := b.Get(key)
	if err != nil || !found {
		return false, err
	}
	if err := json.Unmarshal(text, value); err != nil {
		return false, invalid("the value of `%s`: %s", key, err)
	}
	return true, nil
}

// Set sets a value.
func (b *Bucket) Set(key string, value []byte, ttl time.Duration) error {
	end, err := checked(key, ttl)
	if err != nil {
		return err
	}
	return b.set(key, value, end)
}

// SetJSON sets a value as JSON.
func (b *Bucket) SetJSON(key string, value any, ttl time.Duration) error {
	text, err := encode.JSON(value)
	if err != nil {
		return invalid("the value of `%s`: %s", key, err)
	}
	return b.Set(key, text, ttl)
}

// Add sets a value if the key is not there, and says whether it did: a lock, or a mark that something is
// being done.
func (b *Bucket) Add(key string, value []byte, ttl time.Duration) (added bool, err error) {
	end, err := checked(key, ttl)
	if err != nil {
		return false, err
	}
	return b.add(key, value, end)
}

// Increment adds to a number, which is stored as decimal digits, and gives the sum. A key that is not there
// counts as 0, and the time to live is for it alone: a count of requests a minute begins anew after the
// minute.
func (b *Bucket) Increment(key string, by int64, ttl time.Duration) (sum int64, err error) {
	end, err := checked(key, ttl)
	if err != nil {
		return 0, err
	}
	return b.increment(key, by, end)
}

// Swap sets a value if the present one is `current`, nil for no value, and says whether it did. Its end stays
// as it is.
func (b *Bucket) Swap(key string, current, value []byte) (swapped bool, err error) {
	if err := check(key); err != nil {
		return false, err
	}
	return b.swap(key, current, value)
}

// Delete removes a key, whether it is there or not.
func (b *Bucket) Delete(key string) error {
	if err := check(key); err != nil {
		return err
	}
	return b.delete(key)
}

// Keys returns all keys that begin with a prefix, in the order of their bytes.
func (b *Bucket) Keys(prefix string) ([]string, error) {
	var all []string
	for cursor := ""; ; {
		page, next, err := b.Page(prefix, cursor, mostKeys)
		if err != nil {
			return nil, err
		}
		if all = append(all, page...); next == "" {
			return all, nil
		}
		cursor = next
	}
}

// Page returns at most so many keys behind a cursor, and at most 1000. The first cursor is empty; the next
// one is empty if there are no more keys.
func (b *Bucket) Page(prefix, cursor string, limit int) (keys []string, next string, err error) {
	if !utf8.ValidString(prefix) || !utf8.ValidString(cursor) {
		return nil, "", invalid("the prefix or the cursor is not UTF-8")
	}
	return b.keys(prefix, cursor, uint32(min(max(limit, 1), mostKeys)))
}

// Most keys of one page.
const mostKeys = 1000

func invalid(format string, arguments ...any) error {
	return &Error{ErrInvalid, fmt.Sprintf(format, arguments...)}
}

// check refuses what no host takes as text.
func check(key string) error {
	if !utf8.ValidString(key) {
		return invalid("the key is not UTF-8")
	}
	return nil
}

// checked is a time to live in milliseconds, no part of which is lost; 0 for none.
func checked(key string, ttl time.Duration) (uint64, error) {
	if ttl < 0 {
		return 0, invalid("a time to live of %s", ttl)
	}
	return encode.Milliseconds(ttl), check(key)
}

// errorOf is an error of the contract, whose kinds are in this order.
func errorOf(kind uint32, text string) error {
	switch kind {
	case 0:
		return &Error{ErrNoSuchBucket, fmt.Sprintf("the endpoint grants no bucket `%s`", text)}
	case 1:
		return &Error{ErrInvalid, text}
	case 2:
		return &Error{ErrLimit, text}
	}
	return &Error{ErrUnavailable, "the store cannot be used: " + text}
}
