package blobs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
)

var (
	_ io.ReadCloser  = (*Reader)(nil)
	_ io.WriteCloser = (*Writer)(nil)
)

func TestATestHasContainersInMemory(t *testing.T) {
	defer Forget()
	container, err := Open("a")
	if err != nil {
		t.Fatal(err)
	}
	if err := container.Set("k/1", []byte("0123456789")); err != nil {
		t.Fatal(err)
	}
	other, _ := Open("b")
	if _, err := other.Get("k/1"); !errors.Is(err, fs.ErrNotExist) || err.Error() != "there is no object `k/1`" {
		t.Error(err)
	}
	for _, it := range []struct {
		start, end int64
		expected   string
	}{{2, 4, "23"}, {8, 99, "89"}, {5, 5, ""}, {99, 100, ""}} {
		if content, err := container.GetRange("k/1", it.start, it.end); string(content) != it.expected || err != nil {
			t.Error(it, content, err)
		}
	}
	if info, err := container.Info("k/1"); info.Size != 10 || info.Created.IsZero() || err != nil {
		t.Error(info, err)
	}
	_ = container.Set("k/2", nil)
	if content, err := container.Get("k/2"); len(content) != 0 || err != nil {
		t.Error(content, err)
	}
	if names, err := container.Names(0); !slices.Equal(names, []string{"k/1", "k/2"}) || err != nil {
		t.Error(names, err)
	}
	if names, err := container.Names(1); len(names) != 1 || err != nil {
		t.Error(names, err)
	}
	for range 2 {
		if err := container.Delete("k/1"); err != nil {
			t.Error(err)
		}
	}
	if _, err := container.GetRange("k/1", 1, 1); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	_ = container.Clear()
	if names, err := container.Names(0); len(names) != 0 || err != nil {
		t.Error(names, err)
	}
}

func TestAnObjectIsThereAsAWholeOrNotAtAll(t *testing.T) {
	defer Forget()
	container, _ := Open("a")
	content := bytes.Repeat([]byte("0123456789"), 100_000)
	writer, err := container.Writer("large")
	if err != nil {
		t.Fatal(err)
	}
	if length, err := io.Copy(writer, bytes.NewReader(content)); length != int64(len(content)) || err != nil {
		t.Fatal(length, err)
	}
	if _, err := container.Info("large"); !errors.Is(err, fs.ErrNotExist) {
		t.Error("it has no end yet", err)
	}
	if err := writer.Finish(); err != nil {
		t.Error(err)
	}
	if err := errors.Join(writer.Close(), writer.Close()); err != nil {
		t.Error(err)
	}
	if _, err := writer.Write([]byte("more")); !errors.Is(err, fs.ErrClosed) || !errors.Is(writer.Finish(), fs.ErrClosed) {
		t.Error(err)
	}
	reader, err := container.Reader("large")
	if err != nil || reader.Size() != int64(len(content)) {
		t.Fatal(err)
	}
	read, err := io.ReadAll(reader)
	if !bytes.Equal(read, content) || err != nil {
		t.Error(len(read), err)
	}
	if length, err := reader.Read(make([]byte, 1)); length != 0 || err != io.EOF {
		t.Error(length, err)
	}
	writer, _ = container.Writer("half")
	_, _ = writer.Write([]byte("half"))
	_ = writer.Close()
	if _, err := container.Get("half"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestWhatCannotBeUsedIsSaid(t *testing.T) {
	defer Forget()
	container, _ := Open("a")
	_, ofGet := container.Get("\xff")
	_, ofRange := container.GetRange("a", -1, 1)
	_, ofOpen := Open("\xff")
	for expected, err := range map[string]error{
		"the object's name is not UTF-8":         ofGet,
		"there are no bytes from -1 up to 1":     ofRange,
		"the container's name is not UTF-8":      ofOpen,
		"a name of 0 bytes, expected 1 to 512":   container.Set("", nil),
		"a name of 513 bytes, expected 1 to 512": container.Delete(strings.Repeat("n", 513)),
	} {
		var said *Error
		if !errors.As(err, &said) || said.Text != expected || said.Kind != nil {
			t.Errorf("%v, expected %s", err, expected)
		}
	}
}
