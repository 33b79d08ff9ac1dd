package telemetry

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"kusto-agent/internal/ledger"
)

// TestIdleConnectionsKeepNobodyWaiting: with more connections than there may be, of
// which none sends a request, the next one is answered; the oldest are closed.
func TestIdleConnectionsKeepNobodyWaiting(t *testing.T) {
	answering, answer := make(chan struct{}), make(chan struct{})
	s := New(Options{
		Config: Config{Listen: "127.0.0.1:0"}, Ledger: ledger.New(), Logger: quiet(), Status: func() Status { return Status{} },
		Ready: func() error {
			answering <- struct{}{}
			<-answer
			return nil
		},
	})
	s.headTime = time.Hour // so that nothing else closes them
	addr, err := s.Listen()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error)
	go func() { ran <- s.Run(ctx) }()
	defer func() {
		cancel()
		<-ran
	}()
	dial := func(text string) net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", addr.String())
		if err == nil {
			_, err = io.WriteString(conn, text)
		}
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	get := func(path string) error {
		resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(must(http.NewRequest(http.MethodGet, "http://"+addr.String()+path, nil)))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		return nil
	}
	slow := make(chan error)
	go func() { slow <- get("/readyz") }() // the oldest, and it has a request under way
	<-answering
	var idle []net.Conn
	for i := range 3 * maxConnections {
		text := ""
		if i%2 == 0 {
			text = "GET /healthz HTT" // a head that does not end
		}
		idle = append(idle, dial(text))
	}
	if err := get("/healthz"); err != nil {
		t.Error(err)
	}
	for i, conn := range idle {
		if i < maxConnections {
			if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("connection %d: %v", i, err)
			}
		}
		conn.Close()
	}
	close(answer)
	if err := <-slow; err != nil {
		t.Errorf("the request that was under way: %v", err)
	}
}

// TestFullOfRequestsWaits: where all connections have a request under way, none is closed.
func TestFullOfRequestsWaits(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := newGuests(ln, 1)
	for range 2 {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	first, err := g.Accept()
	if err != nil {
		t.Fatal(err)
	}
	first.(*guest).setBusy(true)
	second := make(chan error, 1)
	go func() {
		conn, err := g.Accept()
		if err == nil {
			conn.Close()
		}
		second <- err
	}()
	first.Close()
	if err := <-second; err != nil {
		t.Error(err)
	}
	third, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer third.Close()
	g.Close()
	if _, err := g.Accept(); err == nil {
		t.Error("accepts when it is closed")
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
