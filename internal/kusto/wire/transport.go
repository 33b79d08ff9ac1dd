package wire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"
)

const (
	// connLife is how long new requests may use the same connections. With
	// the timeout of a request it bounds how long a change in DNS goes
	// unnoticed by a client that is never idle.
	connLife = 4 * time.Minute
	// connIdle is shorter than the two minutes after which the service's web
	// server closes an idle connection.
	connIdle = 90 * time.Second

	dialTimeout    = 10 * time.Second
	metadataDial   = 3 * time.Second // it is one hop away
	continueWait   = time.Second     // for 100-continue, then the body is sent without
	maxAnswerHeads = 64 << 10

	// MetadataHost is where a virtual machine in Azure asks about itself, and the one
	// address besides this machine that is spoken to in plain http.
	MetadataHost = "169.254.169.254"
)

// Network says how a transport reaches its server.
type Network struct {
	Plain bool // http: only to this machine, and past any proxy
	// metadata: in plain http also to the metadata service of Azure.
	Metadata bool
	Proxy    string
	CaFile   string
	MinTLS   string
	Idle     int // connections kept for reuse
	Clock    *Clock
	DialTo   func(ctx context.Context, network, addr string) (net.Conn, error) // nil: as addr says
}

// Pool hands out transports and retires them by age, with their connections.
// It is safe for concurrent use.
type Pool struct {
	fresh func() *http.Transport
	now   func() time.Time
	clock *Clock // sees every answer

	mu      sync.Mutex // guards what follows
	current *http.Transport
	born    time.Time
}

// NewPool checks the proxy and TLS settings of n and returns a pool of HTTP connections. It opens
// no connection.
func NewPool(n Network) (*Pool, error) {
	proxy, err := n.proxyFunc()
	if err != nil {
		return nil, err
	}
	conf, err := n.tlsConfig()
	if err != nil {
		return nil, err
	}
	fresh := func() *http.Transport { return n.transport(proxy, conf.Clone()) }
	return &Pool{fresh: fresh, now: time.Now, clock: n.Clock}, nil
}

// transport returns the transport for the next request. A transport older than connLife is
// replaced, so that changes in DNS are noticed; its requests in flight end normally.
func (p *Pool) transport() *http.Transport {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current == nil || p.now().Sub(p.born) >= connLife {
		p.retire()
		p.current, p.born = p.fresh(), p.now()
	}
	return p.current
}

// RoundTrip implements http.RoundTripper: it sends a request through the current transport. It
// shows the headers of each answer to p.clock, which compares their date with the clock of this
// machine.
func (p *Pool) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := p.transport().RoundTrip(req)
	if err == nil {
		p.clock.see(resp.Header)
	}
	return resp, err
}

// retire drops the current transport and closes its idle connections; requests in flight end
// normally. The caller holds mu.
func (p *Pool) retire() {
	if p.current != nil {
		p.current.CloseIdleConnections()
		p.current = nil
	}
}

// Close closes the idle connections. Requests in flight end normally.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.retire()
}

// transport returns a new HTTP/1.1 transport with these proxy and TLS settings. It does not
// decompress answers.
func (n Network) transport(proxy func(*http.Request) (*url.URL, error), conf *tls.Config) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  proxy,
		DialContext:            n.dial,
		TLSClientConfig:        conf,
		TLSHandshakeTimeout:    dialTimeout,
		Protocols:              protocols,
		DisableCompression:     true, // the agent decompresses answers itself, up to a limit
		MaxIdleConns:           n.Idle,
		MaxIdleConnsPerHost:    n.Idle,
		IdleConnTimeout:        connIdle,
		ExpectContinueTimeout:  continueWait,
		MaxResponseHeaderBytes: maxAnswerHeads,
		WriteBufferSize:        32 << 10,
	}
}

// dial opens a TCP connection to addr. For plain http (n.Plain) it fails unless the address that it
// reached is on this machine, whatever the name resolved to. With n.Metadata the metadata service
// of Azure is allowed too.
func (n Network) dial(ctx context.Context, netw, addr string) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout}
	if n.Metadata {
		d.Timeout = metadataDial
	}
	dial := d.DialContext
	if n.DialTo != nil {
		dial = n.DialTo
	}
	nc, err := dial(ctx, netw, addr)
	if err != nil {
		return nil, err
	}
	tcp, ok := nc.RemoteAddr().(*net.TCPAddr)
	here := ok && (tcp.IP.IsLoopback() || n.Metadata && tcp.IP.String() == MetadataHost)
	if n.Plain && !here {
		nc.Close()
		return nil, fmt.Errorf("dial %s: plain http is only for this machine, and %s is another", addr, nc.RemoteAddr())
	}
	return &conn{Conn: nc}, nil
}

// proxyFunc returns the function that chooses the proxy for a request; nil if no proxy may be used.
func (n Network) proxyFunc() (func(*http.Request) (*url.URL, error), error) {
	switch {
	case n.Plain:
		return nil, nil
	case n.Proxy == "":
		return http.ProxyFromEnvironment, nil
	}
	u, err := url.Parse(n.Proxy)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "socks5" && u.Scheme != "socks5h") {
		return nil, errors.New("send.proxy: not a URL of a proxy; want one such as http://proxy.example:3128") // not quoted: the value may hold a password
	}
	return http.ProxyURL(u), nil
}

// tlsConfig returns the TLS settings: the least version and, if CaFile is set, the authorities in it
// in addition to those of the system.
func (n Network) tlsConfig() (*tls.Config, error) {
	conf := &tls.Config{
		MinVersion:                  tls.VersionTLS12,
		ClientSessionCache:          tls.NewLRUClientSessionCache(n.Idle),
		DynamicRecordSizingDisabled: true, // bodies are large, so small first TLS records gain nothing
	}
	switch n.MinTLS {
	case "", "1.2":
	case "1.3":
		conf.MinVersion = tls.VersionTLS13
	default:
		return nil, fmt.Errorf("send.tls.min_version %q: want 1.2 or 1.3", n.MinTLS)
	}
	if n.CaFile == "" {
		return conf, nil
	}
	pem, err := os.ReadFile(n.CaFile)
	if err != nil {
		return nil, fmt.Errorf("read send.tls.ca_file: %w", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("load the system's authorities: %w", err)
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("send.tls.ca_file %q: holds no certificate in PEM", n.CaFile)
	}
	conf.RootCAs = roots
	return conf, nil
}
