package telemetry

import (
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"kusto-agent/internal/units"
)

// Config says where the agent shows what it does. Start from DefaultConfig.
type Config struct {
	Listen         string    `yaml:"listen"`          // host:port; empty: off
	TokenFile      string    `yaml:"token_file"`      // who asks must bring the token in it; empty: none is needed
	TLS            TLSConfig `yaml:"tls"`             // empty: plain HTTP
	AllowPlaintext bool      `yaml:"allow_plaintext"` // a token may cross the network without TLS
	Log            LogConfig `yaml:"log"`
}

// TLSConfig names the files of the endpoint's certificate. Both or none are set.
type TLSConfig struct {
	CertificateFile string `yaml:"certificate_file"` // PEM, the endpoint's own first
	KeyFile         string `yaml:"key_file"`         // PEM
}

// LogConfig says what is logged and in which form.
type LogConfig struct {
	Level  string `yaml:"level"`  // debug, info, warn or error
	Format string `yaml:"format"` // auto: as suits where it is read; text or json
}

// DefaultConfig returns the settings that apply to every key that the configuration does not set.
func DefaultConfig() Config {
	return Config{Listen: "127.0.0.1:5878", Log: LogConfig{Level: "info", Format: "auto"}}
}

// Validate returns all faults of the section telemetry, each a *units.KeyError that names its key,
// joined with errors.Join; nil if there is none.
func (c Config) Validate() error {
	return errors.Join(
		checkListen(c.Listen),
		c.checkExposure(),
		c.TLS.check(),
		units.OneOf("log.level", c.Log.Level, "debug", "info", "warn", "error"),
		units.OneOf("log.format", c.Log.Format, "auto", "text", "json"))
}

// checkListen returns an error unless addr is empty or host:port with a numeric port.
func checkListen(addr string) error {
	if addr == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(addr)
	if _, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil {
		return units.Bad("listen", "%q is not an address to listen on; want host:port, or \"\" for off", addr)
	}
	return nil
}

// checkExposure returns an error if other machines can reach telemetry.listen and something is
// missing that this needs: a token, and TLS or allow_plaintext. Both faults can come joined.
func (c Config) checkExposure() error {
	if c.Listen == "" || isLocal(c.Listen) || checkListen(c.Listen) != nil { // Validate reports an invalid address
		return nil
	}
	var errs []error
	if c.TokenFile == "" {
		errs = append(errs, units.Bad("listen", "%q can be reached from other machines, so token_file is needed: a file with a token that who asks must bring, made by (umask 027; openssl rand -hex 32 >FILE); or listen on 127.0.0.1", c.Listen))
	}
	if !c.TLS.isSet() && !c.AllowPlaintext {
		errs = append(errs, units.Bad("listen", "%q can be reached from other machines, and the token would cross the network in clear; want tls: {certificate_file: FILE, key_file: FILE}, or allow_plaintext: true where the network is trusted", c.Listen))
	}
	return errors.Join(errs...)
}

// isLocal reports whether addr, host:port to listen on, can be reached only from this machine: its
// host is a loopback address or localhost. Any other name counts as reachable from elsewhere.
func isLocal(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().IsLoopback()
	}
	return strings.EqualFold(host, "localhost")
}

func (c TLSConfig) isSet() bool { return c.CertificateFile != "" && c.KeyFile != "" }

// check returns an error if the configuration names a certificate without a key or a key without a
// certificate.
func (c TLSConfig) check() error {
	switch {
	case c.CertificateFile == "" && c.KeyFile != "":
		return units.Bad("tls.certificate_file", "missing; certificate_file and key_file belong together")
	case c.CertificateFile != "" && c.KeyFile == "":
		return units.Bad("tls.key_file", "missing; certificate_file and key_file belong together")
	}
	return nil
}
