package sender

import (
	"context"
	"time"

	"golang.org/x/time/rate"

	"kusto-agent/kusto"
)

// Reload puts other settings and other clusters in force. Payloads in hand keep
// their places, and requests under way end as they would have. A cluster that is
// no longer named gets nothing new, and is asked until it has taken what is in hand
// and in the spool for it. Whoever is held is asked once more at once, since what a
// person had to mend may be mended.
func (s *Sender) Reload(cfg Config, clusters []Cluster) {
	s.mu.Lock()
	s.configure(cfg)
	replaced := s.setClusters(clusters)
	now := time.Now()
	for r, l := range s.lanes {
		l.askAgain(now)
		s.wakes = append(s.wakes, r)
	}
	for _, c := range s.clusters {
		c.askAgain(now)
		c.wake()
	}
	s.announce()
	wake := s.wakes
	s.wakes = nil
	s.mu.Unlock()
	for _, r := range wake {
		s.o.Wake(r)
	}
	for _, c := range replaced {
		c.Close()
	}
}

// configure takes over settings. The caller holds mu.
func (s *Sender) configure(cfg Config) {
	was := s.o.Config
	s.o.Config = cfg
	if cfg.RateLimit != was.RateLimit {
		s.limiter = newLimiter(cfg)
	}
	for _, c := range s.clusters {
		if c.limit == c.most || c.limit > cfg.Concurrency {
			c.limit = cfg.Concurrency
		}
		c.most = cfg.Concurrency
	}
	if cfg.Retry == was.Retry {
		return
	}
	for _, c := range s.clusters {
		c.retry, c.probe = cfg.Retry, newBackoff(cfg.Retry)
	}
	for _, l := range s.lanes {
		l.retry, l.probe = cfg.Retry, newBackoff(cfg.Retry)
	}
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

// setClusters takes over clusters and returns the clients that nobody uses any
// more. The caller holds mu.
func (s *Sender) setClusters(clusters []Cluster) (replaced []*client) {
	for _, c := range s.clusters {
		c.wanted = false
	}
	for _, c := range clusters {
		is := s.clusters[c.URL]
		if is == nil {
			s.addCluster(c)
			continue
		}
		is.Name, is.wanted = c.Name, true
		if is.client.Ingester == c.Ingester {
			continue
		}
		if is.client.replaced = true; is.client.using == 0 {
			replaced = append(replaced, is.client)
		}
		is.client = &client{Ingester: c.Ingester, close: c.Close}
	}
	return replaced
}

// addCluster begins to serve a cluster, with what the spool has for it. The caller
// holds mu.
func (s *Sender) addCluster(c Cluster) {
	is := newCluster(c, s.o.Config)
	s.clusters[c.URL] = is
	if s.serve == nil {
		return // Run will
	}
	for _, r := range s.o.Spool.Routes() {
		if r.Cluster == c.URL {
			s.lane(r)
		}
	}
	s.serve(is)
}

// askAgain has the next probe of what is held made now.
func (p *pace) askAgain(now time.Time) {
	if p.hold != nil {
		p.gate = now
	}
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
func (s *Sender) ingest(ctx context.Context, l *lane, in *kusto.Ingest) kusto.Answer {
	s.mu.Lock()
	c := l.cluster.client
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
