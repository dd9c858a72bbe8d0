// Package encode writes values as JSON.
package encode

import (
	"encoding/json"
	"errors"
	"fmt"
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
