package wire

import (
	"bufio"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/internal/kustotest"
)

func TestConnectionsAreReusedAndAgeOut(t *testing.T) {
	var opened, closed atomic.Int64
	gone := make(chan struct{}, 8)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			opened.Add(1)
		case http.StateClosed:
			closed.Add(1)
			gone <- struct{}{}
		}
	}
	s.Start()
	defer s.Close()
	c := newClient(t, s.URL)
	now := time.Now()
	c.conns.now = func() time.Time { return now }
	post := func(wantOpened int64) {
		t.Helper()
		if a := c.Ingest(t.Context(), sample("x")); a.Verdict != kusto.Accepted || opened.Load() != wantOpened {
			t.Fatalf("got %s over connection %d, want %d", a.Verdict, opened.Load(), wantOpened)
		}
	}
	post(1)
	now = now.Add(connLife - time.Second)
	post(1)
	now = now.Add(time.Second)
	post(2)
	<-gone // the old one, at once
	if closed.Load() != 1 {
		t.Errorf("%d connections closed", closed.Load())
	}
	c.Close()
	<-gone
}

// connectProxy is a proxy that answers CONNECT with a status, and tunnels on
// 200. It notes the credentials it was shown.
func connectProxy(t *testing.T, status int, shown *atomic.Value) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown.Store(r.Method + " " + r.Header.Get("Proxy-Authorization") + r.Header.Get("Authorization"))
		if status != 200 {
			w.WriteHeader(status)
			return
		}
		out, err := net.Dial("tcp", r.Host)
		if err != nil {
			w.WriteHeader(502)
			return
		}
		defer out.Close()
		in := hijack(w)
		defer in.Close()
		io.WriteString(in, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { io.Copy(out, in); out.Close() }() // ends with the client's connection, as the handler does
		io.Copy(in, out)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestProxy(t *testing.T) {
	url, trust := serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
	}, nil)
	f := func(status int, want kusto.Verdict, wantHint string) {
		t.Helper()
		var shown atomic.Value
		proxy := strings.Replace(connectProxy(t, status, &shown), "http://", "http://user:hunter2@", 1)
		c := newClient(t, url, trust, func(o *Options) { o.Proxy, o.Auth = proxy, &kustotest.StaticToken{Bearer: "T"} })
		a := c.Ingest(t.Context(), big())
		if a.Verdict != want || !strings.Contains(a.Hint, wantHint) {
			t.Errorf("%d: got %s, %v, %q", status, a.Verdict, a.Err, a.Hint)
		}
		if a.Err != nil && strings.Contains(a.Err.Error()+a.Hint, "hunter2") {
			t.Errorf("%d: the password is in %v", status, a.Err)
		}
		if got := shown.Load(); got != "CONNECT Basic dXNlcjpodW50ZXIy" {
			t.Errorf("%d: the proxy was shown %q", status, got)
		}
	}
	f(200, kusto.Accepted, "")
	f(407, kusto.NotSent, "send.proxy")
	f(403, kusto.NotSent, "")
	f(503, kusto.NotSent, "")
}

func TestProxyOutOfReach(t *testing.T) {
	c := newClient(t, "https://127.0.0.1:1", func(o *Options) { o.Proxy = "http://user:hunter2@127.0.0.1:1" })
	a := c.Ingest(t.Context(), sample("x"))
	if a.Verdict != kusto.NotSent || !strings.Contains(a.Hint, "proxy") || strings.Contains(a.Err.Error(), "hunter2") {
		t.Errorf("got %s, %v, %q", a.Verdict, a.Err, a.Hint)
	}
}

func TestNetworkHints(t *testing.T) {
	f := func(err error, want string) {
		t.Helper()
		if got := NetHint(err); !strings.Contains(got, want) {
			t.Errorf("%v: got %q, want %q in it", err, got, want)
		}
	}
	f(&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", IsNotFound: true}}, "DNS")
	f(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, "nothing listens")
	f(x509.CertificateInvalidError{Reason: x509.Expired, Cert: &x509.Certificate{}}, "clock")
	f(errors.New("anything"), "firewalls")
	f(nil, "firewalls")
}

// listen wants to hear nothing: whoever says a word fails the test. It looks at the
// socket, where a token would leave.
func listen(t *testing.T, network, addr string) *net.TCPAddr {
	t.Helper()
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Skip("no such address here: ", err)
	}
	done := make(chan struct{})
	go func() { // ends when the listener is closed; the cleanup waits
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.SetReadDeadline(time.Now().Add(time.Second))
			line, err := bufio.NewReader(c).ReadString('\n')
			if !errors.Is(err, io.EOF) || line != "" {
				t.Errorf("a client said %q", line)
			}
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().(*net.TCPAddr)
}

// outward is an address of this machine that is not loopback.
func outward(t *testing.T) string {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Skip(err)
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	t.Skip("this machine has no address but loopback")
	return ""
}

// No token ever leaves in the clear, whatever was configured.
func TestNoTokenEverLeft(t *testing.T) {
	ip := outward(t)
	addr := listen(t, "tcp4", ip+":0").String()
	source := &kustotest.StaticToken{Bearer: "T"}
	for _, url := range []string{"http://" + addr, "http://" + addr + "/base"} {
		if _, err := New(Options{URL: url, AllowUntrusted: true, Auth: source}); err == nil {
			t.Errorf("%s: taken", url)
		}
	}
	if _, err := New(Options{URL: "https://" + addr, Auth: source}); err == nil {
		t.Error("an untrusted host was taken")
	}

	// A client made for this machine, whose name turned out to be another's.
	c := newClient(t, "http://localhost:"+addr[strings.LastIndexByte(addr, ':')+1:], func(o *Options) { o.Auth = source })
	c.conns.fresh = func() *http.Transport {
		n := Network{Plain: true, Idle: 1}
		tr := n.transport(nil, nil)
		tr.DialContext = func(ctx context.Context, netw, _ string) (net.Conn, error) { return n.dial(ctx, netw, addr) }
		return tr
	}
	if a := c.Ingest(t.Context(), sample("x")); a.Verdict != kusto.NotSent || !strings.Contains(a.Err.Message, "plain http") {
		t.Errorf("got %s, %v", a.Verdict, a.Err)
	}

	// A request that somehow is for another address.
	asked := source.Asked
	u := *c.base
	u.Host = addr
	if _, err := c.Authorize((&http.Request{URL: &u, Header: http.Header{}}).WithContext(t.Context())); err == nil || source.Asked != asked {
		t.Errorf("a token was asked for: %v", err)
	}

	// A proxy is no way out in the clear either.
	for _, proxy := range []string{addr, listen(t, "tcp4", "127.0.0.1:0").String()} {
		c = newClient(t, "http://127.0.0.1:1", func(o *Options) { o.Auth, o.Proxy = source, "http://"+proxy })
		if a := c.Ingest(t.Context(), sample("x")); a.Verdict != kusto.NotSent {
			t.Errorf("got %s, %v", a.Verdict, a.Err)
		}
	}
}
