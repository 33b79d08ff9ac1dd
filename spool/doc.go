// Package spool keeps payloads that cannot be sent: one whose Put returned
// survives a crash; the oldest comes back first; total size is bounded.
//
// On disk a spool is a folder of segments, framed logs of package durable
// named by their number. A frame is one payload: its meta is all that is known
// of it (route, cover with marks, pieces, checksum, attempt, when it came here),
// its body is the body of the request. The last frame of a segment that was closed
// in peace is a seal. A segment is never written to by a later run, and goes when
// all of its payloads have ended. Where something in it could not be read it is
// moved to the folder damaged/ instead, which is left to people.
//
// # Order of writes
//
// What a crash leaves, step by step. "Kill" is the end of the process, "cut" the
// end of the machine.
//
//	(a) A segment gets its header under a temporary name, is synced, renamed,
//	    and its folder synced; then frames are written to it.
//	    Kill or cut between: an empty segment, or a temporary file. Both go at
//	    the next start.
//	(b) The frames of all Puts that wait are written and synced once; then those
//	    Puts return.
//	    Kill or cut between: any of the frames may be there. Nobody relied on
//	    them; they come back at the next start like the others, since the bytes
//	    are the right ones, and whoever called knows their ids from the journal.
//	(c) Where a write or the sync fails, the frames it was for are written
//	    anew, to another segment, and the old one is never written again.
//	    Kill or cut between, or later: a payload may be there twice. The newer
//	    copy counts.
//	(d) When the last payload of a segment has ended, BeforeUnlink is called (it
//	    syncs the journal, which says how they ended), then the segment is
//	    removed, and at once the folder synced.
//	    Kill or cut between: the segment is there. Payloads that the journal says
//	    ended are not to be sent again: see Held. As long as the segment is there
//	    Ended names them, so that the journal can go on to know.
package spool
