// Package delivery promises to decide what becomes of every payload, route and
// cluster in one place: an event goes in, actions come out, and nothing else
// happens. It does no I/O, takes no lock, starts no goroutine and asks no clock; the
// time comes with each event.
//
// A payload is in one stage, and its bytes are in one place, see Stage and Place.
// The shell, package sender, carries the actions out and reports each with the
// event named at the action. A ticket is not a payload: it is a slot that is to be
// filled out of the spool.
//
// # Who waits for what
//
//   - A payload that fails has a schedule of its own, from retry.initial to
//     retry.max. A failure is its own, and says nothing of its route, if the route
//     accepted another payload since the request began or since the payload failed
//     before. Payloads that fail alone use no more than a sixteenth of the slots
//     over time, more only as long as they are accepted after all. One that came
//     from the spool goes back after each failure; one in memory goes there after
//     three attempts and patience.
//   - A payload that is refused for its size has the next ones of its route be smaller:
//     those that are as large are halved before they are asked for, unless a request was
//     made of them before, and Largest tells whoever makes new ones. After a quarter of
//     an hour, after an acceptance that shows otherwise and after a Configure one of full
//     size is asked for again.
//   - A route is down after patience without an acceptance that was wanted, and held
//     by a refusal that a person has to mend. It is then probed with one request at
//     a time, by turns with the newest payload in hand and with those of the spool,
//     each of which comes once in a round. Retry-After holds the route that was told
//     so, for MaxPause at most.
//   - A cluster is down and held in the same way. It pauses when routes that differ
//     are throttled. A refused token is renewed once for all requests that had it.
//   - Routes take turns for the slots of their cluster, and what is in hand takes
//     turns with what is in the spool. To find the next request costs the same
//     however many routes there are, but for the order of the alarms, which is
//     logarithmic.
//
// # Table
//
// Stage, event, next stage and actions of a payload:
//
//	new | Take | sending | Request
//	new | Take, durable | holding | Spill (stay)
//	new | Take, larger than the service takes | bisecting | Divide
//	new | Fetched, larger than the service takes | bisecting | Divide
//	new | Fetched | sending | Request
//	new | Fetched, a probe of this round before, others wait | returning | Return, Fetch
//	sending | Answered: accepted | ending | End accepted
//	sending | Answered: retry, not sent, unknown | queued, at its own time | -
//	sending | the same, in the spool | returning | Return
//	sending | the same, in memory, third attempt after patience | spilling | FailingAlone, Spill
//	sending | Answered: throttled | queued, its route paused | Retrying
//	sending | Answered: auth, 401 | sending | Request
//	sending | the same with a fresh token | queued, its cluster held | ClusterHeld
//	sending | Answered: auth, no token now | queued, at its own time | Retrying
//	sending | Answered: hold | queued, its route held | RouteHeld
//	sending | Answered: hold, while others are accepted | queued, at its own time | -
//	sending | Answered: bad data, one record | quarantining | Quarantine
//	sending | Answered: bad data, too large | bisecting | Divide
//	sending | BrokenOff | queued | -
//	bisecting | Divided, before it was asked for | gone; its halves sending | Request, Request
//	bisecting | NotDivided, before it was asked for | sending | Request
//	bisecting | Divided | gone; its halves sending | Searching, Request, Request
//	bisecting | the same, an outcome unknown before | gone; its halves sending | Searching, UnknownReplaced, RouteRecovered, Request, Request
//	bisecting | the same, tried by an earlier run | gone; its halves sending | Searching, UnknownReplaced, Request, Request
//	bisecting | NotDivided: whole | quarantining | Quarantine
//	bisecting | NotDivided: the spool is full | returning | Return
//	bisecting | NotDivided: failed | queued, its route held | RouteHeld
//	quarantining | Quarantined | ending | End quarantined
//	quarantining | NotQuarantined, several records | bisecting | Divide
//	quarantining | NotQuarantined, one record | refused, its route held | RouteHeld
//	refused | its turn | quarantining | Quarantine
//	queued | its route or cluster goes down | spilling | ClusterDown, Spill
//	spilling | Spilled: kept | gone, it rests in the spool | -
//	spilling | Spilled: no room | queued, in memory | -
//	spilling | Spilled: too large | queued, oversized | -
//	spilling | Spilled: doubtful | queued, perhaps in the spool | -
//	holding | Spilled: kept | sending, spooled | Request
//	holding | the same, its route is down | queued, spooled: the next probe | -
//	holding | Spilled: no room, doubtful | sending, from memory | Request
//	returning | Returned | gone, it rests in the spool | -
//	queued | Keep, in memory | spilling | UnknownAtStop, Spill
//	queued | Keep, in the spool | returning | UnknownAtStop, Return
//	ending | Ended | gone | -
package delivery
