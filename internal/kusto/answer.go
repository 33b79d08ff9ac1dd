package kusto

import "time"

// Ingest is one request to store a body. Body stays the caller's: it is only
// read, and no longer once Client.Ingest has returned.
type Ingest struct {
	Database string
	Table    string
	Format   string // one of formats, in any case
	Mapping  string // name of a mapping; empty: none
	Body     []byte
	Gzip     bool // Body is gzip

	// RequestID names this attempt, never another one: x-ms-client-request-id.
	RequestID string
}

// Verdict is what an answer, or its absence, means for the payload.
type Verdict uint8

// The verdicts. Only Unknown can lead to a record stored twice.
const (
	Accepted  Verdict = iota + 1 // the service answered 200 and the answer is to be trusted
	NotSent                      // the request did not leave whole: no outcome, try again
	Retry                        // refused for a passing reason: try the same bytes again
	Throttled                    // refused for load: try the same bytes again, and ask less
	Auth                         // no token was to be had, or it was refused
	TooLarge                     // refused for its size: split it
	Hold                         // refused for table, mapping, policy, permission or address: the data is sound, keep it
	BadData                      // refused for what the body holds: isolate the bad record
	Unknown                      // sent whole, and no trustworthy answer came: it may be stored
)

var verdicts = [...]string{"none", "accepted", "not sent", "retry", "throttled", "auth", "too large", "hold", "bad data", "unknown"}

// String returns the name of the verdict for logs and reports; "none" for an unknown value.
func (v Verdict) String() string {
	if int(v) < len(verdicts) {
		return verdicts[v]
	}
	return "none"
}

// Answer is the result of one request.
type Answer struct {
	Verdict Verdict
	// Status is the HTTP status of the answer, 0 where none came. A token that
	// could not be had leaves it 0 too.
	Status int
	// Err says why; nil exactly when the verdict is Accepted.
	Err *Error
	// RetryAfter is how long the service asked to wait, at most
	// MaxRetryAfter; 0: it did not say.
	RetryAfter time.Duration
	// ActivityID is the name support asks for: x-ms-activity-id.
	ActivityID string
	// Wrote says that the whole body was handed to the connection.
	Wrote bool
	// UpdatePolicy is not empty where the records were stored and an update
	// policy of the table failed on them. Sending again would double them.
	UpdatePolicy string
	// Hint says what a person can do, with the command to paste. Every hold,
	// refused token and request not sent has one.
	Hint string
}

// Token is what the answer says of the token. With the verdict Auth it is never
// TokenFine, but where Err is none of a token source of this package.
func (a Answer) Token() TokenFault { return a.Err.Token() }
