//go:build !wasip1

package guest

import "runtime"

// Collect collects the garbage at once: for a function that makes more than fits into the memory during one
// call.
func Collect() { runtime.GC() }
