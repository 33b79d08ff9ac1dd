package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"kusto-agent/internal/ledger"
)

func TestOnlyReadingIsAnswered(t *testing.T) {
	status, l := busy(time.Now())
	handler := serverFor(status, l).Handler()
	f := func(method, path string, want int) {
		t.Helper()
		r := httptest.NewRequest(method, path, nil)
		r.Host = "127.0.0.1:5878"
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%s %s: %d, want %d", method, path, w.Code, want)
		}
	}
	for _, path := range []string{"/", "/metrics", "/healthz", "/readyz", "/api/v1/status"} {
		f("GET", path, 200)
		f("HEAD", path, 200)
		f("POST", path, 405)
		f("PUT", path, 405)
		f("DELETE", path, 405)
	}
	f("GET", "/debug/pprof/", 404)
	f("GET", "/api/v1/", 404)
}

func TestAForeignNameForLoopbackIsRefused(t *testing.T) {
	loopback := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 5878}
	lan := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 5878}
	s := serverFor(Status{}, ledger.New())
	s.opts.Config.Listen = "logbox:5878"
	handler := s.Handler()
	f := func(local net.Addr, host string, want int) {
		t.Helper()
		r := httptest.NewRequest("GET", "/healthz", nil)
		r.Host = host
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, local)))
		if w.Code != want {
			t.Errorf("host %q at %s: %d, want %d", host, local, w.Code, want)
		}
	}
	for _, host := range []string{"127.0.0.1", "127.0.0.1:5878", "[::1]:5878", "[::1]", "localhost:5878", "LOCALHOST", "a.localhost", "", "logbox:5878"} {
		f(loopback, host, 200)
	}
	for _, host := range []string{"evil.example", "evil.example:5878", "192.0.2.7:5878", "localhost.evil.example", "0.0.0.0:5878", "[::]:1"} {
		f(loopback, host, 421)
	}
	f(lan, "evil.example", 200)
}

func TestEveryAnswerIsKeptFromDoingMore(t *testing.T) {
	s := serverFor(Status{}, ledger.New())
	for _, path := range []string{"/", "/metrics", "/healthz", "/api/v1/status", "/nothing"} {
		h := get(s, path).Header()
		if csp := h.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") || strings.Contains(csp, "script") {
			t.Errorf("%s: policy %q", path, csp)
		}
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-store" || h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: headers %v", path, h)
		}
	}
	if a, b := get(s, "/").Header(), get(s, "/").Header(); a.Get("Content-Security-Policy") == b.Get("Content-Security-Policy") {
		t.Error("two pages have one nonce")
	}
}

func TestHealthSaysWhyInOneLine(t *testing.T) {
	s := New(Options{
		Ledger: ledger.New(), Status: func() Status { return Status{} }, Logger: quiet(),
		Ready: func() error { return errors.New("state disk is full:\nno space left \x1b[2J") },
	})
	if w := get(s, "/healthz"); w.Code != 200 || w.Body.String() != "ok\n" {
		t.Errorf("healthz: %d %q", w.Code, w.Body)
	}
	w := get(s, "/readyz")
	if w.Code != 503 || w.Body.String() != `"state disk is full:\nno space left \x1b[2J"`+"\n" {
		t.Errorf("readyz: %d %q", w.Code, w.Body)
	}
}

func TestThePageEscapesEverything(t *testing.T) {
	const bad = "<script>alert(1)</script>\"'\x1b[31m\u202e"
	l := ledger.New()
	l.Read(bad, 1, 1)
	s := serverFor(Status{
		Version: bad, State: bad, Problems: []string{bad + "\nsecond line"},
		Inputs:   []Input{{Name: "a", Database: bad, Table: bad, Format: bad}},
		Routes:   []Route{{Cluster: bad, Database: bad, Table: bad, Format: bad, Mapping: bad, State: bad, Hold: &Hold{Code: bad, Message: bad, Fix: bad}}},
		Clusters: []Cluster{{Name: bad, URL: bad, State: bad}},
		Files:    []File{{Input: "a", Path: "/srv/" + bad, State: bad, Why: bad, BehindBytes: 5, Size: 10}},
	}, l)
	w := get(s, "/")
	page := w.Body.String()
	if w.Code != 200 || !strings.Contains(page, "second line") || !strings.HasSuffix(page, "</html>\n") {
		t.Fatalf("%d %s", w.Code, page)
	}
	if strings.Contains(page, "<script") || strings.ContainsAny(page, "\x1b\u202e") {
		t.Errorf("markup or unprintable characters pass: %s", page)
	}
	for _, shown := range []string{"/srv/&lt;script", `\x1b[31m`, `\u202e`} {
		if !strings.Contains(page, shown) {
			t.Errorf("%s is not shown", shown)
		}
	}
}

