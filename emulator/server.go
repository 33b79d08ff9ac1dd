package emulator

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"kusto-agent/emulator/internal/mgmt"
)

// Options say how strict a Server is. The zero value is an open endpoint with
// the documented limits.
type Options struct {
	Schema      *Schema       // nil: every database, table and mapping exists
	SchemaDelay time.Duration // after which a schema set later is seen; the service takes up to 5 minutes

	TokenSecret   string        // non-empty: ingest needs a token, and the token endpoint this client secret
	TokenResource string        // the only resource tokens are issued for; empty: any
	TokenLifetime time.Duration // 0: 3599s, as the service has it
	// What is taken in place of the secret. Where a list is empty, everything well made is.
	ClientCertificates []*x509.Certificate // with whose keys applications sign
	Federations        []Federation        // whom applications trust
	Identities         []string            // of the machine, by client or resource id; "system-assigned" is its own
	DenyWithMessage    bool                // a 401 carries the older JSON message; else its body is empty

	MaxBody       int64 // most bytes of a body as sent; 0: 10,000,000
	MaxDecoded    int64 // most bytes of a body after gunzip; 0: 4 MiB
	TooLargeAs400 bool  // too large is 400 Stream_InputStreamTooLarge; else 413

	MaxConcurrent int           // most ingest requests at a time, more are answered 429; 0: no limit (the service: 6 per core)
	RetryAfter    time.Duration // sent with those 429, in whole seconds; 0: not sent

	VisibilityDelay time.Duration // between the answer and the row being seen by readers
	Discard         bool          // check and count rows, keep none
	KeepRequests    int           // how many of the last ingest requests are remembered; 0: 10,000

	AllowRemote bool         // Listen takes addresses other than loopback
	TLS         bool         // Listen serves https, with a certificate for this machine made then; see Authority
	Logger      *slog.Logger // nil: silent
}

// withDefaults returns the options with the documented defaults in place of zero values.
func (o Options) withDefaults() Options {
	o.TokenLifetime = cmp.Or(o.TokenLifetime, 3599*time.Second)
	o.MaxBody = cmp.Or(o.MaxBody, 10_000_000)
	o.MaxDecoded = cmp.Or(o.MaxDecoded, 4<<20)
	o.KeepRequests = cmp.Or(o.KeepRequests, 10_000)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}

// Server is the endpoint. All its methods are safe for concurrent use.
type Server struct {
	opt     Options // immutable once set
	pages   *http.ServeMux
	catalog mgmt.Catalog
	store   store
	tokens  tokens
	faults  faults
	log     requestLog
	console console

	closing  chan struct{} // closed by Close: frees what hangs
	handlers sync.WaitGroup

	mu        sync.Mutex // guards the four below
	closed    bool
	url       string
	authority []byte
	http      *http.Server
}

// New returns a server that listens nowhere yet. Close is needed only after
// Listen or while a fault holds a request. An invalid schema makes it panic;
// LoadSchema returns valid ones only.
func New(o Options) *Server {
	o = o.withDefaults()
	if err := o.Schema.Check(); err != nil {
		panic(fmt.Errorf("check schema: %w", err))
	}
	s := &Server{
		opt: o, closing: make(chan struct{}),
		store:   store{tables: make(map[tableKey]*tableRows)},
		tokens:  tokens{opt: o, grants: make(map[string]grant)},
		log:     requestLog{keep: o.KeepRequests, totals: Totals{ByStatus: make(map[int]int)}},
		console: console{running: make(map[*running]struct{})},
	}
	s.catalog.Set(o.Schema, time.Time{})
	s.pages = s.routes()
	return s
}

