package telemetry

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// maxStatusBytes bounds what Fetch reads: a hundred thousand files fit.
const maxStatusBytes = 64 << 20

// Fetch asks the agent that listens on addr (Config.Listen as it is
// configured) for its status. The error wraps that of the dial, so that
// errors.Is finds syscall.ECONNREFUSED where no agent listens.
func Fetch(ctx context.Context, addr string) (*Status, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+reachable(addr)+"/api/v1/status", nil)
	if err != nil {
		return nil, fmt.Errorf("ask for status: %w", err)
	}
	transport := &http.Transport{DisableKeepAlives: true} // and no proxy: the agent is near
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("ask for status at %s: %w", addr, err)
	}
	defer resp.Body.Close() // read only
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask for status at %s: answered %s", addr, printable(resp.Status))
	}
	return readStatus(resp.Body)
}

func readStatus(from io.Reader) (*Status, error) {
	var status Status
	if err := json.NewDecoder(io.LimitReader(from, maxStatusBytes)).Decode(&status); err != nil {
		return nil, fmt.Errorf("read status from the agent: %w", err)
	}
	return &status, nil
}

// reachable turns the address of a listener on all interfaces into one that
// can be dialled.
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
