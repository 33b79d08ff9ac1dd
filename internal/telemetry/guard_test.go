package telemetry

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"kusto-agent/internal/ledger"
)

const canary = "zq-canary-0123456789abcdef"

// write makes a file that its group may read.
func write(t *testing.T, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
	return path
}

// replace puts another file in the place of one, as programs do that write secrets.
func replace(t *testing.T, path, text string) {
	t.Helper()
	err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o640), os.Rename(path+".new", path))
	if err != nil {
		t.Fatal(err)
	}
}

// certificate is one for nobody in particular, and its key.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	pair := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	form := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der := must(x509.CreateCertificate(rand.Reader, form, form, &pair.PublicKey, pair))
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(pair))}))
}

// encrypted is a configuration with a token and a certificate of its own.
func encrypted(t *testing.T) Config {
	t.Helper()
	cert, key := certificate(t)
	return Config{Listen: "127.0.0.1:0", TokenFile: write(t, "token", canary+"\n"), TLS: TLSConfig{write(t, "crt", cert), write(t, "key", key)}}
}

// guarded is a server with the guard of a configuration, in a state that is worth hiding.
func guarded(t *testing.T, c Config) *Server {
	t.Helper()
	return New(Options{
		Config: c, Guard: must(NewGuard(c, quiet())), Ledger: ledger.New(), Logger: quiet(),
		Status: func() Status { return Status{Version: "9.9.9"} }, Configuration: func() (string, error) { return "cluster: x\n", nil },
		Ready: func() error { return errors.New("the disk is full") },
	})
}

// served runs a server until the end of the test.
func served(t *testing.T, s *Server) (addr string) {
	t.Helper()
	at := must(s.Listen())
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error)
	go func() { ran <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-ran
	})
	return at.String()
}

func TestWhoMaySee(t *testing.T) {
	handler := guarded(t, Config{Listen: "127.0.0.1:0", TokenFile: write(t, "token", canary+"\r\n")}).Handler()
	ask := func(method, path string, sign func(*http.Request)) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, nil)
		r.Host = "localhost"
		if sign != nil {
			sign(r)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	header := func(value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Authorization", value) }
	}
	with := header("Bearer " + canary)
	for _, path := range []string{"/", "/metrics", "/api/v1/status", "/config"} {
		for name, sign := range map[string]func(*http.Request){
			"none": nil, "another": header("Bearer " + canary + "x"), "a part": header("Bearer " + canary[:len(canary)-1]), "empty": header("Bearer "), "nothing": header(""),
			"no scheme": header(canary), "another scheme": header("Token " + canary), "as user": func(r *http.Request) { r.SetBasicAuth(canary, "") },
			"in the query": func(r *http.Request) { r.URL.RawQuery = "token=" + canary },
		} {
			w := ask("GET", path, sign)
			if w.Code != 401 || strings.Contains(w.Body.String(), "9.9.9") || len(w.Header().Values("WWW-Authenticate")) != 2 {
				t.Errorf("%s, %s: %d %s", path, name, w.Code, w.Body)
			}
		}
		for name, sign := range map[string]func(*http.Request){
			"bearer": with, "in small letters": header("bearer " + canary), "as password": func(r *http.Request) { r.SetBasicAuth("anyone", canary) },
		} {
			if w := ask("GET", path, sign); w.Code != 200 {
				t.Errorf("%s, %s: %d", path, name, w.Code)
			}
		}
	}
	for _, path := range []string{"/healthz/../metrics", "/healthz/", "//metrics", "/nothing"} {
		if w := ask("GET", path, nil); w.Code != 401 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	if w := ask("POST", "/metrics", with); w.Code != 405 {
		t.Errorf("POST: %d", w.Code)
	}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503} {
		if w := ask("GET", path, nil); w.Code != want || strings.Contains(w.Body.String(), "disk") {
			t.Errorf("%s without a token: %d %s", path, w.Code, w.Body)
		}
		if w := ask("GET", path, with); w.Code != want || strings.Contains(w.Body.String(), "disk") != (want == 503) {
			t.Errorf("%s with a token: %d %s", path, w.Code, w.Body)
		}
	}
}

