package guest

// When garbage is collected: as a call begins, once its arguments are there. A component may call nothing while it is given
// arguments and results, and Go's collector, which cabi_realloc could set off, asks for the time. So it never runs by
// itself; what one call leaves is collected before the next.

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// Garbage that is always left lying.
const leastGarbage = 4 << 20

var (
	allocated   = []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	alive       = []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	collectedAt uint64
	most        uint64 = leastGarbage
)

func init() { debug.SetGCPercent(-1) }

// collect lets the collector run if there may be as much garbage as there was in use after it ran last.
func collect() {
	metrics.Read(allocated)
	if allocated[0].Value.Uint64()-collectedAt < most {
		return
	}
	runtime.GC()
	metrics.Read(allocated)
	metrics.Read(alive)
	collectedAt = allocated[0].Value.Uint64()
	most = max(leastGarbage, alive[0].Value.Uint64())
}
