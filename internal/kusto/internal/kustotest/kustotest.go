// Package kustotest has what the tests of the parts of kusto share: a source of one token,
// servers that break connections or speak TLS, and a list of the hints in a source file.
package kustotest

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unicode"
	"unicode/utf8"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/internal/reply"
)

// StaticToken is a TokenSource of one token that notes what was given up.
type StaticToken struct {
	Bearer string
	Err    error

	mu      sync.Mutex
	Asked   int
	Refused []string
}

// Token implements the source of tokens of a client: it returns the fields Bearer and Err, and
// counts the call in Asked.
func (s *StaticToken) Token(context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Asked++
	return s.Bearer, s.Err
}

// Invalidate notes in Refused that the service refused the token. Token returns the same one again.
func (s *StaticToken) Invalidate(token string, _ *kusto.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Refused = append(s.Refused, token)
}

// Script starts a TCP server that calls f with each connection, and returns its URL. The connections
// are closed when f returns, and their goroutines awaited at the end of the test.
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

// ReadRequest reads one HTTP request with its body and returns true if it was complete.
func ReadRequest(c net.Conn) bool {
	req, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return false
	}
	n, err := io.Copy(io.Discard, req.Body)
	return err == nil && n == req.ContentLength
}

// ReadHead reads the head of an HTTP request byte by byte, and nothing of its body. It also returns
// if the connection ends early.
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

// ServeTLS starts a server with a certificate of its own. It returns its URL and a PEM file with that
// certificate. change may alter the TLS settings; nil leaves them.
func ServeTLS(t *testing.T, h http.HandlerFunc, change func(*tls.Config)) (url, caFile string) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.TLS = &tls.Config{}
	if change != nil {
		change(s.TLS)
	}
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that are meant to fail
	s.StartTLS()
	t.Cleanup(s.Close)
	file := filepath.Join(t.TempDir(), "ca.pem")
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(file, cert, 0o600); err != nil {
		t.Fatal(err)
	}
	return s.URL, file
}

// MustBePrintable fails the test unless s is one line of bounded length that a terminal can show.
func MustBePrintable(t *testing.T, s string) {
	t.Helper()
	if len(s) > 4*reply.MaxMessage || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Fatalf("not one bounded printable line: %q", s)
	}
}
