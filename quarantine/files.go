package quarantine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"kusto-agent/internal/durable"
)

const suffix = ".jsonl"

// file is one file of the store.
type file struct {
	name string
	seq  uint64
	size int64
}

func listFiles(fsys durable.FS, dir string) ([]file, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, err
	}
	var out []file
	for _, name := range names { // sorted, and the numbers have a fixed width
		hex, ok := strings.CutSuffix(name, suffix)
		seq, err := strconv.ParseUint(hex, 16, 64)
		if ok && err == nil && len(hex) == 16 {
			out = append(out, file{name: name, seq: seq})
		}
	}
	return out, nil
}

func sizeOf(fsys durable.FS, path string) (int64, error) {
	f, err := fsys.Open(path, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return f.Size()
}

// drop is a file that made room.
type drop struct {
	name    string
	records int
	bytes   int64
}

// makeRoom sees to it that n more bytes fit into max_size.
func (s *Store) makeRoom(n int64) (dropped []drop, err error) {
	limit := int64(s.cfg.MaxSize)
	if s.size.Load()+n <= limit {
		return nil, nil
	}
	if s.cfg.WhenFull != "drop_oldest" || n > limit {
		return nil, fmt.Errorf("%w: %d bytes of %d are taken and %d more are asked for", ErrFull, s.size.Load(), limit, n)
	}
	for len(s.files) > 0 && s.size.Load()+n > limit {
		d, err := s.dropOldest()
		if err != nil {
			return dropped, err
		}
		dropped = append(dropped, d)
	}
	return dropped, nil
}

func (s *Store) dropOldest() (drop, error) {
	if len(s.files) == 1 && s.out != nil { // it is the one being written
		if err := s.finish(); err != nil {
			return drop{}, err
		}
	}
	old := s.files[0]
	d := drop{name: old.name, bytes: old.size}
	// Counting is for the log and the metric: a file that cannot be read has no
	// lines to lose.
	_ = eachLine(s.o.FS, s.path(&old), func(b []byte) error { d.records++; return nil })
	if err := s.o.FS.Remove(s.path(&old)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return drop{}, fmt.Errorf("remove oldest quarantine file: %w", err)
	}
	s.files = s.files[1:]
	s.size.Add(-old.size)
	return d, nil
}

func (s *Store) dropped(d drop) {
	s.o.Logger.Warn("quarantine is full: oldest file removed", "file", d.name, "records", d.records, "bytes", d.bytes)
	if s.o.OnDrop != nil {
		s.o.OnDrop(d.name, d.records, d.bytes)
	}
}

// List calls fn for every record in quarantine, oldest first. It takes no lock
// and may run beside an open store; a last line that is still being written is
// left out. A line that cannot be read is passed over and told in the error,
// which names all of them. An error of fn ends the listing.
func List(dir string, fn func(Entry) error) error { return list(durable.OS, dir, fn) }

func list(fsys durable.FS, dir string, fn func(Entry) error) error {
	files, err := listFiles(fsys, dir)
	if err != nil {
		return fmt.Errorf("list quarantine %q: %w", dir, err)
	}
	var unread []error
	for _, f := range files {
		n := 0
		err := eachLine(fsys, filepath.Join(dir, f.name), func(b []byte) error {
			n++
			e, err := parseLine(b)
			if err != nil {
				unread = append(unread, fmt.Errorf("read quarantine %s line %d: %w", f.name, n, err))
				return nil
			}
			return fn(e)
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // removed since it was listed
			return errors.Join(append(unread, err)...)
		}
	}
	return errors.Join(unread...)
}

// eachLine calls fn for each line that has its newline, without it. The bytes
// are good until fn returns.
func eachLine(fsys durable.FS, path string, fn func([]byte) error) error {
	f, err := fsys.Open(path, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	var off int64
	buf := make([]byte, 64<<10)
	have := 0
	for {
		n, err := f.ReadAt(buf[have:], off)
		off, have = off+int64(n), have+n
		rest := buf[:have]
		for {
			i := bytes.IndexByte(rest, '\n')
			if i < 0 {
				break
			}
			if err := fn(rest[:i]); err != nil {
				return err
			}
			rest = rest[i+1:]
		}
		have = copy(buf, rest)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read quarantine file: %w", err)
		case have == len(buf): // a line longer than the buffer
			buf = append(buf, make([]byte, len(buf))...)
		}
	}
}
