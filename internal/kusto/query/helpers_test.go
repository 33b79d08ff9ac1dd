package query

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"kusto-agent/internal/kusto/wire"
)

// newQuerier is a client for url that is closed with the test.
func newQuerier(t testing.TB, url string, change ...func(*wire.Options)) *Client {
	t.Helper()
	o := wire.Options{URL: url, App: "test", Version: "1.2.3", Timeout: 30 * time.Second}
	for _, f := range change {
		f(&o)
	}
	c, err := wire.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &Client{c}
}

// serveQueries is a client for a handler, over a socket.
func serveQueries(t testing.TB, h http.HandlerFunc, change ...func(*wire.Options)) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return newQuerier(t, s.URL, change...)
}
