package kusto

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Ingest is one request to store a body. Body stays the caller's: it is only
// read, and no longer once Client.Ingest has returned.
type Ingest struct {
	Database string
	Table    string
	Format   string // one of formats, in any case
	Mapping  string // name of a mapping; empty: none
	Body     []byte
	Gzip     bool // Body is gzip

	// RequestID names this attempt, never another one: x-ms-client-request-id.
	RequestID string
}

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
func (c *Client) Ingest(ctx context.Context, in *Ingest) Answer {
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

func (c *Client) ingest(ctx context.Context, in *Ingest) Answer {
	req, err := c.request(ctx, in)
	if err != nil {
		return unsent(Hold, err, "the request cannot be made like this: check database, table, mapping and format of the input")
	}
	bearer, err := c.bearer(ctx, req.URL)
	if errors.Is(err, context.Canceled) {
		return unsent(NotSent, err, "the agent is stopping")
	}
	if err != nil {
		return unsent(Auth, err, "check the keys under auth")
	}
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	a := judge(c.exchange(req, in.Body), in, bearer)
	if a.Status == http.StatusUnauthorized {
		a.Err = c.conns.clock.blame(a.Err).(*Error)
		a.Hint = a.Err.Hint
		c.auth.Invalidate(bearer, a.Err)
	}
	return a
}

// Preview is the request that Ingest would make for in, without its body, and with
// a mask in place of a token. Nothing is asked for and nothing is sent.
func (c *Client) Preview(in *Ingest) (*http.Request, error) {
	req, err := c.request(context.Background(), in)
	if err != nil {
		return nil, err
	}
	if err := c.mayCarryToken(req.URL); err != nil {
		return nil, err
	}
	if t, ok := c.auth.(*Tokens); !ok || t.grant != nil {
		req.Header.Set("Authorization", "Bearer ***")
	}
	return req, nil
}

// bearer is the token for u, checked again for where it is going.
func (c *Client) bearer(ctx context.Context, u *url.URL) (string, error) {
	if err := c.mayCarryToken(u); err != nil {
		return "", err
	}
	bearer, err := c.auth.Token(ctx)
	if err != nil {
		return "", err
	}
	if bearer == "" && !c.local {
		return "", errors.New("no token; requests without one are allowed to loopback only")
	}
	return bearer, nil
}

// unsent is the answer where no request was made. If err is one of ours it is
// returned as it is, hint included.
func unsent(v Verdict, err error, hint string) Answer {
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{Message: printable(redact(err.Error()), maxMessage), Hint: hint, cause: err}
	}
	return Answer{Verdict: v, Err: e, RetryAfter: e.RetryAfter, Hint: e.Hint}
}

// request builds everything but the token and the body.
func (c *Client) request(ctx context.Context, in *Ingest) (*http.Request, error) {
	if c.asked {
		return nil, errors.New("this client is for queries alone")
	}
	u, err := c.ingestURL(in)
	if err != nil {
		return nil, err
	}
	if in.RequestID == "" || strings.ContainsFunc(in.RequestID, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, fmt.Errorf("request id %s: want ASCII without spaces", quoteName(in.RequestID))
	}
	req := (&http.Request{
		Method: http.MethodPost, URL: u, Host: u.Host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: c.headers.Clone(), ContentLength: int64(len(in.Body)),
	}).WithContext(ctx)
	req.Header.Set("Content-Type", "application/octet-stream")
	req.Header.Set(headerRequest, in.RequestID)
	if in.Gzip {
		req.Header.Set("Content-Encoding", "gzip")
	}
	return req, nil
}

// ingestURL escapes each name exactly once. RawPath is what goes out; Path is
// the same unescaped, as net/url wants them.
func (c *Client) ingestURL(in *Ingest) (*url.URL, error) {
	format, err := spelled(in.Format)
	err = errors.Join(ValidName("database", in.Database), ValidName("table", in.Table), err)
	query := "streamFormat=" + format
	if in.Mapping != "" {
		err = errors.Join(err, ValidName("mapping", in.Mapping))
		query += "&mappingName=" + strings.ReplaceAll(url.QueryEscape(in.Mapping), "+", "%20")
	}
	if err != nil {
		return nil, err
	}
	const call = "/v1/rest/ingest/"
	u := *c.base
	u.Path = strings.TrimRight(c.base.Path, "/") + call + in.Database + "/" + in.Table
	u.RawPath = strings.TrimRight(c.base.EscapedPath(), "/") + call + url.PathEscape(in.Database) + "/" + url.PathEscape(in.Table)
	u.RawQuery = query
	return &u, nil
}

// spelled is the documented spelling of a format.
func spelled(format string) (string, error) {
	for _, f := range formats {
		if strings.EqualFold(f, format) {
			return f, nil
		}
	}
	return "", fmt.Errorf("format %s: want one of %s", quoteName(format), strings.Join(formats, ", "))
}
