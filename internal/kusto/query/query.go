// Package query runs queries and management commands. A result is read as it comes, one
// row at a time, in bounded memory; its end is the success of the service or an error, so
// that no part of a result passes for the whole.
package query

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/internal/reply"
	"kusto-agent/internal/kusto/wire"
)

// Call is one of the addresses that take text.
type Call uint8

// The calls. Management commands are answered in the form of version 1.
const (
	QueryV2 Call = iota // POST or GET {cluster}/v2/rest/query
	QueryV1             // POST or GET {cluster}/v1/rest/query
	Mgmt                // POST {cluster}/v1/rest/mgmt
)

var callPaths = [...]string{QueryV2: "/v2/rest/query", QueryV1: "/v1/rest/query", Mgmt: "/v1/rest/mgmt"}

// Query is a question or a command.
type Query struct {
	Call     Call
	Database string // empty: the service's default, which few commands can do with
	Text     string // KQL, or a management command

	Options    map[string]any // by the names of the documentation; unknown ones are ignored by the service
	Parameters []Parameter    // named in the text, which is made to declare them if it does not

	// Timeout is how long the service may work on it, at most MaxTimeout; 0 for
	// what Options say, or else its own default (4 minutes for a query, 10 for a
	// command).
	Timeout time.Duration
	// ReadOnly has the service refuse whatever would change something.
	ReadOnly bool
	// RequestID names the request: for logs of the service, and to cancel it.
	// Empty: one is made. A request that is made again has another, with its
	// number behind it; when Query returns it is that of the last.
	RequestID string
	// App and User are sent in the place of those of Options; empty: those.
	App, User string

	// OnWait, if it is not nil, has a refusal that names a Retry-After waited out
	// and the request made again: at most 3 times, for at most 60 s each, if the
	// timeout allows it, and only where nothing was begun. It is called before
	// each wait, with the refusal.
	OnWait func(why *kusto.Error, wait time.Duration)

	// JSONParameters sends parameters as values of JSON: a long, int or real as a
	// number, a bool as true or false, a string as it is. Other types, null, and
	// numbers that JSON does not have, are literals of KQL all the same.
	JSONParameters bool

	Get            bool // ask by GET, with the text in the URL; not for Mgmt
	TextProperties bool // send the properties as JSON in a string, as older clients do
}

// MaxTimeout is the most that the service works on a request.
const MaxTimeout = time.Hour

// The times the service gives a request that does not ask for another, and what is
// added before the client gives up by itself.
const (
	queryTimeout = 4 * time.Minute
	mgmtTimeout  = 10 * time.Minute
	timeoutGrace = 30 * time.Second
	// askedGrace is timeoutGrace where the caller chose the time, and waits for it.
	askedGrace = 2 * time.Second
)

// Waiting for a service that asks for it.
const (
	mostWaits   = 3
	longestWait = time.Minute
)

// Client makes queries and management commands, and all that a client of the wire does.
type Client struct{ *wire.Client }

// Query makes a request and passes the rows of the answer to r as they are read, one at a time. It
// returns nil only if the answer was read to its end and every row was passed on. An error of the
// service is a *kusto.Error with a hint; its field Partial is set if it came after rows. One row
// may take 60 MiB, and rows that have to be kept until a table is complete 64 MiB; more is an
// error.
//
// The first 401 is answered with a fresh token. The request is cancelled on the service too when
// ctx ends, or when no end came 2 s after q.Timeout (30 s after the default of the service). The
// cancellation takes at most 2 s; if it fails, the error is an *UnstoppedError.
func (c *Client) Query(ctx context.Context, q *Query, r Reader) error {
	if q.RequestID == "" {
		q.RequestID = newRequestID(q.Call)
	}
	limit, err := q.timeout()
	if err != nil {
		return err
	}
	if q.Timeout > 0 {
		limit += askedGrace
	} else {
		limit += timeoutGrace
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err = c.attempts(bounded, q, r)
	if err != nil && bounded.Err() != nil {
		if why := c.cancelQuery(q); why != nil {
			return &UnstoppedError{err, why}
		}
	}
	return err
}

// attempts makes the request. It repeats the request once after a 401, with a fresh token, and
// after refusals for load, up to mostWaits times, if the deadline of ctx allows the wait. Each
// repetition has its own request id; q.RequestID is left as that of the last.
func (c *Client) attempts(ctx context.Context, q *Query, r Reader) error {
	id, refreshed := q.RequestID, false
	for waits, n := 0, 2; ; n++ {
		err := c.query(ctx, q, r)
		var e *kusto.Error
		if !errors.As(err, &e) || e.Partial || e.NoToken {
			return err
		}
		switch wait := q.waits(e); {
		case e.Status == http.StatusUnauthorized && !refreshed:
			refreshed = true
		case wait > 0 && waits < mostWaits && allows(ctx, wait):
			waits++
			q.OnWait(e, wait)
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return err
			}
		default:
			return err
		}
		q.RequestID = id + ";" + strconv.Itoa(n)
	}
}

