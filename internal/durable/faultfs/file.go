package faultfs

import (
	"errors"
	"io"
	"os"
	"slices"

	"kusto-agent/internal/durable"
)

// file is an open file of an FS.
type file struct {
	fs     *FS
	name   string
	inode  *inode
	closed bool
}

// ReadAt reads bytes as the process sees them, synced or not.
func (f *file) ReadAt(b []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.closed {
		return 0, os.ErrClosed
	}
	if off >= int64(len(f.inode.data)) {
		return 0, io.EOF
	}
	n := copy(b, f.inode.data[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt writes bytes that a power cut may lose until Sync. A failing write whose verdict is Short
// writes its first half.
func (f *file) WriteAt(b []byte, off int64) (int, error) {
	v := f.fs.judge("write", f.name)
	if v.Err != nil && !v.Short {
		return 0, v.Err
	}
	if v.Err != nil {
		b = b[:len(b)/2]
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.closed {
		return 0, os.ErrClosed
	}
	n := f.inode
	n.resize(max(int(off)+len(b), len(n.data)))
	copy(n.data[off:], b)
	for i := range b {
		n.dirty[int(off)+i] = true
	}
	return len(b), v.Err
}

func (f *file) Size() (int64, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return int64(len(f.inode.data)), nil
}

func (f *file) Truncate(size int64) error { return f.setSize("truncate", size) }
func (f *file) Allocate(size int64) error { return f.setSize("allocate", size) }

// setSize changes the length of the file; new bytes are zero. kind is the operation as Judge gets it.
func (f *file) setSize(kind string, size int64) error {
	return f.fs.do(kind, f.name, func() { f.inode.resize(int(size)) })
}

// Sync makes the dirty bytes safe. Where it fails they are neither safe nor
// dirty any more, as on Linux: a later Sync succeeds and does not save them. It fails for a
// file without a name.
func (f *file) Sync() error {
	v := f.fs.judge("sync", f.name)
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	n := f.inode
	if v.Err == nil {
		for len(n.safe) < len(n.data) {
			n.safe = append(n.safe, 0)
		}
		n.safe = n.safe[:len(n.data)]
		for i, d := range n.dirty {
			if d {
				n.safe[i] = n.data[i]
			}
		}
	}
	if !errors.Is(v.Err, ErrKilled) { // a kill is no failed sync: the kernel still has the bytes
		clear(n.dirty)
	}
	if v.Err == nil && !f.fs.isNamed(n) {
		return durable.ErrRemoved
	}
	return v.Err
}

// Close closes the file, also if Judge has it fail, and then returns that error.
func (f *file) Close() error {
	v := f.fs.judge("close", f.name)
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.closed {
		return os.ErrClosed
	}
	f.closed = true
	return v.Err
}

// resize changes the length of the content; new bytes are zero and survive a power cut only after a
// sync.
func (n *inode) resize(size int) {
	if size <= len(n.data) {
		n.data, n.dirty = n.data[:size], n.dirty[:size]
		return
	}
	grow := size - len(n.data)
	n.data = append(n.data, make([]byte, grow)...)
	n.dirty = append(slices.Grow(n.dirty, grow), make([]bool, grow)...)
}
