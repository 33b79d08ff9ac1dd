package wire

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	number "math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/internal/kustotest"
)

// expired is a certificate for this machine whose time is over, and the file of its
// authority, which is the certificate itself.
func expired(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{
		SerialNumber: number.NewInt(1), NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(-24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, of, of, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}

// Nothing of a request is sent to a server whose certificate has expired.
func TestTLSExpired(t *testing.T) {
	cert, file := expired(t)
	url, _ := serveTLS(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was made") }, func(c *tls.Config) {
		c.Certificates = []tls.Certificate{cert}
	})
	c := newClient(t, url, func(o *Options) { o.CAFile, o.Auth = file, &kustotest.StaticToken{Bearer: "T"} })
	if a := c.Ingest(t.Context(), sample("x")); a.Verdict != kusto.NotSent || a.Wrote || !strings.Contains(a.Hint, "clock") {
		t.Errorf("got %s, %v, hint %q", a.Verdict, a.Err, a.Hint)
	}
}

// A handshake that nobody answers ends with the time-out, and nothing was sent.
func TestTLSHandshakeStalls(t *testing.T) {
	url := kustotest.Script(t, func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) })
	c := newClient(t, strings.Replace(url, "http:", "https:", 1), timeout(time.Second))
	if a := c.Ingest(t.Context(), sample("x")); a.Verdict != kusto.NotSent || a.Wrote {
		t.Errorf("got %s, wrote %v, %v", a.Verdict, a.Wrote, a.Err)
	}
}
