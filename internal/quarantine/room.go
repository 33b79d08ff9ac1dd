package quarantine

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
)

// drop is what made room: an old file, or lines that were to come.
type drop struct {
	name    string // empty: lines that were to come
	records int
	bytes   int64
}

// makeRoom makes room for lines within max_size, and returns the lines to write. If there is too
// little, the error is ErrFull, unless when_full is drop_oldest: then it removes the oldest files, and
// keeps only the newest lines if not even all of these fit. It returns what was dropped even if it
// fails.
func (s *Store) makeRoom(lines []byte) (fit []byte, dropped []drop, err error) {
	limit, n := int64(s.cfg().MaxSize), int64(len(lines))
	if s.size+n <= limit {
		return lines, nil, nil
	}
	if s.measure(); s.size+n <= limit {
		return lines, nil, nil
	}
	if s.cfg().WhenFull != "drop_oldest" {
		return nil, nil, s.errFull(n)
	}
	if n > limit {
		d := drop{}
		lines, d.records = newest(lines, limit)
		d.bytes, n = n-int64(len(lines)), int64(len(lines))
		dropped = append(dropped, d)
	}
	for len(s.files) > 0 && s.size+n > limit {
		d, err := s.dropOldest()
		if err != nil {
			return nil, dropped, err
		}
		dropped = append(dropped, d)
	}
	return lines, dropped, nil
}

// newest returns the last whole lines that fit into limit bytes, and the number of the lines before
// them.
func newest(lines []byte, limit int64) (fit []byte, rest int) {
	for int64(len(lines)) > limit {
		lines = lines[bytes.IndexByte(lines, '\n')+1:]
		rest++
	}
	return lines, rest
}

// dropOldest removes the oldest file and returns how many records that drops. There must be a file,
// and no write may run meanwhile.
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
	_ = eachLine(s.o.FS, s.path(&old), func(b []byte, ended bool) error {
		if ended && len(b) > 0 {
			d.records++
		}
		return nil
	})
	if err := s.o.FS.Remove(s.path(&old)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return drop{}, fmt.Errorf("remove oldest quarantine file: %w", cause(err))
	}
	s.files = s.files[1:]
	s.size -= old.size
	return d, nil
}

// tellDropped counts and logs the records that were dropped to make room.
func (s *Store) tellDropped(all []drop) {
	for _, d := range all {
		s.mu.Lock()
		s.state.Dropped += uint64(d.records)
		s.mu.Unlock()
		if d.name == "" {
			s.o.Logger.Warn("records are larger than quarantine.max_size and are lost", "records", d.records, "bytes", d.bytes)
			continue
		}
		s.o.Logger.Warn("quarantine is full: the oldest file was removed, its records are lost", "file", d.name, "records", d.records, "bytes", d.bytes)
	}
}
