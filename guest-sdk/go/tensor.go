package guest

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"unsafe"
)

// Datatype is an element type of the Open Inference Protocol.
type Datatype uint8

// In the order of the contract.
const (
	Bool Datatype = iota
	Uint8
	Uint16
	Uint32
	Uint64
	Int8
	Int16
	Int32
	Int64
	FP16
	BF16
	FP32
	FP64
	Bytes
)

var datatypes = [...]string{"BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "BF16", "FP32",
	"FP64", "BYTES"}

func (d Datatype) String() string {
	if int(d) < len(datatypes) {
		return datatypes[d]
	}
	return fmt.Sprintf("Datatype(%d)", uint8(d))
}

// Float16 has the bits of an IEEE 754 binary16.
type Float16 uint16

// BFloat16 has the upper 16 bits of a float32.
type BFloat16 uint16

// Element is what a tensor of numbers holds.
type Element interface {
	bool | uint8 | uint16 | uint32 | uint64 | int8 | int16 | int32 | int64 | Float16 | BFloat16 | float32 | float64
}

// Tensor is a dense tensor: what goes to a model and what comes from it.
type Tensor struct {
	// The model's input or output. From a handler: the empty name is the model's only input.
	Name     string
	Datatype Datatype
	// Extents, outermost first. A scalar has none.
	Shape []uint64
	// Row-major, little-endian; of BYTES each element with its length in front, 4 bytes little-endian.
	Data []byte
}

// NewTensor makes a tensor of these values, which it shares. Without a shape it is a vector. It panics if the shape
// is for another number of values.
func NewTensor[T Element](values []T, shape ...int) Tensor {
	var element T
	size := int(unsafe.Sizeof(element))
	var data []byte
	if len(values) > 0 {
		data = unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), len(values)*size)
	}
	return Tensor{Datatype: datatypeOf[T](), Shape: shaped(len(values), shape), Data: data}
}

// NewStrings makes a tensor of BYTES.
func NewStrings(values []string, shape ...int) Tensor {
	var data []byte
	for _, value := range values {
		data = binary.LittleEndian.AppendUint32(data, uint32(len(value)))
		data = append(data, value...)
	}
	return Tensor{Datatype: Bytes, Shape: shaped(len(values), shape), Data: data}
}

// Named is the same tensor for this input of the model.
func (t Tensor) Named(name string) Tensor {
	t.Name = name
	return t
}

// Len is the number of elements.
func (t Tensor) Len() int {
	count := 1
	for _, extent := range t.Shape {
		count *= int(extent)
	}
	return count
}

// Values are the elements of a tensor, all in a row, where they lie. An error if it has another datatype.
func Values[T Element](tensor Tensor) ([]T, error) {
	if own := datatypeOf[T](); tensor.Datatype != own {
		return nil, fmt.Errorf("tensor `%s` is %s, not %s", tensor.Name, tensor.Datatype, own)
	}
	var element T
	size := int(unsafe.Sizeof(element))
	if len(tensor.Data) < size {
		return nil, nil
	}
	start := unsafe.Pointer(unsafe.SliceData(tensor.Data))
	if uintptr(start)%uintptr(size) != 0 {
		// A view of larger elements begins at a multiple of their size.
		copied := make([]T, len(tensor.Data)/size)
		copy(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(copied))), len(tensor.Data)), tensor.Data)
		return copied, nil
	}
	return unsafe.Slice((*T)(start), len(tensor.Data)/size), nil
}

// Row is a row of the elements along the first axis, where they lie.
func Row[T Element](tensor Tensor, row int) ([]T, error) {
	values, err := Values[T](tensor)
	if err != nil {
		return nil, err
	}
	if len(tensor.Shape) == 0 || row < 0 || uint64(row) >= tensor.Shape[0] {
		return nil, fmt.Errorf("tensor `%s` of shape %v has no row %d", tensor.Name, tensor.Shape, row)
	}
	width := len(values) / int(tensor.Shape[0])
	return values[row*width : (row+1)*width], nil
}

// Strings are the elements of a tensor of BYTES.
func (t Tensor) Strings() ([]string, error) {
	if t.Datatype != Bytes {
		return nil, fmt.Errorf("tensor `%s` is %s, not BYTES", t.Name, t.Datatype)
	}
	var values []string
	for rest := t.Data; len(rest) > 0; {
		if len(rest) < 4 || int(binary.LittleEndian.Uint32(rest)) > len(rest)-4 {
			return nil, fmt.Errorf("tensor `%s` ends inside an element", t.Name)
		}
		end := 4 + int(binary.LittleEndian.Uint32(rest))
		values = append(values, string(rest[4:end]))
		rest = rest[end:]
	}
	return values, nil
}

// Argmax is where the largest value is; NaN is never the largest. -1 of no values.
func Argmax[T float32 | float64 | int32 | int64](values []T) int {
	best := -1
	for at, value := range values {
		if value == value && (best < 0 || value > values[best]) {
			best = at
		}
	}
	return best
}

// Tensors are tensors in the model's order.
type Tensors []Tensor

// Named is the tensor of this name; an error names those that are there.
func (t Tensors) Named(name string) (Tensor, error) {
	names := make([]string, len(t))
	for at, tensor := range t {
		if tensor.Name == name {
			return tensor, nil
		}
		names[at] = tensor.Name
	}
	return Tensor{}, fmt.Errorf("no tensor is named `%s`; there are %q", name, names)
}

