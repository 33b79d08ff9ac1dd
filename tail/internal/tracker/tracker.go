// Package tracker promises that a file gets a turn whenever something may have changed
// for it, that one whose path is gone is read to its end, and that each is closed once.
//
// It decides only: callers hand in what happened to a file, and carry out what follows.
// It opens nothing, takes no lock and asks no clock.
package tracker

// Turn is where a file stands between two turns of its reader.
type Turn uint8

// The states between a turn and the next.
const (
	Resting Turn = iota
	Queued       // it is to have a turn
	Running      // a worker reads it
	Again        // a worker reads it, and it is to have another turn
	Closed       // for good
)

// Place is where a file is, as far as scans tell.
type Place uint8

// The places. Gone and Outside are drained: read to their end, and then closed.
const (
	Present Place = iota // at its path
	Missed               // the last scan did not find it
	Gone                 // its path is gone or names another file, or no pattern matches it
	Outside              // no pattern matches its path, and it is remembered by the one it had
)

// Wish is whether a file is to be read on.
type Wish uint8

// The wishes.
const (
	Keep  Wish = iota
	Leave      // its input no longer reads it: it is closed, and how far it was read is kept
	Drop       // it is closed at its next turn, whatever it holds
)

// Wait is what a file waits for that is not read to its end. The zero Wait is nothing.
type Wait uint8

// The waits.
const (
	ForPredecessor Wait = iota + 1 // the file that was at its path before
	ForSuccessor                   // the file that comes to its path, where its last message goes on
	ForRoom                        // what was read is to be taken and safe
	ForRecordEnd                   // its last record is written to its end
	ForContent                     // what replaces the NULs at its end
)

var waitWords = [...]string{
	"", "the file that was there before it is read first", "the end of its last message is looked for in the next file",
	"what was read of it has to be accepted first", "its last record has no end yet",
	"it ends with NULs, in whose place something may be written",
}

// String says for people why the file is not read; empty: it waits for nothing.
func (w Wait) String() string { return waitWords[w] }

// File is the life of one file that is being read. Only Apply changes it.
type File struct {
	scan     uint32 // the last bits of the number of the scan that found it last
	turn     Turn
	place    Place
	wish     Wish
	wait     Wait
	deleted  bool // no name is left
	moved    bool // the journal knows it under another name
	heard    bool // a write was heard of during its turn, which may have looked before
	safe     bool // it is to have a turn when more of it is safe
	draining bool // deleted, and read to its end before the tailer stops
	finished bool // read to its end by a run that reads each file once
}

// Found is a file that a scan has just found at a place.
func Found(scan uint64, at Place) File { return File{scan: uint32(scan), place: at} }

// Turn is where it stands between two turns.
func (f *File) Turn() Turn { return f.turn }

// Awaits reports whether a scan has still to say where it is: the scan has found none of
// its names yet.
func (f *File) Awaits(scan uint64) bool { return f.scan != uint32(scan) && f.turn != Closed }

// FoundBy is the number, or its last bits, of the scan that found it last.
func (f *File) FoundBy() uint32 { return f.scan }

// IsRunning reports whether a worker reads it.
func (f *File) IsRunning() bool { return f.turn == Running || f.turn == Again }

// IsMissing reports whether the last scan did not find it at a path that a pattern matches.
func (f *File) IsMissing() bool { return f.place != Present }

// IsGone reports whether it is drained and then closed, since its path does not lead to
// it any more.
func (f *File) IsGone() bool { return f.place >= Gone }

// IsOutside reports whether it is remembered by a path that it does not have.
func (f *File) IsOutside() bool { return f.place == Outside }

// IsDeleted reports whether no name of it is left.
func (f *File) IsDeleted() bool { return f.deleted }

// HasMoved reports whether the journal knows it under another name.
func (f *File) HasMoved() bool { return f.moved }

// IsDraining reports whether it is deleted and read to its end before the tailer stops.
func (f *File) IsDraining() bool { return f.draining }

// Wait is what it waits for, at the end of its last turn.
func (f *File) Wait() Wait { return f.wait }

