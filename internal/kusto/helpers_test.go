package kusto

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// staticToken is a TokenSource of one token that notes what was given up.
type staticToken struct {
	token string
	err   error

	mu      sync.Mutex
	asked   int
	refused []string
}

func (s *staticToken) Token(context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	return s.token, s.err
}

func (s *staticToken) Invalidate(token string, _ *Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = append(s.refused, token)
}

// newClient is a client for url that is closed with the test.
func newClient(t testing.TB, url string, change ...func(*Options)) *Client {
	t.Helper()
	o := Options{URL: url, App: "test", Version: "1.2.3", Timeout: 30 * time.Second}
	for _, f := range change {
		f(&o)
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// serve is a client for a handler, over a socket.
func serve(t testing.TB, h http.HandlerFunc, change ...func(*Options)) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return newClient(t, s.URL, change...)
}

// script is a client for a server that does as it likes with each connection.
// The connections are closed, and their goroutines awaited, with the test.
func script(t testing.TB, f func(c *net.TCPConn), change ...func(*Options)) *Client {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { // ends when the listener is closed
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { // ends with f; t.Cleanup waits
				defer nc.Close()
				f(nc.(*net.TCPConn))
			})
		}
	})
	c := newClient(t, "http://"+l.Addr().String(), change...)
	t.Cleanup(func() { l.Close(); c.Close(); wg.Wait() })
	return c
}

// readRequest reads one request with its body, and says whether it was whole.
func readRequest(c net.Conn) bool {
	req, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return false
	}
	n, err := io.Copy(io.Discard, req.Body)
	return err == nil && n == req.ContentLength
}

// readHead reads a request up to its body, byte by byte, and no further.
func readHead(c net.Conn) {
	var last [4]byte
	for b := make([]byte, 1); string(last[:]) != "\r\n\r\n"; {
		if _, err := c.Read(b); err != nil {
			return
		}
		copy(last[:], last[1:])
		last[3] = b[0]
	}
}

// reset closes a connection so that the other side is told of an error.
func reset(c *net.TCPConn) {
	c.SetLinger(0)
	c.Close()
}

func sample(body string) *Ingest {
	return &Ingest{Database: "Logs", Table: "App", Format: "JSON", Mapping: "m", Body: []byte(body), RequestID: "kusto-agent.ingest;id;1"}
}

func big() *Ingest {
	in := sample("")
	in.Body = make([]byte, 8<<20)
	return in
}

func timeout(d time.Duration) func(*Options) { return func(o *Options) { o.Timeout = d } }