// Last is the last tensor, by convention of many models the one with the scores.
func (t Tensors) Last() (Tensor, error) {
	if len(t) == 0 {
		return Tensor{}, fmt.Errorf("there are no tensors")
	}
	return t[len(t)-1], nil
}

// Float32 is the same number.
func (f BFloat16) Float32() float32 { return math.Float32frombits(uint32(f) << 16) }

// ToBFloat16 is the nearest, ties to even.
func ToBFloat16(value float32) BFloat16 {
	bits := math.Float32bits(value)
	if value != value {
		return 0x7fc0
	}
	return BFloat16((bits + 0x7fff + bits>>16&1) >> 16)
}

// Float32 is the same number.
func (f Float16) Float32() float32 {
	sign, exponent, fraction := uint32(f>>15)<<31, int(f>>10&31), float64(f&1023)
	switch exponent {
	case 31:
		return math.Float32frombits(sign | 0x7f800000 | uint32(f&1023)<<13)
	case 0:
		return math.Float32frombits(sign | math.Float32bits(float32(math.Ldexp(fraction, -24))))
	}
	return math.Float32frombits(sign | math.Float32bits(float32(math.Ldexp(1024+fraction, exponent-25))))
}

// ToFloat16 is the nearest, ties to even; what is too large is an infinity.
func ToFloat16(value float32) Float16 {
	sign := Float16(math.Float32bits(value)>>31) << 15
	size := math.Abs(float64(value))
	switch {
	case value != value:
		return 0x7e00
	case size >= 65520:
		return sign | 0x7c00
	case size < 1.0/(1<<14):
		return sign | Float16(math.RoundToEven(math.Ldexp(size, 24)))
	}
	_, exponent := math.Frexp(size)
	units := math.RoundToEven(math.Ldexp(size, 11-exponent))
	return sign | Float16(exponent+13)<<10 + Float16(units)
}

// MarshalJSON writes a tensor as lists, nested as the shape is.
func (t Tensor) MarshalJSON() ([]byte, error) {
	var flat []any
	var err error
	switch t.Datatype {
	case Bool:
		flat, err = boxed[bool](t)
	case Uint8:
		flat, err = boxed[uint8](t)
	case Uint16:
		flat, err = boxed[uint16](t)
	case Uint32:
		flat, err = boxed[uint32](t)
	case Uint64:
		flat, err = boxed[uint64](t)
	case Int8:
		flat, err = boxed[int8](t)
	case Int16:
		flat, err = boxed[int16](t)
	case Int32:
		flat, err = boxed[int32](t)
	case Int64:
		flat, err = boxed[int64](t)
	case FP16:
		flat, err = boxed[Float16](t)
	case BF16:
		flat, err = boxed[BFloat16](t)
	case FP32:
		flat, err = boxed[float32](t)
	case FP64:
		flat, err = boxed[float64](t)
	default:
		var values []string
		values, err = t.Strings()
		flat = make([]any, 0, len(values))
		for _, value := range values {
			flat = append(flat, value)
		}
	}
	if err != nil {
		return nil, err
	}
	for axis := len(t.Shape) - 1; axis > 0; axis-- {
		extent, count := int(t.Shape[axis]), 1
		for _, outer := range t.Shape[:axis] {
			count *= int(outer)
		}
		rows := make([]any, count)
		for at := range rows {
			rows[at] = flat[at*extent : (at+1)*extent]
		}
		flat = rows
	}
	if len(t.Shape) == 0 && len(flat) == 1 {
		return json.Marshal(flat[0])
	}
	return json.Marshal(flat)
}

func boxed[T Element](tensor Tensor) ([]any, error) {
	values, err := Values[T](tensor)
	flat := make([]any, len(values))
	for at, value := range values {
		switch number := any(value).(type) {
		case Float16:
			flat[at] = finite(float64(number.Float32()))
		case BFloat16:
			flat[at] = finite(float64(number.Float32()))
		case float32:
			if wide := float64(number); wide-wide != 0 {
				flat[at] = nil
			} else {
				flat[at] = number
			}
		case float64:
			flat[at] = finite(number)
		default:
			flat[at] = value
		}
	}
	return flat, err
}

// finite is the number, or what JSON has in place of NaN and infinities.
func finite(value float64) any {
	if value-value != 0 {
		return nil
	}
	return value
}

func shaped(count int, shape []int) []uint64 {
	if len(shape) == 0 {
		return []uint64{uint64(count)}
	}
	extents, elements := make([]uint64, len(shape)), 1
	for axis, extent := range shape {
		extents[axis] = uint64(extent)
		elements *= extent
	}
	if elements != count {
		panic(fmt.Sprintf("%d values do not fit the shape %v", count, shape))
	}
	return extents
}

func datatypeOf[T Element]() Datatype {
	var element T
	switch any(element).(type) {
	case bool:
		return Bool
	case uint8:
		return Uint8
	case uint16:
		return Uint16
	case uint32:
		return Uint32
	case uint64:
		return Uint64
	case int8:
		return Int8
	case int16:
		return Int16
	case int32:
		return Int32
	case int64:
		return Int64
	case Float16:
		return FP16
	case BFloat16:
		return BF16
	case float32:
		return FP32
	}
	return FP64
}
