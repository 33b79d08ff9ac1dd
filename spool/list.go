package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"kusto-agent/internal/durable"
	"kusto-agent/internal/record"
)

// Entry is a payload as it lies in a segment, or a range of a segment that holds
// none that can be read.
type Entry struct {
	Payload *record.Payload // without Body; nil: the range is unreadable
	Spooled time.Time       // when it came
	Segment string          // name of the file
	Offset  int64
	Size    int64
	// Torn says that the range was never known as synced: a write that the end
	// of the process cut short, or one that is under way.
	Torn bool
}

// List calls fn for each payload in the folder of a spool, oldest first; after the payloads of a
// segment it calls fn for each range of the segment that cannot be read. It takes no lock, writes
// nothing and may run beside an open spool; then it may miss payloads that come and go meanwhile.
// A payload that has ended is listed until its segment is removed; the journal has how it ended. Of
// several copies of a payload the newest is listed, which is the one that counts.
// Bodies are not read, see Entry.Load.
//
// If fn returns an error, List ends and returns it. Other errors are those of reading, or
// durable.ErrVersion. A folder that does not exist holds nothing.
func List(dir string, fn func(Entry) error) error {
	return list(durable.OS, dir, fn)
}

// list calls fn for each payload in the spool folder dir, and each range that cannot be read, as List
// does, on the given file system. The error is that of fn, or one of reading. Segments that are removed
// meanwhile are left out.
func list(fsys durable.FS, dir string, fn func(Entry) error) error {
	files, err := listSegments(fsys, dir)
	if err != nil {
		return fmt.Errorf("list spool %q: %w", dir, err)
	}
	newest, err := copied(fsys, dir, files.segments)
	if err != nil {
		return fmt.Errorf("list spool %q: %w", dir, err)
	}
	for _, g := range files.segments {
		err := listSegment(fsys, dir, g.name, func(e Entry) error {
			if e.Payload != nil {
				if at, several := newest[e.Payload.ID]; several && at != (copyAt{e.Segment, e.Offset}) {
					return nil
				}
			}
			return fn(e)
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // removed since
			return err
		}
	}
	return nil
}

// copyAt is where a copy of a payload lies.
type copyAt struct {
	segment string
	offset  int64
}

// copied returns the payloads of which these segments have several copies, as after spool replay, each
// with the newest.
func copied(fsys durable.FS, dir string, segments []*segment) (map[record.BatchID]copyAt, error) {
	newest := make(map[record.BatchID]copyAt)
	seen := make(map[uint64]bool) // by a part of their ids, which are random: one too many in newest does no harm
	for _, g := range segments {
		err := listSegment(fsys, dir, g.name, func(e Entry) error {
			if e.Payload == nil {
				return nil
			}
			some := binary.LittleEndian.Uint64(e.Payload.ID[8:])
			if seen[some] {
				newest[e.Payload.ID] = copyAt{e.Segment, e.Offset}
			}
			seen[some] = true
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // removed since
			return nil, err
		}
	}
	return newest, nil
}

// listSegment calls fn for each payload and each damaged range of one segment. A frame
// with a damaged meta has an entry without a payload, and a segment with a damaged
// header one entry in all.
func listSegment(fsys durable.FS, dir, name string, fn func(Entry) error) error {
	rep, err := durable.ReadSegment(fsys, filepath.Join(dir, name), kind, major, false, func(f *durable.Found) error {
		if f.Type != typePayload {
			return nil
		}
		e := Entry{Segment: name, Offset: f.Offset, Size: f.Size}
		p, spooled, err := decodeMeta(f.Meta)
		switch {
		case errors.Is(err, durable.ErrVersion):
			return err
		case err == nil:
			e.Payload, e.Spooled = own(p), spooled
		}
		return fn(e)
	})
	switch {
	case errors.Is(err, durable.ErrDamaged):
		return fn(Entry{Segment: name})
	case err != nil:
		return err
	}
	for _, b := range rep.Bad {
		if err := fn(Entry{Segment: name, Offset: b.Offset, Size: b.Length, Torn: b.Torn}); err != nil {
			return err
		}
	}
	return nil
}

// Load reads a listed payload from the folder that it was listed in, with its Body, which
// the caller owns. The error is one of reading: fs.ErrNotExist where its segment went
// since it was listed, durable.ErrDamaged where not all of it is as it was written.
func (e Entry) Load(dir string) (*record.Payload, error) { return e.load(durable.OS, dir) }

// load reads the whole payload of the entry from the spool folder dir on the given file system. An
// entry without a payload is durable.ErrDamaged.
func (e Entry) load(fsys durable.FS, dir string) (*record.Payload, error) {
	if e.Payload == nil {
		return nil, fmt.Errorf("load %d bytes at %d of %q: %w", e.Size, e.Offset, e.Segment, durable.ErrDamaged)
	}
	f, err := fsys.Open(filepath.Join(dir, e.Segment), 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readFrame(f, e.Offset, e.Size, e.Payload.ID, true)
}
