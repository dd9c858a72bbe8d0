package kv

// The contract's `kv`.

import (
	"unsafe"

	"modelhost.example/guest/internal/abi"
	"modelhost.example/guest/internal/bridge"
)

type word = abi.Word

//go:wasmimport modelhost:handler/kv@0.1.0 open
func importOpen(name, length word, result unsafe.Pointer)

//go:wasmimport modelhost:handler/kv@0.1.0 [resource-drop]bucket
func importDrop(handle word)

//go:wasmimport modelhost:handler/kv@0.1.0 [method]bucket.get
func importGet(handle, key, length word, result unsafe.Pointer)

//go:wasmimport modelhost:handler/kv@0.1.0 [method]bucket.set
func importSet(handle, key, keyLength, value, length, hasTTL word, ttl uint64, result unsafe.Pointer)

//go:wasmimport modelhost:handler/kv@0.1.0 [method]bucket.add
func importAdd(handle, key, keyLength, value, length, hasTTL word, ttl uint64, result unsafe.Pointer)

//go:wasmimport modelhost:handler/kv@0.1.0 [method]bucket.increment
func importIncrement(handle, key, keyLength word, by int64, hasTTL word, ttl uint64, result unsafe.Pointer)

//go:wasmimport modelhost:handler/kv@0.1.0 [method]bucket.swap
func importSwap(handle, key, keyLength, hasCurrent, current, currentLength, value, length word, result unsafe.Pointer)

//go:wasmimport modelhost:handler/kv@0.1.0 [method]bucket.delete
func importDelete(handle, key, keyLength word, result unsafe.Pointer)

//go:wasmimport modelhost:handler/kv@0.1.0 [method]bucket.keys
func importKeys(handle, prefix, prefixLength, hasCursor, cursor, cursorLength, limit word, result unsafe.Pointer)

var (
	// The result of a call. Of a flag only the first byte is written.
	result struct {
		_       [0]uint64
		isError uint8
		// What follows lies here, unless it is a number of 64 bits or an error in its place.
		words [5]word
	}
	// The buckets that this call of the handler has opened. None outlives it: neither memory that is copied
	// nor an instance that waits for the next request may have a handle of the host's.
	opened = map[string]word{}
)

func init() { bridge.AtEnd = append(bridge.AtEnd, closeAll) }

func closeAll() {
	for _, handle := range opened {
		importDrop(handle)
	}
	clear(opened)
}

// failed is the error of a result; `at` is the word where it begins.
func failed(at int) error {
	w := result.words[at:]
	return errorOf(w[0]&0xff, string(abi.BytesAt(abi.Pointer(w[1]), w[2])))
}

// into is where a result goes.
func into() unsafe.Pointer { return unsafe.Pointer(&result) }

func (b *Bucket) open() error {
	return b.asked(0, func(word) {}, func() {})
}

// asked calls an import with the bucket's handle, and reads its result, or its error.
func (b *Bucket) asked(errorAt int, call func(handle word), read func()) (err error) {
	// Many values would fill the memory.
	bridge.Collect()
	abi.Import(func() {
		handle, isOpen := opened[b.name]
		if !isOpen {
			name, length := abi.Text(b.name)
			if importOpen(name, length, into()); result.isError != 0 {
				err = failed(0)
				return
			}
			handle = result.words[0]
			opened[b.name] = handle
		}
		result.isError = 0
		if call(handle); result.isError != 0 {
			err = failed(errorAt)
			return
		}
		read()
	})
	return err
}

// orNone is a flag that says whether a value is there.
func orNone(isThere bool) word {
	if isThere {
		return 1
	}
	return 0
}

func (b *Bucket) get(key string) (value []byte, found bool, err error) {
	err = b.asked(0, func(handle word) {
		start, length := abi.Text(key)
		importGet(handle, start, length, into())
	}, func() {
		if found = result.words[0]&0xff != 0; !found {
			return
		}
		// An empty value is not nil, which is none for Swap.
		if value = abi.BytesAt(abi.Pointer(result.words[1]), result.words[2]); value == nil {
			value = []byte{}
		}
	})
	return value, found, err
}

func (b *Bucket) set(key string, value []byte, ttl uint64) error {
	return b.asked(0, func(handle word) {
		start, length := abi.Text(key)
		importSet(handle, start, length, abi.Address(value), word(len(value)), orNone(ttl > 0), ttl, into())
	}, func() {})
}

func (b *Bucket) add(key string, value []byte, ttl uint64) (added bool, err error) {
	err = b.asked(0, func(handle word) {
		start, length := abi.Text(key)
		importAdd(handle, start, length, abi.Address(value), word(len(value)), orNone(ttl > 0), ttl, into())
	}, func() { added = result.words[0]&0xff != 0 })
	return added, err
}

func (b *Bucket) increment(key string, by int64, ttl uint64) (sum int64, err error) {
	err = b.asked(1, func(handle word) {
		start, length := abi.Text(key)
		importIncrement(handle, start, length, by, orNone(ttl > 0), ttl, into())
	}, func() { sum = int64(uint64(result.words[1]) | uint64(result.words[2])<<32) })
	return sum, err
}

func (b *Bucket) swap(key string, current, value []byte) (swapped bool, err error) {
	err = b.asked(0, func(handle word) {
		start, length := abi.Text(key)
		importSwap(handle, start, length, orNone(current != nil), abi.Address(current), word(len(current)),
			abi.Address(value), word(len(value)), into())
	}, func() { swapped = result.words[0]&0xff != 0 })
	return swapped, err
}

func (b *Bucket) delete(key string) error {
	return b.asked(0, func(handle word) {
		start, length := abi.Text(key)
		importDelete(handle, start, length, into())
	}, func() {})
}

func (b *Bucket) keys(prefix, cursor string, limit uint32) (keys []string, next string, err error) {
	err = b.asked(0, func(handle word) {
		start, length := abi.Text(prefix)
		behind, behindLength := abi.Text(cursor)
		importKeys(handle, start, length, orNone(cursor != ""), behind, behindLength, limit, into())
	}, func() {
		w := result.words
		keys = abi.TextsAt(abi.Pointer(w[0]), w[1])
		if w[2]&0xff != 0 {
			next = abi.StringAt(abi.Pointer(w[3]), w[4])
		}
	})
	return keys, next, err
}
