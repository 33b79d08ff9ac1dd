package wire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/internal/reply"
)

// formats are the values of streamFormat as the documentation spells them, and
// TXT, which every official client sends.
var formats = []string{"CSV", "TSV", "SCsv", "SOHsv", "PSV", "TXT", "JSON", "MultiJSON", "Avro"}

// Ingest posts a body once, to POST {cluster}/v1/rest/ingest/{database}/{table}, and returns the
// verdict on the answer. It returns within Options.Timeout, or soon after ctx has ended, and never
// panics over what a server sends.
//
// The verdict is Auth after a 401, and if no token can be had; then Status is 0 and Wrote false.
// After a 401 the token source has dropped the token. The caller may send the same bytes again with
// the next request id, the first time at once.
func (c *Client) Ingest(ctx context.Context, in *kusto.Ingest) kusto.Answer {
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	a := c.ingest(ctx, in)
	if c.log.Enabled(ctx, slog.LevelDebug) {
		attrs := []slog.Attr{
			slog.String("verdict", a.Verdict.String()), slog.Int("status", a.Status),
			slog.String("database", in.Database), slog.String("table", in.Table), slog.Int("bytes", len(in.Body)),
			slog.Duration("elapsed", time.Since(start)), slog.String("request", in.RequestID), slog.String("activity", a.ActivityID),
		}
		if a.Err != nil {
			attrs = append(attrs, slog.Any("err", a.Err))
		}
		c.log.LogAttrs(ctx, slog.LevelDebug, "ingest request ended", attrs...)
	}
	return a
}

// ingest posts the body once and returns the verdict on the answer. If the request cannot be made,
// or no token can be had, it returns a verdict without sending anything. Ingest calls it with a
// context that limits its time.
func (c *Client) ingest(ctx context.Context, in *kusto.Ingest) kusto.Answer {
	req, err := c.ingestRequest(ctx, in)
	if err != nil {
		return Unsent(kusto.Hold, err, "the request cannot be made like this: check database, table, mapping and format of the input")
	}
	bearer, err := c.Authorize(req)
	if errors.Is(err, context.Canceled) {
		return Unsent(kusto.NotSent, context.Canceled, "the agent is stopping")
	}
	if err != nil {
		return Unsent(kusto.Auth, err, "check the keys under auth")
	}
	a := judge(c.exchange(req, in.Body), in, bearer, c.config)
	if a.Status == http.StatusUnauthorized {
		a.Err = c.Refused(bearer, a.Err)
		a.Hint = a.Err.Hint
	}
	return a
}

// Preview returns the request that Ingest would make for in, without its body and with "***" in place
// of the token. It sends nothing and asks for no token.
func (c *Client) Preview(in *kusto.Ingest) (*http.Request, error) {
	req, err := c.ingestRequest(context.Background(), in)
	if err != nil {
		return nil, err
	}
	if err := c.mayCarryToken(req.URL); err != nil {
		return nil, err
	}
	if !givesNone(c.auth) {
		req.Header.Set("Authorization", "Bearer ***")
	}
	return req, nil
}

// Authorize gets a token, sets the Authorization header of the request and returns the token. It
// returns "" and sets no header if no token is needed, which is allowed only for a cluster on this
// machine. It fails for a URL that does not belong to the cluster.
func (c *Client) Authorize(req *http.Request) (bearer string, err error) {
	if err := c.mayCarryToken(req.URL); err != nil {
		return "", err
	}
	if c.auth != nil {
		if bearer, err = c.auth.Token(req.Context()); err != nil {
			return "", err
		}
	}
	switch {
	case bearer != "":
		req.Header.Set("Authorization", "Bearer "+bearer)
	case !c.local:
		return "", errors.New("no token; requests without one are allowed to loopback only")
	}
	return bearer, nil
}

