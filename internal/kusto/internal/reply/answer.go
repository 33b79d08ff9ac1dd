package reply

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// RetryAfter returns the delay that the header Retry-After asks for, in seconds or as a date, at most
// MaxRetryAfter; 0 if there is none, it cannot be read or it is past.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(value, 10, 63); err == nil {
		return time.Duration(min(seconds, uint64(MaxRetryAfter/time.Second))) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return max(0, min(at.Sub(now), MaxRetryAfter))
}

// Words returns the message of an error: first why, the reason of the agent itself, unless it is
// nil. Then follows what the answer says: where it redirects to, the message in its body, or else
// its header Www-Authenticate or the name of its status.
func (r *Reply) Words(status int, h http.Header, why error) string {
	var parts []string
	if why != nil {
		parts = append(parts, why.Error())
	}
	switch theirs := strings.TrimSpace(r.Message); {
	case status >= 300 && status < 400:
		parts = append(parts, "redirected to "+strconv.Quote(h.Get("Location")))
	case theirs != "":
		parts = append(parts, theirs)
	case h.Get("Www-Authenticate") != "":
		parts = append(parts, h.Get("Www-Authenticate"))
	case why == nil:
		parts = append(parts, http.StatusText(status))
	}
	return strings.Join(parts, ": ")
}

// MaxAnswer is how much of an answer is read and judged.
const MaxAnswer = 64 << 10

// MaxRetryAfter is the most that a Retry-After header counts for.
const MaxRetryAfter = 5 * time.Minute

// IsAway reports whether an answer with this status came from a proxy or web server in place of the
// service, or from a service that is out of order. A 404 counts unless the body is in the form of
// the service (r.Own).
func (r *Reply) IsAway(status int) bool {
	switch status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
		http.StatusRequestTimeout, http.StatusProxyAuthRequired:
		return true
	case http.StatusNotFound:
		return !r.Own
	}
	return r.Page || status >= 300 && status < 400
}

var refusedPrincipal = regexp.MustCompile(`'(aad(?:app|user|group)=[^'\n]{1,200})'`)

// Principal returns the identity that the service refused, in the form in which Kusto commands take
// it, such as "aadapp=…". If the reply does not name it, the result is a placeholder to fill in.
func Principal(r *Reply) string {
	if m := refusedPrincipal.FindStringSubmatch(r.Texts); m != nil {
		return Printable(m[1], 256)
	}
	return "aadapp=<client id>;<tenant>"
}
