package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"kusto-agent/internal/ledger"
)

// Options are what a Server shows. Only Ledger, Status and Logger are needed.
type Options struct {
	Config  Config
	Guard   *Guard // of Config; nil: everyone is let in, on loopback alone
	Ledger  *ledger.Ledger
	Status  func() Status // what the agent is doing; called for every page and document, from any goroutine
	Brief   func() Status // the same with idle files counted and not listed, for scrapes and looks; nil: Status
	Healthy func() error  // nil: the loops turn; else one line saying which does not
	Ready   func() error  // nil: configuration loaded and reading; else one line saying why not
	// Configuration is the one in force as text, without a secret; nil: it is not shown.
	Configuration func() (string, error)

	Logger  *slog.Logger
	Log     *LogQueue // where Logger writes to; nil: where nothing is dropped
	Version string
}

// Server answers on Config.Listen with the status page, the status document,
// metrics and health. It is safe for concurrent use, but for Listen and Run.
type Server struct {
	opts     Options
	registry *prometheus.Registry
	metrics  *Metrics
	headTime time.Duration // headTime, but in tests
	renewed  time.Duration // renewed, but in tests
	listener *guests       // set by Listen
	look     chan struct{} // holds one when Watch is to look again
	history  history       // of the looks of Watch
}

// Limits of the endpoint: it is for a few readers, and takes no body.
const (
	maxConnections = 64
	maxHeaderBytes = 16 << 10
	headTime       = 2 * time.Second // for the head of a request
	lastAnswers    = 2 * time.Second // what answers under way get when Run ends
)

// New returns a server that does not listen yet, with all metrics registered. Its Metrics can be
// used at once.
func New(opts Options) *Server {
	if opts.Brief == nil {
		opts.Brief = opts.Status
	}
	s := &Server{opts: opts, registry: prometheus.NewRegistry(), headTime: headTime, renewed: renewed, look: make(chan struct{}, 1)}
	s.metrics = newMetrics(s.registry)
	s.registry.MustRegister(collector{s}, collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector())
	return s
}

// Metrics returns what the rooms count with.
func (s *Server) Metrics() *Metrics { return s.metrics }

// status asks for the status once and completes it from one ledger snapshot.
func (s *Server) status() *Status { return s.complete(s.opts.Status()) }

// brief returns the status with idle files counted but not listed, since there may be hundreds of
// thousands of them.
func (s *Server) brief() *Status { return s.complete(s.opts.Brief()) }

// complete returns status with what the server adds: the version, the books of the ledger with what
// follows from them, the rates of the last 30 s, and how many lines its own log is missing.
func (s *Server) complete(status Status) *Status {
	now := time.Now()
	status.LogMissing = s.opts.Log.Missing()
	status.complete(s.opts.Version, s.opts.Ledger, now)
	status.Rates = ratesOf(s.history.points(now), now)
	return &status
}

var errUnguarded = errors.New("can be reached from other machines, and no token guards it")

// Listen binds Config.Listen and returns the address, for instance to learn a port that was given
// as 0; otherwise Run binds it. It fails if other machines can reach the address and no token is
// needed.
func (s *Server) Listen() (net.Addr, error) {
	ln, err := net.Listen("tcp", s.opts.Config.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen for telemetry: %w", err)
	}
	if addr, ok := ln.Addr().(*net.TCPAddr); s.opts.Guard.isOpen() && (!ok || !addr.IP.IsLoopback()) {
		ln.Close() // a host name in the configuration may resolve to any address
		return nil, fmt.Errorf("listen for telemetry: %s %w", ln.Addr(), errUnguarded)
	}
	s.listener = newGuests(ln, maxConnections)
	return ln.Addr(), nil
}

// Run serves until ctx ends. It always returns nil, since telemetry never stops the agent: an
// address that cannot be bound, or a listener that fails, is logged and ends Run early. With an
// empty Config.Listen it returns at once.
func (s *Server) Run(ctx context.Context) error {
	if s.opts.Config.Listen == "" {
		return nil
	}
	if s.listener == nil {
		if _, err := s.Listen(); err != nil {
			fix := "stop the program that has the address, or set telemetry.listen to another one of this machine; then restart the agent"
			if errors.Is(err, errUnguarded) {
				fix = "set telemetry.token_file, or telemetry.listen to 127.0.0.1; then restart the agent"
			}
			s.opts.Logger.Warn("telemetry endpoint disabled, the agent continues without it", "err", err, "fix", fix)
			return nil
		}
	}
	s.opts.Logger.Info("telemetry endpoint is listening", "address", s.listener.Addr().String(), "tls", s.opts.Guard.tls() != nil, "token", !s.opts.Guard.isOpen())
	server := &http.Server{
		Handler:           serving(s.Handler()),
		ConnContext:       s.listener.know,
		ConnState:         turned,
		ReadHeaderTimeout: s.headTime,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       60 * time.Second,
		MaxHeaderBytes:    maxHeaderBytes,
		TLSConfig:         s.opts.Guard.tls(),
		ErrorLog:          slog.NewLogLogger(s.opts.Logger.Handler(), slog.LevelDebug),
	}
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true) // no HTTP/2: guests expects one request of a connection at a time
	serve := func() error {
		if server.TLSConfig == nil {
			return server.Serve(s.listener)
		}
		return server.ServeTLS(s.listener, "", "") // no files: TLSConfig has GetCertificate
	}
	err := serveUntil(ctx, server, serve, func(err error) {
		s.opts.Logger.Debug("telemetry responses were cut off at shutdown", "err", err)
	})
	if err != nil {
		s.opts.Logger.Warn("telemetry endpoint disabled, the agent continues without it", "err", err, "fix", "restart the agent; if it comes again, check its limit of open files")
	}
	return nil
}
