// Package records promises that what a file holds from the offset of its reader on is handed over in whole
// records and in order, and that the offset moves over nothing else but what is in quarantine, what the
// configuration leaves out, and NULs that nobody wrote.
//
// It reads, and decides nothing about files: whether a file was rewritten, has ended, or may still grow is for its
// Owner.
package records

import (
	"io"
	"os"

	"kusto-agent/internal/format"
	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/cursor"
	"kusto-agent/tail/internal/reads"
	"kusto-agent/tail/internal/settings"
	"kusto-agent/tail/internal/tracker"
)

// Reading is how far one generation of a file was read, and what is known of it for that.
type Reading struct {
	File    record.File
	Info    record.FileInfo
	Size    int64 // of what the file holds, at the last look
	Mtime   int64 // of the file at the last look, in ns
	Checked int64 // Mtime when the bytes before the offset were last compared with the mark
	cursor.Cursor
	reads.Bounds // of the next read
	Told
}

// Told is what was logged of a generation, once.
type Told struct{ Quarantined, NoText, Marked, Holey bool }

// OtherBefore reports whether the bytes that were read have changed; see cursor.IsRewritten. plain is the file; nil:
// it is compressed, and its bytes were compared before it was read. An error is one of reading.
func (g *Reading) OtherBefore(plain *os.File) (bool, error) {
	if plain == nil {
		return false, nil
	}
	return g.IsRewritten(plain, g.Info.Head)
}

// Rewritten reports whether the bytes before the offset have changed, or the beginning of a file of which nothing was
// read. Read notices by itself what is right before the offset; this is for turns that do not read, and for files of
// which little was read. An error counts as no.
func (g *Reading) Rewritten(plain *os.File) bool {
	if g.Mtime == g.Checked {
		return false
	}
	is, err := g.OtherBefore(plain)
	if err == nil && !is {
		g.Checked = g.Mtime
	}
	return is
}

// File is an open file in a turn of its reader. It is valid until the turn ends.
type File struct {
	*Reading
	In    *settings.Compiled
	Path  string      // where it is
	Src   io.ReaderAt // what it holds
	Plain *os.File    // nil: it is compressed
	Cut   bool        // it is compressed, and breaks off
	Carried
	Owner
}

// Carried is the open message at the end of the file before, which goes on in this one: this file is read as if it
// began with it.
type Carried struct {
	Data    []byte          // empty: there is none
	Extents []record.Extent // of Data, the oldest file first
}

// Owner decides about the file of a turn. Errors are those of reading the file, or of its journal entry.
type Owner interface {
	// Register has the file in the journal before that gets any range of it.
	Register() error
	// Lease asks for room to read so many bytes. Nil: there is none now, and the file gets a turn when there is.
	Lease(want int) (Lease, error)
	// AtEnd says what follows at the end of what can be read now.
	AtEnd() tracker.Outcome
	// Changed handles a file whose bytes before the offset have changed, Shrunk one that ends before it, and
	// GiveUpRest one that is compressed and breaks off within its last record.
	Changed(why string) (tracker.Outcome, error)
	Shrunk() (tracker.Outcome, error)
	GiveUpRest() (tracker.Outcome, error)
	// IsOver reports whether nobody writes to the file any more, and MayGrow whether more may be written to it though
	// what it holds is sent without waiting for that.
	IsOver() bool
	MayGrow() bool
	// TimedOut reports whether the end of the last record is no longer waited for.
	TimedOut() bool

	// HasGrown reports whether a file has grown in which the carried message begins, Take takes the message from
	// these files, as it is handed over, and GiveBack ends the wait for what it goes on with. With a, it is too long
	// with that, and goes to quarantine.
	HasGrown() bool
	Take()
	GiveBack(a *Apart)
}

// Reader reads records of files. It belongs to one goroutine.
type Reader struct {
	*Ports
	scanners map[*settings.Compiled]*format.Scanner
	scratch  []byte
	found    format.Chunk
	chunk    record.Chunk
	rejected []record.Rejected
}

// New returns a reader.
func New(p *Ports) *Reader {
	return &Reader{Ports: p, scanners: make(map[*settings.Compiled]*format.Scanner)}
}

// Forget drops what was kept for settings that may not be in force any more.
func (x *Reader) Forget() { clear(x.scanners) }

// Scanner returns the scanner of a file's settings, set up for the file. It is valid until the next call.
func (x *Reader) Scanner(f *File) (*format.Scanner, error) {
	s := x.scanners[f.In]
	if s == nil {
		var err error
		if s, err = format.New(f.In.Options()); err != nil {
			return nil, err
		}
		x.scanners[f.In] = s
	}
	return s, f.In.Prepare(s, f.Src, f.File, &f.Info, x.Stamp)
}

// Pass moves the offset to to, with its mark: nothing is sent of the bytes before, which are safe as soon as all
// before them is. It waits for the disk.
func (x *Reader) Pass(f *File, to int64, mark record.Mark) {
	x.Skip(f.File, record.Span{Start: f.Offset(), End: to}, mark)
	f.Advance(to, mark)
}