// ServeHTTP answers one request, of the service or of the server's own pages. A scripted fault may end
// it by panicking with http.ErrAbortHandler, which makes net/http close the connection.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		http.Error(w, "emulator is closed", http.StatusServiceUnavailable)
		return
	}
	defer s.handlers.Done()
	wire := wirePath(r)
	if len(wire) > 1 {
		wire = strings.TrimSuffix(wire, "/")
	}
	path := strings.ToLower(wire)
	seg := strings.Split(strings.TrimPrefix(path, "/"), "/")
	named := strings.Split(strings.TrimPrefix(wire, "/"), "/") // with the case of names
	switch {
	case len(seg) == 5 && strings.HasPrefix(path, "/v1/rest/ingest/"):
		s.handle(KindIngest, w, r, func(c *call) *refusal { return c.ingest(named[3], named[4]) })
	case path == "/v1/rest/mgmt":
		s.handle(KindMgmt, w, r, (*call).ask)
	case path == "/v1/rest/query", path == "/v2/rest/query":
		s.handle(KindQuery, w, r, (*call).ask)
	case path == "/v1/rest/auth/metadata":
		s.handle(KindMetadata, w, r, (*call).authMetadata)
	case len(seg) == 3 && seg[1] == "oauth2" && seg[2] == "token":
		s.handle(KindToken, w, r, func(c *call) *refusal { return c.token(named[0], v1Token) })
	case path == "/metadata/identity/oauth2/token":
		s.handle(KindToken, w, r, (*call).identityToken)
	case len(seg) == 4 && strings.Join(seg[1:], "/") == "v2.0/.well-known/openid-configuration":
		s.openID(w, r, named[0])
	case len(seg) == 4 && seg[1] == "oauth2" && seg[2] == "v2.0" && seg[3] == "token":
		s.handle(KindToken, w, r, func(c *call) *refusal { return c.token(named[0], v2Token) })
	default:
		s.pages.ServeHTTP(w, r)
	}
}

// handle begins a call, has f answer it and sends the refusal that f returns, or nothing for answered.
func (s *Server) handle(kind Kind, w http.ResponseWriter, r *http.Request, f func(*call) *refusal) {
	c := s.begin(kind, w, r)
	c.refuse(f(c))
}

// wirePath returns the request's path as it came over the wire, with its escapes. A request made in
// process has no such text; its URL has the same information.
func wirePath(r *http.Request) string {
	if strings.HasPrefix(r.RequestURI, "/") {
		path, _, _ := strings.Cut(r.RequestURI, "?")
		return path
	}
	return r.URL.EscapedPath()
}

// enter reports whether the server still takes requests. If so, the caller has to call s.handlers.Done
// when the request has ended.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.handlers.Add(1)
	}
	return !s.closed
}

// Listen serves on addr, a loopback host and port (port 0: any free one), and returns the URL of the
// endpoint without a trailing slash. It may be called once. Close stops it.
func (s *Server) Listen(addr string) (string, error) {
	if err := s.checkAddr(addr); err != nil {
		return "", err
	}
	scheme, authority, config := "http", []byte(nil), (*tls.Config)(nil)
	if s.opt.TLS {
		ca, cert, err := certificates(time.Now())
		if err != nil {
			return "", fmt.Errorf("make a certificate: %w", err)
		}
		scheme, authority, config = "https", ca, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return "", fmt.Errorf("listen on %q: %w", addr, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.http != nil {
		ln.Close()
		return "", fmt.Errorf("listen on %q: already listening or closed", addr)
	}
	s.http = &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 30 * time.Second,
		ErrorLog:          slog.NewLogLogger(s.opt.Logger.Handler(), slog.LevelDebug),
	}
	if config != nil { // no HTTP/2: a fault may break a connection, which has to affect one request only
		ln = tls.NewListener(ln, config)
	}
	s.url, s.authority = (&url.URL{Scheme: scheme, Host: ln.Addr().String()}).String(), authority
	s.handlers.Add(1)
	// Started here, ended by the Close of the http.Server, awaited by Close.
	go func(srv *http.Server) {
		defer s.handlers.Done()
		if err := srv.Serve(ln); err != http.ErrServerClosed {
			s.opt.Logger.Error("emulator listener failed: the emulator accepts no more connections", "err", err)
		}
	}(s.http)
	s.opt.Logger.Info("emulator listening", "url", s.url)
	return s.url, nil
}

// checkAddr returns an error for an address that cannot be resolved and, unless AllowRemote is set,
// for one that is not loopback.
func (s *Server) checkAddr(addr string) error {
	a, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return fmt.Errorf("resolve address %q: %w", addr, err)
	}
	if !s.opt.AllowRemote && !a.IP.IsLoopback() {
		return fmt.Errorf("listen on %q: not a loopback address; try 127.0.0.1:%d", addr, a.Port)
	}
	return nil
}

// URL is where the server listens; empty before Listen.
func (s *Server) URL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.url
}

// Authority returns, in PEM, the certificate of the authority that signed the server's certificate;
// nil before Listen and without TLS.
func (s *Server) Authority() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.authority)
}

// Close stops listening, breaks every connection, releases the requests that faults hold, and waits
// until no request is under way. What was stored can still be read.
func (s *Server) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	srv := s.http
	s.mu.Unlock()

	var err error
	if first {
		close(s.closing)
		if srv != nil {
			err = srv.Close()
		}
	}
	s.handlers.Wait()
	return err
}
