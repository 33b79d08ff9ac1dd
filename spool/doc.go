// Package spool keeps payloads that cannot be sent: one whose Put returned
// survives a crash; the oldest comes back first; total size is bounded.
//
// On disk a spool is a folder of segments, framed logs of package durable
// named by their number. A frame is one payload: its meta is all that is known
// of it (route, cover with marks, pieces, checksum, attempt, when it came here),
// its body is the body of the request. The last frame of a segment that was closed
// and not cut off is a seal. A segment is never written to by a later run, and goes when
// all of its payloads have ended. Where something in it could not be read it is
// moved to the folder damaged/ instead, which is left to people and counts for
// max_size.
//
// Beside each segment that is not written any more lies its index, a file of 40
// bytes a payload, and its routes with what their payloads add up to: a start reads
// it and not the metas, and Next reads a few hundred payloads of a route ahead
// from it. It says nothing
// that the segment does not say, so that one that is damaged, missing or of another
// version costs the time to read the segment. If a segment was cut, removed or
// damaged, its index still has what it contained: see Recovery.Missing.
//
// A segment of which less than half still waits, and nothing ended for ten seconds
// or room gets short, is compacted: it and its neighbours of the kind are copied to
// a new one, which takes their place in the order. What waits costs the disk at
// most twice its bytes and one segment.
//
// The folder is locked by the process that has it open, and its segments carry the
// id of the agent it belongs to. A segment gets its name only where no file has it.
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
//	(c) Where a write or the sync fails, the old segment is cut to what was
//	    synced and never written again, and the frames are written anew, to
//	    another one. Where that fails too, or a Put was given up because the disk
//	    did not answer, OnUnwanted tells of the frames that may be on the disk
//	    before the Put returns.
//	    Kill or cut between, or later: a payload may be there twice. The newer
//	    copy counts. One that went another way is there: the journal knows that it
//	    is not to be sent from here.
//	(d) When the last payload of a segment has ended, BeforeUnlink is called (it
//	    syncs the journal, which says how they ended), then the index is removed
//	    and the folder synced, then the segment is, and at once the folder synced.
//	    Kill or cut between: the segment is there, with its index or without.
//	    Payloads that the journal says ended are not to be sent again: see Held.
//	    As long as the segment is there Ended names them, so that the journal can
//	    go on to know. An index without its segment means that somebody else
//	    removed that. So does a number that OnSegments told elsewhere, of which a
//	    start finds nothing: it is told before a Put into a new segment returns, and
//	    left out before BeforeUnlink, when nothing in it is needed any more.
//	    This removal is what frees a full disk, so BeforeUnlink may fail there with
//	    ENOSPC, and the segment is removed all the same. Only a segment of which
//	    something was lost waits for BeforeUnlink: it, or its index, is all that says so.
//	(e) An index is written under a temporary name, synced, renamed, and the folder
//	    synced, when its segment is durable. The rest of a segment that an earlier
//	    run did not close is given back after its index is there. Where it ends
//	    with something unreadable, or before the space it had allocated, it is left
//	    as it is until the first Next or Put, whether anything in it waits or not:
//	    whoever opened the spool compares it with what he knows before, and
//	    BeforeUnlink makes durable what came of that. Of a full disk it takes no
//	    more meanwhile than what was written.
//	    Kill or cut between: the segment is read instead, and says the same again.
//	    Then Vouch is called (it syncs the journal, which was told of every payload
//	    before its Put) and the token it returns is written into its place in the index,
//	    with a checksum of its own, and synced. It is not called for a segment of an
//	    earlier run before Held has gone through that.
//	    Kill or cut between, or a journal that does not know the token, since it was
//	    damaged, cut or begun anew: Held reads all metas of the segment. A token that
//	    is torn counts for none.
//	(f) A compaction writes its segment like any other, seals and syncs it and
//	    writes its index; then the copies count in memory, and the old segments go
//	    by (d). What ended of them in between lies in the new one as well and is
//	    told to be removed only with it.
//	    Kill or cut between: payloads are there twice, in the same form, and one
//	    of the copies counts.
package spool
