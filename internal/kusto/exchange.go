package kusto

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// exchange sends one request and reads its answer up to maxAnswer. It goes
// straight to the transport: nothing follows redirects or keeps cookies. The
// request has no GetBody and no Idempotency-Key, so that the transport cannot
// send it again on a connection of its own choice.
func (c *Client) exchange(req *http.Request, body []byte) *outcome {
	var used atomic.Pointer[conn]
	trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { used.Store(underlying(i.Conn)) }}
	upload := &upload{rest: body}
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), trace))
	if req.Body = upload; len(body) == 0 {
		req.Body = http.NoBody // else it would go out in chunks
	}

	resp, err := c.conns.RoundTrip(req)
	o := &outcome{err: err}
	if err == nil {
		defer resp.Body.Close() // closes the connection too, if there is more to come
		o.read(resp)
	} else if errors.Is(req.Context().Err(), context.DeadlineExceeded) {
		o.err = fmt.Errorf("no answer within %s: %w", c.timeout, context.DeadlineExceeded)
	}
	whole := upload.release()
	conn := used.Load()
	o.sent = whole && conn != nil && !conn.broken.Load()
	return o
}

// read takes in the head of an answer.
func (o *outcome) read(resp *http.Response) {
	o.status, o.header = resp.StatusCode, resp.Header
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	o.torn = err
	o.long = len(raw) > maxAnswer
	if strings.EqualFold(resp.Header.Get("Content-Encoding"), "gzip") {
		raw = inflate(raw)
		o.long = o.long || len(raw) > maxAnswer
	}
	o.body = raw[:min(len(raw), maxAnswer)]
}

// inflate unpacks at most maxAnswer+1 bytes. We do not ask for gzip, so it is
// rare; what is not gzip at all is returned as it came.
func inflate(raw []byte) []byte {
	zr, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return raw
	}
	plain, _ := io.ReadAll(io.LimitReader(zr, maxAnswer+1)) // an error cuts it short, and it is judged as it is
	return plain
}

// upload is a request body that remembers how much of it was taken, and that
// can be taken away: the transport may go on reading after it has returned an
// early answer, when the bytes are the caller's again.
type upload struct {
	mu   sync.Mutex // guards rest and gone
	rest []byte
	gone bool
}

func (u *upload) Read(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.gone {
		return 0, errors.New("the request is over")
	}
	if len(u.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, u.rest)
	u.rest = u.rest[n:]
	return n, nil
}

// Close does nothing: release says when the body is no longer needed.
func (u *upload) Close() error { return nil }

// release ends all reading, and says whether everything was read.
func (u *upload) release() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.gone = true
	return len(u.rest) == 0
}

// underlying finds our connection below any layers of TLS.
func underlying(nc net.Conn) *conn {
	for {
		switch c := nc.(type) {
		case *conn:
			return c
		case *tls.Conn:
			nc = c.NetConn()
		default:
			return nil
		}
	}
}

// judge turns an outcome into the answer. secret is the token that was sent;
// it is taken out of everything that is kept.
func judge(o *outcome, in *Ingest, secret string) Answer {
	var r reply
	if o.err == nil && o.status != http.StatusOK {
		r = parseReply([]byte(redact(string(o.body), secret)), in.Database+"."+in.Table)
	}
	verdict, why := classify(o, &r)
	if words, isPage := pageWords(o.body, secret); isPage {
		r.page, r.message = true, words
	}
	clean := func(s string, limit int) string { return printable(redact(strings.TrimSpace(s), secret), limit) }
	a := Answer{
		Verdict: verdict, Status: o.status, Wrote: o.sent,
		RetryAfter: retryAfter(o.header, time.Now()),
		ActivityID: clean(o.header.Get(headerActivity), 128),
	}
	if a.ActivityID == "" {
		a.ActivityID = clean(r.activity, 128)
	}
	if verdict == Accepted {
		a.UpdatePolicy = updateFailure(o.body)
		return a
	}
	a.Hint = clean(hint(verdict, o, &r, in), 2*maxMessage+maxName)
	a.Err = &Error{
		Status: o.status, Code: clean(r.code, 128), Message: clean(words(o, &r, why), maxMessage), Permanent: r.permanent,
		ActivityID: a.ActivityID, RetryAfter: a.RetryAfter, Hint: a.Hint, about: r.about, cause: why,
	}
	return a
}

// words is the message of an error: our reason, then theirs.
func words(o *outcome, r *reply, why error) string {
	var parts []string
	if why != nil {
		parts = append(parts, why.Error())
	}
	switch theirs := strings.TrimSpace(r.message); {
	case o.status >= 300 && o.status < 400:
		parts = append(parts, "redirected to "+strconv.Quote(o.header.Get("Location")))
	case theirs != "":
		parts = append(parts, theirs)
	case o.header.Get("Www-Authenticate") != "":
		parts = append(parts, o.header.Get("Www-Authenticate"))
	case why == nil:
		parts = append(parts, http.StatusText(o.status))
	}
	return strings.Join(parts, ": ")
}

// retryAfter reads both forms of the header: seconds, and a date. What cannot
// be read, and what is over, is 0.
func retryAfter(h http.Header, now time.Time) time.Duration {
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
