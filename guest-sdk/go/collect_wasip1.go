package guest

// When garbage is collected: as a call begins, once its arguments are there. A component may call nothing
// while it is given arguments and results, and Go's collector, which cabi_realloc could set off, asks for the
// time. So it never runs by itself; what one call leaves is collected before the next.
//
// To measure the garbage takes longer than much of a call. So it is measured when the memory has grown; when
// much has passed between host and handler, of which much garbage is made; and after as many calls as half of
// what may still be left lying is enough for. Garbage that only had room would fill the memory up to its
// limit, and the next large call would end the instance.

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"

	"modelhost.example/guest/internal/abi"
)

const (
	// Garbage that is always left lying, in bytes.
	leastGarbage = 4 << 20
	// Most calls between two measurements.
	mostCalls = 256
	// Bytes that pass between two measurements. Values of JSON take some fifty times their text.
	mostPassed = 32 << 10
)

var (
	measured = []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}
	// Bytes that had been allocated at the last collection, and at the last measurement.
	collectedAt, measuredAt uint64
	// Garbage that is left lying.
	most uint64 = leastGarbage
	// Calls since the last measurement, those that are to be before the next, and the bytes that one is
	// thought to allocate: as many as lately, so that small calls do not hide the large ones among them.
	calls, enough, ofCall uint64
	// Bytes that had passed at the last measurement.
	passedAt uint64
	// The memory's size at the last measurement.
	pages uint32
)

func init() { debug.SetGCPercent(-1) }

// Collect collects the garbage at once: for a function that makes more than fits into the memory during one
// call. In place of runtime.GC, after which the instance could end while the host hands something over.
func Collect() {
	// With a goal of this collection that is smaller than the next one's, which is none, the allocator does
	// not give memory back where the heap grows: it would ask for the time there, in cabi_realloc too.
	debug.SetGCPercent(100)
	runtime.GC()
	debug.SetGCPercent(-1)
}

// memoryPages is the size of the memory in units of 64 KiB.
func memoryPages() uint32

// collect lets the collector run if there may be as much garbage as there was in use after it ran last.
func collect() {
	calls++
	if calls < enough && memoryPages() == pages && abi.Passed-passedAt < mostPassed {
		return
	}
	metrics.Read(measured)
	allocated := measured[0].Value.Uint64()
	ofCall = max((allocated-measuredAt)/calls+1, ofCall-ofCall/8)
	if allocated-collectedAt >= most {
		Collect()
		metrics.Read(measured)
		allocated = measured[0].Value.Uint64()
		collectedAt, most = allocated, max(leastGarbage, measured[1].Value.Uint64())
	}
	left := most - (allocated - collectedAt)
	calls, enough, measuredAt = 0, min(left/2/ofCall, mostCalls), allocated
	passedAt, pages = abi.Passed, memoryPages()
}
