package wire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/internal/reply"
)

// Way is what a probe found between this machine and a cluster: proxy, addresses, TLS and clock.
type Way struct {
	Proxy     string            // host and port; empty: none is used
	Addresses []string          // of the host, or of the proxy
	Remote    string            // that answered; empty: none did
	Leaf      *x509.Certificate // of the server; nil: no TLS, or it was not agreed on
	TLS       string            // its version
	Status    int               // of the answer; 0: none came
	Ahead     time.Duration     // of the clock there before ours; good to a second
	Dated     bool              // the answer had a date
}

// probeTimeout bounds one look at the way.
const probeTimeout = 30 * time.Second

// Probe makes one request that needs no token, GET {cluster}/v1/rest/auth/metadata, and returns
// what it saw on the way (addresses, proxy, TLS, clock difference), also on failure. The error is a
// *kusto.Error with a hint. Any answer except a 407 counts as success; its content is ignored.
func (c *Client) Probe(ctx context.Context) (Way, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	u := *c.base
	u.Path, u.RawPath = "/v1/rest/auth/metadata", ""
	req := (&http.Request{
		Method: http.MethodGet, URL: &u, Host: u.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: c.headers.Clone(),
	}).WithContext(ctx)
	req.Header.Del("Expect")
	way, trace := c.traced(req)
	resp, err := c.conns.RoundTrip(req.WithContext(httptrace.WithClientTrace(ctx, trace)))
	w := way()
	if err != nil {
		return w, NoAnswer(ctx, err, "")
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, reply.MaxAnswer)) // so that the connection can be used again
	w.Status = resp.StatusCode
	if at, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		w.Dated, w.Ahead = true, time.Until(at).Truncate(time.Second)
	}
	if resp.StatusCode == http.StatusProxyAuthRequired {
		return w, &kusto.Error{Status: resp.StatusCode, Message: "the proxy asks for a login", Hint: ProxyHint}
	}
	return w, nil
}

// traced returns a trace to attach to req, and a function that returns what the trace has seen so
// far: addresses, proxy and TLS. The transport may still dial after the request has ended; the
// function may be called then too.
func (c *Client) traced(req *http.Request) (seen func() Way, trace *httptrace.ClientTrace) {
	var mu sync.Mutex
	var w Way
	locked := func(f func()) { // callbacks of the trace run in goroutines of the transport
		mu.Lock()
		defer mu.Unlock()
		f()
	}
	if by := c.conns.transport().Proxy; by != nil {
		if u, err := by(req); err == nil && u != nil {
			w.Proxy = u.Host
		}
	}
	trace = &httptrace.ClientTrace{
		DNSDone: func(i httptrace.DNSDoneInfo) {
			locked(func() {
				for _, a := range i.Addrs {
					w.Addresses = append(w.Addresses, a.String())
				}
			})
		},
		GotConn: func(i httptrace.GotConnInfo) { locked(func() { w.Remote = i.Conn.RemoteAddr().String() }) },
		TLSHandshakeDone: func(s tls.ConnectionState, err error) {
			locked(func() {
				if err == nil && len(s.PeerCertificates) > 0 {
					w.Leaf, w.TLS = s.PeerCertificates[0], tls.VersionName(s.Version)
				}
			})
		},
	}
	seen = func() (now Way) {
		locked(func() { now = w })
		return now
	}
	return seen, trace
}
