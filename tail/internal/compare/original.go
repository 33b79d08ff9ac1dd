package compare

import (
	"os"
	"time"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/identity"
	"kusto-agent/tail/internal/inode"
)

// Original is what is known of a file that was read, as it stood when the comparing began. What
// it has of it is only read.
type Original struct {
	Info      record.FileInfo
	Truncated time.Time // when reading ended with a truncation; zero: it did not, or in an earlier run
	Left      Departure
	Latest    bool                                 // no later generation of its file is known
	Find      func(record.FileInfo) (string, bool) // looks for its file; nil: that is not to be looked for

	// How far it was read, and what it can be compared by.
	Position int64
	Mark     record.Mark
	Ahead    []record.Extent // begun or ended beyond the position
	Trail    Trail
	Late     []byte // the bytes before the position, of one that was truncated
	Equal    Place  // so far the file compared was equal to it before the truncation

	Reader *Reader // nil: nobody reads it

	// Start is what its file begins with, of which so much was read; empty: the comparison did not read it.
	Start []byte

	// Reached says that the bytes before the position are in the file compared, whatever size that tells.
	Reached bool
}

// Reader is who reads an original, as it stood when the comparing began.
type Reader struct {
	File    *os.File // nil: it is not open
	Path    string
	Deleted bool
	Resting bool      // at its end, with nothing to do
	InTurn  bool      // a worker is reading just now, so that all this is of before
	Intact  bool      // found as it was since the scan under way began; set where a comparison finds it so
	Packed  bool      // it is compressed
	Missing bool      // it is not where it was
	Anew    time.Time // when it was last found truncated or rewritten
}

// Departure is how the content of a file came to an end. It is zero if this run did not see that.
type Departure struct {
	At    int64 // ns; when it was deleted or found truncated
	There bool  // it has a name that no pattern matches

	Deleted  bool
	Unwanted bool // its input no longer reads it
	Lost     bool // before it was read to its end, and may be found again compressed
	Unseen   bool // it was truncated while the agent was stopped
}

// node says whether a file was made before this departure, also if the moment is not known, or
// after it. A coarse clock may give both the same time: a copy is made just before a truncation that
// was seen, a new file just after a deletion, or after the last write to a file that was truncated
// before.
func (d Departure) node(s *Sample) identity.Node {
	if d.At > 0 && (s.Born() > d.At || (d.Deleted || d.Unseen) && s.Born() == d.At) {
		return identity.Younger
	}
	return identity.Older
}

// TruncatedUnseen returns how the content of a file with the status st came to its end while nobody
// looked: at the latest when its bytes were changed last. Its ctime is later if it was renamed since.
func TruncatedUnseen(st inode.Status) Departure {
	return Departure{At: min(st.Mtime, st.Ctime), Unseen: true}
}

// FreshCopy is for how long what a truncated file held is recognised in another with little
// evidence: a copy made at the truncation shows up at once. Later, or in another run,
// identity.Enough must have been read of it.
const FreshCopy = 10 * time.Minute
