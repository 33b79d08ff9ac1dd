package queryshell

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"kusto-agent/internal/config"
	"kusto-agent/internal/endpoint"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/credential"
	"kusto-agent/internal/kusto/wire"
)

// Target says which cluster is asked: one of a configuration, or one that is named
// by its URL or a connection string, for which none is read.
type Target struct {
	Config    string                 // the file of the configuration
	Cluster   string                 // a URL, a connection string or a name; empty: that of the top level
	Auth      string                 // one of PlainMethods, for a URL
	CAFile    string                 // of authorities to trust, for a URL
	Untrusted bool                   // a token is sent outside the known domains of the service, for a URL
	IsSet     func(flag string) bool // whether a flag was given
	url       string                 // what is asked without a configuration; empty: there is one
}

// PlainMethods are the ways to sign in that need nothing beside their name.
var PlainMethods = []string{"auto", "azure_cli", "managed_identity", "workload_identity", "none"}

// connect returns a client for the cluster that the flags name: a cluster of the configuration, or
// a URL or connection string, for which no configuration is read. It makes no request. Errors are
// about usage or the configuration, with exit codes.
func (t *Target) connect() (*endpoint.Connection, error) {
	named, isURL, err := parseCluster(t.Cluster)
	if err != nil {
		return nil, exit.Usagef("--cluster: %w", err)
	}
	if !isURL {
		for _, flag := range []string{"auth", "ca-file", "allow-untrusted-endpoint"} {
			if t.IsSet(flag) {
				return nil, exit.Usagef("--%s is for --cluster with a URL; the configuration has its own", flag)
			}
		}
		cfg, err := config.Load(t.Config, config.ServiceEnv(t.Config), config.Options{ClustersOnly: true})
		if err != nil {
			if _, serr := os.Stat(t.Config); errors.Is(serr, fs.ErrNotExist) {
				err = fmt.Errorf("%w\nwithout a configuration: --cluster https://<cluster>.<region>.kusto.windows.net --database <database>", err)
			}
			return nil, exit.With(exit.Config, err)
		}
		return endpoint.Dial(cfg, t.Cluster, true)
	}
	if t.IsSet("config") {
		return nil, exit.Usagef("--cluster is a URL, with which no configuration is read; want a name of it, or no --config")
	}
	switch {
	case !slices.Contains(PlainMethods, t.Auth):
		return nil, exit.Usagef("--auth %q: want %s; other methods need a configuration", t.Auth, strings.Join(PlainMethods, ", "))
	case t.Auth == "none" && !wire.IsLocal(named.URL):
		return nil, exit.Usagef("--auth none is for a cluster on this machine (localhost, 127.0.0.1)")
	}
	if err := wire.CheckQueryEndpoint(named.URL, t.Untrusted); err != nil {
		return nil, exit.Usagef("%s", flagWords.Replace(err.Error()))
	}
	if err := t.checkCAFile(); err != nil {
		return nil, err
	}
	t.url = named.URL
	named.Auth.Method = t.Auth
	cfg := config.DefaultConfig()
	cfg.AllowUntrustedEndpoint, cfg.Send.TLS.CAFile = t.Untrusted, t.CAFile
	cfg.Clusters = map[string]config.Cluster{config.DefaultCluster: named}
	return endpoint.Dial(&cfg, "", true)
}

// checkCAFile returns an error of usage if t.CAFile is given and cannot be read or holds no certificate.
func (t *Target) checkCAFile() error {
	if t.CAFile == "" {
		return nil
	}
	pem, err := os.ReadFile(t.CAFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return exit.Usagef("--ca-file: %w; name the PEM file of the authority's certificate", err)
	case err != nil:
		return exit.Usagef("--ca-file: %w", err)
	case !x509.NewCertPool().AppendCertsFromPEM(pem):
		return exit.Usagef("--ca-file %q: holds no certificate in PEM; name the file of the authority's certificate", t.CAFile)
	}
	return nil
}

// flagWords are keys of a configuration, and the flags in the place of them.
var flagWords = strings.NewReplacer("in send.tls.ca_file", "with --ca-file", "set allow_untrusted_endpoint: true", "give --allow-untrusted-endpoint")

// hinted changes the hint of an error of the service so that it names flags instead of
// configuration keys, if no configuration is used. It returns err, whose *kusto.Error is changed in
// place.
func (t *Target) hinted(err error) error {
	var e *kusto.Error
	switch {
	case t.url == "" || !errors.As(err, &e):
	case e.Code == "no_credentials" && wire.IsLocal(t.url):
		e.Hint = "for an emulator that asks for no token: --auth none"
	default:
		e.Hint = flagWords.Replace(e.Hint)
	}
	return err
}

// The keys of a connection string, without spaces and in lower case.
var (
	sourceKeys   = []string{"datasource", "addr", "address", "networkaddress", "server"}
	databaseKeys = []string{"initialcatalog", "database"}
	clientKeys   = []string{"applicationclientid", "appclientid"}
	tenantKeys   = []string{"authorityid", "authority", "tenantid", "tid"}
	secretKeys   = []string{"applicationkey", "appkey", "password", "pwd", "applicationtoken", "apptoken", "usertoken", "usrtoken",
		"applicationcertificateblob", "applicationcertificateprivatekey"}
)

// parseCluster parses a URL or a connection string of Kusto. Any other text is the name of a
// cluster in the configuration; then isURL is false. A connection string may hold URL, database,
// client id and tenant. A secret in it is an error.
func parseCluster(text string) (c config.Cluster, isURL bool, err error) {
	c.Auth = credential.DefaultConfig()
	if !strings.Contains(text, "://") {
		return c, false, nil
	}
	if head, _, _ := strings.Cut(text, "://"); !strings.ContainsAny(head, "=;") && !strings.Contains(text, ";") {
		c.URL = strings.TrimRight(text, "/")
		return c, true, nil
	}
	for i, part := range strings.Split(text, ";") {
		key, value, has := strings.Cut(part, "=")
		if i == 0 && strings.Contains(key, "://") {
			key, value, has = "Data Source", part, true // it may stand without its key
		}
		if strings.TrimSpace(part) == "" {
			continue
		}
		key = strings.ToLower(strings.ReplaceAll(strings.TrimSpace(key), " ", ""))
		value = strings.Trim(strings.TrimSpace(value), `"'`)
		switch {
		case !has:
			return c, true, errors.New("a connection string is made of key=value, with semicolons between them")
		case slices.Contains(sourceKeys, key):
			c.URL = strings.TrimRight(value, "/")
		case slices.Contains(databaseKeys, key):
			c.Database = value
		case slices.Contains(clientKeys, key):
			c.Auth.ClientID = value
		case slices.Contains(tenantKeys, key):
			c.Auth.Tenant = value
		case slices.Contains([]string{"fed", "federatedsecurity", "aadfederatedsecurity", "aadfed"}, key):
			if !strings.EqualFold(value, "true") {
				return c, true, fmt.Errorf("%s: want true, which is the only way to sign in", part)
			}
		case slices.Contains(secretKeys, key):
			return c, true, fmt.Errorf("%s: a secret on a command line is seen by everyone on the machine; put it into a file, and auth.client_secret_file into a configuration", key)
		default:
			return c, true, fmt.Errorf("the key %q of the connection string is not known", key)
		}
	}
	if c.URL == "" {
		return c, true, errors.New("the connection string names no Data Source")
	}
	return c, true, nil
}