// Refused reports to the token source that the service answered 401 to the token bearer. It returns
// e, or a copy whose hint says to set the clock of this machine if that is wrong, or to sign in if
// no token was sent.
func (c *Client) Refused(bearer string, e *kusto.Error) *kusto.Error {
	if bearer == "" {
		e = new(*e)
		e.Hint = "the service asks for a token, and none was sent: give auth.method a way to sign in"
		return e
	}
	e = c.conns.clock.Blame(e).(*kusto.Error)
	if c.auth != nil {
		c.auth.Invalidate(bearer, e)
	}
	return e
}

// Unsent returns the answer with verdict v for a request that was not made because of err. A
// *kusto.Error in err keeps its own hint; any other error gets the given hint.
func Unsent(v kusto.Verdict, err error, hint string) kusto.Answer {
	var e *kusto.Error
	if !errors.As(err, &e) {
		e = &kusto.Error{Message: reply.Printable(reply.Redact(err.Error()), reply.MaxMessage), Hint: hint, Cause: err}
	}
	return kusto.Answer{Verdict: v, Err: e, RetryAfter: e.RetryAfter, Hint: e.Hint}
}

// Request returns a POST to a path below the cluster URL with the fixed headers, without token and
// body. path is the unescaped form and raw the escaped form of the same path; id is the request id.
func (c *Client) Request(ctx context.Context, path, raw, id string) *http.Request {
	u := *c.base
	u.Path, u.RawPath = strings.TrimRight(c.base.Path, "/")+path, strings.TrimRight(c.base.EscapedPath(), "/")+raw
	req := (&http.Request{
		Method: http.MethodPost, URL: &u, Host: u.Host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: c.headers.Clone(),
	}).WithContext(ctx)
	req.Header.Set(HeaderRequest, id)
	return req
}

// ingestRequest returns the request for in, without token and body. It fails for a client that is for
// queries only and for names or ids that cannot be sent.
func (c *Client) ingestRequest(ctx context.Context, in *kusto.Ingest) (*http.Request, error) {
	if c.asked {
		return nil, errors.New("this client is for queries alone")
	}
	path, raw, query, err := ingestPath(in)
	if err != nil {
		return nil, err
	}
	if in.RequestID == "" || strings.ContainsFunc(in.RequestID, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, fmt.Errorf("request id %s: want ASCII without spaces", reply.QuoteName(in.RequestID))
	}
	req := c.Request(ctx, path, raw, in.RequestID)
	req.URL.RawQuery, req.ContentLength = query, int64(len(in.Body))
	req.Header.Set("Content-Type", "application/octet-stream")
	if in.Gzip {
		req.Header.Set("Content-Encoding", "gzip")
	}
	return req, nil
}

// ingestPath returns the path and query of an ingest request. raw is the escaped path that is sent,
// and path the same unescaped; net/url needs both. The error joins all faults of names and format.
func ingestPath(in *kusto.Ingest) (path, raw, query string, err error) {
	format, err := spelled(in.Format)
	err = errors.Join(kusto.ValidName("database", in.Database), kusto.ValidName("table", in.Table), err)
	query = "streamFormat=" + format
	if in.Mapping != "" {
		err = errors.Join(err, kusto.ValidName("mapping", in.Mapping))
		query += "&mappingName=" + strings.ReplaceAll(url.QueryEscape(in.Mapping), "+", "%20")
	}
	if err != nil {
		return "", "", "", err
	}
	const call = "/v1/rest/ingest/"
	return call + in.Database + "/" + in.Table, call + url.PathEscape(in.Database) + "/" + url.PathEscape(in.Table), query, nil
}

// spelled returns the documented spelling of a format that is given in any letter case; an error if
// there is no such format.
func spelled(format string) (string, error) {
	for _, f := range formats {
		if strings.EqualFold(f, format) {
			return f, nil
		}
	}
	return "", fmt.Errorf("format %s: want one of %s", reply.QuoteName(format), strings.Join(formats, ", "))
}
