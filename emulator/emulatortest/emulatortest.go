// Package emulatortest starts emulators for tests: each ends with its test.
package emulatortest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"

	"kusto-agent/emulator"
)

// Start returns a server that listens on a free loopback port, at its URL,
// until the test ends.
func Start(t testing.TB, o emulator.Options) *emulator.Server {
	t.Helper()
	s := emulator.New(o)
	if _, err := s.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close emulator: %v", err)
		}
	})
	return s
}

// Transport calls h without any socket, so that a test can run under the fake
// clock of testing/synctest. Host names in URLs are of no account. An answer is
// handed over when it is complete (one without end, never); a broken connection is ECONNRESET. It is
// safe for concurrent use.
func Transport(h http.Handler) http.RoundTripper { return transport{h} }

type transport struct{ h http.Handler }

// RoundTrip lets the handler answer the request and returns its complete answer. A handler that aborts
// (http.ErrAbortHandler) gives ECONNRESET, or the cause of the request's context if that has ended.
func (t transport) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	defer func() {
		if v := recover(); v == http.ErrAbortHandler {
			resp, err = nil, cmp.Or(context.Cause(r.Context()), fmt.Errorf("round trip in process: %w", syscall.ECONNRESET))
		} else if v != nil {
			panic(v)
		}
		if r.Body != nil {
			err = errors.Join(err, r.Body.Close())
		}
	}()
	in := r.Clone(r.Context())
	if in.Body == nil {
		in.Body = http.NoBody
	}
	if in.Host == "" {
		in.Host = r.URL.Host
	}
	in.RequestURI = r.URL.RequestURI()
	w := httptest.NewRecorder()
	t.h.ServeHTTP(w, in)
	if err := context.Cause(r.Context()); err != nil {
		return nil, err
	}
	resp = w.Result()
	resp.Request = r
	if resp.ContentLength > int64(w.Body.Len()) { // the handler announced more than it wrote
		resp.Body = cutShort{resp.Body}
	}
	return resp, nil
}

// cutShort is a body that ends before its announced length.
type cutShort struct{ io.ReadCloser }

// Read returns io.ErrUnexpectedEOF at the end, as the body of a broken connection does.
func (c cutShort) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if err == io.EOF { // never wrapped, by the contract of io.Reader
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