func TestTheStatusDocumentIsComplete(t *testing.T) {
	now := time.Now()
	status, l := busy(now)
	l.Read("gone", 7, 70)
	status.Config.Error = "agent.yaml:3:1: unknown key"
	status.Journal.Error = "stalled for 6s"
	s := serverFor(status, l)
	w := get(s, "/api/v1/status")
	if ct := w.Header().Get("Content-Type"); ct != "application/json" {
		t.Errorf("content type %q", ct)
	}
	var got Status
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Inputs) != 4 || got.Inputs[3].Name != "gone" || got.Inputs[3].Books.Pending != 7 {
		t.Errorf("inputs: %+v", got.Inputs)
	}
	app := got.Inputs[0]
	if app.LagBytes != 3_099_888 || app.Files["reading"] != 1 || app.Files["idle"] != 1 || app.Books.Accepted != 8_401_120 {
		t.Errorf("app: %+v", app)
	}
	if got.Files[0].Input != "orders" || len(got.Problems) != 2 || got.UptimeSeconds < 27*3600 {
		t.Errorf("files %+v, problems %q, uptime %v", got.Files[0], got.Problems, got.UptimeSeconds)
	}
	if empty := get(serverFor(Status{}, ledger.New()), "/api/v1/status").Body.String(); strings.Contains(empty, "null") {
		t.Errorf("an empty list is null: %s", empty)
	}
}

func TestABookThatDoesNotCloseIsAProblem(t *testing.T) {
	l := ledger.New()
	l.Accepted(lot("app", 1))
	page := get(serverFor(Status{State: Running}, l), "/").Body.String()
	if !strings.Contains(page, "books do not close") || !strings.Contains(page, "with 1 problem") {
		t.Error("nothing is said of it")
	}
}

func TestRunServesUntilItIsStopped(t *testing.T) {
	status, l := busy(time.Now())
	s := serverFor(status, l)
	addr, err := s.Listen()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }() // ended by cancel, waited for below
	got, err := Fetch(t.Context(), Config{Listen: addr.String()})
	if err != nil {
		t.Fatal(err)
	}
	if got.Version != "0.1.0" || len(got.Routes) != 3 || got.Routes[2].Hold == nil {
		t.Errorf("got %+v", got)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := Fetch(t.Context(), Config{Listen: addr.String()}); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("after the stop: %v", err)
	}
}

func TestATakenPortIsLoggedAndTheAgentGoesOn(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	var log strings.Builder
	s := New(Options{
		Config: Config{Listen: taken.Addr().String()}, Ledger: ledger.New(),
		Status: func() Status { return Status{} }, Logger: NewLogger(LogConfig{Format: "text"}, &log),
	})
	if err := s.Run(t.Context()); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "address already in use") {
		t.Errorf("log: %s", log.String())
	}
	off := New(Options{Ledger: ledger.New(), Logger: quiet()})
	if err := off.Run(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestFetchSaysWhatItGot(t *testing.T) {
	f := func(answer http.HandlerFunc, want string) {
		t.Helper()
		server := httptest.NewServer(answer)
		defer server.Close()
		if _, err := Fetch(t.Context(), Config{Listen: server.Listener.Addr().String()}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	f(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "", http.StatusServiceUnavailable) }, "answered 503")
	f(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<html>")) }, "read status")

	same := func(addr, want string) {
		t.Helper()
		if got := reachable(addr); got != want {
			t.Errorf("%q is reached at %q, want %q", addr, got, want)
		}
	}
	same("127.0.0.1:5878", "127.0.0.1:5878")
	same(":5878", "localhost:5878")
	same("0.0.0.0:5878", "localhost:5878")
	same("[::]:5878", "localhost:5878")
	same("logbox:5878", "logbox:5878")
}

// TestBrief: a scrape counts the idle files that are not listed for it.
func TestBrief(t *testing.T) {
	t.Parallel()
	status, l := busy(time.Now())
	brief := status
	brief.Files, brief.Idle, brief.KnownBytes = status.Files[:1], map[string]int{"app": 40_000}, 104_000_000
	s := New(Options{Ledger: l, Logger: quiet(), Status: func() Status { return status }, Brief: func() Status { return brief }})
	families, err := s.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, label := range m.GetLabel() {
				if f.GetName() == "kusto_agent_files" {
					got[label.GetValue()] = m.GetGauge().GetValue()
				}
			}
			if f.GetName() == "kusto_agent_known_files_bytes" {
				got["bytes"] = m.GetGauge().GetValue()
			}
		}
	}
	if want := map[string]float64{"idle": 40_000, "reading": 1, "bytes": 104_000_000}; !maps.Equal(got, want) {
		t.Errorf("%v instead of %v", got, want)
	}
	if all := s.status(); len(all.Files) != len(status.Files) {
		t.Errorf("the status lists %d files", len(all.Files))
	}
}
