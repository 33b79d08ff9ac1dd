package kusto

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
	"strings"
	"time"
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
	// Empty: one is made.
	RequestID string

	// Progressive hands on the rows of progressive tables as they come, and says
	// with Reader.Replace when they are void. Else such a table is held, up to 64
	// MiB, until it is complete.
	Progressive bool

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
)

// Query makes a request and hands what it answers to r as it comes: what is in
// hand at a time is a row. An error of the service is an *Error with a hint, also
// one that came after rows, in an answer that began well: Partial then says so.
// The first 401 is answered with a fresh token. When ctx ends the service is told
// to stop too, unless it has answered; if it could not be told, the error is an
// *UnstoppedError.
func (c *Client) Query(ctx context.Context, q *Query, r Reader) error {
	if q.RequestID == "" {
		q.RequestID = newRequestID(q.Call)
	}
	limit, err := q.timeout()
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, limit+timeoutGrace)
	defer cancel()
	for again := false; ; again = true {
		err = c.query(bounded, q, r)
		var e *Error
		if again || !errors.As(err, &e) || e.Status != http.StatusUnauthorized || e.Partial {
			break
		}
	}
	if err != nil && bounded.Err() != nil {
		if why := c.cancelQuery(q); why != nil {
			return &UnstoppedError{err, why}
		}
	}
	return err
}

// timeout is how long the request may take, by the service or by what is asked.
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

// optionTimeout is how long a timespan is, up to the most there is; so long is also
// one that is written in another way, for the service to judge.
func optionTimeout(text string) time.Duration {
	if m := clockTime.FindStringSubmatch(text); m != nil {
		text = m[1] + "h" + m[2] + "m" + cmp.Or(m[3], "0") + "s"
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return min(d, MaxTimeout)
	}
	return MaxTimeout
}

// query makes one attempt.
func (c *Client) query(ctx context.Context, q *Query, r Reader) error {
	req, body, err := c.queryRequest(ctx, q)
	if err != nil {
		return err
	}
	bearer, err := c.bearer(ctx, req.URL)
	if err != nil {
		return unsent(Auth, err, "check the keys under auth").Err
	}
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	resp, err := c.conns.RoundTrip(req)
	if err != nil {
		return c.noAnswer(ctx, err, bearer)
	}
	defer resp.Body.Close() // closes the connection too, if there is more to come
	defer body.release()
	if resp.StatusCode != http.StatusOK {
		e := refusal(resp, q, bearer)
		if e.Status == http.StatusUnauthorized {
			e = c.conns.clock.blame(e).(*Error)
			c.auth.Invalidate(bearer, e)
		}
		return e
	}
	plain, err := decoded(resp)
	if err == nil {
		err = readResult(plain, q, r)
	} else {
		err = shapeError(err)
	}
	return c.broken(ctx, err, resp, q, bearer)
}

// queryRequest builds everything but the token.
func (c *Client) queryRequest(ctx context.Context, q *Query) (*http.Request, *upload, error) {
	text, properties, err := q.written()
	if err != nil {
		return nil, nil, err
	}
	if strings.ContainsFunc(q.RequestID, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, nil, fmt.Errorf("request id %s: want ASCII without spaces", quoteName(q.RequestID))
	}
	u := *c.base
	u.Path, u.RawPath = strings.TrimRight(c.base.Path, "/")+callPaths[q.Call], ""
	if escaped := strings.TrimRight(c.base.EscapedPath(), "/") + callPaths[q.Call]; escaped != u.Path {
		u.RawPath = escaped
	}
	req := (&http.Request{
		Method: http.MethodPost, URL: &u, Host: u.Host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: c.headers.Clone(),
	}).WithContext(ctx)
	req.Header.Del("Expect") // is for bodies of data
	req.Header.Set("Accept-Encoding", "gzip, deflate")
	req.Header.Set(headerRequest, q.RequestID)
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
		req.Method, u.RawQuery = http.MethodGet, strings.ReplaceAll(in.Encode(), "+", "%20")
		return req, &upload{}, nil
	}
	body, err := q.body(text, properties)
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	up := &upload{rest: body}
	req.Body, req.ContentLength = up, int64(len(body))
	return req, up, nil
}

// written is the text with its parameters declared, and the properties as JSON.
func (q *Query) written() (text string, properties []byte, err error) {
	options := maps.Clone(q.Options)
	if options == nil {
		options = make(map[string]any)
	}
	if q.Timeout > 0 {
		options["servertimeout"] = timespan(q.Timeout)
	}
	if q.ReadOnly {
		options["request_readonly"] = true
	}
	if text, err = declared(q.Text, q.Parameters); err != nil {
		return "", nil, err
	}
	doc := map[string]any{"Options": options, "ClientRequestId": q.RequestID}
	if len(q.Parameters) > 0 {
		literals := make(map[string]string)
		for _, p := range q.Parameters {
			if literals[p.Name], err = p.Literal(); err != nil {
				return "", nil, err
			}
		}
		doc["Parameters"] = literals
	}
	properties, err = marshal(doc)
	return text, properties, err
}

// body is what is posted.
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

// marshal is json.Marshal without the escapes for HTML.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("write the request: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// timespan writes a duration as KQL does: d.hh:mm:ss.fffffff.
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
