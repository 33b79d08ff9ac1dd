package journal

import (
	"errors"
	"fmt"
	"math"
	"time"

	"kusto-agent/internal/durable"
	"kusto-agent/internal/record"
	"kusto-agent/internal/wire"
)

// errMalformed marks an entry whose checksum is right and whose content is not:
// a bug of whoever wrote it.
var errMalformed = errors.New("entry malformed")

// decode decodes the entry of a frame. It returns nil and no error for an entry whose kind this
// version does not know and may skip. The error is errMalformed, or durable.ErrVersion for a kind that
// may not be skipped.
func decode(f *durable.Found) (*Entry, error) {
	if ok, err := readable(f); !ok {
		return nil, err
	}
	e := &Entry{Kind: Kind(f.Type), Number: f.Record}
	r := &wire.Reader{B: f.Meta[1:]}
	e.At = time.Unix(0, r.Int())
	readEntry(r, e)
	if r.Bad {
		return nil, fmt.Errorf("%s at offset %d: %w", e.Kind, f.Offset, errMalformed)
	}
	return e, nil
}

// readable reports whether this version knows the kind of the entry in a frame. If it
// neither knows the kind nor may skip it, the error is durable.ErrVersion.
func readable(f *durable.Found) (bool, error) {
	switch {
	case f.Type != 0 && Kind(f.Type) <= knownKind && len(f.Meta) > 0 && f.Meta[0] == version:
		return true, nil
	case f.Flags&durable.Optional != 0:
		return false, nil
	}
	of := 0 // none
	if len(f.Meta) > 0 {
		of = int(f.Meta[0])
	}
	return false, fmt.Errorf("entry of type %d, version %d, and this program knows up to type %d, version %d: %w", f.Type, of, knownKind, version, durable.ErrVersion)
}

// readEntry fills the fields of e that belong to its kind. A mistake in the bytes is noted in r.Bad.
// The arguments of Count are the fewest bytes that one element takes.
func readEntry(r *wire.Reader, e *Entry) {
	switch e.Kind {
	case Snapshot:
		e.Count, e.BootID = r.Uint(), r.String()
		if len(r.B) > 0 {
			for range r.Count(17) {
				e.Lines = append(e.Lines, line{r.ID(), r.Uint()})
				e.Run = e.Lines[len(e.Lines)-1].id
			}
		}
		if len(r.B) > 0 {
			e.Segments = readNumbers(r)
		}
	case Input:
		e.Input = r.String()
	case FileSeen:
		e.File = r.File()
		e.Info = readInfo(r)
	case Begin:
		b := readBegun(r)
		e.Payload, e.HadLens, e.Batch, e.Attempt = &b.Payload, b.HadLens, b.ID, b.Payload.Attempt
	case Attempt, Replay, Unknown:
		e.Batch, e.Attempt = r.ID(), r.Small(math.MaxInt32)
		if e.Kind == Replay && len(r.B) > 0 { // since minor version 4
			e.Answered = r.Bool()
		}
	case End, ReplayEnd:
		e.Batch = r.ID()
		e.Outcome = record.Outcome(r.Byte())
	case Skip:
		e.File, e.Span, e.Mark = r.File(), r.Span(0), record.Mark(r.Fixed())
	case Position:
		e.File, e.Span.End, e.Mark = r.File(), r.Int(), record.Mark(r.Fixed())
	case Split:
		e.Batch = r.ID()
		for range r.Count(32) {
			e.Children = append(e.Children, readBegun(r))
		}
	case Forget:
		e.File = r.File()
	case Abandoned, Removed:
		e.File, e.Span = r.File(), r.Span(0)
		if e.Kind == Removed && len(r.B) > 0 { // since minor version 3
			e.Count = r.Uint()
		}
	case SpoolHas:
		e.Segments = readNumbers(r)
	}
}

// readNumbers reads what writeNumbers wrote.
func readNumbers(r *wire.Reader) (all []uint64) {
	last := uint64(0)
	for range r.Count(1) {
		last += r.Uint()
		all = append(all, last)
	}
	return all
}

// readInfo decodes what writeInfo has encoded. Members that were added later are missing at the
// end of older entries. A mistake in the bytes is noted in r.Bad.
func readInfo(r *wire.Reader) record.Facts {
	var i record.FileInfo
	i.Path, i.First = r.String(), r.String()
	i.Dev, i.Inode, i.Birth = r.Uint(), r.Uint(), r.Int()
	r.Bool() // whether there is a handle
	i.Handle = string(r.Bytes())
	i.Size = r.Int()
	i.Head = record.Head{Len: r.Small(math.MaxInt32), Sum: r.Fixed()}
	i.Encoding, i.Done = r.String(), r.Bool()
	if len(r.B) > 0 { // since minor version 1
		i.Old = r.Int()
	}
	if len(r.B) > 0 {
		i.Packed = record.Packed{Size: r.Int(), Mtime: r.Int(), Cut: r.Bool()}
	}
	if len(r.B) > 0 {
		i.Real = r.String()
	}
	if len(r.B) > 0 {
		i.Dated = r.Int()
	}
	if len(r.B) > 0 {
		i.Doubted = r.Int()
	}
	if len(r.B) > 0 {
		i.Lost, i.Told = r.Int(), r.Bool()
	}
	if len(r.B) > 0 {
		i.Seen = r.Int()
	}
	return i.Facts()
}

func readBegun(r *wire.Reader) (b Begun) {
	b.Payload, b.HadLens = r.Payload()
	return b
}
