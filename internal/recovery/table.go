package recovery

// Known is what the journal knows of a payload that has a frame in the spool.
type Known uint8

// What the journal may know. Final ends are all but Replaced and Split: nobody else
// carries on with the ranges.
const (
	Nothing       Known = iota // neither begun nor safe: a power cut took what was known
	Begun                      // begun, and no request made
	Tried                      // begun, and a request made: its outcome is unknown
	Safe                       // its ranges are safe: the frame is all there is
	Over                       // it ended, for good
	OverBegun                  // the same, and it is begun: a kill came between two entries
	Replaced                   // others carry on with its ranges
	ReplacedBegun              // and then it was begun again
	GivenUp                    // it was not in the spool, and its source was gone
)

// Frame is what the spool has of a payload.
type Frame uint8

// How a frame may be.
const (
	Sound Frame = iota
	Unsound
	Half // a part of a payload that is in the spool itself and waits there
)

// FrameAction is what becomes of a frame at a start.
type FrameAction uint8

// What may become of it.
const (
	Keep      FrameAction = iota // it is sent from the spool
	Take                         // the same, and it ends the begun batch as spooled
	TakeNamed                    // the same, and the log names it: it may be stored twice
	Enter                        // the same, and the journal is told that it was begun
	Leave                        // it is not sent
	Refuse                       // it is not sent, and the journal is told so
	Settle                       // it is not sent, and its end ends the begun batch too
)

// Sends says whether the frame is to be sent from the spool.
func (a FrameAction) Sends() bool { return a < Leave }

// frames is the table of what becomes of a frame, by what the journal knows.
var frames = [...][Half + 1]FrameAction{
	//             sound      unsound half
	Nothing:       {Enter, Refuse, Refuse},
	Begun:         {Take, Refuse, Refuse},
	Tried:         {TakeNamed, Refuse, Refuse},
	Safe:          {Keep, Keep, Refuse},
	Over:          {Leave, Leave, Leave},
	OverBegun:     {Settle, Settle, Settle},
	Replaced:      {Leave, Leave, Leave},
	ReplacedBegun: {TakeNamed, Leave, Leave},
	GivenUp:       {Enter, Leave, Leave},
}

// JudgeFrame returns what is done with a frame in the spool at a start. A frame in the spool overrides
// a begin in the journal, and an end in the journal overrides the frame, but for that of a payload
// that was given up because it was nowhere. A damaged frame is sent only if its ranges are safe;
// otherwise nobody has relied on it.
func JudgeFrame(k Known, f Frame) FrameAction { return frames[k][f] }

// Kind is what has to be read from its files.
type Kind uint8

// The kinds of batches.
const (
	OfRun     Kind = iota // begun by an earlier run and not ended: its outcome is unknown
	OfSpool               // its frame is gone or damaged, and its ranges are safe
	Forgotten             // the same, and not even the journal knows its ranges
)

// Settings is how the inputs of a batch are configured now.
type Settings uint8

// How they may be.
const (
	Same     Settings = iota // route and shaping are those it was made with
	Reshaped                 // they are others
	Absent                   // one of its inputs is not configured
	Unserved                 // they are the same, and no input sends to its cluster
)

// Finding is what a look at its files found.
type Finding uint8

// What may be found.
const (
	Unread Finding = iota // nobody has looked yet
	Here                  // all of it is there; with the same settings, the same bytes
	Other                 // its files are there and give another body
	Part                  // some of its files are there, and some are gone
	Gone                  // looked for, and not there
	NotNow                // it cannot be read now: no permission, no descriptor, an error of the disk, no answer
)

// Action is what is done about a batch.
type Action uint8

// What may be done.
const (
	Look        Action = iota // read its files
	Wait                      // look again in 10 s
	Resend                    // under its own id, named
	ResendAs                  // under another id that names its own
	ResendPart                // the same for what is left, and count the rest as source gone
	Restore                   // back into the spool, or to the sender, under its own id
	RestoreAs                 // under another id that names its own
	RestorePart               // the same for what is left, and count the rest as source gone
	Replace                   // end it as replaced, named; its ranges are read anew
	ReplacePart               // the same for what is left, and count the rest as source gone
	EndGone                   // end it as source gone, counted
)

// Judge returns what is done about a batch whose body has to be read from its files: k is why, c how
// its inputs are configured now, f what a look at the files found. A batch ends as
// lost only if its source was looked for and is gone, or is unknown; anything else is tried again.
func Judge(k Kind, c Settings, f Finding) Action {
	switch {
	case k == Forgotten:
		return EndGone
	case c == Absent || c == Unserved:
		return Wait
	case c == Reshaped:
		return anew[f]
	}
	return again[k][f]
}

// again is what is done where the settings are the same.
var again = [...][NotNow + 1]Action{
	//       unread here     other      part         gone     not now
	OfRun:   {Look, Resend, ResendAs, ResendPart, EndGone, Wait},
	OfSpool: {Look, Restore, RestoreAs, RestorePart, EndGone, Wait},
}

// anew is what is done where they are others.
var anew = [NotNow + 1]Action{Look, Replace, Replace, ReplacePart, EndGone, Wait}
