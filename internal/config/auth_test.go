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
	bad(far, "auth: {certificate_file: /f}", "auth.method: auto does not look at certificate_file; want method: certificate")
	bad(far, "auth: {token_file: /f}", "auth.method: auto does not look at token_file; want method: token_file")
	bad(far, "auth: {authority: 'http://login.example'}", "auth.authority: plain http")
}
