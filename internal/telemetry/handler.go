package telemetry

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Handler returns the handler of all endpoints, which answer GET and HEAD only.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.servePage)
	mux.HandleFunc("GET /api/v1/status", s.ServeStatus)
	if s.opts.Configuration != nil {
		mux.HandleFunc("GET /config", s.serveConfiguration)
	}
	mux.HandleFunc("GET /healthz", s.serveHealth(s.opts.Healthy))
	mux.HandleFunc("GET /readyz", s.serveHealth(s.opts.Ready))
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{
		ErrorLog:           slog.NewLogLogger(s.opts.Logger.Handler(), slog.LevelError),
		DisableCompression: true, // a scrape mostly is local, where compression costs more than it saves
	}))
	return s.guard(mux)
}

// guard wraps next with checks. It sets headers that let a browser only show the answer. It refuses
// requests that came to a loopback address with the name of another host, since a web page can
// point its own name at 127.0.0.1 to read the answers. If the configuration wants a token, requests
// without it get only the health endpoints.
func (s *Server) guard(next http.Handler) http.Handler {
	configured, _, _ := net.SplitHostPort(s.opts.Config.Listen)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if onLoopback(r) && !localName(r.Host, configured) {
			http.Error(w, "this address answers to localhost only", http.StatusMisdirectedRequest)
			return
		}
		if health := r.URL.Path == "/healthz" || r.URL.Path == "/readyz"; !health && !s.opts.Guard.allows(r) {
			unauthorized(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// onLoopback reports whether a request came in on a loopback address; also if that is not known.
func onLoopback(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return !ok || addr.IP.IsLoopback()
}

// localName reports whether hostport, a Host header, names this machine: by a loopback address, as
// localhost, or by configured, the host in telemetry.listen. A missing header counts as local:
// browsers always send one, but a health check may not.
func localName(hostport, configured string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.IsLoopback()
	}
	return host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") || host == strings.ToLower(configured)
}

// ServeStatus answers with the status document, as JSON. It also serves the control socket.
func (s *Server) ServeStatus(w http.ResponseWriter, _ *http.Request) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetIndent("", "  ")
	if err := enc.Encode(s.status()); err != nil {
		s.opts.Logger.Error("status could not be encoded, the HTTP client gets an error; delivery is not affected", "err", err)
		http.Error(w, "status could not be encoded", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	s.write(w, EscapeJSON(body.Bytes()))
}

// serveHealth returns a handler that answers 200 if check returns nil, otherwise 503 with the error
// in one line. Requests without the token get the status, but not the error. A nil check always
// passes.
func (s *Server) serveHealth(check func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		text := "ok"
		if check != nil {
			if err := check(); err != nil {
				text = Printable(err.Error())
				if !s.opts.Guard.allows(r) {
					text = "not ok; the reason is told with the token of telemetry.token_file"
				}
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}
		s.write(w, []byte(text+"\n"))
	}
}

// write writes the body of an answer. An error only means that the client has disconnected.
func (s *Server) write(w http.ResponseWriter, body []byte) {
	if _, err := w.Write(body); err != nil {
		s.opts.Logger.Debug("telemetry client disconnected", "err", err)
	}
}
