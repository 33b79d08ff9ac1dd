// Package recovery promises that nothing is forgotten and nothing given up that is
// still there: every batch an earlier run began and every payload that left the spool
// unsent is sent again, kept, or read anew by the settings of now, until it has ended or
// its source was looked for and is not there.
//
// What becomes of each is decided by two tables, which are pure functions: JudgeFrame for
// what lies in the spool at a start, and Judge for what has to be read from its files.
// They stand in docs/design.md, and a test holds both together. The rest of the package
// looks, and carries out what the tables say: one batch at a time, with its memory
// reserved, never on the goroutine of whoever found it.
//
// # Order of writes
//
//	(a) A batch that is sent again is still begun. Kill: it is sent again, named.
//	(b) What replaces a begun batch is begun in the same entry that ends it.
//	    Kill before: the batch is begun; after: what replaces it is.
//	(c) A payload that left the spool is begun nowhere: its ranges are safe, and a
//	    begin over safe ranges is dropped at a start. Until all that replaces it has
//	    ended, or is in the spool, the journal says that it is in the spool and was
//	    tried. Kill: the next start misses it there and reads it again.
//	(d) Of one that is sent from memory, since the spool takes nothing, the end is told
//	    first as that of a frame, then as that of the request: a frame that comes back
//	    after a write that seemed to fail counts for nothing. Where it comes to rest in
//	    the spool that is told first, then the end of the one whose place it takes.
//	    Kill between: the batch is begun, and its end as a frame ends it.
package recovery
