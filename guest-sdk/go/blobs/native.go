//go:build !wasip1

package blobs

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"time"
)

const longestName = 512

// Containers in memory, which do what the host's do, but for limits.
var (
	lock       sync.Mutex
	containers = map[string]map[string]stored{}
)

type stored struct {
	content []byte
	created time.Time
}

// Forget removes all objects, in a test.
func Forget() {
	lock.Lock()
	defer lock.Unlock()
	clear(containers)
}

func (c *Container) open() error { return nil }

// with calls a function with the objects, unless the name cannot be one.
func (c *Container) with(name string, call func(objects map[string]stored)) error {
	if length := len(name); length < 1 || length > longestName {
		return &Error{Text: fmt.Sprintf("a name of %d bytes, expected 1 to %d", length, longestName)}
	}
	lock.Lock()
	defer lock.Unlock()
	objects := containers[c.name]
	if objects == nil {
		objects = map[string]stored{}
		containers[c.name] = objects
	}
	call(objects)
	return nil
}

func (c *Container) read(name string, first, last uint64) (from source, size int64, err error) {
	err = c.with(name, func(objects map[string]stored) {
		it, found := objects[name]
		if !found {
			return
		}
		end := uint64(len(it.content))
		content := it.content[min(first, end):min(last+1, end)]
		from, size = &memory{content}, int64(len(content))
	})
	if err == nil && from == nil {
		// Which it is not, the caller finds out.
		err = &Error{Text: "it cannot be read"}
	}
	return from, size, err
}

func (c *Container) write(name string) (sink, error) {
	err := c.with(name, func(map[string]stored) {})
	return &pieces{container: c, name: name}, err
}

func (c *Container) info(name string) (info Info, found bool, err error) {
	err = c.with(name, func(objects map[string]stored) {
		var it stored
		if it, found = objects[name]; found {
			info = Info{int64(len(it.content)), it.created}
		}
	})
	return info, found, err
}

func (c *Container) delete(name string) error {
	return c.with(name, func(objects map[string]stored) { delete(objects, name) })
}

func (c *Container) clear() error {
	return c.with("*", func(objects map[string]stored) { clear(objects) })
}

func (c *Container) names(most int) (names []string, err error) {
	err = c.with("*", func(objects map[string]stored) {
		for name := range objects {
			names = append(names, name)
		}
	})
	slices.Sort(names)
	return names[:min(len(names), most)], err
}

// memory is an object that is read.
type memory struct{ content []byte }

func (m *memory) read(buffer []byte) (int, error) {
	length := copy(buffer, m.content)
	m.content = m.content[length:]
	return length, nil
}

func (m *memory) close() { m.content = nil }

// pieces are of an object that is written.
type pieces struct {
	container *Container
	name      string
	content   bytes.Buffer
}

func (p *pieces) write(piece []byte) error {
	p.content.Write(piece)
	return nil
}

func (p *pieces) finish() error {
	return p.container.with(p.name, func(objects map[string]stored) {
		objects[p.name] = stored{p.content.Bytes(), time.Now()}
	})
}

func (p *pieces) giveUp() {}