// Wish is whether it is to be read on.
func (f *File) Wish() Wish { return f.wish }

// Event is something that happened to a file: one of the types below.
type Event interface{ event() }

type mark struct{}

func (mark) event() {}

type (
	// Begun says that a reader of the file was made.
	Begun struct {
		mark
		Wait Wait
	}
	// Wanted says that something may have changed, and the file is to have a turn.
	Wanted struct{ mark }
	// Heard says that the kernel has told of a write to the file.
	Heard struct{ mark }
	// Unqueued says that the queue was cleared.
	Unqueued struct{ mark }
	// Taken says that a worker begins a turn.
	Taken struct{ mark }
	// Ended says that a worker has ended a turn.
	Ended struct {
		mark
		Outcome Outcome
		Wait    Wait
		Safe    bool // all that was handed over is safe
		Moved   bool // the journal has still to know the new name
	}
	// Saved says that more of the file is safe.
	Saved struct{ mark }
	// Seen says that a scan has found the file.
	Seen struct {
		mark
		Scan    uint64
		Renamed bool // at another path
		Changed bool // with another size or time
	}
	// Unseen says that a scan has not found the file.
	Unseen struct {
		mark
		Left    bool // its path is gone or names another file
		Deleted bool // no name is left
	}
	// Moved says that the file has another name or identity than the journal knows.
	Moved struct{ mark }
	// Wished says whether the file is to be read on. A file that was dropped stays so.
	Wished struct {
		mark
		Wish Wish
	}
	// Drained says that the tailer stops and this file is to be read to its end before.
	Drained struct{ mark }
	// Renewed says that the file was truncated or rewritten, and is read from its start.
	Renewed struct{ mark }
)

// Outcome is what a turn leads to.
type Outcome uint8

// The outcomes.
const (
	More      Outcome = iota // there is more to read
	Idle                     // nothing to do until the file grows
	Finished                 // the same, and a run that reads each file once has read it
	Parked                   // an event will say when to go on
	AwaitSafe                // the same: more has to be safe
	Done                     // closed for good
	Yielded                  // the same, and a scan decides who reads it from now on
)

// Waits reports whether an event other than that the file grows ends the wait.
func (o Outcome) Waits() bool { return o == Parked || o == AwaitSafe }

// Rests reports whether there is nothing to do until the file grows.
func (o Outcome) Rests() bool { return o == Idle || o == Finished }

// Closes reports whether the file is closed for good.
func (o Outcome) Closes() bool { return o >= Done }

// Action is what a caller of Apply has to do.
type Action uint8

// The actions.
const (
	Enqueue       Action = iota // put the file into the queue for turns
	Read                        // read on in the turn that begins
	CloseUnwanted               // note in the turn that begins how far it was read, and close it
	Close                       // close it and forget its reader
	Spare                       // its descriptor may be given to others
	Plan                        // plan the next look at it
	Look                        // look at it soon
	Rescan                      // ask for a scan
	Announce                    // count and log that it was moved away or deleted
	AllDrained                  // nothing is left to be drained
)

var (
	none          []Action
	enqueue       = []Action{Enqueue}
	read          = []Action{Read}
	closeUnwanted = []Action{CloseUnwanted}
	closeIt       = []Action{Close}
	yield         = []Action{Close, Rescan}
	look          = []Action{Look}
	rescan        = []Action{Rescan}
	rest          = []Action{Spare, Plan}
	restHeard     = []Action{Spare, Plan, Look}
	drain         = []Action{Announce, Enqueue}
	announce      = []Action{Announce}
	restLast      = []Action{Spare, Plan, AllDrained}
	closeLast     = []Action{Close, AllDrained}
)

// Tracker decides for all files. The zero Tracker knows none.
type Tracker struct {
	stopping bool // only files that are drained have turns
	unread   int  // files that a run that reads each once has not finished
	left     int  // files that are to be drained yet
}

// Stop lets only those files have turns from now on that an event Drained names.
func (t *Tracker) Stop() { t.stopping = true }

