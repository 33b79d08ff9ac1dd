package tail

import (
	"io"
	"os"
	"sync/atomic"
	"time"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/archive"
	"kusto-agent/tail/internal/compare"
	"kusto-agent/tail/internal/inode"
	"kusto-agent/tail/internal/tracker"
)

// contents is what is in a compressed file, read like a file. It belongs to the goroutine that reads.
type contents struct {
	archive.Source
	file record.Packed
	head record.Head // of what is in it
	end  record.Mark // of its size; 0: not known

	reached int64       // offset of its reader when it was last seen to move
	moved   time.Time   // when that was; guarded by Tailer.mu
	waits   atomic.Bool // it is to ask again for a place to unpack in, at a time
}

// src returns the content of the reader's file, decompressed if the file is compressed.
func (r *reader) src() io.ReaderAt {
	if r.z == nil {
		return r.f
	}
	r.z.From(r.f)
	return r.z
}

// plain is the file of a reader; nil: it is compressed, or not open.
func (r *reader) plain() *os.File {
	if r.z != nil {
		return nil
	}
	return r.f
}

// form is by what it is seen that a file has changed.
type form struct{ size, mtime int64 }

func (f form) isOf(st inode.Status) bool { return f == form{st.Size, st.Mtime} }

// form is that of the file of a reader at the end of the last turn; of a compressed file, when it was looked
// through. The caller holds mu.
func (r *reader) form() form {
	if r.z != nil {
		return r.z.form()
	}
	return form{r.shown.size, r.shown.mtime}
}

func (c *contents) form() form { return form{c.file.Size, c.file.Mtime} }

// GiveUpRest ends the reading of a compressed file that breaks off within a record, which counts as
// lost. The file counts as ended at the offset, and is read on if it is completed later.
func (w *worker) GiveUpRest() (tracker.Outcome, error) {
	r := w.job.r
	w.t.lose(r.File, &r.Info, w.job.path, r.Offset(), r.Size, nil, "last record of a compressed file is cut off, it is not sent")
	r.z.EndAt(r.Offset())
	r.z.end = r.Mark()
	r.Size, r.high, r.highest = r.Offset(), r.Offset(), r.Offset()
	r.ForgetRecord()
	r.registered = false
	if err := w.register(r); err != nil {
		return tracker.Idle, err
	}
	return w.AtEnd(), nil
}

// repacked ends the reader of a compressed file that has changed, which is inspected again. A run
// --once does not wait for that.
func (w *worker) repacked(r *reader) (tracker.Outcome, error) {
	if w.t.o.Once {
		return tracker.Finished, archive.ErrChanged
	}
	w.retire(r, compare.Departure{})
	return tracker.Yielded, nil
}

// stalledAfter is for how long a reader must not have read on until another may decompress its file in
// its place.
const stalledAfter = 10 * time.Second

// mayUnpack reports whether a reader may decompress its file now: few do at the same time. If not, it
// gets a turn later.
func (t *Tailer) mayUnpack(r *reader) bool {
	ask := unpacking{r: r}
	t.on(&ask)
	return ask.may
}

// unpacking is that a worker is about to decompress the file of its reader.
type unpacking struct {
	r   *reader
	may bool
}

func (e *unpacking) happen(t *Tailer) {
	r, now := e.r, time.Now()
	if r.Offset() != r.z.reached || r.z.moved.IsZero() {
		r.z.reached, r.z.moved = r.Offset(), now
	}
	may, from := t.unpacking.Take(r, func(o *reader) bool {
		return o.life.Turn() <= tracker.Queued && (o.stream == nil || !o.stream.busy) && now.Sub(o.z.moved) >= stalledAfter
	})
	if from != nil {
		from.z.Free()
	}
	if z := r.z; !may && !z.waits.Swap(true) {
		time.AfterFunc(stalledAfter, func() {
			z.waits.Store(false)
			t.ready(r)
		})
	}
	e.may = may
}

// endUnpacking frees the memory of a reader that decompresses its file, and its place for the next that
// waits for one. The caller holds mu, and no worker has the reader.
func (t *Tailer) endUnpacking(r *reader) {
	if r.z == nil {
		return
	}
	r.z.Free()
	r.z.moved = time.Time{}
	if next := t.unpacking.Leave(r); next != nil {
		t.readyLocked(next)
	}
}

// isCut reports whether a file is a compressed one that breaks off.
func (r *reader) isCut() bool { return r.z != nil && r.z.file.Cut }