func TestExposureNeedsTokenAndTLS(t *testing.T) {
	f := func(c Config, want ...string) {
		t.Helper()
		c.Log = DefaultConfig().Log
		text := ""
		if err := c.Validate(); err != nil {
			text = err.Error()
		}
		if n := strings.Count(text, "\n"); text != "" && n+1 != len(want) || text == "" && len(want) > 0 {
			t.Errorf("%+v is told %q; want %q", c, text, want)
		}
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%+v is told %q; want %q", c, text, w)
			}
		}
	}
	pair := TLSConfig{"a", "b"}
	for _, local := range []string{"", "127.0.0.1:1", "127.8.8.8:1", "[::1]:1", "[::ffff:127.0.0.1]:1", "localhost:1", "LocalHost:1"} {
		f(Config{Listen: local})
		f(Config{Listen: local, TokenFile: "x"})
	}
	for _, open := range []string{":1", "0.0.0.0:1", "[::]:1", "192.0.2.1:1", "[fe80::1%eth0]:1", "logbox:1", "localhost.example:1", "127.0.0.1.example:1"} {
		f(Config{Listen: open}, "token_file is needed", "allow_plaintext")
		f(Config{Listen: open, TokenFile: "x"}, "allow_plaintext: true")
		f(Config{Listen: open, TLS: pair}, "token_file is needed")
		f(Config{Listen: open, AllowPlaintext: true}, "token_file is needed")
		f(Config{Listen: open, TokenFile: "x", TLS: TLSConfig{CertificateFile: "a"}}, "allow_plaintext", "tls.key_file: missing")
		f(Config{Listen: open, TokenFile: "x", TLS: pair})
		f(Config{Listen: open, TokenFile: "x", AllowPlaintext: true})
	}
	f(Config{Listen: "127.0.0.1:1", TLS: TLSConfig{KeyFile: "b"}}, "tls.certificate_file: missing")
}

func TestAGuardNeedsItsFiles(t *testing.T) {
	f := func(c Config, want string) {
		t.Helper()
		c.Listen = "127.0.0.1:0"
		if _, err := NewGuard(c, quiet()); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "zq-canary") || !strings.Contains(err.Error(), "; ") {
			t.Errorf("%+v: %v; want %s, and what to do", c, err, want)
		}
	}
	token := func(text string) Config { return Config{TokenFile: write(t, "token", text)} }
	f(Config{TokenFile: "/nowhere"}, "openssl rand")
	f(Config{TokenFile: t.TempDir()}, "is no file")
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	f(Config{TokenFile: fifo}, "is no file")
	f(token(""), "has 0 bytes")
	f(token("zq-canary\n"), "has 9 bytes; want 16")
	f(token(strings.Repeat("zq-canary", 1000)), "want 16 to 4096")
	f(token("zq-canary with blanks"), "at byte 9")
	f(token("zq-canary-0123456789\nsecond"), "at byte 20")
	open := token(canary)
	if err := os.Chmod(open.TokenFile, 0o644); err != nil {
		t.Fatal(err)
	}
	f(open, "chmod o=")
	cert, key := certificate(t)
	f(Config{TLS: TLSConfig{write(t, "crt", cert), write(t, "key", "zq-canary")}}, "telemetry.tls")
	_, other := certificate(t)
	f(Config{TLS: TLSConfig{write(t, "crt", cert), write(t, "key", other)}}, "telemetry.tls")
	f(Config{TLS: TLSConfig{"/nowhere", write(t, "key", key)}}, "/nowhere")
	if _, err := NewGuard(Config{TokenFile: "/nowhere"}, quiet()); err != nil {
		t.Errorf("where nobody listens: %v", err)
	}
}

// What was not meant to be reached from elsewhere is not, whatever the name has led to.
func TestNoTokenNoListeningBeyondLoopback(t *testing.T) {
	var log strings.Builder
	s := New(Options{Config: Config{Listen: "0.0.0.0:0"}, Ledger: ledger.New(), Logger: NewLogger(LogConfig{Format: "text"}, &log), Status: func() Status { return Status{} }})
	if err := s.Run(t.Context()); err != nil || !strings.Contains(log.String(), `fix="set telemetry.token_file, or`) {
		t.Errorf("%v, logs %s", err, log.String())
	}
	if addr, err := s.Listen(); err == nil || !strings.Contains(err.Error(), "no token guards it") {
		t.Errorf("%v %v", addr, err)
	}
	c := Config{Listen: "0.0.0.0:0", TokenFile: write(t, "token", canary), AllowPlaintext: true}
	c.Listen = served(t, guarded(t, c))
	if _, err := Fetch(t.Context(), c); err != nil {
		t.Errorf("with a token: %v", err)
	}
}

