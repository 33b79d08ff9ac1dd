// Package credential gives out the token of a cluster: one request for it at a time, a
// new one before the old one ends, and after a failure only as often as the authority
// allows. Each method of signing in is a file. A secret leaves only over TLS or to this
// machine, and is in no error and no log.
package credential

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"kusto-agent/internal/kusto/wire"
)

// Options says how the authority is reached.
type Options struct {
	AllowUntrusted bool   // as in wire.Options
	QueryOnly      bool   // as in wire.Options
	Proxy          string // as in wire.Options; a managed identity never goes through one
	CAFile         string
	MinTLS         string
	Logger         *slog.Logger // nil: none

	dialMetadata func(ctx context.Context, network, addr string) (net.Conn, error) // of tests
}

// New returns the source of tokens for the cluster at clusterURL. An empty method means
// client_secret if a secret is configured, else auto; for the method none the tokens are empty. New
// makes no request and reads no secret before the first call of Token. The cluster may later be
// asked for its authority (its token service), so New returns an error if wire.CheckEndpoint does
// not accept the URL. It also returns one for what Validate refuses. Files are named by their paths.
func New(cfg Config, clusterURL string, o Options) (*Tokens, error) {
	cfg.Method = cmp.Or(cfg.Method, "auto")
	if cfg.Method == "auto" && cfg.ClientSecret+cfg.ClientSecretFile != "" {
		cfg.Method = "client_secret"
	}
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("auth.%w", err)
	}
	if cfg.Tenant == "." || cfg.Tenant == ".." {
		return nil, fmt.Errorf("auth.tenant %q: not a tenant", cfg.Tenant)
	}
	switch cfg.Method {
	case "none":
		return &Tokens{}, nil
	case "token_file":
		return newTokens(&fileGrant{path: cfg.TokenFile}, o.Logger), nil
	}
	tokens := newTokens(nil, o.Logger)
	m, err := newMethods(cfg, clusterURL, o, tokens.clock)
	if err == nil {
		tokens.grant, err = m.grant()
	}
	if err != nil {
		tokens.stop()
		return nil, err
	}
	return tokens, nil
}

// methods makes the grants of a configuration.
type methods struct {
	cfg        Config
	cluster    string
	options    Options
	transports *transports
	metadata   *discovery
}

// newMethods makes the HTTP transports and the discovery, which reads from the cluster where to sign
// in. It makes no request. The transports compare the dates of answers with c.
func newMethods(cfg Config, clusterURL string, o Options, c *wire.Clock) (*methods, error) {
	m := &methods{cfg: cfg, cluster: clusterURL, options: o}
	var err error
	if m.transports, err = newTransports(o, c); err == nil {
		m.metadata, err = newDiscovery(clusterURL, o, m.transports)
	}
	return m, err
}

// grant returns the source of tokens for the method: for auto one that tries several ways.
func (m *methods) grant() (grant, error) {
	if m.cfg.Method == "auto" {
		return m.auto()
	}
	way, err := m.login(m.cfg.Method)
	if err != nil {
		return nil, err
	}
	return m.asked(way), nil
}

// asked returns the source of tokens that asks through this login.
func (m *methods) asked(way login) *loginGrant {
	return newLoginGrant(way, m.cfg, m.cluster, m.metadata)
}

// login returns the login of a method, which asks an authority, the machine or az for tokens. It
// returns an error if auth.authority is plain http and the library of the method takes https only,
// or if a workload identity lacks what it needs.
func (m *methods) login(method string) (login, error) {
	if strings.HasPrefix(m.cfg.Authority, "http:") && (method == "certificate" || method == "workload_identity") {
		return nil, fmt.Errorf("auth.authority: method %s needs https, also on this machine", method)
	}
	switch method {
	case "client_secret":
		return newSecretLogin(m.cfg, m.transports), nil
	case "certificate":
		return &certificateLogin{tenant: m.cfg.Tenant, client: m.cfg.ClientID, file: m.cfg.CertificateFile, password: m.cfg.CertificatePasswordFile, transports: m.transports}, nil
	case "workload_identity":
		return newFederatedLogin(m.cfg, m.transports)
	case "managed_identity":
		return newIdentityLogin(m.cfg, m.options)
	}
	return &cliLogin{tenant: m.cfg.Tenant}, nil
}

