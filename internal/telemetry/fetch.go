package telemetry

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"time"
)

// maxStatusBytes bounds what Fetch reads: a hundred thousand files fit.
const maxStatusBytes = 64 << 20

// ErrToken is in the error of Fetch if the agent wants another token than that of the configuration, or
// wants one and there is none.
var ErrToken = errors.New("it wants the token of its telemetry.token_file")

// Fetch asks the agent that listens at telemetry.listen for its status, with the token and over TLS
// if the configuration has them; with TLS only the configured certificate is accepted. errors.Is
// finds syscall.ECONNREFUSED if no agent listens there.
func Fetch(ctx context.Context, c Config) (*Status, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	transport := &http.Transport{DisableKeepAlives: true} // no proxy either: the agent is near
	scheme := "http"
	if c.TLS.isSet() {
		scheme = "https"
		var err error
		if transport.TLSClientConfig, err = onlyWith(c.TLS.CertificateFile); err != nil {
			return nil, fmt.Errorf("ask for status: telemetry.tls.certificate_file: %w", err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+reachable(c.Listen)+"/api/v1/status", nil)
	if err != nil {
		return nil, fmt.Errorf("ask for status: %w", err)
	}
	if c.TokenFile != "" {
		token, err := readToken(c.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("ask for status: %w", err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("ask for status at %s: %w", c.Listen, err)
	}
	defer resp.Body.Close() // read only
	switch resp.StatusCode {
	case http.StatusOK:
		return readStatus(resp.Body)
	case http.StatusUnauthorized:
		return nil, fmt.Errorf("ask for status at %s: %w; name its configuration with --config and ask as root or as the user of the agent, or ask over its socket with --state-dir", c.Listen, ErrToken)
	}
	return nil, fmt.Errorf("ask for status at %s: answered %s", c.Listen, Printable(resp.Status))
}

// onlyWith returns TLS settings that accept the one certificate in the file, whatever names it has
// and whoever signed it.
func onlyWith(file string) (*tls.Config, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, fmt.Errorf("%s does not begin with a certificate", Printable(file))
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, // VerifyConnection compares the certificate itself
		VerifyConnection: func(state tls.ConnectionState) error {
			if !bytes.Equal(state.PeerCertificates[0].Raw, block.Bytes) {
				return fmt.Errorf("the certificate is not the one of %s", Printable(file))
			}
			return nil
		},
	}, nil
}

// readStatus decodes a status document of at most maxStatusBytes.
func readStatus(from io.Reader) (*Status, error) {
	var status Status
	if err := json.NewDecoder(io.LimitReader(from, maxStatusBytes)).Decode(&status); err != nil {
		return nil, fmt.Errorf("read status from the agent: %w", err)
	}
	return &status, nil
}

// reachable returns the address to dial for the listening address addr: if addr stands for all
// interfaces, localhost with its port, otherwise addr.
func reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		return net.JoinHostPort("localhost", port)
	}
	return addr
}