func TestFetchByTokenAndCertificate(t *testing.T) {
	c := encrypted(t)
	c.Listen = served(t, guarded(t, c))
	if s, err := Fetch(t.Context(), c); err != nil || s.Version != "9.9.9" {
		t.Fatalf("%+v %v", s, err)
	}
	bare := c
	bare.TokenFile = ""
	if _, err := Fetch(t.Context(), bare); err == nil || !strings.Contains(err.Error(), "wants the token") {
		t.Errorf("without a token: %v", err)
	}
	other, _ := certificate(t)
	foreign := c
	foreign.TLS.CertificateFile = write(t, "other", other)
	if _, err := Fetch(t.Context(), foreign); err == nil || !strings.Contains(err.Error(), "not the one of") {
		t.Errorf("with another certificate: %v", err)
	}
	plain, err := http.Get("http://" + c.Listen + "/healthz")
	if err != nil || plain.StatusCode != http.StatusBadRequest {
		t.Errorf("without TLS: %v %v", plain, err)
	} else {
		plain.Body.Close()
	}
	http.DefaultClient.CloseIdleConnections()
}

// A new token and a new certificate hold without a restart, and a bad one changes nothing
// but that the log says so.
func TestFilesAreReadAgain(t *testing.T) {
	c := encrypted(t)
	var log strings.Builder
	s := guarded(t, c)
	s.opts.Guard = must(NewGuard(c, NewLogger(LogConfig{Format: "text"}, &log)))
	c.Listen = served(t, s)
	ok := func(want bool, when string) {
		t.Helper()
		if _, err := Fetch(t.Context(), c); (err == nil) != want {
			t.Errorf("%s: %v", when, err)
		}
	}
	ok(true, "at first")
	old := c
	old.TokenFile = write(t, "old", canary)
	replace(t, c.TokenFile, strings.Repeat("n", 20))
	ok(true, "with the new token")
	c, old = old, c
	ok(false, "with the old token")
	c = old

	cert, key := certificate(t)
	was := c.TLS
	c.TLS.CertificateFile = write(t, "was", string(must(os.ReadFile(c.TLS.CertificateFile))))
	replace(t, was.KeyFile, "zq-canary")
	ok(true, "with a bad key")
	ok(true, "with a bad key, once more")
	replace(t, was.KeyFile, key)
	replace(t, was.CertificateFile, cert)
	ok(false, "with the certificate of before")
	c.TLS = was
	ok(true, "with the new certificate")

	if err := os.Remove(c.TokenFile); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r := must(http.NewRequest(http.MethodGet, "/metrics", nil))
		r.Header.Set("Authorization", "Bearer "+strings.Repeat("n", 20))
		if s.opts.Guard.allows(r) {
			t.Error("without a file the token is taken")
		}
	}
	if text := log.String(); strings.Count(text, "certificate cannot be loaded") != 1 || strings.Count(text, "token file of the telemetry endpoint cannot be read") != 1 || strings.Contains(text, "zq-canary") {
		t.Errorf("log: %s", text)
	}
}

// TestIdleConnectionsKeepNobodyWaitingOverTLS: as without TLS, with connections that never
// begin it, and with some that got their answer and are kept.
func TestIdleConnectionsKeepNobodyWaitingOverTLS(t *testing.T) {
	c := encrypted(t)
	s := guarded(t, c)
	s.headTime = time.Hour // so that nothing else closes them
	c.Listen = served(t, s)
	for range maxConnections {
		defer must(net.Dial("tcp", c.Listen)).Close()
	}
	for range maxConnections + 1 {
		transport := &http.Transport{TLSClientConfig: must(onlyWith(c.TLS.CertificateFile))}
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: transport, Timeout: 30 * time.Second} // sooner than the server ends who is idle
		answer, err := client.Get("https://" + c.Listen + "/healthz")
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(io.Discard, answer.Body)
		if answer.Body.Close(); err != nil || answer.StatusCode != http.StatusOK {
			t.Fatal(answer.Status, err)
		}
	}
}
