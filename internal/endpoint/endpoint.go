// Package endpoint makes clients of clusters as a configuration describes them: two with
// an equal Key behave the same, so that one can stand for the other. To make one sends
// nothing.
package endpoint

import (
	"log/slog"
	"os"
	"time"

	"kusto-agent/internal/config"
	"kusto-agent/internal/kusto/credential"
	"kusto-agent/internal/kusto/query"
	"kusto-agent/internal/kusto/wire"
	"kusto-agent/internal/version"
)

// Endpoint is how one cluster is reached: its client and its tokens.
type Endpoint struct {
	Key
	*query.Client                    // makes it a sender.Ingester
	Tokens        *credential.Tokens // may be those of others too
}

// Key is all that a client is made of: as long as it is the same, the client
// stays, with its connections.
type Key struct {
	TokenKey
	Name           string
	app, user      string
	timeout        time.Duration
	expectContinue bool
	concurrency    int
	config         string // see wire.Options.Config
}

// TokenKey is all that tokens are made of.
type TokenKey struct {
	URL               string
	auth              credential.Config
	proxy, ca, minTLS string
	untrusted         bool
	authorities       string // the content of ca
	queryOnly         bool   // nothing is ingested
}

// RenewsAuthorities reports whether the CA file of k has another content than it had for was.
func (k Key) RenewsAuthorities(was Key) bool {
	return k.ca == was.ca && k.authorities != was.authorities
}

// New returns the endpoint (client and tokens) of a cluster with the settings in k. If t is nil it
// makes a source of tokens for the cluster. It makes no request.
func New(k Key, t *credential.Tokens, log *slog.Logger) (*Endpoint, error) {
	if t == nil {
		var err error
		if t, err = credential.New(k.auth, k.URL, credential.Options{
			AllowUntrusted: k.untrusted, QueryOnly: k.queryOnly, Proxy: k.proxy, CAFile: k.ca, MinTLS: k.minTLS, Logger: log,
		}); err != nil {
			return nil, err
		}
	}
	// After an error nothing is left open: t holds no connection before its first token request.
	client, err := wire.New(wire.Options{
		URL: k.URL, AllowUntrusted: k.untrusted, QueryOnly: k.queryOnly, App: k.app, User: k.user, Version: version.Text(),
		Auth: t, Timeout: k.timeout, ExpectContinue: k.expectContinue,
		Proxy: k.proxy, CAFile: k.ca, MinTLS: k.minTLS, Concurrency: k.concurrency, Config: k.config, Logger: log,
	})
	if err != nil {
		return nil, err
	}
	return &Endpoint{Key: k, Client: &query.Client{Client: client}, Tokens: t}, nil
}

// KeyOf returns the key of a cluster: all settings of which its client and tokens are made, so that
// a reload keeps a client whose key has not changed. c is its part of the configuration and name
// its name there. The key holds the content of the CA file too; a file that cannot be read counts
// as empty here, and New reports it.
func KeyOf(name string, c config.Cluster, cfg *config.Config) Key {
	s := cfg.Send
	k := Key{
		TokenKey: TokenKey{URL: c.URL, auth: c.Auth, proxy: s.Proxy, ca: s.TLS.CAFile, minTLS: s.TLS.MinVersion, untrusted: cfg.AllowUntrustedEndpoint},
		Name:     name, app: cfg.App, user: cfg.User,
		timeout: s.Timeout.D(), expectContinue: s.ExpectContinue, concurrency: s.Concurrency.Most(), config: cfg.Argument(),
	}
	if k.ca != "" {
		text, _ := os.ReadFile(k.ca)
		k.authorities = string(text)
	}
	return k
}
