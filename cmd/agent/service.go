package main

import (
	"context"
	"log/slog"
	"os"
	"time"

	"kusto-agent/config"
	"kusto-agent/internal/version"
	"kusto-agent/kusto"
)

// service is how one cluster is reached: its client and its tokens.
type service struct {
	serviceKey
	client *kusto.Client
	tokens *kusto.Tokens // may be those of others too
}

// Ingest makes it a sender.Ingester.
func (s *service) Ingest(ctx context.Context, in *kusto.Ingest) kusto.Answer {
	return s.client.Ingest(ctx, in)
}

// serviceKey is all that a client is made of: as long as it is the same, the client
// stays, with its connections.
type serviceKey struct {
	tokenKey
	name           string
	app, user      string
	timeout        time.Duration
	expectContinue bool
	concurrency    int
}

// tokenKey is all that tokens are made of.
type tokenKey struct {
	url               string
	auth              kusto.AuthConfig
	proxy, ca, minTLS string
	untrusted         bool
	authorities       string // the content of ca
	queryOnly         bool   // nothing is ingested
}

// newService makes the client of a cluster, with tokens of its own if it is given
// none. It makes no request.
func newService(k serviceKey, t *kusto.Tokens, log *slog.Logger) (*service, error) {
	if t == nil {
		var err error
		if t, err = kusto.NewTokenSource(k.auth, k.url, kusto.TokenOptions{
			AllowUntrusted: k.untrusted, QueryOnly: k.queryOnly, Proxy: k.proxy, CAFile: k.ca, MinTLS: k.minTLS, Logger: log,
		}); err != nil {
			return nil, err
		}
	}
	// An error leaves nothing open: tokens hold nothing before one is asked for.
	client, err := kusto.New(kusto.Options{
		URL: k.url, AllowUntrusted: k.untrusted, QueryOnly: k.queryOnly, App: k.app, User: k.user, Version: version.Text(),
		Auth: t, Timeout: k.timeout, ExpectContinue: k.expectContinue,
		Proxy: k.proxy, CAFile: k.ca, MinTLS: k.minTLS, Concurrency: k.concurrency, Logger: log,
	})
	if err != nil {
		return nil, err
	}
	return &service{serviceKey: k, client: client, tokens: t}, nil
}

func keyOf(name string, c config.Cluster, cfg *config.Config) serviceKey {
	s := cfg.Send
	k := serviceKey{
		tokenKey: tokenKey{url: c.URL, auth: c.Auth, proxy: s.Proxy, ca: s.TLS.CAFile, minTLS: s.TLS.MinVersion, untrusted: cfg.AllowUntrustedEndpoint},
		name:     name, app: cfg.App, user: cfg.User,
		timeout: s.Timeout.D(), expectContinue: s.ExpectContinue, concurrency: s.Concurrency,
	}
	if k.ca != "" {
		text, _ := os.ReadFile(k.ca) // who makes the client of it tells what is wrong with it
		k.authorities = string(text)
	}
	return k
}
