package agent

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"kusto-agent/internal/config"
	"kusto-agent/internal/endpoint"
	"kusto-agent/internal/kusto/credential"
	"kusto-agent/sender"
)

// services are the clients for the clusters of a configuration that is not applied yet.
type services struct {
	*Agent
	all   map[string]*endpoint.Endpoint // by URL
	fresh []*endpoint.Endpoint          // those of them that were made for it

	reread []string // keys of files whose content is another than that of the present clients
}

// makeServices returns clients for those clusters of cfg that inputs send to, or for which payloads
// wait in the spool. Existing clients whose settings do not change are reused. The caller calls use
// or discard on the result. After an error nothing is left open.
func (a *Agent) makeServices(cfg *config.Config) (*services, error) {
	used := make(map[string]bool)
	for i := range cfg.Inputs {
		used[cfg.Inputs[i].ClusterURL] = true
	}
	for _, r := range a.spool.Routes() {
		used[r.Cluster] = true
	}
	made := &services{Agent: a, all: make(map[string]*endpoint.Endpoint)}
	for _, name := range slices.Sorted(maps.Keys(cfg.Clusters)) {
		c := cfg.Clusters[name]
		if !used[c.URL] || made.all[c.URL] != nil {
			continue
		}
		if err := made.make(endpoint.KeyOf(name, c, cfg)); err != nil {
			made.discard()
			return nil, fmt.Errorf("cluster %s: %w", name, err)
		}
	}
	return made, nil
}

// make adds the client of the cluster with the settings k: the agent's present client if its
// settings are the same, otherwise a new one. A new client shares the token cache of the present
// one if it signs in in the same way.
func (m *services) make(k endpoint.Key) error {
	was := m.service(k.URL)
	if was != nil && was.Key == k {
		m.all[k.URL] = was
		return nil
	}
	if was != nil && k.RenewsAuthorities(was.Key) {
		m.reread = []string{"send.tls.ca_file"}
	}
	var shared *credential.Tokens
	if was != nil && was.TokenKey == k.TokenKey {
		shared = was.Tokens
	}
	s, err := endpoint.New(k, shared, m.Log.With("cluster", k.Name))
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.tokenUsers[s.Tokens]++
	m.mu.Unlock()
	m.all[k.URL] = s
	m.fresh = append(m.fresh, s)
	return nil
}

// discard closes the clients that were newly made for a configuration that is not applied after
// all. The agent's present clients stay.
func (m *services) discard() {
	for _, s := range m.fresh {
		m.retire(s)
	}
}

// use puts these clients in force and returns them for the sender, which calls Close of each when
// it does not use it any more. The client of a cluster that is no longer configured stays, since
// payloads may be left for it.
func (m *services) use() (clusters []sender.Cluster) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for url, s := range m.all {
		m.services[url] = s
		clusters = append(clusters, sender.Cluster{Name: s.Name, URL: url, Ingester: s, Close: func() { m.retire(s) }})
	}
	return clusters
}

// retire closes a client that is no longer used, and its token cache, which several clients can
// share, after the last use.
func (a *Agent) retire(s *endpoint.Endpoint) {
	s.Client.Close()
	a.mu.Lock()
	a.tokenUsers[s.Tokens]--
	last := a.tokenUsers[s.Tokens] == 0
	if last {
		delete(a.tokenUsers, s.Tokens)
	}
	a.mu.Unlock()
	if last {
		s.Tokens.Close()
	}
}

// closeServices closes all clients at the end of the agent.
func (a *Agent) closeServices() error {
	a.mu.Lock()
	all := a.services
	a.services = nil
	a.mu.Unlock()
	for _, s := range all {
		a.retire(s)
	}
	return nil
}

// service returns the present client for the cluster at url; nil: there is none.
func (a *Agent) service(url string) *endpoint.Endpoint {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.services[url]
}

// tokenExpiry returns when the present token for the cluster at url expires; the zero time if there
// is none.
func (a *Agent) tokenExpiry(url string) (at time.Time) {
	if s := a.service(url); s != nil {
		at = s.Tokens.ExpiresAt()
	}
	return at
}
