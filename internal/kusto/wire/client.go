// Package wire sends one request and gives one classified answer. It sends no body twice,
// follows no redirect, reads no more of an answer than it judges, and sends a token only
// to the cluster that was checked: over TLS, or to this machine.
package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"time"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/internal/reply"
)

// TokenSource gives the bearer token for a request. The tokens of package credential are
// the real one.
type TokenSource interface {
	// Token is the token to send now; empty: send none. It may wait for one.
	Token(ctx context.Context) (string, error)
	// Invalidate says that the service refused this token.
	Invalidate(token string, why *kusto.Error)
}

// Options is what a Client is made of.
type Options struct {
	URL            string // query URI of the cluster; a path in it is kept
	AllowUntrusted bool   // see CheckEndpoint
	QueryOnly      bool   // nothing is ingested, so that URL need only pass CheckQueryEndpoint

	App     string // x-ms-app
	User    string // x-ms-user and x-ms-user-id; empty: not sent
	Version string // of the agent, for x-ms-client-version

	Auth           TokenSource   // nil: no token, only to this machine
	Timeout        time.Duration // of one request with everything it needs; 0: 60 s
	ExpectContinue bool          // ask with Expect: 100-continue before the body goes out
	Proxy          string        // URL; empty: HTTPS_PROXY and NO_PROXY
	CAFile         string        // PEM file of authorities trusted besides the system's
	MinTLS         string        // "1.2" or "1.3"; empty: 1.2
	Concurrency    int           // connections kept for reuse; 0: 8
	Config         string        // what the commands in hints name the configuration by, such as " --config x.yaml"; empty: the default one
	Logger         *slog.Logger  // nil: none

	// DialTo opens connections in place of the network: for tests in memory. nil: the network.
	DialTo func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Client speaks to one cluster. It is safe for concurrent use.
type Client struct {
	base    *url.URL
	local   bool // base is this machine
	asked   bool // for queries and commands alone
	headers http.Header
	auth    TokenSource
	config  string
	timeout time.Duration
	conns   *Pool
	log     *slog.Logger
}

// New checks the URL and the options and returns a client. It makes no request. Only a cluster on
// this machine may be used without a source of tokens. The defaults are 8 idle connections and a
// timeout of 60 s.
func New(o Options) (*Client, error) {
	base, err := CheckedURL(o.URL, o.AllowUntrusted, o.QueryOnly)
	if err != nil {
		return nil, err
	}
	local := IsLoopback(HostOf(base))
	if givesNone(o.Auth) && !local {
		return nil, fmt.Errorf("cluster %q: auth.method none is only for this machine; give it a method", o.URL)
	}
	headers, err := fixedHeaders(o)
	if err != nil {
		return nil, err
	}
	if o.Concurrency <= 0 {
		o.Concurrency = 8
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	clk := NewClock(o.Logger)
	if t, ok := o.Auth.(interface{ Clock() *Clock }); ok && t.Clock() != nil {
		clk = t.Clock() // shared, so that a wrong clock of the machine is logged once
	}
	conns, err := NewPool(Network{Plain: base.Scheme == "http", Proxy: o.Proxy, CaFile: o.CAFile, MinTLS: o.MinTLS, Idle: o.Concurrency, Clock: clk, DialTo: o.DialTo})
	if err != nil {
		return nil, err
	}
	if o.Timeout <= 0 {
		o.Timeout = 60 * time.Second
	}
	return &Client{base: base, local: local, asked: o.QueryOnly, headers: headers, auth: o.Auth, timeout: o.Timeout, conns: conns, log: o.Logger, config: o.Config}, nil
}

// Log is the logger of the options, or one that discards.
func (c *Client) Log() *slog.Logger { return c.log }

// givesNone reports whether the source is nil or says that it never gives a token.
func givesNone(s TokenSource) bool {
	none, ok := s.(interface{ None() bool })
	return s == nil || ok && none.None()
}

// Close closes the connections that are idle; requests under way end as they
// would have, and their connections with them.
func (c *Client) Close() { c.conns.Close() }

const (
	HeaderActivity = "X-Ms-Activity-Id"
	HeaderRequest  = "X-Ms-Client-Request-Id"
	protocolAsOf   = "2024-12-12" // the version of the protocol the official clients name
)

// fixedHeaders returns the headers that every request to the cluster has. The service accepts ASCII
// only; other characters of the options are replaced by a question mark.
func fixedHeaders(o Options) (http.Header, error) {
	h := http.Header{
		"Accept":              {"application/json"},
		"User-Agent":          {"kusto-agent/" + word(o.Version)},
		"X-Ms-Version":        {protocolAsOf},
		"X-Ms-Client-Version": {"Kusto.Agent.Client:{" + word(o.Version) + "}|Runtime.Go:{" + word(runtime.Version()) + "}"},
	}
	if err := SetNames(h, o.App, o.User); err != nil {
		return nil, err
	}
	if o.ExpectContinue {
		h.Set("Expect", "100-continue")
	}
	return h, nil
}

// SetNames sets the headers that name the application and the user. An empty name leaves the header as
// it is; a control character in a name is an error.
func SetNames(h http.Header, app, user string) error {
	for _, f := range []struct{ option, value, header string }{
		{"app", app, "X-Ms-App"}, {"user", user, "X-Ms-User"}, {"user", user, "X-Ms-User-Id"},
	} {
		if strings.ContainsFunc(f.value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return fmt.Errorf("%s %s: control characters cannot be sent in a header", f.option, reply.QuoteName(f.value))
		}
		if f.value != "" {
			h.Set(f.header, ascii(f.value))
		}
	}
	return nil
}

// ascii replaces every character that is not printable ASCII by a question mark.
func ascii(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
}

// word returns s with spaces, braces, bars and all that is not ASCII replaced by underscores, for use
// inside x-ms-client-version; "unknown" if s is empty.
func word(s string) string {
	return cmp.Or(strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || strings.ContainsRune("{}|", r) {
			return '_'
		}
		return r
	}, s), "unknown")
}

// mayCarryToken returns an error unless u has the scheme and host of the cluster, and is https or
// on this machine. It is called for the very URL to which a token is about to be sent.
func (c *Client) mayCarryToken(u *url.URL) error {
	if u.Scheme != c.base.Scheme || u.Host != c.base.Host || (u.Scheme != "https" && !IsLoopback(HostOf(u))) {
		return errors.New("the request is for another address than the cluster; no token is sent there")
	}
	return nil
}
