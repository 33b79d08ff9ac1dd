package kusto

import (
	"errors"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"time"

	"kusto-agent/internal/kusto/internal/reply"
)

// Error is why a request was not accepted. Its texts are one printable line,
// bounded, and never hold a token. It is not changed once it was returned.
type Error struct {
	Status     int    // HTTP status of the service, or of the authority if it gave no token; 0: no answer
	Code       string // the most telling code found, as the service spells it; empty: none
	Message    string // at most about 1 KiB
	Permanent  *bool  // what the service said of it; nil: nothing
	ActivityID string
	RetryAfter time.Duration
	Hint       string // what to do about it
	Partial    bool   // it came after rows of a result, which are not all
	NoToken    bool   // there was none to be had, so that nothing was asked

	About  reply.Subject
	Own    bool // the service's own words, not those of something between
	Away   bool // a query was answered by something between, or by a service that is out of order
	Passes bool // the authority said that it goes away
	Timely bool // a wrong clock may be why
	Cause  error
}

// Error returns status, code, message and activity id on one line, without the hint.
func (e *Error) Error() string {
	var parts []string
	if e.Status != 0 {
		parts = append(parts, "status "+strconv.Itoa(e.Status))
	}
	if e.Code != "" && !opens(e.Message, e.Code) {
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

// opens reports whether a message begins with its code.
func opens(message, code string) bool {
	return len(message) >= len(code) && strings.EqualFold(message[:len(code)], code) &&
		(len(message) == len(code) || message[len(code)] == ':')
}

// Unwrap is the error of the network below, where there was one.
func (e *Error) Unwrap() error { return e.Cause }

// Empty reports whether the service found no usable record in the whole body. Bisecting the batch to
// find the bad record is then useless, since all are bad.
func (e *Error) Empty() bool { return e.About == reply.EmptyStream }

// Missing reports whether a database, a table or a mapping was not found.
func (e *Error) Missing() bool { return e.About == reply.Missing }

// Denied reports whether the identity is known and has no role for what it asked.
func (e *Error) Denied() bool { return e.About == reply.Denied || e.Status == http.StatusForbidden }

// TokenFault is what an error says of the token of a request.
type TokenFault uint8

// The faults of a token.
const (
	// TokenFine: the error is about something else.
	TokenFine TokenFault = iota
	// TokenLater: none is to be had for now, since the authority is out of reach or
	// busy. RetryAfter says when it is asked again, so that nothing is gained by
	// asking for a token before; it is 15 s at most unless the authority asked for
	// more, and a minute then.
	TokenLater
	// TokenRefused: the authority says that the credentials are wrong, or what is on
	// this machine is none. Nothing but a person changes that. It is asked again
	// after half a minute, or as soon as a file it reads has changed.
	TokenRefused
	// TokenRejected: the cluster answered 401. The next request has a fresh token,
	// if there was none within half a minute.
	TokenRejected
)

// Token returns what the error says about the token of the request. TokenLater means that there is
// none at present, TokenRefused that the authority refused the credentials or that those on this
// machine cannot be used. TokenRejected means that the cluster refused the token. Otherwise, and if
// e is nil, it is TokenFine.
func (e *Error) Token() TokenFault {
	switch {
	case e == nil:
		return TokenFine
	case !e.NoToken && e.Status == http.StatusUnauthorized:
		return TokenRejected
	case !e.NoToken:
		return TokenFine
	case e.Status == 0 && !e.Passes: // no answer, or nothing was asked, as a file cannot be read
		if wayFault(e) {
			return TokenLater
		}
		return TokenRefused
	case e.Passes, e.Code == "", e.Status >= http.StatusInternalServerError, e.Status == http.StatusTooManyRequests,
		e.Status == http.StatusRequestTimeout, e.Status == http.StatusGone:
		return TokenLater // an answer without a code is not from the authority
	}
	return TokenRefused
}

// wayFault reports whether a request failed because nothing answered: a fault of the network, not
// of the service. It is false for a secret file that cannot be read and for a result that ended
// early (Partial).
func wayFault(e *Error) bool {
	var file *fs.PathError // the file of a secret cannot be read, so that nothing was sent
	return e.Status == 0 && e.Code == "" && !e.Partial && e.Cause != nil && !errors.As(e.Cause, &file)
}

// Refused reports whether the identity was refused: its token, its role in the cluster, or its
// credentials on this machine. Only a person can change that, so that a retry is useless.
func (e *Error) Refused() bool {
	if e.NoToken {
		return e.Token() == TokenRefused
	}
	return e.Status == http.StatusUnauthorized || e.Denied()
}

// Unreached reports whether the service was not reached: there was no answer, a proxy or a service
// that is out of order answered, or the authority for tokens is out of reach. It is false for nil and
// for errors that are not an *Error.
func Unreached(err error) bool {
	var e *Error
	switch {
	case !errors.As(err, &e):
		return false
	case e.NoToken:
		return e.Token() == TokenLater
	case e.Refused():
		return false
	}
	return e.Away || wayFault(e)
}

// StreamingOff reports whether streaming is off: at the cluster, or for the table alone.
func (e *Error) StreamingOff() (cluster, table bool) {
	return e.About == reply.ClusterOff, e.About == reply.PolicyOff
}
