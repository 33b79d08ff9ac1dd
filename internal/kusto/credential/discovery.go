package credential

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/internal/reply"
	"kusto-agent/internal/kusto/wire"
)

// The defaults if a cluster returns no metadata: the public cloud.
const (
	publicAuthority = "https://login.microsoftonline.com"
	publicAudience  = "https://kusto.kusto.windows.net"
)

// knownAuthorities are the token services of all clouds. A secret goes to another
// one only if the user names it.
var knownAuthorities = []string{
	"login.microsoftonline.com", "login.microsoft.com", "login.windows.net", "sts.windows.net", // public
	"login.microsoftonline.us", "login-us.microsoftonline.com", // United States government
	"login.microsoftonline.eaglex.ic.gov", "login.microsoftonline.microsoft.scloud",
	"login.partner.microsoftonline.cn", "login.chinacloudapi.cn", // China
	"login.sovcloud-identity.fr", "login.sovcloud-identity.de", "login.sovcloud-identity.sg", // France, Germany, Singapore
}

func isKnownAuthority(u *url.URL) bool {
	return u.Scheme == "https" && slices.Contains(knownAuthorities, wire.HostOf(u)) && (u.Port() == "" || u.Port() == "443")
}

// clusterMetadata is what a cluster says of how to sign in to it.
type clusterMetadata struct {
	login    string
	resource string
	mfa      bool // users need a second factor
}

// authority returns the URL of the token service that the metadata of the cluster names. It fails
// unless that is one of the known clouds. If local is set, the cluster is on this machine and may
// also name a service on this machine.
func (m *clusterMetadata) authority(local bool) (string, error) {
	authority := strings.TrimRight(m.login, "/")
	u, err := wire.WebURL(authority)
	if err == nil && strings.Trim(u.Path, "/") == "" {
		if isKnownAuthority(u) || local && wire.IsLoopback(wire.HostOf(u)) {
			return authority, nil
		}
	}
	return "", &kusto.Error{
		Message: "the cluster has tokens asked for at " + reply.QuoteName(m.login) + ", which is none of the known clouds, so that no secret is sent there",
		Hint:    "if that is right, name it in auth.authority",
	}
}

// audience returns the resource (the audience of a token) that token requests for the cluster name.
// If the cluster demands a second factor of its users, this is the variant of the resource for
// that.
func (m *clusterMetadata) audience() string {
	if m.mfa {
		return mfaResource(m.resource)
	}
	return m.resource
}

// mfaResource returns the variant of a resource for which users must show a second factor.
func mfaResource(resource string) string {
	return strings.Replace(resource, ".kusto.", ".kustomfa.", 1)
}

// discovery asks a cluster for its metadata, once. It is used by one at a time,
// and sends no token.
type discovery struct {
	url        url.URL // of a cluster that may be sent tokens
	transports *transports
	known      *clusterMetadata
	err        error // why it is not known
	after      time.Time
}

// metadataPause is how long a cluster that did not tell is not asked again: ways to
// sign in that are tried in turn all want to know.
const metadataPause = 2 * time.Second

// newDiscovery returns a discovery, which reads from the cluster where to sign in. It fails for a
// URL that wire.CheckEndpoint refuses, since secrets are sent to the authority that the cluster
// names.
func newDiscovery(clusterURL string, o Options, d *transports) (*discovery, error) {
	base, err := wire.CheckedURL(clusterURL, o.AllowUntrusted, o.QueryOnly)
	if err != nil {
		return nil, err
	}
	return &discovery{url: url.URL{Scheme: base.Scheme, Host: base.Host, Path: "/v1/rest/auth/metadata"}, transports: d}, nil
}

// local reports whether the cluster is this machine.
func (d *discovery) local() bool { return wire.IsLoopback(wire.HostOf(&d.url)) }

// monitor reports whether the cluster is a proxy of Azure Monitor, which is no resource in
// tenants.
func (d *discovery) monitor() bool { return wire.IsMonitor(wire.HostOf(&d.url)) }

// get returns the metadata of the cluster, which is requested once and kept. After a failure it
// returns the same error for metadataPause before it asks the cluster again. It must not be called
// concurrently.
func (d *discovery) get(ctx context.Context) (*clusterMetadata, error) {
	if d.known == nil && !time.Now().Before(d.after) {
		if d.known, d.err = d.ask(ctx); d.err != nil {
			d.after = time.Now().Add(metadataPause)
		}
	}
	return d.known, d.err
}

// ask requests the metadata, which says where to sign in, from the cluster. For a cluster that
// answers 404 it returns the defaults of the public cloud. Errors are *kusto.Error with a hint.
func (d *discovery) ask(ctx context.Context) (*clusterMetadata, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := d.transports.RoundTrip(req)
	if err != nil {
		return nil, d.failed(0, nil, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, reply.MaxAnswer))
	if err != nil {
		return nil, d.failed(0, nil, err)
	}
	m := &clusterMetadata{login: publicAuthority, resource: publicAudience}
	switch {
	case resp.StatusCode == http.StatusNotFound:
	case resp.StatusCode != http.StatusOK:
		return nil, d.failed(resp.StatusCode, resp.Header, fmt.Errorf("%s", http.StatusText(resp.StatusCode)))
	default:
		if err := m.read(body); err != nil {
			return nil, d.failed(resp.StatusCode, resp.Header, err)
		}
	}
	return m, nil
}

// read sets the metadata from the JSON in body. An empty body changes nothing; authority and
// resource keep their values if the JSON does not name them.
func (m *clusterMetadata) read(body []byte) error {
	if len(strings.TrimSpace(string(body))) == 0 {
		return nil
	}
	var doc struct {
		AzureAD struct {
			LoginEndpoint          string
			KustoServiceResourceID string `json:"KustoServiceResourceId"`
			LoginMfaRequired       bool
		}
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return fmt.Errorf("what answered is not the service: %w", err)
	}
	m.login = cmp.Or(doc.AzureAD.LoginEndpoint, m.login)
	m.resource = cmp.Or(doc.AzureAD.KustoServiceResourceID, m.resource)
	m.mfa = doc.AzureAD.LoginMfaRequired
	return nil
}

// failed returns the error err of a metadata request as a *kusto.Error with a hint. status and h
// are those of the answer; status is 0 and h nil if there was none.
func (d *discovery) failed(status int, h http.Header, err error) error {
	hint := "set cluster to the query URI; or set auth.authority, such as " + publicAuthority + ", and the cluster is not asked"
	if status == 0 {
		hint = wire.NetHint(err) + "; with auth.authority set, such as " + publicAuthority + ", the cluster is not asked"
	}
	return &kusto.Error{
		Status: status, RetryAfter: reply.RetryAfter(h, time.Now()), Hint: hint, Cause: err,
		Message: reply.Printable("ask the cluster where to sign in: GET "+d.url.String()+": "+err.Error(), reply.MaxMessage),
	}
}
