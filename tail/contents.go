package tail

import (
	"io"
	"os"
	"time"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/archive"
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

// source is the bytes of a file, or what is in it if it is compressed.
type source interface {
	io.ReaderAt
	io.Closer
}

// src returns the content of the reader's file, decompressed if the file is compressed.
func (r *reader) src() io.ReaderAt {
	if r.z == nil {
		return r.f
	}
	r.z.From(r.f)
	return r.z
}
