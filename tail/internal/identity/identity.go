// Package identity decides which file an open file is: one table says whether its bytes
// were read before under another name, are to be read, or have to wait for an answer. It
// never lets bytes be skipped that were not compared with bytes that were read.
//
// The table is pure: callers look at files, and hand in what they found. Content is
// compared by fingerprints: of the first bytes of a file, and of the bytes before each
// place where reading stood.
package identity

// Node is what is known of the node of a file, compared with that of a generation that
// was read, the original.
type Node uint8

// What may be known. Older and Younger are about the moment at which the original came
// to its end; where a file system tells no birth, the time of the last write stands in
// for it.
const (
	SameNode   Node = iota // device, inode, birth and handle are those of the original
	HandedOver             // the same, and a copy has taken over what was known by it
	Stale                  // another node, last changed before the original was made
	Older                  // another node, made before the original came to its end
	Younger                // another node, made afterwards
)

// Fate is what became of the original.
type Fate uint8

// What may have become of it.
const (
	Untouched Fate = iota // it is there, and as it was read
	Changing              // it is being read, and is not as it was, or nobody can tell yet
	Truncated             // truncated or rewritten, at a moment that is known
	Unlinked              // no name of it is left since a moment that is known
	Renamed               // it was let go, and has a name that no pattern matches
	Past                  // it is not there, and nobody knows since when
)

// Content is how a file compares with what was read of the original.
type Content uint8

// How it may compare.
const (
	Differs Content = iota // it begins otherwise, or there is nothing to compare
	Holds                  // it begins with all that was read, and goes on, or that is not known
	Ends                   // it is all that was read, and ends there
	Little                 // one of these, and so little was read that it means nothing
	Prefix                 // it is shorter than that, and compared to its end
	Part                   // it is shorter than that, and compared up to a place before its end
	Unknown                // it could not be compared yet
)

// Agrees says whether the bytes that were compared are equal.
func (c Content) Agrees() bool { return c != Differs && c != Unknown }

// IsAll says whether the file is proved to have all that was read of the original.
func (c Content) IsAll() bool { return c == Holds || c == Ends }

// Facts are what is known of a file and of a generation that it may be related to.
type Facts struct {
	Node       Node
	Fate       Fate
	Content    Content
	Compressed bool // the file is compressed, and Content is about what is in it
	Late       bool // it was first seen longer than rotate_quiet ago
}

// Verdict is what a file is.
type Verdict uint8

// What it may be. The zero Verdict is that it is read.
const (
	Own          Verdict = iota // a file of its own: it is read from its start
	Undecided                   // it is held open and asked about again, until it is late
	Copy                        // all of it was read: nothing in it is
	Rest                        // a file of its own, but for what was compared: it is read from there
	Continuation                // it goes on where the original was read to
	Rewritten                   // the file itself, with other content: a new generation, read from its start
	Same                        // the file itself
)

var verdictWords = [...]string{"own", "undecided", "copy", "rest", "continuation", "rewritten", "same"}

func (v Verdict) String() string { return verdictWords[v] }

// Enough is how much must have been read of a generation so that a file is known by
// what it holds at any time and in any run: less may well be a banner that each file of
// its kind begins with.
const Enough = 1024

// row is a line of the table: what is known of both files.
type row uint8

const (
	sameNode row = iota
	handedOver
	stale
	untouched
	untouchedCompressed
	changing
	truncatedOlder
	truncatedYounger
	unlinkedOlder
	unlinkedYounger
	renamed
	past
	pastCompressed
)

var (
	rowWords = [...]string{
		"same node", "same node, a copy took over", "stale", "untouched", "untouched, the file compressed", "changing",
		"truncated after the file was made", "truncated before the file was made",
		"unlinked after the file was made", "unlinked before the file was made", "renamed away", "past", "past, the file compressed",
	}
	contentWords = [...]string{"differs", "holds all that was read", "ends with that", "holds the little that was read", "a prefix", "a prefix in part", "not compared"}
)

// table is the whole rule. What is not proved to have been read is read.
var table = [len(rowWords)][len(contentWords)]Verdict{
	//                    differs    holds         ends      little        prefix     in part    not compared
	sameNode:            {Rewritten, Same, Same, Same, Rewritten, Rewritten, Undecided},
	handedOver:          {Rewritten, Rewritten, Rewritten, Rewritten, Rewritten, Rewritten, Rewritten},
	stale:               {Own, Own, Own, Own, Own, Own, Own},
	untouched:           {Own, Undecided, Undecided, Undecided, Undecided, Undecided, Undecided},
	untouchedCompressed: {Own, Copy, Copy, Own, Own, Own, Undecided},
	changing:            {Own, Undecided, Undecided, Undecided, Undecided, Undecided, Undecided},
	truncatedOlder:      {Own, Continuation, Copy, Own, Copy, Rest, Own},
	truncatedYounger:    {Own, Own, Own, Own, Own, Own, Own},
	unlinkedOlder:       {Own, Continuation, Continuation, Own, Own, Own, Own},
	unlinkedYounger:     {Own, Own, Own, Own, Own, Own, Own},
	renamed:             {Own, Own, Own, Own, Own, Own, Own},
	past:                {Own, Own, Own, Own, Own, Own, Own},
	pastCompressed:      {Own, Continuation, Continuation, Own, Own, Own, Own},
}

// Judge returns what a file is, by the table: a file of its own, a copy, or one that continues
// another, for example. With Late, a file that would stay Undecided is read as its own. That does
// not hold for a file with a known inode, nor for a compressed file, which cannot be read before it
// was compared.
func Judge(f Facts) Verdict {
	v := table[f.row()][f.Content]
	if v == Undecided && f.Late && !f.Compressed && f.Node > HandedOver {
		return Own
	}
	return v
}

// row returns the row of the table in docs/design.md (Which file is it) for these facts:
// what became of the file that was read before, and whether the new file is older or
// younger than that.
func (f Facts) row() row {
	young := row(0)
	if f.Node == Younger {
		young = 1 // the row for a younger file follows that for an older one
	}
	switch {
	case f.Node == SameNode:
		return sameNode
	case f.Node == HandedOver:
		return handedOver
	case f.Node == Stale:
		return stale
	case f.Fate == Untouched && f.Compressed:
		return untouchedCompressed
	case f.Fate == Untouched:
		return untouched
	case f.Fate == Changing:
		return changing
	case f.Fate == Truncated:
		return truncatedOlder + young
	case f.Fate == Unlinked:
		return unlinkedOlder + young
	case f.Fate == Renamed:
		return renamed
	case f.Compressed:
		return pastCompressed
	}
	return past
}
