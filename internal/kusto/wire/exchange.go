package wire

import (
	"bytes"
	"cmp"
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

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/internal/reply"
)

// exchange sends one request and returns what it saw of the answer, with up to MaxAnswer bytes of
// the body. It calls the transport directly, so that no redirect is followed and no cookie kept.
// The request has no GetBody and no Idempotency-Key, so that the transport cannot send it a second
// time by itself.
func (c *Client) exchange(req *http.Request, body []byte) *outcome {
	resp, up, err := c.Send(req, body)
	o := &outcome{err: err}
	if err == nil {
		defer resp.Body.Close() // closes the connection too, if there is more to come
		o.read(resp)
	} else if errors.Is(req.Context().Err(), context.DeadlineExceeded) {
		o.err = fmt.Errorf("no answer within %s: %w", c.timeout, context.DeadlineExceeded)
	}
	o.Sent = up.End()
	return o
}

// Send sends a request with a body and returns the head of its answer. The transport may still read
// body after Send has returned. So the caller must call End of the returned upload, also after an
// error, before it reuses body.
func (c *Client) Send(req *http.Request, body []byte) (*http.Response, *upload, error) {
	up := &upload{rest: body}
	trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { up.conn.Store(underlying(i.Conn)) }}
	if req.Body = up; len(body) == 0 {
		req.Body = http.NoBody // else it would go out in chunks
	}
	resp, err := c.conns.RoundTrip(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
	return resp, up, err
}

// read fills in the outcome from the answer: status, header and the first MaxAnswer bytes of the body,
// inflated. A body that ends early is noted in torn.
func (o *outcome) read(resp *http.Response) {
	o.Status, o.Header = resp.StatusCode, resp.Header
	raw, err := io.ReadAll(io.LimitReader(resp.Body, reply.MaxAnswer+1))
	o.torn = err
	o.long = len(raw) > reply.MaxAnswer
	if strings.EqualFold(resp.Header.Get("Content-Encoding"), "gzip") {
		raw = inflate(raw)
		o.long = o.long || len(raw) > reply.MaxAnswer
	}
	o.Body = raw[:min(len(raw), reply.MaxAnswer)]
}

// inflate returns the content of a gzip body, but at most MaxAnswer+1 bytes. A body that is not
// gzip is returned unchanged, and damaged gzip as far as it can be read.
func inflate(raw []byte) []byte {
	zr, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return raw
	}
	plain, _ := io.ReadAll(io.LimitReader(zr, reply.MaxAnswer+1)) // an error cuts it short, and it is judged as it is
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

// Read implements io.Reader over the request body. After End it fails, since the caller of Send may
// have reused the bytes.
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

// End makes all further reads of the body fail, so that the caller may reuse it. It returns true if
// the whole body was handed to a connection on which no write failed.
func (u *upload) End() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.gone = true
	to := u.conn.Load()
	return len(u.rest) == 0 && to != nil && !to.broken.Load()
}

// underlying returns the *conn (our wrapper of a connection, which notes failed writes) below any
// layers of TLS; nil if there is none.
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

// judge returns the answer for the caller from what was seen of a request: verdict, error, hint and
// ids, as bounded printable text. secret is the token that was sent; it is removed from all texts.
// config is the part of a command that names the configuration file, for hints.
func judge(o *outcome, in *kusto.Ingest, secret, config string) kusto.Answer {
	var r reply.Reply
	if o.err == nil && (o.Status != http.StatusOK || !o.isNamed()) { // else the service has stored the records
		r = reply.Parse([]byte(reply.Redact(string(o.Body), secret)), in.Database+"."+in.Table)
	}
	verdict, why := classify(o, &r)
	if words, isPage := reply.PageWords(o.Body, secret); isPage {
		r.Page, r.Message = true, words
	}
	a := kusto.Answer{
		Verdict: verdict, Status: o.Status, Wrote: o.Sent,
		RetryAfter: reply.RetryAfter(o.Header, time.Now()),
		ActivityID: reply.Clean(cmp.Or(strings.TrimSpace(o.Header.Get(HeaderActivity)), r.Activity), 128, secret),
	}
	if verdict == kusto.Accepted {
		a.UpdatePolicy = updateFailure(o.Body)
		return a
	}
	a.Hint = reply.Clean(hint(verdict, o, &r, in, config), 2*reply.MaxMessage+kusto.MaxName, secret)
	a.Err = &kusto.Error{
		Status: o.Status, Code: reply.Clean(r.Code, 128, secret), Message: reply.Clean(r.Words(o.Status, o.Header, why), reply.MaxMessage, secret), Permanent: r.Permanent,
		ActivityID: a.ActivityID, RetryAfter: a.RetryAfter, Hint: a.Hint, About: r.About, Cause: why,
	}
	return a
}

// NoAnswer returns the error of a request that got no answer because of err: the error of ctx if it
// was canceled, otherwise a *kusto.Error with a hint. secret is the token that was sent; it is
// removed from the text.
func NoAnswer(ctx context.Context, err error, secret string) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	e := &kusto.Error{Message: reply.Printable(reply.Redact(err.Error(), secret), reply.MaxMessage), Hint: NetHint(err), Cause: err}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		e.Message, e.Hint = "no answer in time", "give it more time with a longer timeout, or ask for less"
		e.Cause = ctx.Err()
	}
	return e
}
