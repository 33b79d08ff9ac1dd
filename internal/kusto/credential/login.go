package credential

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/internal/reply"
	"kusto-agent/internal/kusto/wire"
)

// login is a way to ask for tokens. ask is called by one at a time.
type login interface {
	// ask asks for a token for a resource. authority is the URL of the token
	// service without the tenant, for a way that has none of its own.
	ask(ctx context.Context, authority, resource string) (token string, expires time.Time, err error)
	// wantsAuthority reports whether the method has no authority of its own.
	wantsAuthority() bool
	// changed reports whether a file that ask would read was written since it was read.
	changed() bool
	// close closes idle connections.
	close()
}

// metadataPatience is how long the metadata of the cluster is waited for.
const metadataPatience = 5 * time.Second

// loginGrant is the grant of a login: it knows where to ask, and what for. What
// the user did not say it asks the cluster.
type loginGrant struct {
	way       login
	authority string // auth.authority; empty: what the cluster names
	resource  string // auth.resource; empty: the URL of the cluster
	cluster   string
	fills     *strings.Replacer // of what stands in hints for a name
	metadata  *discovery
	works     string // a resource that gave a token after that of the cluster did not
}

// newLoginGrant returns the source of tokens for a login. It requests tokens for clusterURL unless
// cfg names a resource. Client id and tenant of cfg are filled into the hints of its errors; d asks
// the cluster for what cfg leaves open.
func newLoginGrant(way login, cfg Config, clusterURL string, d *discovery) *loginGrant {
	var names []string
	for _, f := range []struct{ place, value string }{{"<client id>", cfg.ClientID}, {"<tenant>", cfg.Tenant}} {
		if f.value != "" {
			names = append(names, f.place, reply.Printable(f.value, 256))
		}
	}
	return &loginGrant{
		way: way, authority: strings.TrimRight(cfg.Authority, "/"), resource: cfg.Resource,
		cluster: strings.TrimRight(clusterURL, "/"), fills: strings.NewReplacer(names...), metadata: d,
	}
}

func (g *loginGrant) changed() bool { return g.way.changed() }

func (g *loginGrant) close() {
	g.way.close()
	g.metadata.transports.close()
}

// fetch returns a token and when it expires. The hint of an error shows the client id and the
// tenant of the configuration in place of "<client id>" and "<tenant>".
func (g *loginGrant) fetch(ctx context.Context) (string, time.Time, error) {
	token, expires, err := g.ask(ctx)
	if e, ok := errors.AsType[*kusto.Error](err); ok {
		named := *e
		named.Hint = g.fills.Replace(e.Hint)
		err = &named
	}
	return token, expires, err
}

// ask returns a token for the cluster and its expiry. If the tenant does not know the URL of the
// cluster as a resource, and auth.resource is not set, ask tries the resource that the metadata of
// the cluster names. If that works, later calls use it at once (g.works).
func (g *loginGrant) ask(ctx context.Context) (string, time.Time, error) {
	authority, resource, err := g.target(ctx)
	if err != nil {
		return "", time.Time{}, err
	}
	token, expires, err := g.way.ask(ctx, authority, resource)
	if !isUnknownResource(err) || g.resource != "" || resource == g.works {
		return token, expires, err
	}
	m, merr := g.metadata.get(ctx)
	if merr != nil {
		var e *kusto.Error
		errors.As(err, &e)
		both := *e
		both.Message = reply.Printable(e.Message+"; and what tokens for this cluster are called is not known: "+merr.Error(), reply.MaxMessage)
		return "", time.Time{}, &both
	}
	if second := m.audience(); second != resource {
		if token, expires, err2 := g.way.ask(ctx, authority, second); err2 == nil {
			g.works = second
			return token, expires, nil
		}
	}
	return "", time.Time{}, err
}

// target returns the authority to ask, which is "" for a login that needs none, and the resource to
// name. The resource is auth.resource, else the one that worked before, else the URL of the
// cluster; tenants do not know a proxy of Azure Monitor by its URL, so for one it is what its
// metadata names, or that of the public cloud if they cannot be read. The metadata of the cluster
// is read only for what the configuration leaves open, within metadataPatience. target fails only if
// the authority is not known and the login needs one.
func (g *loginGrant) target(ctx context.Context) (authority, resource string, err error) {
	resource = cmp.Or(g.resource, g.works, g.cluster)
	monitor := g.resource == "" && g.metadata.monitor()
	hasAuthority := g.authority != "" || !g.way.wantsAuthority()
	if !monitor && (g.authority != "" || hasAuthority && g.resource != "") {
		return g.authority, resource, nil
	}
	bounded, cancel := context.WithTimeout(ctx, metadataPatience)
	defer cancel()
	m, err := g.metadata.get(bounded)
	switch {
	case monitor && err != nil:
		resource = publicAudience
	case monitor:
		resource = m.audience()
	case err == nil && resource == g.cluster && m.mfa:
		resource = mfaResource(resource)
	}
	if hasAuthority {
		return g.authority, resource, nil
	}
	if err == nil {
		authority, err = m.authority(g.metadata.local())
	}
	return authority, resource, err
}

// transports reach the authority and the metadata of the cluster. Plain http leads to
// this machine alone, past any proxy.
type transports struct{ secure, plain *wire.Pool }

// newTransports returns the transports for token requests, one for https and one for http, with the
// proxy and TLS settings of o. They compare the dates of answers with c.
func newTransports(o Options, c *wire.Clock) (*transports, error) {
	n := wire.Network{Proxy: o.Proxy, CaFile: o.CAFile, MinTLS: o.MinTLS, Idle: 1, Clock: c}
	secure, err := wire.NewPool(n)
	if err != nil {
		return nil, err
	}
	n.Plain = true
	plain, err := wire.NewPool(n)
	if err != nil {
		return nil, err
	}
	return &transports{secure, plain}, nil
}

// RoundTrip implements http.RoundTripper. It sends an https request through the proxy, if one is
// set, and any other only to this machine.
func (t *transports) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme == "https" {
		return t.secure.RoundTrip(req)
	}
	return t.plain.RoundTrip(req)
}

func (t *transports) close() {
	t.secure.Close()
	t.plain.Close()
}

// sameServer reports whether two URLs have the same scheme and host, ports included.
func sameServer(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Host, b.Host)
}
