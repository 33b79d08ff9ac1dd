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
	resp, up, err := c.send(req, body)
	o := &outcome{err: err}
	if err == nil {
		defer resp.Body.Close() // closes the connection too, if there is more to come
		o.read(resp)
	} else if errors.Is(req.Context().Err(), context.DeadlineExceeded) {
		o.err = fmt.Errorf("no answer within %s: %w", c.timeout, context.DeadlineExceeded)
	}
	o.sent = up.end()
	return o
}

// send sends a request with a body and returns the head of its answer. The caller ends
// the upload, and only then the body is its own again.
func (c *Client) send(req *http.Request, body []byte) (*http.Response, *upload, error) {
	up := &upload{rest: body}
	trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { up.conn.Store(underlying(i.Conn)) }}
	if req.Body = up; len(body) == 0 {
		req.Body = http.NoBody // else it would go out in chunks
	}
	resp, err := c.conns.RoundTrip(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
	return resp, up, err
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
	conn atomic.Pointer[conn]

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

// Close does nothing: end says when the body is no longer needed.
func (u *upload) Close() error { return nil }

// end ends all reading, and reports whether the whole body was handed to a connection
// on which no write failed.
func (u *upload) end() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.gone = true
	to := u.conn.Load()
	return len(u.rest) == 0 && to != nil && !to.broken.Load()
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
		Status: o.status, Code: clean(r.code, 128), Message: clean(r.words(o.status, o.header, why), maxMessage), Permanent: r.permanent,
		ActivityID: a.ActivityID, RetryAfter: a.RetryAfter, Hint: a.Hint, about: r.about, cause: why,
	}
	return a
}