// waits returns how long to wait before a refused request is repeated; 0 means that it is not
// repeated. A command is repeated only if the service itself says that it refused it for load, so
// that it cannot run twice.
func (q *Query) waits(e *kusto.Error) time.Duration {
	switch {
	case q.OnWait == nil || e.RetryAfter > longestWait:
		return 0
	case q.Call == Mgmt && (!e.Own || e.About != reply.Load):
		return 0
	case e.Status == http.StatusTooManyRequests, e.Status == http.StatusServiceUnavailable:
		return e.RetryAfter
	}
	return 0
}

// allows reports whether the deadline of ctx is later than wait from now.
func allows(ctx context.Context, wait time.Duration) bool {
	end, ends := ctx.Deadline()
	return !ends || time.Until(end) > wait
}

// timeout returns how long the service may work on the request: q.Timeout, or else the option
// servertimeout, or else the default of the service. With the option norequesttimeout it is
// MaxTimeout. It fails if q.Timeout is out of range.
func (q *Query) timeout() (time.Duration, error) {
	limit, limited := q.Options["servertimeout"]
	switch {
	case q.Timeout < 0 || q.Timeout > MaxTimeout:
		return 0, fmt.Errorf("timeout %v: want at most %v, which is what the service allows", q.Timeout, MaxTimeout)
	case strings.EqualFold(fmt.Sprint(q.Options["norequesttimeout"]), "true"):
		return MaxTimeout, nil
	case q.Timeout > 0:
		return q.Timeout, nil
	case limited:
		return optionTimeout(fmt.Sprint(limit)), nil
	case q.Call == Mgmt:
		return mgmtTimeout, nil
	}
	return queryTimeout, nil
}

// clockTime is a timespan of less than a day.
var clockTime = regexp.MustCompile(`^(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?$`)

// optionTimeout returns the duration of a timespan such as 00:05:00 or 5m, at most MaxTimeout. A text
// in another form counts as MaxTimeout: the service decides what it means.
func optionTimeout(text string) time.Duration {
	if m := clockTime.FindStringSubmatch(text); m != nil {
		text = m[1] + "h" + m[2] + "m" + cmp.Or(m[3], "0") + "s"
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return min(d, MaxTimeout)
	}
	return MaxTimeout
}

// query makes one HTTP request for q and passes the tables and rows of its answer to r as they are
// read. An error of the service or the connection is a *kusto.Error; an error of r is returned as
// it is.
func (c *Client) query(ctx context.Context, q *Query, r Reader) error {
	req, body, err := c.queryRequest(ctx, q)
	if err != nil {
		return err
	}
	bearer, err := c.Authorize(req)
	if err != nil {
		return wire.Unsent(kusto.Auth, err, "check the keys under auth").Err
	}
	resp, up, err := c.Send(req, body)
	if err != nil {
		err = wire.NoAnswer(ctx, err, bearer)
		var e *kusto.Error
		if up.End() && ctx.Err() == nil && errors.As(err, &e) { // the whole request was sent
			e.Hint = lostHint(q.Call)
		}
		return err
	}
	defer resp.Body.Close() // closes the connection too, if there is more to come
	defer up.End()
	if resp.StatusCode != http.StatusOK {
		e := refusal(resp, q, bearer)
		if e.Status == http.StatusUnauthorized {
			e = c.Refused(bearer, e)
		}
		return e
	}
	plain, err := decoded(resp)
	if err == nil {
		err = readResult(plain, q, r)
	} else {
		err = shapeError(err)
	}
	return resultError(ctx, err, resp, q, bearer)
}

