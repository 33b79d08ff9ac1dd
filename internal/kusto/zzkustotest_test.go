// Package kustotest holds what tests of the parts of kusto share: a source of one token,
// servers that break connections, and a list of all hints in a source file.
package kusto

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
)

// StaticToken is a TokenSource of one token that notes what was given up.
type StaticToken struct {
	Bearer string
	Err    error

	mu      sync.Mutex
	Asked   int
	Refused []string
}

func (s *StaticToken) Token(context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Asked++
	return s.Bearer, s.Err
}

func (s *StaticToken) Invalidate(token string, _ *Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Refused = append(s.Refused, token)
}

// Script is the URL of a server that calls f with each connection. The connections are
// closed, and their goroutines awaited, with the test.
func Script(t testing.TB, f func(c *net.TCPConn)) string {
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
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return "http://" + l.Addr().String()
}

// ReadRequest reads one request with its body, and reports whether it was whole.
func ReadRequest(c net.Conn) bool {
	req, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return false
	}
	n, err := io.Copy(io.Discard, req.Body)
	return err == nil && n == req.ContentLength
}

// ReadHead reads a request up to its body, byte by byte, and no further.
func ReadHead(c net.Conn) {
	var last [4]byte
	for b := make([]byte, 1); string(last[:]) != "\r\n\r\n"; {
		if _, err := c.Read(b); err != nil {
			return
		}
		copy(last[:], last[1:])
		last[3] = b[0]
	}
}

// Reset closes a connection so that the other side gets an error.
func Reset(c *net.TCPConn) {
	c.SetLinger(0)
	c.Close()
}
