package kusto

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// TokenOptions says how the authority is reached.
type TokenOptions struct {
	Proxy  string // as in Options
	CAFile string
	MinTLS string
	Logger *slog.Logger // nil: none
}

// NewTokenSource makes the tokens of cfg for the cluster at clusterURL. It
// makes no request and reads no secret before a token is asked for. Of the
// methods it knows client_secret, token_file, none, and auto where a client
// secret is given; it refuses the others.
func NewTokenSource(cfg AuthConfig, clusterURL string, o TokenOptions) (*Tokens, error) {
	method := cmp.Or(cfg.Method, "auto")
	if method == "auto" && cfg.ClientSecret+cfg.ClientSecretFile != "" {
		method = "client_secret"
	}
	switch method {
	case "none":
		return &Tokens{}, nil
	case "token_file":
		if cfg.TokenFile == "" {
			return nil, errors.New("auth.token_file: missing; method token_file needs the file that holds the token")
		}
		return newTokens(&fileGrant{path: credentialPath(cfg.TokenFile)}, o.Logger), nil
	case "client_secret":
		g, err := newSecretGrant(cfg, clusterURL, o)
		if err != nil {
			return nil, err
		}
		return newTokens(g, o.Logger), nil
	case "auto":
		return nil, errors.New("auth.method auto: no client secret is given, and nothing else is looked for yet; set auth.client_secret_file")
	}
	return nil, fmt.Errorf("auth.method %q: not available yet; use client_secret or token_file", method)
}

// credentialPath finds a bare file name where systemd puts credentials.
func credentialPath(name string) string {
	dir := os.Getenv("CREDENTIALS_DIRECTORY")
	if dir != "" && name == filepath.Base(name) {
		return filepath.Join(dir, name)
	}
	return name
}

// secretGrant is the client credentials grant of version 1 of the authority:
// a form with resource, posted to {authority}/{tenant}/oauth2/token.
type secretGrant struct {
	conf   clientcredentials.Config
	file   string // read each time, so that a new secret needs no restart; empty: the secret is in conf
	seen   seenFile
	client *http.Client
	conns  *pool
}

func newSecretGrant(cfg AuthConfig, clusterURL string, o TokenOptions) (*secretGrant, error) {
	for _, need := range []struct{ key, value string }{
		{"tenant", cfg.Tenant}, {"client_id", cfg.ClientID}, {"client_secret_file", cfg.ClientSecret + cfg.ClientSecretFile},
	} {
		if need.value == "" {
			return nil, fmt.Errorf("auth.%s: missing; method client_secret needs it", need.key)
		}
	}
	authority := strings.TrimRight(cmp.Or(cfg.Authority, DefaultAuthConfig().Authority), "/")
	u, err := webURL(authority)
	if err != nil {
		return nil, fmt.Errorf("auth.authority: %w", err)
	}
	if cfg.Tenant == "." || cfg.Tenant == ".." {
		return nil, fmt.Errorf("auth.tenant %q: not a tenant", cfg.Tenant)
	}
	// A proxy never sees the form: a plain authority is this machine.
	n := network{plain: u.Scheme == "http", proxy: o.Proxy, caFile: o.CAFile, minTLS: o.MinTLS, idle: 1}
	conns, err := newPool(n)
	if err != nil {
		return nil, err
	}
	return &secretGrant{
		conf: clientcredentials.Config{
			ClientID: cfg.ClientID, ClientSecret: cfg.ClientSecret,
			TokenURL:       authority + "/" + url.PathEscape(cfg.Tenant) + "/oauth2/token",
			EndpointParams: url.Values{"resource": {cmp.Or(cfg.Resource, strings.TrimRight(clusterURL, "/"))}},
			AuthStyle:      oauth2.AuthStyleInParams,
		},
		file: credentialFile(cfg),
		client: &http.Client{
			Transport:     conns,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		conns: conns,
	}, nil
}

func credentialFile(cfg AuthConfig) string {
	if cfg.ClientSecretFile == "" {
		return ""
	}
	return credentialPath(cfg.ClientSecretFile)
}

// changed says that another secret may be had, so that one that was refused need
// not be waited out.
func (g *secretGrant) changed() bool { return g.file != "" && g.seen.changed(g.file) }
func (g *secretGrant) close()        { g.conns.close() }

// unstatedLife is how long a token is used that does not say how long it lives.
const unstatedLife = 10 * time.Minute

func (g *secretGrant) fetch(ctx context.Context) (string, time.Time, error) {
	conf := clientcredentials.Config{
		ClientID: g.conf.ClientID, ClientSecret: g.conf.ClientSecret, TokenURL: g.conf.TokenURL,
		EndpointParams: g.conf.EndpointParams, AuthStyle: g.conf.AuthStyle,
	}
	if g.file != "" {
		g.seen.look(g.file)
		secret, err := readSecret(g.file, "auth.client_secret_file")
		if err != nil {
			return "", time.Time{}, err
		}
		conf.ClientSecret = secret
	}
	t, err := conf.Token(context.WithValue(ctx, oauth2.HTTPClient, g.client))
	if err != nil {
		return "", time.Time{}, explain(err, conf.ClientSecret)
	}
	if t.Expiry.IsZero() {
		t.Expiry = time.Now().Add(unstatedLife)
	}
	return t.AccessToken, t.Expiry, nil
}
