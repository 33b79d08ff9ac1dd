package kusto

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Error is why a request was not accepted. Its texts are one printable line,
// bounded, and never hold a token. It is not changed once it was returned.
type Error struct {
	Status     int    // of the answer that told it, of the authority where it gave no token; 0: none came
	Code       string // the most telling code found, as the service spells it; empty: none
	Message    string // at most about 1 KiB
	Permanent  *bool  // what the service said of it; nil: nothing
	ActivityID string
	RetryAfter time.Duration
	Hint       string // what to do about it
	Partial    bool   // it came after rows of a result, which are not all
	NoToken    bool   // there was none to be had, so that nothing was asked

	about  subject
	own    bool // the service's own words, not those of something between
	page   bool // a web page answered, of something between
	timely bool // a wrong clock may be why
	cause  error
}

// Error is the status, the code and the message, without the hint.
func (e *Error) Error() string {
	var parts []string
	if e.Status != 0 {
		parts = append(parts, "status "+strconv.Itoa(e.Status))
	}
	if e.Code != "" {
		parts = append(parts, e.Code)
	}
	if e.Message != "" {
		parts = append(parts, e.Message)
	}
	s := strings.Join(parts, ": ")
	if e.ActivityID != "" {
		s += " (activity " + e.ActivityID + ")"
	}
	return s
}

// Unwrap is the error of the network below, where there was one.
func (e *Error) Unwrap() error { return e.cause }

// Empty says that the service found no usable record at all in the body, so
// that looking for the bad one is no use: all are.
func (e *Error) Empty() bool { return e.about == emptyStream }

// Missing says that a database, a table or a mapping was not found.
func (e *Error) Missing() bool { return e.about == missing }

// Denied says that the identity is known and has no role for what it asked.
func (e *Error) Denied() bool { return e.about == denied || e.Status == http.StatusForbidden }

// Refused says that it is about who asks: a token or a role was refused, or what is
// on this machine gives no token. Nothing but a person changes that.
func (e *Error) Refused() bool {
	return e.Status == http.StatusUnauthorized || e.Denied() || e.NoToken && !Unreached(e)
}

// StreamingOff says that streaming is off: at the cluster, or for the table alone.
func (e *Error) StreamingOff() (cluster, table bool) {
	return e.about == clusterOff, e.about == policyOff
}
