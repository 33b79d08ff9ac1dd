package journal

import (
	"time"

	"kusto-agent/internal/durable"
	"kusto-agent/internal/record"
)

// Kind is the type of an entry: the type of its frame on disk. Never change a
// number.
type Kind uint8

// The kinds of entries, and the fields of Entry each of them fills.
const (
	Snapshot  Kind = 1  // Count entries that follow are the state; BootID, Lines, Segments
	Input     Kind = 2  // Input was seen for the first time
	FileSeen  Kind = 3  // File, Info: first seen or changed
	Begin     Kind = 4  // Payload, HadLens, Batch, Attempt
	Attempt   Kind = 5  // Batch, Attempt: another request for a begun batch
	End       Kind = 6  // Batch, Outcome
	Skip      Kind = 7  // File, Span, Mark: nothing to send there
	Position  Kind = 8  // File, Span.End, Mark: all before is safe
	Split     Kind = 9  // Batch, Children: begun in its place
	Forget    Kind = 10 // File
	Synced    Kind = 11 // all entries before are durable (optional)
	Stopped   Kind = 12 // a clean stop: nothing follows in this segment (optional)
	Replay    Kind = 13 // Batch, Attempt: a request for a batch in the spool; Answered: it was not stored
	ReplayEnd Kind = 14 // Batch, Outcome: a batch in the spool has ended
	Unknown   Kind = 15 // Batch, Attempt: no trustworthy answer came for that request (optional)
	Abandoned Kind = 16 // File, Span: given up before it was read (optional)
	SpoolHas  Kind = 17 // Segments: those that the spool has from now on (optional)
	Removed   Kind = 18 // File, Span, Count: of a record that a person removed from quarantine, or with Count of so many that it dropped (optional)
	Unread    Kind = 0  // never written: Span of the segment is unreadable, see read
	knownKind      = Removed
)

// String names the kind for people.
func (k Kind) String() string {
	names := [...]string{"unread", "snapshot", "input", "file", "begin", "attempt", "end", "skip",
		"position", "split", "forget", "synced", "stopped", "replay", "replay end", "unknown", "abandoned", "spool segments", "removed"}
	if int(k) < len(names) {
		return names[k]
	}
	return "unknown"
}

// Entry is one thing the journal was told, or one piece of a snapshot. Kind
// says which fields count.
type Entry struct {
	Kind       Kind
	At         time.Time // when it was told; in a snapshot, when that was taken
	Segment    uint64
	Number     uint64 // of the entry in its segment, where each begins behind what was told before it was made
	InSnapshot bool   // repeats what earlier segments told

	Input    string
	File     record.File
	Info     record.Facts
	Span     record.Span
	Mark     record.Mark
	Batch    record.BatchID
	Attempt  int
	Answered bool // of Replay: the answer came, and says that the batch was not stored
	Outcome  record.Outcome
	Payload  *record.Payload // Body and Lens nil
	HadLens  bool            // Payload had a Lens
	Children []Begun
	Count    uint64
	BootID   string
	Segments []uint64 // numbers of segments of the spool, sorted
	Lines    []line   // this run's last; none in what earlier versions wrote
	Run      [16]byte // as read: names the run that wrote the snapshot; zero: an earlier version did, and does not tell
}

// Begun is a batch that was begun and has not ended: all of its payload but
// the body. Lens is nil whether there was one or not.
type Begun struct {
	record.Payload
	HadLens bool // the payload had a Lens; rebuilding makes it again
}

// version is that of each entry's encoding. A reader accepts more bytes behind
// the ones it knows, so that fields may be added at the end; any other change
// raises the version, and readers treat the entry as one of an unknown kind.
const version = 1

// frame returns the frame in which the entry is written.
func (e *Entry) frame() durable.Frame {
	f := durable.Frame{Type: uint8(e.Kind), Records: 1, Meta: encode(e)}
	if e.Kind.optional() {
		f.Flags = durable.Optional
	}
	return f
}

// optional reports whether checkpoints do not depend on entries of this kind, so that a
// version that does not know the kind may skip them.
func (k Kind) optional() bool {
	switch k {
	case Synced, Stopped, Unknown, Abandoned, SpoolHas, Removed:
		return true
	}
	return false
}
