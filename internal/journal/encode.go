package journal

import (
	"kusto-agent/internal/record"
	"kusto-agent/internal/wire"
)

// encode returns the bytes of an entry, to be put into the meta of a frame: version, time, and the
// fields that its kind uses. The kind itself is the type of the frame.
func encode(e *Entry) []byte {
	w := &wire.Writer{B: make([]byte, 0, 64)}
	w.Byte(version)
	w.Int(e.At.UnixNano())
	switch e.Kind {
	case Snapshot:
		w.Uint(e.Count)
		w.String(e.BootID)
		w.Uint(uint64(len(e.Lines))) // added later: older versions stop reading before it
		for _, l := range e.Lines {
			w.ID(l.id)
			w.Uint(l.until)
		}
		writeNumbers(w, e.Segments) // added later too
	case Input:
		w.String(e.Input)
	case FileSeen:
		w.File(e.File)
		writeInfo(w, e.Info.Info())
	case Begin:
		w.Payload(e.Payload, e.HadLens)
	case Attempt, Replay, Unknown:
		w.ID(e.Batch)
		w.Uint(uint64(e.Attempt))
		if e.Answered { // added later: older versions stop reading before it
			w.Bool(true)
		}
	case End, ReplayEnd:
		w.ID(e.Batch)
		w.Byte(byte(e.Outcome))
	case Skip:
		w.File(e.File)
		w.Span(e.Span, 0)
		w.Fixed(uint64(e.Mark))
	case Position:
		w.File(e.File)
		w.Int(e.Span.End)
		w.Fixed(uint64(e.Mark))
	case Split:
		w.ID(e.Batch)
		w.Uint(uint64(len(e.Children)))
		for i := range e.Children {
			w.Payload(&e.Children[i].Payload, e.Children[i].HadLens)
		}
	case Forget:
		w.File(e.File)
	case Abandoned, Removed:
		w.File(e.File)
		w.Span(e.Span, 0)
		if e.Kind == Removed && e.Count > 0 { // added later: older versions stop reading before it
			w.Uint(e.Count)
		}
	case SpoolHas:
		writeNumbers(w, e.Segments)
	}
	return w.B
}

// writeNumbers appends sorted numbers to w, each as its difference to the one before.
func writeNumbers(w *wire.Writer, all []uint64) {
	w.Uint(uint64(len(all)))
	last := uint64(0)
	for _, n := range all {
		w.Uint(n - last)
		last = n
	}
}

// writeInfo appends i to w, in the form that readInfo decodes. The members at the end were added later:
// older versions stop reading before them. Each is left out only if all after it are empty too.
func writeInfo(w *wire.Writer, i record.FileInfo) {
	w.String(i.Path)
	w.String(i.First)
	w.Uint(i.Dev)
	w.Uint(i.Inode)
	w.Int(i.Birth)
	w.Bool(i.Handle != "")
	w.String(i.Handle)
	w.Int(i.Size)
	w.Uint(uint64(i.Head.Len))
	w.Fixed(i.Head.Sum)
	w.String(i.Encoding)
	w.Bool(i.Done)
	w.Int(i.Old)
	told := i.Lost != 0 || i.Told || i.Seen != 0
	later := i.Dated != 0 || i.Doubted != 0 || told
	if i.Packed != (record.Packed{}) || i.Real != "" || later {
		w.Int(i.Packed.Size)
		w.Int(i.Packed.Mtime)
		w.Bool(i.Packed.Cut)
	}
	if i.Real != "" || later {
		w.String(i.Real)
	}
	if later {
		w.Int(i.Dated)
	}
	if i.Doubted != 0 || told {
		w.Int(i.Doubted)
	}
	if told {
		w.Int(i.Lost)
		w.Bool(i.Told)
	}
	if i.Seen != 0 {
		w.Int(i.Seen)
	}
}
