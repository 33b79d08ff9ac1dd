package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"kusto-agent/config"
	"kusto-agent/internal/version"
	"kusto-agent/kusto"
	"kusto-agent/sender"
)

// service is how one cluster is reached: its client and its tokens.
type service struct {
	serviceKey
	client *kusto.Client
	tokens *tokens
}

// tokens are those of a cluster, for one service or several that follow each other.
type tokens struct {
	*kusto.Tokens
	users int // services; guarded by agent.mu
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
func newService(k serviceKey, t *tokens, log *slog.Logger) (*service, error) {
	if t == nil {
		source, err := kusto.NewTokenSource(k.auth, k.url, kusto.TokenOptions{
			AllowUntrusted: k.untrusted, QueryOnly: k.queryOnly, Proxy: k.proxy, CAFile: k.ca, MinTLS: k.minTLS, Logger: log,
		})
		if err != nil {
			return nil, err
		}
		t = &tokens{Tokens: source} // it holds nothing before a token is asked for
	}
	client, err := kusto.New(kusto.Options{
		URL: k.url, AllowUntrusted: k.untrusted, QueryOnly: k.queryOnly, App: k.app, User: k.user, Version: version.Text(),
		Auth: t.Tokens, Timeout: k.timeout, ExpectContinue: k.expectContinue,
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

// services are the services of a configuration that is not in force yet.
type services struct {
	*agent
	all   map[string]*service // by URL
	fresh []*service          // those of them that were made for it
}

// makeServices makes the clients of the clusters that inputs send to, or for which
// something waits in the spool. Those that would be as they are stay.
func (a *agent) makeServices(cfg *config.Config) (*services, error) {
	used := make(map[string]bool)
	for i := range cfg.Inputs {
		used[cfg.Inputs[i].ClusterURL] = true
	}
	for _, r := range a.spool.Routes() {
		used[r.Cluster] = true
	}
	made := &services{agent: a, all: make(map[string]*service)}
	for _, name := range slices.Sorted(maps.Keys(cfg.Clusters)) {
		c := cfg.Clusters[name]
		if !used[c.URL] || made.all[c.URL] != nil {
			continue
		}
		if err := made.make(keyOf(name, c, cfg)); err != nil {
			made.discard()
			return nil, fmt.Errorf("cluster %s: %w", name, err)
		}
	}
	return made, nil
}

func (m *services) make(k serviceKey) error {
	m.mu.Lock()
	was := m.services[k.url]
	m.mu.Unlock()
	if was != nil && was.serviceKey == k {
		m.all[k.url] = was
		return nil
	}
	var shared *tokens
	if was != nil && was.tokenKey == k.tokenKey {
		shared = was.tokens
	}
	s, err := newService(k, shared, m.log.With("cluster", k.name))
	if err != nil {
		return err
	}
	m.mu.Lock()
	s.tokens.users++
	m.mu.Unlock()
	m.all[k.url] = s
	m.fresh = append(m.fresh, s)
	return nil
}

// discard gives back what was made and is not going to be used.
func (m *services) discard() {
	for _, s := range m.fresh {
		m.retire(s)
	}
}

// use makes the services those of the agent and returns them for the sender. A
// cluster that is no longer used keeps its own: something may be left for it.
func (m *services) use() (clusters []sender.Cluster) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for url, s := range m.all {
		m.services[url] = s
		clusters = append(clusters, sender.Cluster{Name: s.name, URL: url, Ingester: s, Close: func() { m.retire(s) }})
	}
	return clusters
}

// retire closes a service that nobody uses any more.
func (a *agent) retire(s *service) {
	s.client.Close()
	a.giveBack(s.tokens)
}

// giveBack closes tokens when the last service that has them is gone.
func (a *agent) giveBack(t *tokens) {
	a.mu.Lock()
	t.users--
	last := t.users == 0
	a.mu.Unlock()
	if last {
		t.Close()
	}
}

// closeServices closes those that were in force at the end.
func (a *agent) closeServices() {
	a.mu.Lock()
	all := a.services
	a.services = nil
	a.mu.Unlock()
	for _, s := range all {
		a.retire(s)
	}
}

// tokenExpiry is when the token in hand for a cluster ends; zero: there is none.
func (a *agent) tokenExpiry(url string) (at time.Time) {
	a.mu.Lock()
	s := a.services[url]
	a.mu.Unlock()
	if s != nil {
		at = s.tokens.ExpiresAt()
	}
	return at
}
