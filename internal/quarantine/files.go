package quarantine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
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

// listFiles returns the files of a quarantine folder, oldest first, without their sizes. It passes
// over other files. A folder that does not exist is an error.
func listFiles(fsys durable.FS, dir string) ([]file, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, err
	}
	var out []file
	for _, name := range names { // sorted, and numbers of a fixed width: the oldest comes first
		hex, ok := strings.CutSuffix(name, suffix)
		seq, err := strconv.ParseUint(hex, 16, 64)
		if ok && err == nil && len(hex) == 16 {
			out = append(out, file{name: name, seq: seq})
		}
	}
	return out, nil
}

// makeFolder makes the folder of the store, and its name durable. After an error s.unsure is set, and
// the next look tries again.
func (s *Store) makeFolder() error {
	was := s.unsure
	s.unsure = true
	err := durable.MkdirAll(s.o.FS, s.dir)
	if err == nil && was { // an earlier try may have made it and failed to sync its name
		err = s.o.FS.SyncDir(filepath.Dir(s.dir))
	}
	s.unsure = err != nil
	return err
}

// look notices what a person changed in the folder: removed files make room, and a file
// that was moved, removed or cut is not written to any more. It makes the folder again if it is gone.
// No write may run meanwhile.
func (s *Store) look() error {
	now, err := listFiles(s.o.FS, s.dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && s.unsure {
		err = s.makeFolder()
	}
	if err != nil {
		return fmt.Errorf("open quarantine: %w", cause(err))
	}
	known := make(map[string]int64, len(s.files))
	for _, f := range s.files {
		known[f.name] = f.size
	}
	writing := ""
	if s.out != nil {
		writing = s.files[len(s.files)-1].name
	}
	s.files, s.size = now, 0
	for i := range now {
		f := &now[i]
		size, ok := known[f.name]
		if !ok {
			size, _ = durable.Size(s.o.FS, s.path(f)) // 0 if it cannot be read
		}
		f.size = size
		s.size += size
		s.next = max(s.next, f.seq+1)
	}
	if s.out != nil && !s.writesTo(writing) {
		s.out.Close() // all that was put there was synced
		s.out = nil
	}
	return nil
}

// writesTo reports whether the open file s.out, with this name, is still the newest of the folder and
// has the length the store gave it.
func (s *Store) writesTo(name string) bool {
	if len(s.files) == 0 || s.files[len(s.files)-1].name != name {
		return false
	}
	f, err := s.o.FS.Open(filepath.Join(s.dir, name), 0)
	if err != nil {
		return false
	}
	defer f.Close()
	size, err := f.Size()
	return err == nil && size == s.end && same(f, s.out)
}

// same reports whether two open files are the same file, as far as the file system can
// tell.
func same(a, b durable.File) bool {
	type statter interface{ Stat() (os.FileInfo, error) }
	x, ok := a.(statter)
	y, ok2 := b.(statter)
	if !ok || !ok2 {
		return true
	}
	of, err := x.Stat()
	is, err2 := y.Stat()
	return err == nil && err2 == nil && os.SameFile(of, is)
}

// measure reads the length of every file again, since a person may have cut one, and adds them up in
// s.size. No write may run meanwhile.
func (s *Store) measure() {
	s.size = 0
	for i := range s.files {
		f := &s.files[i]
		if size, err := durable.Size(s.o.FS, s.path(f)); err == nil || errors.Is(err, fs.ErrNotExist) {
			f.size = size // 0 if it is gone
		}
		s.size += f.size
	}
}
