// Package journal remembers what was begun and how it ended; a position is
// known only when everything before it is safe.
//
// On disk a journal is a folder of segments, framed logs of package durable
// named by their number. Each segment opens with a snapshot of the whole state
// and goes on with entries as they happen. The newest segment alone starts the
// agent. The one before it is what is fallen back to, and the others are history
// for audit.
//
// # Order of writes
//
// What a crash leaves, step by step. "Kill" is the end of the process, "cut" the
// end of the machine.
//
//	(a) A quarantine line is synced before its record is covered here.
//	    Kill or cut between: the line is there, the record is read and
//	    quarantined once more. It is never covered without its line.
//	(b) A spool frame is synced before End(Spooled).
//	    Kill or cut between: the frame and a begun batch of one uuid; the frame
//	    wins.
//	(c) Begin returns after the entry went through the page cache; the first
//	    body byte is sent after that; End(Accepted) is written after the answer
//	    was judged.
//	    Kill before Begin: nothing was sent. Kill between Begin and End: the
//	    batch is in Recovery.Begun and is sent again, under its own uuid.
//	    Cut: as a kill at the last sync. A batch whose End was not synced is
//	    sent again under its uuid, one whose Begin was not synced is read again
//	    as if new. Recovery.Problems names the files.
//	(d) Entries are synced once in Options.SyncEvery while the journal grows, at
//	    Sync and at Close. Sync comes before anything is removed elsewhere that
//	    an End made superfluous.
//	    Cut before: what ended since is sent again, and its source is still
//	    there.
//	(e) A segment is written under a temporary name, beside the one in use. Its
//	    snapshot is the state of one moment; it is synced, a piece at a time, and
//	    what was told since is written behind it, and from then on to both
//	    segments before anybody goes on. What is older than the snapshot is durable
//	    in the segment before. Then the new one is synced, renamed, its folder
//	    synced; then it takes over, and only then is the old one closed, and may
//	    an older segment go.
//	    Kill or cut before the rename: the old segment is the newest and whole.
//	    Between the rename and the taking over: either is, since what was told is
//	    in both, and what was synced in both is.
//	    A segment that fails before its name is removed, and the old one written
//	    on. One that may have its name is followed by another before anybody goes
//	    on; so is an old one that fails.
//	    Nobody waits for any of it, unless the segment grows to twice its size
//	    meanwhile.
//	(f) Where there is no segment that can be written on, at a start and after an
//	    error, the next one is made while entries wait, in the same order. What the
//	    one before may have lost, and what waits, is repeated behind its snapshot
//	    and durable before the rename: without the last of these entries the others
//	    would take a newer state back.
//
// A token of Vouch names the run and the number behind the last entry that is durable.
// Each run's snapshots name the runs before it, up to where the next one could read
// what they wrote, and none where anything was unreadable. So no number of a later run
// stands for an entry that was lost. While a segment is made its numbers are higher than
// those of the one in use; tokens have the higher ones.
//
// After a failed write or sync the segment is left alone for good. The next one
// opens with the state as it is in memory, so that nothing depends on what the
// failed one holds. Until one can be written, the state goes on in memory,
// positions go on, and Health says that the bound on duplicates is suspended.
package journal
