package quarantine

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"kusto-agent/internal/record"
)

// drop is what made room: an old file, or lines that were to come.
type drop struct {
	name    string // empty: lines that were to come
	records int
	bytes   int64
	ranges  []place
}

// place is where records were read that follow each other in their file.
type place struct {
	file    record.File
	span    record.Span
	records int
}

// add counts a record.
func (d *drop) add(r *record.Rejected) {
	d.records++
	end := r.Offset + r.Length
	if n := len(d.ranges); n > 0 && d.ranges[n-1].file == r.File && d.ranges[n-1].span.End == r.Offset {
		d.ranges[n-1].span.End = end
		d.ranges[n-1].records++
		return
	}
	d.ranges = append(d.ranges, place{r.File, record.Span{Start: r.Offset, End: end}, 1})
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
	// Counting is for the log, the metric and the journal: a file that cannot be read has
	// no lines to lose.
	_ = lines(s.o.FS, s.dir, old.name, s.sent, func(e *Entry) error {
		switch {
		case len(e.Raw) == 0 || e.Torn:
		case e.Err != nil: // where it was read is not known
			d.records++
		default:
			d.add(&e.Rejected)
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

// tellDropped counts and logs the records that were dropped to make room, and tells OnDrop of them.
// put are those for which it was made, of which the first may be among them.
func (s *Store) tellDropped(all []drop, put []record.Rejected) {
	for _, d := range all {
		if d.name == "" {
			n := d.records
			d.records = 0
			for i := range put[:n] {
				d.add(&put[i])
			}
		}
		for _, p := range d.ranges {
			s.o.OnDrop(p.file, p.span, p.records)
		}
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
