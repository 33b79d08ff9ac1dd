package sender

import (
	"errors"
	"net/url"
	"time"

	"kusto-agent/internal/units"
)

// Config says how requests are made and made again. Start from DefaultConfig.
type Config struct {
	Concurrency    Concurrency    `yaml:"concurrency"` // most requests under way per cluster
	Timeout        units.Duration `yaml:"timeout"`     // of one request, from its start to the end of its answer
	RateLimit      units.Size     `yaml:"rate_limit"`  // bytes a second before gzip; 0: none
	Retry          Retry          `yaml:"retry"`
	ExpectContinue bool           `yaml:"expect_continue"` // ask before the body is sent
	Proxy          string         `yaml:"proxy"`           // URL; empty: HTTPS_PROXY and NO_PROXY. May hold a password
	TLS            TLS            `yaml:"tls"`
}

// Retry says when a request is made again, and when to stop expecting an answer.
type Retry struct {
	Initial  units.Duration `yaml:"initial"`  // before the second attempt
	Max      units.Duration `yaml:"max"`      // the most between two attempts
	Patience units.Duration `yaml:"patience"` // without an acceptance that was wanted, until a route is down
}

// TLS says whom to trust.
type TLS struct {
	CAFile     string `yaml:"ca_file"`     // PEM, of certificates trusted besides those of the system
	MinVersion string `yaml:"min_version"` // 1.2 or 1.3
}

// DefaultConfig returns the settings that apply to every key that the configuration does not set.
func DefaultConfig() Config {
	return Config{
		Concurrency: Auto,
		Timeout:     units.Duration(60 * time.Second),
		Retry: Retry{
			Initial:  units.Duration(500 * time.Millisecond),
			Max:      units.Duration(30 * time.Second),
			Patience: units.Duration(10 * time.Second),
		},
		TLS: TLS{MinVersion: "1.2"},
	}
}

// Validate returns all mistakes in the settings, each as a *units.KeyError, joined into
// one error.
func (c Config) Validate() error {
	var errs []error
	if c.Concurrency < 0 || c.Concurrency > MaxConcurrency {
		errs = append(errs, units.Bad("concurrency", "%d is out of range; want auto, or 1 to %d", c.Concurrency, MaxConcurrency))
	}
	positive := func(key string, d units.Duration) {
		if d <= 0 {
			errs = append(errs, units.Bad(key, "%v is out of range; want more than 0", d))
		}
	}
	positive("timeout", c.Timeout)
	positive("retry.initial", c.Retry.Initial)
	positive("retry.patience", c.Retry.Patience)
	if c.Retry.Max < c.Retry.Initial {
		errs = append(errs, units.Bad("retry.max", "%v is less than retry.initial, %v; want at least that", c.Retry.Max, c.Retry.Initial))
	}
	errs = append(errs, checkProxy(c.Proxy), units.OneOf("tls.min_version", c.TLS.MinVersion, "1.2", "1.3"))
	return errors.Join(errs...)
}

// checkProxy returns nil for an empty string and for the URL of an HTTP or SOCKS5 proxy, otherwise a
// *units.KeyError for the key proxy. The error never quotes the URL, which may hold a password.
func checkProxy(proxy string) error {
	if proxy == "" {
		return nil
	}
	u, err := url.Parse(proxy)
	if err != nil || u.Host == "" {
		return units.Bad("proxy", "not the URL of a proxy; want http://host:port")
	}
	switch u.Scheme {
	case "http", "https", "socks5", "socks5h":
		return nil
	}
	return units.Bad("proxy", "the scheme of the URL is none of http, https, socks5 and socks5h; want http://host:port")
}
