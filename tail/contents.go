package tail

import (
	"io"
	"os"
	"time"

	"kusto-agent/internal/compressed"
	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/archive"
	"kusto-agent/tail/internal/compare"
	"kusto-agent/tail/internal/fingerprint"
	"kusto-agent/tail/internal/inode"
	"kusto-agent/tail/internal/reread"
	"kusto-agent/tail/internal/tracker"
)

// contents is what is in a compressed file, read like a file. It belongs to the goroutine
// that reads.
type contents struct {
	archive.Source
	f    *os.File
	file record.Packed
	head record.Head // of what is in it
	end  record.Mark // of its size; 0: not known

	reached int64     // offset of its reader when it was last seen to move
	moved   time.Time // when that was; guarded by Tailer.mu, as waits
	waits   bool      // it is to ask again for a place to unpack in, at a time
}

// Close closes the file too.
func (c *contents) Close() error {
	c.Free()
	return c.f.Close()
}

// src returns the content of the reader's file, decompressed if the file is compressed.
func (r *reader) src() io.ReaderAt {
	if r.z == nil {
		return r.f
	}
	r.z.From(r.f)
	return r.z
}

// unpacked returns the content of an open file that was compressed when it was last seen. size is
// the length of the content, or archive.UnknownSize. The source reads from f and closes it. If f is
// no longer compressed, the source is f itself.
func unpacked(f *os.File, st inode.Status, size int64) reread.Source {
	how, _, _ := compressed.KindAt(f)
	if !how.IsReadable() {
		return f // it was replaced: what is there does not fit
	}
	z := &contents{Source: archive.NewSource(how, st.Size, size), f: f, file: record.Packed{Size: st.Size, Mtime: st.Mtime}}
	z.From(f)
	return z
}

// openPackedBeside returns a compressed copy of the file that info describes, if one beside it has
// the same beginning and the bytes of the range x; nil: there is none. The caller closes it.
func openPackedBeside(in *input, info record.FileInfo, x record.Extent) reread.Source {
	for _, path := range in.folders.packedBeside(info) {
		f, st, err := inode.Open(path)
		if err != nil {
			continue
		}
		z := unpacked(f, st, archive.UnknownSize)
		if h, err := fingerprint.HeadOfLen(z, info.Head.Len); err == nil && h == info.Head && holds(z, x) == nil {
			return z
		}
		z.Close()
	}
	return nil
}

// markAfter returns the mark (a hash of the bytes before an offset) at the end of the range x. Of a
// compressed file it reads all of x first, from the start on, so that the bytes of x are in memory
// for the reads that follow.
func markAfter(f reread.Source, x record.Extent) (record.Mark, error) {
	if _, packed := f.(*contents); packed && x.Len() <= reread.MostRecord {
		from := max(x.Start-record.MarkLen, 0)
		b := make([]byte, x.End-from)
		if _, err := fingerprint.ReadFull(f, b, from); err != nil && err != io.EOF {
			return 0, err
		}
	}
	return fingerprint.MarkAt(f, x.End)
}

// changed reports whether a file has changed since the last turn of its reader. st is its status
// now.
func (r *reader) changed(st inode.Status) bool {
	if r.z != nil {
		return !r.z.isOf(st)
	}
	return st.Size != r.shown.size || st.Mtime != r.shown.mtime
}

// isOf reports whether a compressed file is as it was when it was looked through.
func (c *contents) isOf(st inode.Status) bool {
	return st.Size == c.file.Size && st.Mtime == c.file.Mtime
}

// giveUpRest ends the reading of a compressed file that breaks off within a record, which counts as
// lost. The file counts as ended at the offset, and is read on if it is completed later.
func (w *worker) giveUpRest(r *reader) (after, error) {
	left := r.size - r.offset
	w.t.abandoned(r.file, r.offset, left)
	w.t.o.Logger.Error("last record of a compressed file is cut off, it is not sent", "input", r.in.Name, "file", w.pathOf(r),
		"offset", r.offset, "bytes", left)
	r.z.EndAt(r.offset)
	r.z.end = r.mark
	r.size, r.high, r.highest = r.offset, r.offset, r.offset
	r.forgetRecord()
	r.registered = false
	if err := w.register(r); err != nil {
		return idle, err
	}
	return w.atEnd(r), nil
}

// repacked ends the reader of a compressed file that has changed, which is inspected again. A run
// --once does not wait for that.
func (w *worker) repacked(r *reader) (after, error) {
	if w.t.o.Once {
		return finished, archive.ErrChanged
	}
	w.retire(r, compare.Departure{})
	return yielded, nil
}

// stalledAfter is for how long a reader must not have read on until another may decompress its file in
// its place.
const stalledAfter = 10 * time.Second

// mayUnpack reports whether a reader may decompress its file now: few do at the same time. If not, it
// gets a turn later.
func (t *Tailer) mayUnpack(r *reader) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if r.offset != r.z.reached || r.z.moved.IsZero() {
		r.z.reached, r.z.moved = r.offset, now
	}
	may, from := t.unpacking.Take(r, func(o *reader) bool {
		return o.life.Turn() <= tracker.Queued && (o.stream == nil || !o.stream.busy) && now.Sub(o.z.moved) >= stalledAfter
	})
	if from != nil {
		from.z.Free()
	}
	if z := r.z; !may && !z.waits {
		z.waits = true
		time.AfterFunc(stalledAfter, func() {
			t.locked(func() {
				z.waits = false
				t.readyLocked(r)
			})
		})
	}
	return may
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

// sizeAt returns the size of the content of a file whose status is st. Of a compressed file it is
// the size that the inspection found.
func (k *generation) sizeAt(st inode.Status) int64 {
	if info := k.info.Info(); info.Packed.Size > 0 {
		return info.Size
	}
	return st.Size
}
