package emulator

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// TestTLS: a client that trusts the authority reaches the server by each of its
// names, one that does not is stopped by the certificate, and where to sign in is
// told with https.
func TestTLS(t *testing.T) {
	s := start(t, Options{TLS: true})
	if !strings.HasPrefix(s.URL(), "https://127.0.0.1:") {
		t.Fatalf("URL is %s", s.URL())
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(s.Authority()) {
		t.Fatalf("no authority: %q", s.Authority())
	}
	ask := func(host string, roots *x509.CertPool) (string, error) {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: host}}
		defer transport.CloseIdleConnections()
		resp, err := (&http.Client{Transport: transport}).Get(s.URL() + "/v1/rest/auth/metadata")
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return string(body), err
	}
	for _, host := range []string{"127.0.0.1", "::1", "localhost"} {
		body, err := ask(host, pool)
		if err != nil || !strings.Contains(body, `"LoginEndpoint":"`+s.URL()) {
			t.Errorf("as %s: %v %s", host, err, body)
		}
	}
	if _, err := ask("kusto.example", pool); err == nil {
		t.Error("the certificate holds for another name")
	}
	if _, err := ask("localhost", x509.NewCertPool()); err == nil {
		t.Error("the certificate holds without its authority")
	}
	if again := start(t, Options{TLS: true}); bytes.Equal(again.Authority(), s.Authority()) {
		t.Error("two servers have one authority")
	}
}

// TestResetOverTLS: a fault that resets breaks a connection with TLS too.
func TestResetOverTLS(t *testing.T) {
	s := start(t, Options{TLS: true})
	s.Fail(Fault{Reset: true})
	conn, err := tls.Dial("tcp", strings.TrimPrefix(s.URL(), "https://"), &tls.Config{InsecureSkipVerify: true}) // it is what breaks that counts
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "POST /v1/rest/ingest/Logs/App?streamFormat=TXT HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\na\n"); err != nil {
		t.Fatal(err)
	}
	_, err = io.ReadAll(conn)
	if _, reset := err.(*net.OpError); !reset {
		t.Errorf("reading ends with %v", err)
	}
}
