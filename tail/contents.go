package tail

import (
	"io"
	"os"
	"time"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/archive"
	"kusto-agent/tail/internal/fingerprint"
	"kusto-agent/tail/internal/inode"
	"kusto-agent/tail/internal/reread"
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
	moved   time.Time // when that was; guarded by Tailer.mu
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
	var b [4]byte
	n, _ := f.ReadAt(b[:], 0)
	how := archive.KindOf(b[:n])
	if how <= archive.Unknown {
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
