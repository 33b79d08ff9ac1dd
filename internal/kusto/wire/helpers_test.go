package wire

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/internal/kustotest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

func sample(body string) *kusto.Ingest {
	return &kusto.Ingest{Database: "Logs", Table: "App", Format: "JSON", Mapping: "m", Body: []byte(body), RequestID: "kusto-agent.ingest;id;1"}
}

func big() *kusto.Ingest {
	in := sample("")
	in.Body = make([]byte, 8<<20)
	return in
}

func timeout(d time.Duration) func(*Options) { return func(o *Options) { o.Timeout = d } }

// script is a client for a server that does as it likes with each connection.
func script(t testing.TB, f func(c *net.TCPConn), change ...func(*Options)) *Client {
	return newClient(t, kustotest.Script(t, f), change...)
}

// serveTLS is kustotest.ServeTLS with the option that trusts the server.
func serveTLS(t *testing.T, h http.HandlerFunc, change func(*tls.Config)) (url string, trust func(*Options)) {
	url, file := kustotest.ServeTLS(t, h, change)
	return url, func(o *Options) { o.CAFile = file }
}
