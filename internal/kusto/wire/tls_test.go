package wire

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/internal/kustotest"
)

func TestTLS(t *testing.T) {
	var proto string
	url, trust := serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
		proto = r.Proto
		io.Copy(io.Discard, r.Body)
	}, func(c *tls.Config) { c.NextProtos = []string{"h2", "http/1.1"} })
	c := newClient(t, url, trust, func(o *Options) { o.MinTLS = "1.3" })
	if a := c.Ingest(t.Context(), big()); a.Verdict != kusto.Accepted || proto != "HTTP/1.1" {
		t.Errorf("got %s over %s, %v", a.Verdict, proto, a.Err)
	}
}

// Nothing of a request is sent to a server that does not prove who it is.
func TestTLSRefused(t *testing.T) {
	f := func(name, wantHint string, change func(*tls.Config), opts ...func(*Options)) {
		t.Run(name, func(t *testing.T) {
			url, trust := serveTLS(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was made") }, change)
			if opts == nil {
				opts = append(opts, trust)
			}
			opts = append(opts, func(o *Options) { o.Auth = &kustotest.StaticToken{Bearer: "T"} })
			if name == "other host" {
				url = strings.Replace(url, "127.0.0.1", "localhost", 1)
			}
			a := newClient(t, url, opts...).Ingest(t.Context(), sample("x"))
			if a.Verdict != kusto.NotSent || a.Wrote || !strings.Contains(a.Hint, wantHint) {
				t.Errorf("got %s, %v, hint %q", a.Verdict, a.Err, a.Hint)
			}
		})
	}
	f("unknown authority", "ca_file", nil, func(*Options) {})
	f("other host", "for another host", nil)
	f("old version", "min_version", func(c *tls.Config) { c.MaxVersion, c.MinVersion = tls.VersionTLS11, tls.VersionTLS10 })
}

func TestNoTLSThere(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer s.Close()
	c := newClient(t, strings.Replace(s.URL, "http", "https", 1))
	if a := c.Ingest(t.Context(), sample("x")); a.Verdict != kusto.NotSent || !strings.Contains(a.Hint, "check the port") {
		t.Errorf("got %s, %v, %q", a.Verdict, a.Err, a.Hint)
	}
}

// hijack takes the connection from the server below HTTP.
func hijack(w http.ResponseWriter) net.Conn {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	return c
}

// Under TLS the goodbye of a connection is a write too. Its failure must not
// make a request that was sent whole look as if it was not.
func TestTLSResetAndTimeoutAfterTheBody(t *testing.T) {
	t.Run("reset", func(t *testing.T) {
		url, trust := serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			kustotest.Reset(hijack(w).(*tls.Conn).NetConn().(*net.TCPConn))
		}, nil)
		if a := newClient(t, url, trust).Ingest(t.Context(), big()); a.Verdict != kusto.Unknown || !a.Wrote {
			t.Errorf("got %s, wrote %v, %v", a.Verdict, a.Wrote, a.Err)
		}
	})
	t.Run("timeout", func(t *testing.T) {
		url, trust := serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			io.Copy(io.Discard, hijack(w)) // until the client goes
		}, nil)
		if a := newClient(t, url, trust, timeout(time.Second)).Ingest(t.Context(), sample("x")); a.Verdict != kusto.Unknown || !a.Wrote {
			t.Errorf("got %s, wrote %v, %v", a.Verdict, a.Wrote, a.Err)
		}
	})
}

func TestTLSResetBeforeTheBodyIsWhole(t *testing.T) {
	url, trust := serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
		io.CopyN(io.Discard, r.Body, 1000)
		kustotest.Reset(hijack(w).(*tls.Conn).NetConn().(*net.TCPConn))
	}, nil)
	if a := newClient(t, url, trust).Ingest(t.Context(), big()); a.Verdict != kusto.NotSent || a.Wrote {
		t.Errorf("got %s, wrote %v, %v", a.Verdict, a.Wrote, a.Err)
	}
}

func TestTLSEarlyRefusalIsRead(t *testing.T) {
	url, trust := serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
		c := hijack(w)
		io.WriteString(c, answer("413 Too Large", ""))
		c.(*tls.Conn).NetConn().Close()
	}, nil)
	for range 20 {
		if a := newClient(t, url, trust).Ingest(t.Context(), big()); a.Verdict != kusto.TooLarge {
			t.Fatalf("got %s, %v", a.Verdict, a.Err)
		}
	}
}

// What the goodbye of TLS writes is part of no request.
func TestGoodbyeIsNoPartOfARequest(t *testing.T) {
	near, far := net.Pipe()
	far.Close()
	c := &conn{Conn: near}
	c.SetWriteDeadline(time.Now())
	if _, err := c.Write([]byte("bye")); err == nil || c.broken.Load() {
		t.Errorf("error %v, broken %v", err, c.broken.Load())
	}
	c = &conn{Conn: near}
	if n, err := c.Write([]byte("body")); n != 4 || err != nil || !c.broken.Load() {
		t.Errorf("%d bytes, error %v, broken %v", n, err, c.broken.Load())
	}
}

// TestProbe: what is told of the way, well or not.
func TestProbe(t *testing.T) {
	path := ""
	url, trust := serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
		path = r.URL.Path
		if r.Header.Get("Authorization") != "" {
			t.Error("a token was sent")
		}
		w.WriteHeader(http.StatusNotFound)
	}, nil)
	token := func(o *Options) { o.Auth = &kustotest.StaticToken{Bearer: "T"} }
	w, err := newClient(t, url+"/below", trust, token).Probe(t.Context())
	if err != nil || w.Status != 404 || w.Leaf == nil || w.TLS != "TLS 1.3" || !w.Dated || w.Ahead.Abs() > time.Hour || w.Remote != strings.TrimPrefix(url, "https://") || w.Proxy != "" {
		t.Errorf("%+v, %v", w, err)
	}
	if path != "/v1/rest/auth/metadata" {
		t.Errorf("asked for %s", path)
	}
	if w, err := newClient(t, url, token).Probe(t.Context()); !kusto.Unreached(err) || w.Status != 0 || w.Dated {
		t.Errorf("without trust: %+v, %v", w, err)
	}
	var shown atomic.Value
	proxy := connectProxy(t, 200, &shown)
	w, err = newClient(t, url, trust, token, func(o *Options) { o.Proxy = proxy }).Probe(t.Context())
	if err != nil || w.Proxy != strings.TrimPrefix(proxy, "http://") || w.Leaf == nil {
		t.Errorf("by a proxy: %+v, %v", w, err)
	}
}
