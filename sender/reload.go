package sender

import (
	"context"
	"time"

	"golang.org/x/time/rate"

	"kusto-agent/internal/kusto"
	"kusto-agent/sender/internal/delivery"
)

// Reload puts other settings and other clusters in force. Payloads in hand keep
// their places, and requests under way end as they would have; those that wait for
// send.rate_limit wait for the new one. A cluster that is no longer named gets
// nothing new, and is asked until it has taken what is in hand and in the spool for
// it. What is held is asked once more at once, since what a person had to mend may
// be mended.
func (s *Sender) Reload(cfg Config, clusters []Cluster) {
	s.mu.Lock()
	if cfg.RateLimit != s.o.Config.RateLimit {
		s.limiter = newLimiter(cfg)
		close(s.limits)
		s.limits = make(chan struct{})
	}
	s.o.Config = cfg
	replaced, added := s.setClients(clusters)
	s.mu.Unlock()
	s.apply(delivery.Configure{Settings: settingsOf(cfg), Clusters: targetsOf(clusters)})
	if added { // what Run does at its start may have come before this
		s.restock()
	}
	for _, c := range replaced {
		c.Close()
	}
}

func settingsOf(cfg Config) delivery.Settings {
	return delivery.Settings{
		Concurrency: int(cfg.Concurrency),
		Initial:     cfg.Retry.Initial.D(),
		Max:         cfg.Retry.Max.D(),
		Patience:    cfg.Retry.Patience.D(),
	}
}

func targetsOf(clusters []Cluster) []delivery.Target {
	targets := make([]delivery.Target, len(clusters))
	for i, c := range clusters {
		targets[i] = delivery.Target{Name: c.Name, URL: c.URL}
	}
	return targets
}

func newLimiter(cfg Config) *rate.Limiter {
	n := int(cfg.RateLimit)
	if n <= 0 {
		return nil
	}
	l := rate.NewLimiter(rate.Limit(n), max(n, largestPayload))
	l.AllowN(time.Now(), l.Burst()-n) // begin with one second's worth
	return l
}

// setClients takes over the clients of clusters. It returns those that nobody uses
// any more, and whether there is a cluster that had none. The caller holds mu, or
// is New.
func (s *Sender) setClients(clusters []Cluster) (replaced []*client, added bool) {
	for _, c := range clusters {
		is := s.clients[c.URL]
		if is != nil && is.Ingester == c.Ingester {
			continue
		}
		if is == nil {
			added = true
		} else if is.replaced = true; is.using == 0 {
			replaced = append(replaced, is)
		}
		s.clients[c.URL] = &client{Ingester: c.Ingester, close: c.Close}
	}
	return replaced, added
}

// client makes requests. It may be replaced while it does. Its fields are guarded
// by Sender.mu.
type client struct {
	Ingester
	close    func()
	using    int // requests under way
	replaced bool
}

// Close gives back what a client holds that was replaced.
func (c *client) Close() {
	if c.close != nil {
		c.close()
	}
}

// ingest makes a request with the client that is in force now.
func (s *Sender) ingest(ctx context.Context, url string, in *kusto.Ingest) kusto.Answer {
	s.mu.Lock()
	c := s.clients[url]
	c.using++
	s.mu.Unlock()
	ans := c.Ingest(ctx, in)
	s.mu.Lock()
	c.using--
	last := c.replaced && c.using == 0
	s.mu.Unlock()
	if last {
		c.Close()
	}
	return ans
}
