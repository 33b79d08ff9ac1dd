// Package survey decides what is done with a compressed file until a reader has it. It promises that
// none is inspected while somebody may still write to it, that none is read before it was inspected
// and compared, and that one that is not read waits for something that is sure to come: a time, an
// inspection, a scan that finds it changed, or the end of the file that holds the same.
//
// It decides only: callers look at files, inspect and compare them, and hand in what they found.
package survey

import (
	"time"

	"kusto-agent/tail/internal/finder"
	"kusto-agent/tail/internal/identity"
)

// Stage is how far a file has come since it was found, or has changed.
type Stage uint8

// The stages, in their order.
const (
	Met       Stage = iota // it was not inspected
	Queued                 // it is to be inspected, or just being so
	Inspected              // what is in it was gone through to the end
)

// Past is what is known of a file from before.
type Past uint8

// What may be known.
const (
	Unseen    Past = iota // nothing, or it has changed since
	Unchanged             // it was inspected, and has not changed since
	Ended                 // and all of it was read
)

// Claim is whose a file is by its path.
type Claim uint8

// Whose it may be.
const (
	Matched Claim = iota // a pattern matches its path
	Wanted               // none does, but one did where the file was before
	Stray                // none does: it is looked at for what it may continue
)

// File is a compressed file that no reader has.
type File struct {
	Stage  Stage
	Past   Past
	Claim  Claim
	Barred bool          // what is in it is not to be read: exclude, or compressed: never
	Cut    bool          // the inspection found that it breaks off
	Quiet  time.Duration // for how long it has not changed
	Failed time.Duration // since when it could not be inspected; 0: that was not tried, or it could
}

// Run says how files are read.
type Run struct {
	RotateQuiet time.Duration
	Once        bool // it ends with what is there, and waits for no writer
	Complete    bool // the first scan has ended: all files are known that it may be a copy of
}

// cutAfter is how many times rotate_quiet a file that breaks off has to be quiet before nobody is
// expected to go on with it.
const cutAfter = 10

// retryAfter is how long after a failed inspection comes another: it may have read gigabytes.
const retryAfter = time.Minute

// Step is what is done next with a file.
type Step uint8

// What may be done. After Compare the step is that of After.
const (
	Leave   Step = iota // nothing, until it changes or something becomes known
	Await               // nothing for a time, since its writer may go on
	Inspect             // its content is gone through
	Resume              // it is read on from where it was read to
	Compare             // it is compared with what is known
	Hold                // nothing until the file was read that holds the same, or for a time
	Lose                // what is unread of its original is lost, as it must not be read
	Read                // a reader starts, as the verdict says
)

// Next returns what is done with a file, and how long it waits for the next step, if that is Await.
func (f File) Next(r Run) (Step, time.Duration) {
	switch {
	case f.Stage == Queued, f.Stage == Inspected && !r.Complete, f.Stage == Met && f.isOver():
		return Leave, 0
	case f.Stage == Inspected:
		if wait := cutAfter*r.RotateQuiet - f.Quiet; f.Cut && wait > 0 {
			return Await, wait
		}
		return Compare, 0
	case f.Past != Unseen && !f.Barred:
		return Resume, 0
	}
	return f.inspect(r)
}

// inspect is Inspect once the file is quiet, and the last attempt is not just over.
func (f File) inspect(r Run) (Step, time.Duration) {
	switch wait := r.RotateQuiet - f.Quiet; {
	case f.Failed > 0 && f.Failed < retryAfter:
		return Await, retryAfter - f.Failed
	case wait > 0 && !r.Once:
		return Await, wait
	}
	return Inspect, 0
}

// isOver reports whether a stray was read to its end, so that it needs no reader.
func (f File) isOver() bool { return f.Past == Ended && f.Claim != Matched }

// IsPending reports whether it is still to be found out what is in a file.
func (f File) IsPending() bool { return f.Stage == Queued || f.Stage == Met && !f.isOver() }

// Original is the file that a compressed file was compared with.
type Original uint8

// What it may be.
const (
	NoOriginal Original = iota // none is known
	AtRest                     // no reader has it
	BeingRead                  // a reader has it
)

// After returns what is done with an inspected file whose content was compared, with the verdict is
// about the file of, and for how long, if that is Hold or Await and a time is known.
func (f File) After(is identity.Verdict, of Original, r Run) (Step, time.Duration) {
	own := is == identity.Own || is == identity.Rewritten
	switch {
	case is == identity.Undecided: // more became known since it was inspected
		return f.inspect(r)
	case is == identity.Copy && of == NoOriginal:
		return Hold, finder.LookIdle // by then its original may have been read
	case (is == identity.Copy || is == identity.Continuation) && of == BeingRead:
		return Hold, 0
	case f.Barred && own:
		return Leave, 0
	case f.Barred:
		return Lose, 0
	case is == identity.Own && f.Claim == Stray:
		return Leave, 0 // it continues no file that is known
	}
	return Read, 0
}
