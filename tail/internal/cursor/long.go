package cursor

import (
	"kusto-agent/internal/format"
	"kusto-agent/internal/record"
)

// Long is a record whose end is not in one read, or a stretch of a file in which no record can be told
// apart.
type Long struct {
	At      int64 // where the look goes on; 0: there is none
	Ended   bool  // at that place: only quarantine has still to take it
	Indent  int
	Reason  record.Reason
	Message string
	Parts   *Parts // nil: it is one stretch
	Head    []byte // its beginning, where to go back for it would cost much
}

// Parts is a message of a container log that is longer than any may be. Its lines go to quarantine, as
// one; the lines of other streams that lie between them do not, and are read when its end is known.
type Parts struct {
	Stream []byte
	Runs   []record.Span // its lines, in the order of the file
	Beside string        // where the file is that has others of its lines; empty: none
}

// Add stores ranges of lines (own), which begin at an offset of the file. A range that begins where
// the last one ends is joined to it.
func (p *Parts) Add(own []format.Piece, at int64) {
	for _, o := range own {
		span := record.Span{Start: at + int64(o.Start), End: at + int64(o.End)}
		if i := len(p.Runs) - 1; i >= 0 && p.Runs[i].End == span.Start {
			p.Runs[i].End = span.End
		} else {
			p.Runs = append(p.Runs, span)
		}
	}
}

// Bytes is how many bytes the lines have.
func (p *Parts) Bytes() (n int64) {
	for _, run := range p.Runs {
		n += run.Len()
	}
	return n
}
