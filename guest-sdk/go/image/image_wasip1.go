package image

import (
	"unsafe"

	"modelhost.example/guest"
	"modelhost.example/guest/internal/abi"
)

//go:wasmimport modelhost:image/images@0.1.0 prepare
func importPrepare(arguments, result unsafe.Pointer)

//go:wasmimport modelhost:image/images@0.1.0 inspect
func importInspect(file unsafe.Pointer, length abi.Word, result unsafe.Pointer)

// The interface's enums, where their order is another one.
var (
	filters   = [...]uint8{Bilinear: 2, Nearest: 0, Box: 1, Bicubic: 3, Lanczos: 4}
	datatypes = map[guest.Datatype]uint8{guest.Uint8: 0, guest.FP16: 1, guest.FP32: 2}
	formats   = [...]string{"jpeg", "png", "webp"}
)

// The arguments of `prepare`, as they lie in memory.
type arguments struct {
	file, fileLength                       abi.Word
	isSized                                bool
	width, height                          abi.Word
	fit, filter, colours, layout, datatype uint8
	scale                                  float32
	mean, meanLength                       abi.Word
	deviation, deviationLength             abi.Word
	padding                                uint8
	upright                                bool
	mostPixels                             abi.Word
}

// The results. Of the word that says whether one is an error, only the first byte is written.
type pixels struct {
	isError            abi.Word
	shape, shapeLength abi.Word
	data, dataLength   abi.Word
	width, height      abi.Word
	left, top          float32
	scaleX, scaleY     float32
}

type info struct {
	isError       abi.Word
	format        uint8
	width, height abi.Word
	orientation   uint8
}

// In the place of either.
type failure struct {
	isError      abi.Word
	kind         uint8
	text, length abi.Word
}

func failed(result unsafe.Pointer) error {
	told := (*failure)(result)
	return &Error{Kind(told.kind), string(abi.BytesAt(abi.Pointer(told.text), told.length))}
}

func prepare(file []byte, preparation *Preparation) (picture *Picture, err error) {
	abi.Import(func() {
		given := &arguments{
			file: abi.Address(file), fileLength: abi.Word(len(file)),
			isSized: preparation.Width != 0, width: abi.Word(preparation.Width), height: abi.Word(preparation.Height),
			fit: uint8(preparation.Fit), filter: filters[preparation.Filter], colours: uint8(preparation.Colours),
			layout: uint8(preparation.Layout), datatype: datatypes[preparation.Datatype], scale: preparation.Scale,
			mean: abi.Address(preparation.Mean), meanLength: abi.Word(len(preparation.Mean)),
			deviation: abi.Address(preparation.Deviation), deviationLength: abi.Word(len(preparation.Deviation)),
			padding: preparation.Padding, upright: !preparation.AsStored, mostPixels: abi.Word(preparation.MostPixels),
		}
		made := new(pixels)
		importPrepare(abi.Keep(given), abi.Keep(made))
		if made.isError != 0 {
			err = failed(unsafe.Pointer(made))
			return
		}
		shape := abi.ExtentsAt(abi.Pointer(made.shape), made.shapeLength)
		picture = &Picture{
			Tensor: guest.Tensor{
				Datatype: preparation.Datatype, Shape: append([]uint64{1}, shape...),
				Data: abi.BytesAt(abi.Pointer(made.data), made.dataLength),
			},
			Width: int(made.width), Height: int(made.height),
			Left: made.left, Top: made.top, ScaleX: made.scaleX, ScaleY: made.scaleY,
		}
	})
	return picture, err
}

func inspect(file []byte) (found Info, err error) {
	abi.Import(func() {
		made := new(info)
		importInspect(abi.Pointer(abi.Address(file)), abi.Word(len(file)), abi.Keep(made))
		if made.isError != 0 {
			err = failed(unsafe.Pointer(made))
			return
		}
		found = Info{formats[made.format], int(made.width), int(made.height), int(made.orientation)}
	})
	return found, err
}