// queryRequest returns the HTTP request for q without its token, and its body; the body is nil for
// a GET. It fails for a request id, name or parameter that cannot be sent.
func (c *Client) queryRequest(ctx context.Context, q *Query) (*http.Request, []byte, error) {
	text, properties, err := q.written()
	if err != nil {
		return nil, nil, err
	}
	if strings.ContainsFunc(q.RequestID, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, nil, fmt.Errorf("request id %s: want ASCII without spaces", reply.QuoteName(q.RequestID))
	}
	req := c.Request(ctx, callPaths[q.Call], callPaths[q.Call], q.RequestID)
	req.Header.Del("Expect") // set only for the large bodies of ingestion
	req.Header.Set("Accept-Encoding", "gzip, deflate")
	if err := wire.SetNames(req.Header, q.App, q.User); err != nil {
		return nil, nil, err
	}
	if q.ReadOnly {
		req.Header.Set("X-Ms-Readonly", "true")
	}
	if q.Get {
		if q.Call == Mgmt {
			return nil, nil, errors.New("a management command is sent by POST alone")
		}
		in := url.Values{"csl": {text}, "properties": {string(properties)}}
		if q.Database != "" {
			in.Set("db", q.Database)
		}
		req.Method, req.URL.RawQuery = http.MethodGet, strings.ReplaceAll(in.Encode(), "+", "%20")
		return req, nil, nil
	}
	body, err := q.body(text, properties)
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	req.ContentLength = int64(len(body))
	return req, body, nil
}

// written returns the text to send, with a declaration of its parameters, and the request
// properties as JSON: the options, the request id and the values of the parameters.
func (q *Query) written() (text string, properties []byte, err error) {
	options := make(map[string]any)
	maps.Copy(options, q.Options)
	if q.Timeout > 0 {
		options["servertimeout"] = timespan(q.Timeout)
	}
	if q.ReadOnly {
		options["request_readonly"] = true
	}
	text = q.Text
	if q.Call == Mgmt {
		text = uncommented(text) // the service recognizes a command by its first character, a dot
	}
	if text, err = declared(text, q.Parameters); err != nil {
		return "", nil, err
	}
	doc := map[string]any{"Options": options, "ClientRequestId": q.RequestID}
	if len(q.Parameters) > 0 {
		values := make(map[string]any)
		for _, p := range q.Parameters {
			if values[p.Name], err = p.sent(q.JSONParameters); err != nil {
				return "", nil, err
			}
		}
		doc["Parameters"] = values
	}
	properties, err = marshal(doc)
	return text, properties, err
}

// IsCommand reports whether a text is a management command: its first character after space and
// comment lines is a dot.
func IsCommand(text string) bool { return strings.HasPrefix(uncommented(text), ".") }

// uncommented returns a text without the space and the comment lines at its beginning.
func uncommented(text string) string {
	for {
		text = strings.TrimLeftFunc(text, func(r rune) bool { return unicode.IsSpace(r) || r == '\ufeff' })
		if !strings.HasPrefix(text, "//") {
			return text
		}
		_, text, _ = strings.Cut(text, "\n")
	}
}

// body returns the JSON document that is posted: database, text, and properties, which are JSON
// already. With q.TextProperties the properties are a string that holds JSON.
func (q *Query) body(text string, properties []byte) ([]byte, error) {
	doc := struct {
		Database   string `json:"db,omitempty"`
		Text       string `json:"csl"`
		Properties any    `json:"properties"`
	}{q.Database, text, json.RawMessage(properties)}
	if q.TextProperties {
		doc.Properties = string(properties)
	}
	return marshal(doc)
}

// marshal returns v as JSON, in which <, > and & are not escaped.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("write the request: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// timespan returns a duration in the form of KQL, d.hh:mm:ss.fffffff, without the parts that are zero
// at either end.
func timespan(d time.Duration) string {
	sign := ""
	if d < 0 {
		sign, d = "-", -d
	}
	days, rest := d/(24*time.Hour), d%(24*time.Hour)
	s := fmt.Sprintf("%02d:%02d:%02d", rest/time.Hour, rest/time.Minute%60, rest/time.Second%60)
	if ticks := rest % time.Second / 100; ticks > 0 {
		s += fmt.Sprintf(".%07d", ticks)
	}
	if days > 0 {
		s = fmt.Sprintf("%d.%s", days, s)
	}
	return sign + s
}
