// Package simulation promises that sender, spool, journal and recovery keep their word
// together: what was handed over is stored, in quarantine, counted as lost or waits, each
// double has a name, the books close, memory stays within its bound, and once the faults
// are over all that can be delivered is.
//
// It has no code but its tests. They run the real rooms in a bubble of testing/synctest on
// the disk of package faultfs, against a service and files that are scripted. A history is
// drawn from one seed: files grow, and meanwhile happen, in any order,
//
//   - bodies that get a 500, a reset, a time-out, a 403 or a proxy's page for ever, and
//     records that the service refuses; answers that are lost; slow answers
//   - a cluster out of reach, 429 for one table with Retry-After, a table that is not
//     there, 401 before and after the body was read, no token to be had
//   - a disk that is full, fails a write, half a write or a sync, cannot be read, or
//     stalls for longer than anybody waits and then succeeds
//   - a kill at any operation of the disk, before the service stores, after it has stored;
//     a power cut at each of these; a stop with any patience, and a start
//   - a segment of the spool, or its index, or both, removed, cut or with a bit flipped
//   - files that are gone, may not be read or answer slowly; an input that is not
//     configured any more, and back; an input whose records have another shape
//   - a cluster that is not configured any more, other limits, another patience, a spool of
//     another size or none, one that drops the oldest or what is too old, a full quarantine,
//     a wall clock that jumps
//
// Then all faults end but for the bodies, later for these too.
//
// # What is allowed
//
// A record may be stored twice without a name in the log only where the journal has another
// attempt of the same batch, or where its process ended with entries of the journal that
// were not on the disk: a power cut, or a disk that did not take them. That is so of an
// answer that came after the last sync began: the journal is told of it then, not when the
// service stored the records. Records whose file is there may be counted as lost only where
// nobody can know their ranges: see world.nameless. What the spool drops is given up, whether
// it says so by ranges or, where it cannot read these at that moment, by ids.
//
// # What is left out
//
//   - The spool can be read while a process starts, and its indexes always: what Held cannot
//     read for a moment comes into no books.
//   - An input that is renamed is one that is not configured any more, and another one.
//
// # Guards
//
// Each of these was taken away once, and seeds 1 to 2,000 showed it:
//
//	an end in the journal beats a frame of the spool
//	a begin is in the journal before the request
//	halves of a batch whose outcome is unknown are named
//	what the stop broke off is named
//	what an earlier run began and is sent again is named
//	what cannot be read just now is tried again
//	two probes in a row are not the same payload
//	a payload whose frame is damaged is read again
//	a payload that goes back to the spool is counted there
//	a half in the spool says what it is a half of
//	a payload is synced before its Put returns
//	what the journal says is in the spool and is not there is looked for
//
// These need more than 2,000 histories, and have tests of their own in their rooms: what
// shows that something was lost stays until that is durable, a payload is removed with its
// last frame, what is repeated behind the snapshot of a journal's segment is durable before
// its name.
//
// # Running it
//
// The ordinary form plays seeds 1 to 2,000, about 3 ms of a core each; with the race
// detector, or -short, it plays 200. KUSTO_AGENT_SEEDS says how many are to be played from
// KUSTO_AGENT_FIRST on, KUSTO_AGENT_LONG=1 plays 200,000, and KUSTO_AGENT_SEED plays one and
// prints what happened. Goroutines run in the order that the scheduler likes, so that a seed
// that failed may have to be played some times; KUSTO_AGENT_TRACE=1 keeps the trace of each.
// A seed stands for a history as long as the simulation stays as it is: what one has found
// is kept as a test beside the code that was mended.
package simulation