// auto returns the source of tokens that tries, in this order, a workload identity, a managed
// identity and the Azure CLI. A workload identity that is not configured is kept with the reason,
// for the error if no way works.
func (m *methods) auto() (grant, error) {
	g := &autoGrant{none: "set auth.tenant, auth.client_id and auth.client_secret_file; or give a machine in Azure an identity: " +
		"az vm identity assign --resource-group <group> --name <machine>; or, to try it as yourself: az login"}
	if m.metadata.local() {
		g.none = "for an emulator that asks for no token, set auth: {method: none}; else " + g.none
	}
	if way, err := m.login("workload_identity"); err != nil {
		g.lacks = append(g.lacks, "workload identity: "+strings.TrimPrefix(err.Error(), "auth."))
	} else {
		g.ways = append(g.ways, namedGrant{"workload identity", m.asked(way)})
	}
	identity, err := newIdentityLogin(m.cfg, m.options)
	if err != nil {
		return nil, err
	}
	identity.brief = true // it first finds out, within probePatience, whether the machine is in Azure
	g.ways = append(g.ways, namedGrant{"managed identity", m.asked(identity)}, namedGrant{"Azure CLI", m.asked(&cliLogin{tenant: m.cfg.Tenant})})
	return g, nil
}

// secretLogin is the client credentials grant of version 1 of the authority:
// a form with resource, posted to {authority}/{tenant}/oauth2/token.
type secretLogin struct {
	tenant, id string
	secret     string
	file       string // read each time, so that a new secret needs no restart; empty: secret is it
	seen       seenFile
	client     *http.Client
}

// newSecretLogin returns a login with the client secret of cfg, which sends its requests through d.
// It follows no redirect, so that the secret goes to the authority only.
func newSecretLogin(cfg Config, d *transports) *secretLogin {
	return &secretLogin{
		tenant: cfg.Tenant, id: cfg.ClientID, secret: cfg.ClientSecret, file: cfg.ClientSecretFile,
		client: &http.Client{
			Transport:     d,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

func (l *secretLogin) wantsAuthority() bool { return true }

// changed reports whether another secret may be had, so that one that was refused need
// not be waited out.
func (l *secretLogin) changed() bool { return l.file != "" && l.seen.changed(l.file) }
func (l *secretLogin) close()        {}

// unstatedLife is how long a token is used that does not say how long it lives.
const unstatedLife = 10 * time.Minute

// ask posts the client id and the secret to the authority, and returns the token for the resource
// and its expiry. authority is the URL of the token service without the tenant. A token without an
// expiry counts as valid for unstatedLife.
func (l *secretLogin) ask(ctx context.Context, authority, resource string) (string, time.Time, error) {
	conf := clientcredentials.Config{
		ClientID: l.id, ClientSecret: l.secret,
		TokenURL:       authority + "/" + url.PathEscape(l.tenant) + "/oauth2/token",
		EndpointParams: url.Values{"resource": {resource}},
		AuthStyle:      oauth2.AuthStyleInParams,
	}
	if l.file != "" {
		l.seen.look(l.file)
		secret, err := readSecret(l.file, "auth.client_secret_file")
		if err != nil {
			return "", time.Time{}, err
		}
		conf.ClientSecret = secret
	}
	t, err := conf.Token(context.WithValue(ctx, oauth2.HTTPClient, l.client))
	if err != nil {
		return "", time.Time{}, explain(err, conf.ClientSecret)
	}
	if t.Expiry.IsZero() {
		t.Expiry = time.Now().Add(unstatedLife)
	}
	return t.AccessToken, t.Expiry, nil
}