// Unread is how many files a run that reads each once has not finished.
func (t *Tracker) Unread() int { return t.unread }

// Left is how many files are to be drained yet.
func (t *Tracker) Left() int { return t.left }

// Apply changes the state of a file by what happened to it. The caller carries out the
// actions in their order, and must not change them.
func (t *Tracker) Apply(f *File, e Event) []Action {
	switch e := e.(type) {
	case Begun:
		t.unread++
		f.wait = e.Wait
		return t.want(f)
	case Wanted:
		return t.want(f)
	case Heard:
		switch {
		case f.IsRunning():
			f.heard = true
		case f.turn == Resting:
			return look
		}
	case Unqueued:
		f.turn = Resting
	case Taken:
		return f.take()
	case Ended:
		return t.end(f, e)
	case Saved:
		if f.safe {
			f.safe = false
			return t.want(f)
		}
	case Seen:
		return t.seen(f, e)
	case Unseen:
		return t.unseen(f, e)
	case Moved:
		f.moved = true
	case Wished:
		if f.wish != Drop {
			f.wish = e.Wish
		}
		return t.want(f)
	case Drained:
		f.draining = true
		t.left++
		return t.want(f)
	case Renewed:
		if f.finished {
			f.finished = false
			t.unread++
		}
	}
	return none
}

// want queues a file for a turn. If the file has a turn just now, it gets another one after that.
// While the tailer stops, only files that are drained get turns.
func (t *Tracker) want(f *File) []Action {
	if t.stopping && !f.draining {
		return none
	}
	switch f.turn {
	case Resting:
		f.turn = Queued
		return enqueue
	case Running:
		f.turn = Again
	}
	return none
}

// take begins a turn of a file. The action is to read it; or to close it, if its input no longer
// wants it (Leave) or it was given up (Drop).
func (f *File) take() []Action {
	f.turn, f.heard = Running, false
	switch f.wish {
	case Drop:
		return closeIt
	case Leave:
		return closeUnwanted
	}
	f.moved = false // the turn tells the journal, or says that it has not
	return read
}

// end ends the turn of a file with the outcome that its worker reports.
func (t *Tracker) end(f *File, e Ended) []Action {
	wanted := e.Outcome == More || f.turn == Again || e.Outcome == AwaitSafe && e.Safe
	f.wait, f.moved, f.safe = e.Wait, f.moved || e.Moved, e.Outcome == AwaitSafe && !e.Safe
	rests := e.Outcome.Rests() && !wanted
	if (e.Outcome == Finished || e.Outcome.Closes()) && !f.finished {
		f.finished = true
		t.unread--
	}
	last := false
	if f.draining && (rests || e.Outcome.Closes()) {
		f.draining = false
		t.left--
		last = t.left == 0
	}
	switch {
	case e.Outcome.Closes():
		f.turn = Closed
		switch {
		case last:
			return closeLast
		case e.Outcome == Yielded:
			return yield
		}
		return closeIt
	case rests:
		f.turn = Resting
		switch {
		case last:
			return restLast
		case f.heard:
			return restHeard
		}
		return rest
	}
	f.turn = Resting
	if wanted {
		return t.want(f)
	}
	return none
}

// seen notes that a scan has found a file, unless the scan has found it under another name already.
// A file that was renamed or has changed is queued for a turn.
func (t *Tracker) seen(f *File, e Seen) []Action {
	if !f.Awaits(e.Scan) {
		return none
	}
	f.scan, f.place = uint32(e.Scan), Present
	f.moved = f.moved || e.Renamed
	if e.Renamed || e.Changed {
		return t.want(f)
	}
	return none
}

// unseen notes that a scan has not found a file. Only the second scan in a row counts the file as
// gone, because names can change during a scan.
func (t *Tracker) unseen(f *File, e Unseen) []Action {
	f.deleted = e.Deleted
	switch {
	case f.IsGone() || !e.Left || f.turn == Closed:
		return none
	case f.place == Present:
		f.place = Missed
		return rescan
	}
	f.place = Gone
	if len(t.want(f)) > 0 {
		return drain
	}
	return announce
}
