// Package encode writes values as the host takes them: JSON, times.
package encode

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// JSON is what encoding/json writes of a value. Its error names what has to be changed where encoding/json
// names what it does not support.
func JSON(value any) ([]byte, error) {
	written, err := json.Marshal(value)
	var unsupported *json.UnsupportedValueError
	if errors.As(err, &unsupported) && unsupported.Value.CanFloat() {
		return nil, fmt.Errorf("JSON has no number %s; a tensor, and a pointer that is nil, are written with null", unsupported.Str)
	}
	return written, err
}

// Milliseconds of a time that is not negative, no part of which is lost.
func Milliseconds(span time.Duration) uint64 {
	whole := uint64(span / time.Millisecond)
	if span%time.Millisecond != 0 {
		whole++
	}
	return whole
}
