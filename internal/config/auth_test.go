package config

import (
	"strings"
	"testing"
)

// The way to sign in need not be told; a client secret is one.
func TestAuthMethods(t *testing.T) {
	const rest = "database: d\ninputs: [{paths: /a.csv, table: A}]\n"
	ok := func(auth, want string) {
		t.Helper()
		c := load(t, "cluster: https://c.kusto.windows.net\n"+auth+"\n"+rest)
		if got := c.Clusters[DefaultCluster].Auth; got.Method != want || got.Authority != "" {
			t.Errorf("%q: got method %s, authority %q; want %s and none", auth, got.Method, got.Authority, want)
		}
	}
	ok("", "auto")
	ok("auth: {client_id: c}", "auto")
	ok("auth: {federated_token_file: /f}", "auto")
	ok("auth: {tenant: t, client_id: c, client_secret_file: /f}", "client_secret")
	ok("auth: {method: managed_identity}", "managed_identity")
	ok("auth: {method: managed_identity, resource_id: /subscriptions/x}", "managed_identity")
	ok("auth: {method: workload_identity}", "workload_identity")
	ok("auth: {method: workload_identity, client_secret: '', token_file: ''}", "workload_identity") // as if they were not there
	ok("auth: {resource_id: r, tenant: t, resource: r}", "auto")
	ok("auth: {method: token_file, token_file: /f, tenant: t, client_id: c}", "token_file") // who setup gives rights to
	ok("auth: {method: azure_cli}", "azure_cli")
	ok("auth: {method: certificate, tenant: t, client_id: c, certificate_file: /f}", "certificate")
	bad := func(cluster, auth, want string) {
		t.Helper()
		if got := told(t, "agent.yaml", "cluster: "+cluster+"\n"+auth+"\n"+rest); !strings.HasPrefix(got, want) || strings.Count(got, "\n") > strings.Count(want, "\n")+1 {
			t.Errorf("%q: told %q; want %q", auth, got, want)
		}
	}
	const far = "https://c.kusto.windows.net"
	bad(far, "auth: {method: none}", "auth.method: none is for a cluster on this machine")
	bad(far, "auth: {client_secret_file: /f}", "auth.tenant: missing; method client_secret needs the tenant, by name or id\nauth.client_id: missing; method client_secret needs the id")
	bad(far, "auth: {method: certificate, tenant: t, client_id: c}", "auth.certificate_file: missing; method certificate needs")
	bad(far, "auth: {method: managed_identity, client_id: c, resource_id: r}", "auth.resource_id: client_id is given too")
	bad(far, "auth: {certificate_file: /f}", "auth.certificate_file: method auto does not use it; leave it out, or set method: certificate\n")
	bad(far, "auth: {token_file: /f}", "auth.token_file: method auto does not use it; leave it out, or set method: token_file\n")
	bad(far, "auth: {certificate_password_file: /f}", "auth.certificate_password_file: method auto does not use it; leave it out, or set method: certificate\n")
	bad(far, "auth: {method: [x], token_file: t, client_secret: s}", "auth.method: a list; want a single value\n")
	const near = "http://127.0.0.1:1"
	bad(near, "auth: {method: none, client_secret: x}", "auth.client_secret: method none does not use it; leave it out, or set method: client_secret\n")
	bad(near, "auth: {method: none, tenant: t}", "auth.tenant: method none does not use it; leave it out, or set method: client_secret, certificate, managed_identity, workload_identity, azure_cli or token_file\n")
	bad(far, "auth: {method: managed_identity, client_secret: s, certificate_file: c, token_file: t}",
		"auth.client_secret: method managed_identity does not use it; leave it out, or set method: client_secret\n"+
			"auth.certificate_file: method managed_identity does not use it; leave it out, or set method: certificate\n"+
			"auth.token_file: method managed_identity does not use it; leave it out, or set method: token_file\n")
	bad(far, "auth: {tenant: t, client_id: c, client_secret_file: f, federated_token_file: f}", "auth.federated_token_file: method client_secret does not use it; leave it out, or set method: workload_identity\n")
	bad(far, "auth: {method: azure_cli, resource_id: r}", "auth.resource_id: method azure_cli does not use it; leave it out, or set method: managed_identity\n")
	bad(far, "auth: {method: token_file, token_file: f, authority: 'https://a.example', resource: r}",
		"auth.authority: method token_file does not use it; leave it out, or set method: client_secret, certificate or workload_identity\n"+
			"auth.resource: method token_file does not use it; leave it out, or set method: client_secret, certificate, managed_identity, workload_identity or azure_cli\n")
	bad(far, "auth: {authority: 'http://login.example'}", "auth.authority: plain http")
}
