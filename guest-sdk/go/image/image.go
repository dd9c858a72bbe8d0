// Package image makes tensors of picture files, by the library `image`: a component of its own, which `modelhost build` puts
// into the handler's, `[build]` with `with = ["image"]` in modelhost.toml.
//
//	func prepare(sample *guest.Sample, _ *guest.Context) ([]guest.Tensor, error) {
//		picture, err := image.Prepare(sample.Body, image.Preparation{Width: 224, Height: 224})
//		if err != nil {
//			return nil, err
//		}
//		return []guest.Tensor{picture.Tensor}, nil
//	}
//
// In a test a picture is what the test says, see AnswerWith.
package image

import (
	"fmt"

	"modelhost.example/guest"
)

// Fit is how a picture is brought to a size.
type Fit uint8

const (
	// Stretch brings it to exactly this size; its proportions may change.
	Stretch Fit = iota
	// Cover cuts off what is beyond the size, the same on both sides.
	Cover
	// Contain fills what remains, the same on both sides, with the padding.
	Contain
)

// Filter is how pixels are made of those around them.
type Filter uint8

// Each but Nearest weighs all that a new pixel stands for.
const (
	Bilinear Filter = iota
	Nearest
	Box
	Bicubic
	Lanczos
)

// Colours are the values of a pixel.
type Colours uint8

// Grey is the weighted sum of the three (ITU-R 601).
const (
	RGB Colours = iota
	BGR
	Grey
)

// Layout is the order of the values.
type Layout uint8

const (
	// Planes is [1, values, rows, columns].
	Planes Layout = iota
	// Pixels is [1, rows, columns, values].
	Pixels
)

// Preparation says how a picture becomes a tensor. The zero value: of its own size, red, green and blue in planes, upright,
// FP32 from 0 to 1.
type Preparation struct {
	// Columns and rows; 0 for the picture's own.
	Width, Height int
	Fit           Fit
	Filter        Filter
	Colours       Colours
	Layout        Layout
	// guest.FP32, which the zero value stands for, guest.FP16, or guest.Uint8: the bytes as they are.
	Datatype guest.Datatype
	// A value is (byte * Scale - Mean) / Deviation; a scale of 0 is 1/255. Mean and deviation have a number for each value
	// of a pixel; without, they are 0 and 1.
	Scale           float32
	Mean, Deviation []float32
	// The byte around a picture that does not fill its size.
	Padding uint8
	// Leaves the picture as it lies in the file; else it is turned as the file says.
	AsStored bool
	// Most pixels of a file's picture; 0 for 4096 by 4096.
	MostPixels int
}

// Picture is a picture as a tensor.
type Picture struct {
	// Without a name.
	Tensor guest.Tensor
	// Columns and rows of the file's picture, turned if it was to be.
	Width, Height int
	// Where the picture lies in the tensor: a point of it is at (x*ScaleX + Left, y*ScaleY + Top).
	Left, Top, ScaleX, ScaleY float32
}

// Info is what a file says of its picture.
type Info struct {
	// "jpeg", "png" or "webp".
	Format string
	// Columns and rows, as they lie in the file.
	Width, Height int
	// The way to turn it, as EXIF numbers it: 1 to 8.
	Orientation int
}

// Kind says whose error it is.
type Kind uint8

// In the order of the interface.
const (
	// Unsupported: the file is of no known kind, or of a rare variant of one.
	Unsupported Kind = iota
	// Invalid: the file is broken or cut off.
	Invalid
	// TooLarge: the picture has more pixels than allowed, or than there is memory for.
	TooLarge
	// Unusable: a value of the preparation cannot be used.
	Unusable
)

// Error is why there is no picture. A handler may return it as it is: 400 with the text, but 500 for [Unusable].
type Error struct {
	Kind Kind
	Text string
}

func (e *Error) Error() string { return e.Text }

// Unwrap is the caller's error, unless it is the handler's.
func (e *Error) Unwrap() error {
	if e.Kind == Unusable {
		return nil
	}
	return &guest.InvalidInput{Text: e.Text}
}

var answer func(file []byte, preparation Preparation) (*Picture, error)

// AnswerWith says, in a test, what comes of a file; nil ends that. In a component it does nothing.
func AnswerWith(function func(file []byte, preparation Preparation) (*Picture, error)) {
	answer = function
}

// Prepare decodes a JPEG, PNG or WebP file, brings its picture to a size, and makes a tensor of it. An error is an [Error].
func Prepare(file []byte, preparation Preparation) (*Picture, error) {
	if preparation.Datatype == guest.Bool {
		preparation.Datatype = guest.FP32
	}
	if preparation.Scale == 0 {
		preparation.Scale = 1.0 / 255
	}
	if wrong := preparation.check(); wrong != "" {
		return nil, &Error{Unusable, wrong}
	}
	return prepare(file, &preparation)
}

// Inspect reads a file's head, without decoding it. An error is an [Error].
func Inspect(file []byte) (Info, error) { return inspect(file) }

func (p *Preparation) check() string {
	switch {
	case p.Fit > Contain, p.Filter > Lanczos, p.Colours > Grey, p.Layout > Pixels:
		return fmt.Sprintf("fit %d, filter %d, colours %d, layout %d: one is none of the package's", p.Fit, p.Filter, p.Colours, p.Layout)
	case p.Datatype != guest.FP32 && p.Datatype != guest.FP16 && p.Datatype != guest.Uint8:
		return fmt.Sprintf("pixels of %s, expected UINT8, FP16 or FP32", p.Datatype)
	case (p.Width == 0) != (p.Height == 0) || !is32(p.Width) || !is32(p.Height) || !is32(p.MostPixels):
		return fmt.Sprintf("%d by %d of at most %d pixels", p.Width, p.Height, p.MostPixels)
	}
	return ""
}

func is32(value int) bool { return value >= 0 && uint64(value) <= 1<<32-1 }
