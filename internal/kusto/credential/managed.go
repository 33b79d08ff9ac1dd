package credential

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/AzureAD/microsoft-authentication-library-for-go/apps/managedidentity"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/internal/reply"
	"kusto-agent/internal/kusto/wire"
)

// probePatience is how long a machine is given to show that it is in Azure.
const probePatience = 1500 * time.Millisecond

// identityLogin asks the machine itself for the token of an identity that Azure
// gave it.
type identityLogin struct {
	id    azidentity.ManagedIDKind // nil: the system-assigned one
	conns *wire.Pool
	brief bool // find out quickly whether this machine is in Azure at all
}

// newIdentityLogin returns a login with the user-assigned identity that cfg names by resource id or
// client id, otherwise with the system-assigned one.
func newIdentityLogin(cfg Config, o Options) (*identityLogin, error) {
	l := &identityLogin{}
	switch {
	case cfg.ResourceID != "":
		l.id = azidentity.ResourceID(cfg.ResourceID)
	case cfg.ClientID != "":
		l.id = azidentity.ClientID(cfg.ClientID)
	}
	var err error
	l.conns, err = wire.NewPool(wire.Network{Plain: true, Metadata: true, Idle: 1, MinTLS: o.MinTLS, DialTo: o.dialMetadata})
	return l, err
}

func (l *identityLogin) wantsAuthority() bool { return false }
func (l *identityLogin) changed() bool        { return false }
func (l *identityLogin) close()               { l.conns.Close() }

// mayAskIdentity reports whether a token of a managed identity may be requested at u: at Azure's
// metadata address, or on this machine, where Azure Arc and App Service answer.
func mayAskIdentity(u *url.URL) bool {
	return u.Scheme == "http" && (u.Host == wire.MetadataHost || wire.IsLoopback(wire.HostOf(u)))
}

// ask gets a token for the resource from the identity service of this machine, and returns the
// token and its expiry. If l.brief is set, the first call checks quickly whether there is such a
// service.
func (l *identityLogin) ask(ctx context.Context, _, resource string) (string, time.Time, error) {
	if l.brief {
		if err := l.probe(ctx); err != nil {
			return "", time.Time{}, err
		}
		l.brief = false
	}
	e := &tokenRequest{through: l.conns, allowed: mayAskIdentity}
	o := e.options("")
	// The service is documented to answer with these statuses now and then.
	o.Retry = policy.RetryOptions{
		MaxRetries: 2, RetryDelay: 500 * time.Millisecond, MaxRetryDelay: 5 * time.Second,
		StatusCodes: []int{http.StatusGone, http.StatusTooManyRequests, http.StatusInternalServerError,
			http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout},
	}
	cred, err := azidentity.NewManagedIdentityCredential(&azidentity.ManagedIdentityCredentialOptions{ClientOptions: o, ID: l.id})
	if err != nil {
		return "", time.Time{}, l.explain(e, err)
	}
	// The library caches tokens for the life of the process. Claims, here empty ones, make it
	// request a new token.
	t, err := cred.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{resource}, Claims: "{}"})
	if err != nil {
		return "", time.Time{}, l.explain(e, err)
	}
	return e.result(t, nil)
}

// probe returns an error if nothing answers at the metadata address of Azure within probePatience.
// It requests no token. It returns nil at once on machines whose environment names another address.
func (l *identityLogin) probe(ctx context.Context) error {
	if source, err := managedidentity.GetSource(); err != nil || source != managedidentity.DefaultToIMDS {
		return nil // this machine says itself where to ask
	}
	bounded, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	req, err := http.NewRequestWithContext(bounded, http.MethodGet, "http://"+wire.MetadataHost+"/metadata/identity/oauth2/token", nil)
	if err != nil {
		return err
	}
	resp, err := l.conns.RoundTrip(req)
	if err != nil {
		return identityOutOfReach(err)
	}
	resp.Body.Close()
	return nil
}

// explain returns the error of a failed token request as a *kusto.Error with a hint. e holds the
// last answer or network error, err is the error of the library.
func (l *identityLogin) explain(e *tokenRequest, err error) error {
	if e.err != nil {
		return identityOutOfReach(e.err)
	}
	if e.status == 0 { // the library made no request
		return &kusto.Error{Message: reply.Printable("get token: "+firstLine(err.Error()), reply.MaxMessage),
			Hint: "the managed identity of this kind of machine cannot be used like this; use another auth.method, such as client_secret"}
	}
	if e.status == http.StatusOK {
		_, _, err := e.result(azcore.AccessToken{}, err)
		return err
	}
	refusal := authorityRefusal(e.status, e.header, e.body)
	if _, known := aadHints[refusal.Code]; known {
		return refusal
	}
	if refusal.Hint = l.hint(e); refusal.Hint == notInAzure { // another server answered: its status means nothing
		words := strings.TrimPrefix(refusal.Message, "get token: ")
		return identityOutOfReach(fmt.Errorf("what answered is not Azure: %s: %s", http.StatusText(e.status), words))
	}
	return refusal
}

const notInAzure = "this machine may not be in Azure; then use another auth.method, such as client_secret. If it is, let it reach http://" + wire.MetadataHost

// identityOutOfReach returns the error for a machine on which no identity service answers.
func identityOutOfReach(err error) error {
	return &kusto.Error{Message: reply.Printable("get token: nothing hands out managed identities here: "+err.Error(), reply.MaxMessage), Hint: notInAzure, Cause: err}
}

// hint returns what to do about a refusal by the identity service of the machine (IMDS), whose
// answer e holds. It returns notInAzure if what answered does not look like that service.
func (l *identityLogin) hint(e *tokenRequest) string {
	var doc struct {
		Words string `json:"error_description"`
	}
	isJSON := json.Unmarshal(e.body, &doc) == nil
	switch {
	case e.status == http.StatusTooManyRequests || e.status >= 500 || e.status == http.StatusGone:
		return "the identity service of this machine is busy or being changed; it is asked again"
	case !isJSON, e.status == http.StatusNotFound, e.status == http.StatusForbidden, e.status == http.StatusUnauthorized:
		return notInAzure
	case !strings.Contains(strings.ToLower(doc.Words), "identity"):
		return "check auth.resource, auth.client_id and auth.resource_id"
	case l.id == nil:
		return "this machine has no system-assigned identity; give it one: az vm identity assign --resource-group <group> --name <machine>; of a user-assigned one name auth.client_id"
	}
	return "this machine has no such identity; give it the one meant: az vm identity assign --resource-group <group> --name <machine> --identities <resource id>; what it has: az vm identity show --resource-group <group> --name <machine>"
}
