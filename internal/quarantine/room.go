package quarantine

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"kusto-agent/internal/record"
)

// drop is what was dropped: an old file, to make room, or lines for which there never is any.
type drop struct {
	name    string // empty: lines that are longer than max_size
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

// fits reports whether max_size leaves room for n bytes more, after another look at the files if it
// seems not to.
func (s *Store) fits(n int64) bool {
	limit := int64(s.cfg().MaxSize)
	if s.size+n <= limit {
		return true
	}
	s.measure()
	return s.size+n <= limit
}

// writeParts writes the lines of recs as when_full: drop_oldest has it. It removes the oldest files
// where there is too little room, and passes over a line that is longer than max_size. It writes no
// more at once than fills a file: otherwise a later record would take the place of all of these. It
// returns the files that were removed even if it fails.
func (s *Store) writeParts(lines []byte, recs []record.Rejected) (dropped []drop, err error) {
	var never drop
	for len(lines) > 0 && err == nil {
		n, records := s.part(lines)
		if int64(n) > int64(s.cfg().MaxSize) { // of one line
			never.add(&recs[0])
			never.bytes += int64(n)
		} else if err = s.makeRoom(int64(n), &dropped); err == nil {
			err = s.writeTo(lines[:n])
		}
		lines, recs = lines[n:], recs[records:]
	}
	if err == nil && never.records > 0 { // after an error they come again
		dropped = append(dropped, never)
	}
	return dropped, err
}

// part returns how many bytes of lines are written next, and how many lines these are: as many as
// the newest file takes, or a new one if that is full. A line that is longer than that is alone.
func (s *Store) part(lines []byte) (n, records int) {
	room := s.fileSize()
	if s.out != nil && s.end < room {
		room -= s.end
	}
	for n < len(lines) {
		line := bytes.IndexByte(lines[n:], '\n') + 1
		if records > 0 && int64(n+line) > room {
			break
		}
		n += line
		records++
	}
	return n, records
}

// makeRoom removes the oldest files until n bytes more are within max_size, and adds them to dropped.
func (s *Store) makeRoom(n int64, dropped *[]drop) error {
	for !s.fits(n) && len(s.files) > 0 {
		d, err := s.dropOldest()
		if err != nil {
			return err
		}
		*dropped = append(*dropped, d)
	}
	return nil
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

// tellDropped counts and logs the records that were dropped, and tells OnDrop of them.
func (s *Store) tellDropped(all []drop) {
	for _, d := range all {
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
