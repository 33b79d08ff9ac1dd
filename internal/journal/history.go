package journal

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"time"

	"kusto-agent/internal/durable"
	"kusto-agent/internal/record"
	"kusto-agent/internal/wire"
)

// read calls fn for every entry in the journal in dir, oldest first, snapshots
// included (see Entry.InSnapshot). It takes no lock and may run beside an open
// journal: entries that are written meanwhile may be missed, and segments removed
// meanwhile are left out. Entries that were written while a segment was made come twice: at the end
// of the segment before, and in the new one. A damaged range comes as an entry of kind Unread, with
// its segment and, in Span, its bytes in it, after the entries of that segment; so does
// a write that a power cut left undone although later ones were done.
//
// The error is that of fn, which ends the reading, one of reading the folder,
// or durable.ErrVersion.
func read(fsys durable.FS, dir string, fn func(Entry) error) error {
	segments, err := listSegments(fsys, dir)
	if err != nil {
		return fmt.Errorf("read journal %q: %w", dir, err)
	}
	for _, s := range segments {
		switch err := readSegment(fsys, filepath.Join(dir, s.name), s.seq, fn); {
		case errors.Is(err, fs.ErrNotExist): // removed since it was listed
		case err != nil:
			return err
		}
	}
	return nil
}

func readSegment(fsys durable.FS, path string, seq uint64, fn func(Entry) error) error {
	_, err := readEach(fsys, path, seq, decode, true, func(e *Entry) error { return fn(*e) })
	return err
}

// readEach calls fn for every entry of a segment file, decoded with decode, and then, with an entry of
// kind Unread, for each range that cannot be read. seq is the number of the segment. With undone,
// writes that a power cut left undone are reported as well, if sound entries come after them. next
// is the number after the last entry that could be read.
func readEach(fsys durable.FS, path string, seq uint64, decode func(*durable.Found) (*Entry, error), undone bool, fn func(*Entry) error) (next uint64, err error) {
	var until uint64 // entries up to this number are the snapshot
	rep, err := durable.ReadSegment(fsys, path, kind, major, true, func(f *durable.Found) error {
		next = f.Record + uint64(f.Records)
		e, err := decode(f)
		if err != nil || e == nil {
			return err
		}
		if e.Segment = seq; e.Kind == Snapshot {
			until = e.Number + e.Count
		}
		e.InSnapshot = e.Number <= until
		return fn(e)
	})
	if errors.Is(err, durable.ErrDamaged) {
		return next, fn(&Entry{Kind: Unread, Segment: seq})
	}
	if err != nil {
		return next, err
	}
	for _, b := range rep.Bad {
		if b.Torn && (!undone || b.Offset+b.Length > rep.End) {
			continue
		}
		if err := fn(&Entry{Kind: Unread, Segment: seq, Span: record.Span{Start: b.Offset, End: b.Offset + b.Length}}); err != nil {
			return next, err
		}
	}
	return next, nil
}

// History calls fn for every entry in the journal in dir, oldest first, and is made for millions of
// them: an entry, with all that it points to, is valid until fn returns. If segments
// are missing between two that are there, or were moved away as damaged, an entry of kind
// Unread stands between them. An entry that was written while a segment was made comes twice. A
// folder that does not exist has no entries. The error is that of fn, or one of reading.
func History(dir string, fn func(*Entry) error) error { return historyOf(durable.OS, dir, fn) }

// historyOf calls fn for every entry in the journal in dir on the file system fsys, oldest first. An
// entry is valid until fn returns. If segments are missing between two that are there, an entry of
// kind Unread stands for them. The error is that of fn, or one of reading.
func historyOf(fsys durable.FS, dir string, fn func(*Entry) error) error {
	segments, err := listSegments(fsys, dir)
	if err != nil {
		return fmt.Errorf("read journal %q: %w", dir, err)
	}
	d := &reused{r: wire.Reader{Words: map[string]string{}}}
	var next uint64 // behind the last entry of the segment before; 0: none was read
	for _, s := range segments {
		path := filepath.Join(dir, s.name)
		h, _, err := durable.ReadHeader(fsys, path, kind, major)
		switch {
		case errors.Is(err, fs.ErrNotExist): // removed since it was listed
			continue
		case err != nil && !errors.Is(err, durable.ErrDamaged):
			return err
		case err == nil && next > 0 && h.FirstRecord > next:
			if err := fn(&Entry{Kind: Unread, Segment: s.seq}); err != nil {
				return err
			}
		}
		behind, err := readEach(fsys, path, s.seq, d.decode, false, fn)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		}
		next = max(next, behind)
	}
	return nil
}

