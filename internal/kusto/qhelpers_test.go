package kusto

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// newQuerier is a client for url that is closed with the test.
func newQuerier(t testing.TB, url string, change ...func(*Options)) *Querier {
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
	return &Querier{c}
}

// serveQueries is a client for a handler, over a socket.
func serveQueries(t testing.TB, h http.HandlerFunc, change ...func(*Options)) *Querier {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return newQuerier(t, s.URL, change...)
}
