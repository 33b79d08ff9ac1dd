package sender

import (
	"context"
	"time"

	"golang.org/x/time/rate"

	"kusto-agent/internal/kusto"
	"kusto-agent/sender/internal/delivery"
)

// Reload replaces the settings and the list of clusters while the sender runs. Payloads in hand
// (taken over and not ended) keep their places in the queues, and requests in flight end with the
// old settings; payloads that wait for send.rate_limit wait for the new limit. A cluster that is no
// longer listed gets no new payloads, but what is in hand and in the spool for it is still sent.
// Routes and clusters that are held are probed at once, since a person may have fixed the cause.
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
	if added { // Run looks into the spool once, at its start, which may have been before this
		s.restock()
	}
	for _, c := range replaced { // no request uses these any more
		c.Close()
	}
}

// settingsOf translates the configuration to the settings of the delivery machine.
func settingsOf(cfg Config) delivery.Settings {
	return delivery.Settings{
		Concurrency: int(cfg.Concurrency),
		Initial:     cfg.Retry.Initial.D(),
		Max:         cfg.Retry.Max.D(),
		Patience:    cfg.Retry.Patience.D(),
	}
}

// targetsOf returns the name and URL of each cluster, in the same order.
func targetsOf(clusters []Cluster) []delivery.Target {
	targets := make([]delivery.Target, len(clusters))
	for i, c := range clusters {
		targets[i] = delivery.Target{Name: c.Name, URL: c.URL}
	}
	return targets
}

// newLimiter returns a limiter for send.rate_limit in bytes a second, or nil if there is no limit.
// Its burst is large enough for one payload of any size, but at the beginning no more than the
// bytes of one second may pass at once.
func newLimiter(cfg Config) *rate.Limiter {
	n := int(cfg.RateLimit)
	if n <= 0 {
		return nil
	}
	l := rate.NewLimiter(rate.Limit(n), max(n, largestPayload))
	l.AllowN(time.Now(), l.Burst()-n) // begin with one second's worth
	return l
}

// setClients stores the client of each cluster under its URL; a URL that already has the same
// Ingester keeps its client. A client that is replaced is returned in replaced if no request uses
// it, for the caller to close; otherwise ingest closes it after its last request. added reports
// whether a URL had no client before. The caller holds mu, or is New.
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

// client is the connection to one cluster. A reload may replace it while requests still use it; the
// last of these requests then closes it. Sender.mu guards the fields.
type client struct {
	Ingester
	close    func()
	using    int // requests under way
	replaced bool
}

// Close releases what the client holds. It is called once the client was replaced and its last request
// has ended.
func (c *client) Close() {
	if c.close != nil {
		c.close()
	}
}

// ingest makes one request with the client that is configured for the cluster URL at this moment,
// and returns the answer. The URL must have a client. If the client was replaced during the
// request, and this was its last request, the client is closed.
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