// reused decodes entries into the same memory again and again.
type reused struct {
	r       wire.Reader
	e       Entry
	payload record.Payload
}

// decode decodes an entry into the memory of d, so that it is valid until the next call. A malformed
// entry becomes one of kind Unread. It returns nil for an entry that this version may skip.
func (d *reused) decode(f *durable.Found) (*Entry, error) {
	if Kind(f.Type) == Split || Kind(f.Type) == Snapshot { // rare, and of any length: into new memory
		e, err := decode(f)
		if errors.Is(err, errMalformed) {
			return &Entry{Kind: Unread, Number: f.Record}, nil
		}
		return e, err
	}
	if ok, err := readable(f); !ok {
		return nil, err
	}
	d.e = Entry{Kind: Kind(f.Type), Number: f.Record}
	d.r.B, d.r.Bad = f.Meta[1:], false
	d.e.At = time.Unix(0, d.r.Int())
	if d.e.Kind == Begin {
		d.e.HadLens = d.r.PayloadInto(&d.payload)
		d.e.Payload, d.e.Batch, d.e.Attempt = &d.payload, d.payload.ID, d.payload.Attempt
	} else {
		readEntry(&d.r, &d.e)
	}
	if d.r.Bad {
		return &Entry{Kind: Unread, Number: f.Record}, nil
	}
	return &d.e, nil
}

// InSpool reads the history of the journal in dir and returns the batches that went to the spool and
// have not ended: what a spool whose folder was damaged should hold. It can go back as far as
// the history, see Config. A payload is as it was begun, but Attempt is its last attempt. Batches for
// which want returns false are left out, and cost no memory.
//
// A batch may have ended because others took its place in the spool (Split, Replaced). After a hole
// that a power cut left in a segment, such an end counts only if the history has these others too,
// with as many records: the entries about them may have been in the hole.
func InSpool(dir string, want func(record.BatchID) bool) (map[record.BatchID]*record.Payload, error) {
	return inSpool(durable.OS, dir, want)
}

// inSpool returns the batches in the history of the journal in dir that went to the spool and have not
// ended, without those for which want returns false. If others replaced a batch (Split, Replaced), it
// counts as ended only if these have as many records. If they have fewer, and the history has a hole
// where the rest may have been, the batch is returned too. The error is one of reading.
func inSpool(fsys durable.FS, dir string, want func(record.BatchID) bool) (map[record.BatchID]*record.Payload, error) {
	begun, spooled := map[record.BatchID]*record.Payload{}, map[record.BatchID]*record.Payload{}
	enter := func(p *record.Payload) {
		if want(p.ID) {
			begun[p.ID] = p
		}
	}
	instead := map[record.BatchID]int{}          // records of what replaces a batch
	weak := map[record.BatchID]*record.Payload{} // ended so since the last sync, and not all of that was told
	// Those that ended since the last sync. Where entries are repeated behind a snapshot, the end
	// of an older frame comes again after the batch went to the spool, and then that does.
	left := map[record.BatchID]*record.Payload{}
	leave := func(id record.BatchID) {
		if p := spooled[id]; p != nil {
			left[id] = p
			delete(spooled, id)
		}
	}
	err := read(fsys, dir, func(e Entry) error {
		switch e.Kind {
		case Snapshot, Synced:
			clear(weak)
			clear(left)
		case Unread: // behind all that is readable of its segment
			maps.Copy(spooled, weak)
			clear(weak)
		case Begin:
			if e.Payload.Replaces != (record.BatchID{}) {
				instead[e.Payload.Replaces] += e.Payload.Records
			}
			enter(e.Payload)
		case Split:
			delete(begun, e.Batch)
			for i := range e.Children {
				enter(&e.Children[i].Payload)
			}
		case End:
			switch p := cmp.Or(begun[e.Batch], left[e.Batch]); {
			case e.Outcome != record.Spooled:
				leave(e.Batch)
			case p != nil:
				spooled[e.Batch] = p
			}
			delete(begun, e.Batch)
		case Attempt:
			tried(begun[e.Batch], e.Attempt)
		case Replay:
			tried(spooled[e.Batch], e.Attempt)
		case ReplayEnd:
			p := spooled[e.Batch]
			if p != nil && (e.Outcome == record.Replaced || e.Outcome == record.Split) && instead[e.Batch] < p.Records {
				if e.InSnapshot { // repeats what was told behind a hole
					break
				}
				weak[e.Batch] = p
			}
			leave(e.Batch)
		}
		return nil
	})
	return spooled, err
}

// tried raises the number of attempts of a payload to attempt, if that is higher. p may be nil.
func tried(p *record.Payload, attempt int) {
	if p != nil {
		p.Attempt = max(p.Attempt, attempt)
	}
}
