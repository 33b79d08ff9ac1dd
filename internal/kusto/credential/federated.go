package credential

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/internal/reply"
)

// What Kubernetes and others who hand out identities set, with the key that comes
// before it.
const (
	envFederatedTokenFile = "AZURE_FEDERATED_TOKEN_FILE"
	envClientID           = "AZURE_CLIENT_ID"
	envTenantID           = "AZURE_TENANT_ID"
)

// federatedLogin sends the authority a token of an issuer that the application
// trusts. Its file is read each time: it is replaced every hour or so.
type federatedLogin struct {
	tenant, client, file string
	seen                 seenFile
	transports           *transports
}

// newFederatedLogin returns a login that exchanges a federated token, such as that of a Kubernetes
// service account. Keys that cfg does not set come from the environment variables that Kubernetes
// sets. The error names what is missing in both.
func newFederatedLogin(cfg Config, d *transports) (*federatedLogin, error) {
	l := &federatedLogin{
		tenant: cmp.Or(cfg.Tenant, os.Getenv(envTenantID)), client: cmp.Or(cfg.ClientID, os.Getenv(envClientID)),
		file: cmp.Or(cfg.FederatedTokenFile, os.Getenv(envFederatedTokenFile)), transports: d,
	}
	for _, need := range []struct{ key, value, env string }{
		{"federated_token_file", l.file, envFederatedTokenFile}, {"tenant", l.tenant, envTenantID}, {"client_id", l.client, envClientID},
	} {
		if need.value == "" {
			return nil, fmt.Errorf("auth.%s: missing; method workload_identity needs it, or %s in the environment", need.key, need.env)
		}
	}
	return l, nil
}

func (l *federatedLogin) wantsAuthority() bool { return true }
func (l *federatedLogin) changed() bool        { return l.seen.changed(l.file) }
func (l *federatedLogin) close()               {}

// read returns the federated token in the file. It fails if the token has expired.
func (l *federatedLogin) read() (string, error) {
	l.seen.look(l.file)
	assertion, _, err := readToken(l.file, "auth.federated_token_file", "the program that writes the file has to renew it; in Kubernetes this is the volume of the service account token")
	return assertion, err
}

// ask reads the federated token from its file, exchanges it at the authority for a token for the
// resource, and returns that token and its expiry. It fails without a request if the federated
// token has expired.
func (l *federatedLogin) ask(ctx context.Context, authority, resource string) (string, time.Time, error) {
	assertion, err := l.read()
	if err != nil {
		return "", time.Time{}, err
	}
	e, err := toAuthority(authority, l.transports)
	if err != nil {
		return "", time.Time{}, err
	}
	// A new credential each time: a credential caches its tokens, also those that were refused.
	cred, err := azidentity.NewClientAssertionCredential(l.tenant, l.client, func(context.Context) (string, error) { return assertion, nil },
		&azidentity.ClientAssertionCredentialOptions{ClientOptions: e.options(authority), DisableInstanceDiscovery: true})
	if err != nil {
		return "", time.Time{}, &kusto.Error{Message: reply.Printable("get token: "+err.Error(), reply.MaxMessage), Hint: "check auth.tenant and auth.authority"}
	}
	t, err := cred.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{resource + "/.default"}})
	return e.result(t, err, assertion)
}
