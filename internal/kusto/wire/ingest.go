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

// Ingest posts a body once, to POST {cluster}/v1/rest/ingest/{database}/{table},
// and says what came of it. It returns within Options.Timeout, or soon after
// ctx has ended, and never panics over what a server sends.
//
// On a 401 the token is given up before Ingest returns, and the verdict is
// Auth. The caller sends the same bytes again as its next attempt, under the
// next request id; the first time it may do so at once. When no token was to
// be had the verdict is Auth too, with Status 0 and Wrote false.
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

func (c *Client) ingest(ctx context.Context, in *kusto.Ingest) kusto.Answer {
	req, err := c.ingestRequest(ctx, in)
	if err != nil {
		return Unsent(kusto.Hold, err, "the request cannot be made like this: check database, table, mapping and format of the input")
	}
	bearer, err := c.Authorize(req)
	if errors.Is(err, context.Canceled) {
		return Unsent(kusto.NotSent, err, "the agent is stopping")
	}
	if err != nil {
		return Unsent(kusto.Auth, err, "check the keys under auth")
	}
	a := judge(c.exchange(req, in.Body), in, bearer)
	if a.Status == http.StatusUnauthorized {
		a.Err = c.Refused(bearer, a.Err)
		a.Hint = a.Err.Hint
	}
	return a
}

// Preview is the request that Ingest would make for in, without its body, and with
// a mask in place of a token. Nothing is asked for and nothing is sent.
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

// Authorize puts the token into a request, and returns it.
func (c *Client) Authorize(req *http.Request) (bearer string, err error) {
	if bearer, err = c.bearer(req.Context(), req.URL); bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	return bearer, err
}

// Refused gives up a token that the service answered with 401, and adds to the error
// that the clock of this machine is wrong, if it is.
func (c *Client) Refused(bearer string, e *kusto.Error) *kusto.Error {
	e = c.conns.clock.Blame(e).(*kusto.Error)
	if c.auth != nil {
		c.auth.Invalidate(bearer, e)
	}
	return e
}

// bearer is the token for u, checked again for where it is going.
func (c *Client) bearer(ctx context.Context, u *url.URL) (string, error) {
	if err := c.mayCarryToken(u); err != nil {
		return "", err
	}
	bearer := ""
	if c.auth != nil {
		var err error
		if bearer, err = c.auth.Token(ctx); err != nil {
			return "", err
		}
	}
	if bearer == "" && !c.local {
		return "", errors.New("no token; requests without one are allowed to loopback only")
	}
	return bearer, nil
}

// Unsent is the answer where no request was made. If err is one of ours it is
// returned as it is, hint included.
func Unsent(v kusto.Verdict, err error, hint string) kusto.Answer {
	var e *kusto.Error
	if !errors.As(err, &e) {
		e = &kusto.Error{Message: reply.Printable(reply.Redact(err.Error()), reply.MaxMessage), Hint: hint, Cause: err}
	}
	return kusto.Answer{Verdict: v, Err: e, RetryAfter: e.RetryAfter, Hint: e.Hint}
}

// Request is a POST without token and body. path is escaped already in raw.
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

// ingestRequest builds everything but the token and the body.
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

// ingestPath escapes each name exactly once: raw is what goes out, path the same
// unescaped, as net/url wants them.
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

// spelled is the documented spelling of a format.
func spelled(format string) (string, error) {
	for _, f := range formats {
		if strings.EqualFold(f, format) {
			return f, nil
		}
	}
	return "", fmt.Errorf("format %s: want one of %s", reply.QuoteName(format), strings.Join(formats, ", "))
}
