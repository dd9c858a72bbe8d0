// Package blobs keeps objects that outlive a request, of any size, in the containers that the endpoint
// grants: `blobs = ["default"]`.
//
//	results, err := blobs.Open("default")
//	if err != nil {
//		return nil, err
//	}
//	writer, err := results.Writer("frames")
//	if err != nil {
//		return nil, err
//	}
//	defer writer.Close()
//	for frame := range frames {
//		if _, err := writer.Write(frame); err != nil {
//			return nil, err
//		}
//	}
//	return guest.Text("kept"), writer.Finish()
//
// A handler that imports this package is loaded only by an endpoint that grants a container. In a test the
// objects are in memory, in any container, and Forget begins anew.
package blobs

import (
	"fmt"
	"io"
	"io/fs"
	"math"
	"time"
	"unicode/utf8"
)

// An Error says why a container has not done what it should, in the host's words. As what a function returns
// it is 500, and its text goes to the log. Of an object that is not there errors.Is says that it is
// [fs.ErrNotExist].
type Error struct {
	// [fs.ErrNotExist], or nil.
	Kind error
	Text string
}

func (e *Error) Error() string { return e.Text }

func (e *Error) Unwrap() error { return e.Kind }

var errClosed = &Error{fs.ErrClosed, "the object is closed"}

// Info is size and age of an object.
type Info struct {
	// In bytes.
	Size    int64
	Created time.Time
}

// A Container has objects by name. It may be a variable of the package that guest.Init sets: the host is
// asked for it at each use.
//
// A name is any UTF-8 of 1 to 512 bytes. Any method may return an [Error].
type Container struct{ name string }

// Open opens a container: `default`, or `shared/images` for one that several endpoints are granted.
func Open(name string) (*Container, error) {
	if !utf8.ValidString(name) {
		return nil, &Error{Text: "the container's name is not UTF-8"}
	}
	container := &Container{name}
	if err := container.open(); err != nil {
		return nil, err
	}
	return container, nil
}

// Get returns an object as a whole.
func (c *Container) Get(name string) ([]byte, error) { return whole(c.Reader(name)) }

// GetRange returns the bytes of an object from `start` up to `end`, as far as there are some.
func (c *Container) GetRange(name string, start, end int64) ([]byte, error) {
	if end > start {
		return whole(c.RangeReader(name, start, end))
	}
	_, err := c.Info(name)
	return nil, err
}

// Reader reads an object piece by piece.
func (c *Container) Reader(name string) (*Reader, error) {
	return c.RangeReader(name, 0, math.MaxInt64)
}

// RangeReader reads the bytes of an object from `start` up to `end`, which is behind it, as far as there are
// some.
func (c *Container) RangeReader(name string, start, end int64) (*Reader, error) {
	if err := check(name); err != nil {
		return nil, err
	}
	if start < 0 || end <= start {
		return nil, &Error{Text: fmt.Sprintf("there are no bytes from %d up to %d", start, end)}
	}
	from, size, err := c.read(name, uint64(start), uint64(end)-1)
	if err == nil {
		return &Reader{from, size}, nil
	}
	// What went wrong, its words alone say.
	if _, missing := c.Info(name); missing != nil {
		return nil, missing
	}
	return nil, err
}

// Set writes an object as a whole, in place of an earlier one.
func (c *Container) Set(name string, content []byte) error {
	writer, err := c.Writer(name)
	if err != nil {
		return err
	}
	defer writer.Close()
	if _, err := writer.Write(content); err != nil {
		return err
	}
	return writer.Finish()
}

// Writer writes an object piece by piece. It is there after [Writer.Finish]; without, nothing is left of it.
func (c *Container) Writer(name string) (*Writer, error) {
	if err := check(name); err != nil {
		return nil, err
	}
	to, err := c.write(name)
	if err != nil {
		return nil, err
	}
	return &Writer{to}, nil
}

// Info returns size and age of an object.
func (c *Container) Info(name string) (Info, error) {
	if err := check(name); err != nil {
		return Info{}, err
	}
	info, found, err := c.info(name)
	if err == nil && !found {
		err = &Error{fs.ErrNotExist, fmt.Sprintf("there is no object `%s`", name)}
	}
	return info, err
}

// Delete removes an object, whether it is there or not.
func (c *Container) Delete(name string) error {
	if err := check(name); err != nil {
		return err
	}
	return c.delete(name)
}

// Clear removes all objects.
func (c *Container) Clear() error { return c.clear() }

// Names returns the names of at most so many objects, or of all with 0, in any order.
func (c *Container) Names(most int) ([]string, error) {
	if most <= 0 {
		most = math.MaxInt
	}
	return c.names(most)
}

// Most bytes that are asked for or given at once, and most names.
const (
	largestPiece = 256 << 10
	mostNames    = 1000
)

// source is where an object comes from: the host, or memory.
type source interface {
	// read fills a part of the buffer; none at the end.
	read(buffer []byte) (int, error)
	close()
}

// A Reader is an object that is read, an [io.ReadCloser]. It closes itself at its end, and with the call of
// the handler.
type Reader struct {
	from source
	size int64
}

// Size returns how many bytes there were to read at first.
func (r *Reader) Size() int64 { return r.size }

// Read reads the next bytes.
func (r *Reader) Read(buffer []byte) (int, error) {
	if len(buffer) == 0 {
		return 0, nil
	}
	if r.from == nil {
		return 0, io.EOF
	}
	length, err := r.from.read(buffer[:min(len(buffer), largestPiece)])
	if length == 0 && err == nil {
		_ = r.Close()
		err = io.EOF
	}
	return length, err
}

// Close reads no more.
func (r *Reader) Close() error {
	if r.from != nil {
		r.from.close()
		r.from = nil
	}
	return nil
}

// sink is where an object goes.
type sink interface {
	write(piece []byte) error
	finish() error
	giveUp()
}

// A Writer is an object that is written, an [io.WriteCloser] whose Finish makes it one.
type Writer struct{ to sink }

// Write adds to the object.
func (w *Writer) Write(content []byte) (written int, err error) {
	if w.to == nil {
		return 0, errClosed
	}
	for written < len(content) {
		piece := content[written:min(len(content), written+largestPiece)]
		if err := w.to.write(piece); err != nil {
			return written, err
		}
		written += len(piece)
	}
	return written, nil
}

// Finish ends the object: it is stored when this returns without an error.
func (w *Writer) Finish() error {
	if w.to == nil {
		return errClosed
	}
	to := w.to
	w.to = nil
	return to.finish()
}

// Close gives the object up, of which nothing is left, unless it is finished: to be deferred.
func (w *Writer) Close() error {
	if w.to != nil {
		w.to.giveUp()
		w.to = nil
	}
	return nil
}

func whole(reader *Reader, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	content := make([]byte, reader.size)
	length, err := io.ReadFull(reader, content)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	return content[:length], err
}

// check refuses what no host takes as text.
func check(name string) error {
	if !utf8.ValidString(name) {
		return &Error{Text: "the object's name is not UTF-8"}
	}
	return nil
}
