package durable_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"kusto-agent/internal/durable"
)

// counted is a file whose reads are counted.
type counted struct {
	durable.File
	bytes int64
}

func (c *counted) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.File.ReadAt(p, off)
	c.bytes += int64(n)
	return n, err
}

func (c *counted) DataAt(off, size int64) int64 { return c.File.(durable.Sparse).DataAt(off, size) }
func (c *counted) DataEnd(size int64) int64     { return c.File.(durable.Sparse).DataEnd(size) }

// The space that a segment reserves is not read, though the kernel, when it reads ahead, makes pages
// of it that count as data.
func TestReservedSpaceIsNotRead(t *testing.T) {
	const room = 16 << 20
	path := filepath.Join(t.TempDir(), "a")
	s, err := durable.Create(durable.OS, path, header(7), room, frame(1, "first", "one"))
	must(t, err)
	defer s.Close()
	must(t, s.Append(frame(2, "second", "two-two")))
	must(t, s.Sync())
	for range 3 { // each reads what the one before has made pages of
		opened, err := durable.OS.Open(path, 0)
		must(t, err)
		defer opened.Close()
		c := &counted{File: opened}
		frames := 0
		rep, err := durable.Scan(c, room, kind, 1, true, func(*durable.Found) error {
			frames++
			return nil
		})
		must(t, err)
		if frames != 2 || len(rep.Bad) > 0 || rep.End != s.Size() {
			t.Errorf("%d frames and the report %+v, want 2 up to %d", frames, rep, s.Size())
		}
		if c.bytes > 1<<20 {
			t.Errorf("%d of %d bytes were read", c.bytes, room)
		}
	}
}

// Space that was only allocated is passed over without being read, and what lies behind it, sound
// or not, is found all the same.
func TestAllocatedSpaceIsNotRead(t *testing.T) {
	const room = 16 << 20
	f := func(name string, write func(f *os.File, frames []byte)) {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a")
			s, err := durable.Create(durable.OS, path, header(7), room, frame(1, "first", "one"))
			must(t, err)
			must(t, s.Append(frame(2, "second", "two-two")))
			must(t, s.Sync())
			b, err := os.ReadFile(path)
			must(t, err)
			must(t, os.Remove(path))
			out, err := os.Create(path)
			must(t, err)
			defer out.Close()
			must(t, out.Truncate(room)) // a hole, as space that was only allocated is one
			write(out, b[:s.Size()])
			opened, err := durable.OS.Open(path, 0)
			must(t, err)
			defer opened.Close()
			c := &counted{File: opened}
			got := []string{}
			rep, err := durable.Scan(c, room, kind, 1, true, func(f *durable.Found) error {
				got = append(got, fmt.Sprintf("%d:%s/%s#%d", f.Type, f.Meta, f.Body, f.Record))
				return nil
			})
			must(t, err)
			all, err := os.ReadFile(path)
			must(t, err)
			want, plain, err := read(t, all)
			must(t, err)
			if fmt.Sprint(got) != fmt.Sprint(want) || !reflect.DeepEqual(rep, plain) {
				t.Errorf("frames %q, want %q; report %+v, want %+v", got, want, rep, plain)
			}
			if c.bytes > 4<<20 {
				t.Errorf("%d of %d bytes were read", c.bytes, room)
			}
		})
	}
	at := func(f *os.File, b []byte, off int64) {
		_, err := f.WriteAt(b, off)
		must(t, err)
	}
	f("nothing behind it", func(f *os.File, frames []byte) { at(f, frames, 0) })
	f("something that is no frame behind it", func(f *os.File, frames []byte) {
		at(f, frames, 0)
		at(f, []byte("no frame"), 9<<20+5)
	})
	f("the first frame damaged", func(f *os.File, frames []byte) {
		frames[70] ^= 1
		at(f, frames, 0)
	})
}
