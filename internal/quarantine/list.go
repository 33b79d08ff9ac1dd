package quarantine

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"kusto-agent/internal/durable"
	"kusto-agent/internal/record"
)

// Entry is one line: a record that was refused.
type Entry struct {
	Time time.Time // when it was put here
	record.Rejected

	Perhaps string // a batch in which it was sent again, of which the outcome is not known; empty: none

	Name string // of the file in quarantine
	Line int    // number in the file, from 1, which never changes
	Raw  []byte // as it lies there, without its newline; good until the call returns

	Err error // why the line cannot be read; nil: it can
	// Torn says that the line has no end: a write that the end of the process
	// cut short, or one that is under way.
	Torn bool
}

// ID names a line for good: the number of its file without leading zeros, and its number
// in it.
func (e *Entry) ID() string { return idOf(e.Name, e.Line) }

func idOf(name string, line int) string {
	return strings.TrimLeft(strings.TrimSuffix(name, suffix), "0") + ":" + strconv.Itoa(line)
}

// List calls fn for every line in quarantine, oldest first, those too that
// cannot be read. It takes no lock, writes nothing, holds one line at a time
// and may run beside an open store.
//
// The error is that of fn, which ends the listing, or one of reading. A folder
// that is not there holds nothing.
func List(dir string, fn func(Entry) error) error { return list(durable.OS, dir, fn) }

// list calls fn for every line in the quarantine folder dir on the given file system, oldest first, but
// not for those that were removed. A line that cannot be read comes with Err. The error is that of fn,
// which ends the listing, or one of reading. A folder that does not exist holds nothing.
func list(fsys durable.FS, dir string, fn func(Entry) error) error {
	files, err := listFiles(fsys, dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("list quarantine %q: %w", dir, err)
	}
	sent, _ := readSent(fsys, dir) // lines that were sent again and accepted; on an error they are listed
	for _, f := range files {
		err := lines(fsys, dir, f.name, sent, func(e *Entry) error {
			if len(e.Raw) == 0 { // it was removed
				return nil
			}
			return fn(*e)
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // removed since it was listed
			return err
		}
	}
	return nil
}

// lines calls fn for every line of a file, in order. A line that was removed, or is in sent (to be
// removed), comes with an empty Raw; a line that cannot be read, or has no end, comes with Err. The
// entry is valid until fn returns.
func lines(fsys durable.FS, dir, name string, sent map[string]bool, fn func(*Entry) error) error {
	n := 0
	return eachLine(fsys, filepath.Join(dir, name), func(b []byte, ended bool) error {
		n++
		e := Entry{Err: errTorn, Torn: true}
		switch {
		case ended && (len(b) == 0 || sent[idOf(name, n)]):
			e, b = Entry{}, nil
		case ended:
			var err error // a damaged line becomes an entry with Err
			e, err = parseLine(b)
			e.Err = err
		}
		e.Name, e.Line, e.Raw = name, n, b
		return fn(&e)
	})
}

var errTorn = errors.New("line has no end")

// eachLine calls fn for each line of a file without its newline, and with ended false for bytes
// after the last newline. fn may use the bytes only until it returns; its error ends the reading and is
// returned.
func eachLine(fsys durable.FS, path string, fn func(b []byte, ended bool) error) error {
	f, err := fsys.Open(path, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReaderSize(io.NewSectionReader(f, 0, math.MaxInt64), 64<<10)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read quarantine file: %w", err)
		}
		if b, ended := bytes.CutSuffix(line, []byte("\n")); len(line) > 0 {
			if err := fn(b, ended); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}
