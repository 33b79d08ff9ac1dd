package journal

import (
	"encoding/binary"

	"kusto-agent/record"
)

// encoder writes entries: unsigned varints, zigzag varints where a number may
// be negative, eight bytes for what is random, strings with their length.
type encoder struct{ b []byte }

func (w *encoder) uint(v uint64)   { w.b = binary.AppendUvarint(w.b, v) }
func (w *encoder) int(v int64)     { w.b = binary.AppendVarint(w.b, v) }
func (w *encoder) fixed(v uint64)  { w.b = binary.LittleEndian.AppendUint64(w.b, v) }
func (w *encoder) bytes(v []byte)  { w.uint(uint64(len(v))); w.b = append(w.b, v...) }
func (w *encoder) string(v string) { w.uint(uint64(len(v))); w.b = append(w.b, v...) }

func (w *encoder) bool(v bool) {
	if v {
		w.b = append(w.b, 1)
	} else {
		w.b = append(w.b, 0)
	}
}

func (w *encoder) file(f record.File) {
	w.string(f.Input)
	w.fixed(uint64(f.ID))
	w.uint(uint64(f.Generation))
}

func encode(e *Entry) []byte {
	w := &encoder{b: make([]byte, 0, 64)}
	w.b = append(w.b, version)
	w.int(e.At.UnixNano())
	switch e.Kind {
	case Snapshot:
		w.uint(e.Count)
		w.string(e.BootID)
	case Input:
		w.string(e.Input)
	case FileSeen:
		w.file(e.File)
		w.info(&e.Info)
	case Begin:
		w.payload(e.Payload, e.HadLens)
	case Attempt:
		w.b = append(w.b, e.Batch[:]...)
		w.uint(uint64(e.Attempt))
	case End:
		w.b = append(w.b, e.Batch[:]...)
		w.b = append(w.b, byte(e.Outcome))
	case Skip:
		w.file(e.File)
		w.span(e.Span, 0)
		w.fixed(uint64(e.Mark))
	case Position:
		w.file(e.File)
		w.int(e.Span.End)
		w.fixed(uint64(e.Mark))
	case Split:
		w.b = append(w.b, e.Batch[:]...)
		w.uint(uint64(len(e.Children)))
		for i := range e.Children {
			w.payload(&e.Children[i].Payload, e.Children[i].HadLens)
		}
	case Forget:
		w.file(e.File)
	}
	return w.b
}

func (w *encoder) info(i *record.FileInfo) {
	w.string(i.Path)
	w.string(i.First)
	w.uint(i.Dev)
	w.uint(i.Inode)
	w.int(i.Birth)
	w.bool(i.Handle != nil)
	w.bytes(i.Handle)
	w.int(i.Size)
	w.uint(uint64(i.Head.Len))
	w.fixed(i.Head.Sum)
	w.string(i.Encoding)
	w.bool(i.Done)
}

// span is written as its distance from last, mostly nothing, and its length.
func (w *encoder) span(s record.Span, last int64) {
	w.int(s.Start - last)
	w.int(s.Len())
}

// payload is everything but the body. Files come first, in a table that the
// ranges point into, and each range begins where the last one of its file ended
// unless it says otherwise: a piece takes about six bytes.
func (w *encoder) payload(p *record.Payload, hadLens bool) {
	w.b = append(w.b, p.ID[:]...)
	w.b = append(w.b, p.Replaces[:]...)
	w.uint(uint64(p.Attempt))
	for _, s := range []string{p.Route.Cluster, p.Route.Database, p.Route.Table, string(p.Route.Format), p.Route.Mapping} {
		w.string(s)
	}
	w.int(int64(p.Records))
	w.bool(p.Gzip)
	w.bool(hadLens)
	w.int(int64(p.RawBytes))
	w.uint(uint64(p.CRC))
	w.fixed(p.Shaping)
	w.bool(!p.ReadAt.IsZero())
	if !p.ReadAt.IsZero() {
		w.int(p.ReadAt.UnixNano())
	}

	files, index := filesOf(p)
	w.uint(uint64(len(files)))
	for _, f := range files {
		w.file(f)
	}
	last := make([]int64, len(files))
	w.uint(uint64(len(p.Cover)))
	for _, c := range p.Cover {
		i := index[c.File]
		w.uint(uint64(i))
		w.span(c.Span, last[i])
		w.fixed(uint64(c.Mark))
		last[i] = c.End
	}
	clear(last)
	w.uint(uint64(len(p.Pieces)))
	for _, c := range p.Pieces {
		i := index[c.File]
		w.uint(uint64(i))
		w.span(c.Span, last[i])
		w.int(int64(c.Records))
		last[i] = c.End
	}
}

// filesOf lists the files of a payload, each once, and where in the list each
// of them is.
func filesOf(p *record.Payload) (files []record.File, index map[record.File]int) {
	index = map[record.File]int{}
	add := func(f record.File) {
		if _, known := index[f]; !known {
			index[f] = len(files)
			files = append(files, f)
		}
	}
	for _, c := range p.Cover {
		add(c.File)
	}
	for _, c := range p.Pieces {
		add(c.File)
	}
	return files, index
}
