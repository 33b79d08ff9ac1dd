package credential

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/internal/reply"
)

// aadCode finds the code of the authority in its description.
var aadCode = regexp.MustCompile(`AADSTS\d{4,8}`)

// unknownResource is the code of a resource that the tenant does not know.
const unknownResource = "AADSTS500011"

// isUnknownResource reports whether the authority refused a token since the tenant does not know
// the resource (the service that the token is for).
func isUnknownResource(err error) bool {
	var e *kusto.Error
	return errors.As(err, &e) && e.Code == unknownResource
}

const (
	signInAgain = "sign in again, as the user the agent runs as: az login --tenant <tenant>; a service better uses managed_identity or client_secret"
	trustIt     = "compare its issuer, subject and audience with the token: az ad app federated-credential list --id <client id>; the audience is api://AzureADTokenExchange in the public cloud"
)

// aadHints say what the codes of the authority ask for. <client id> and <tenant>
// are filled in.
var aadHints = map[string]string{
	// The application and its secret or certificate.
	"AADSTS7000215": "the client secret is wrong: give the secret's value, not its id; for a new one: az ad app credential reset --id <client id> --append",
	"AADSTS7000222": "the client secret has expired: make a new one and put it into auth.client_secret_file: az ad app credential reset --id <client id> --append",
	"AADSTS7000218": "the request holds neither a secret nor an assertion: check auth.method and the file it reads",
	"AADSTS700027":  "the certificate is not among those of the application, or is no longer valid: register it: az ad app credential reset --id <client id> --append --cert @certificate.pem",
	"AADSTS700016":  "no such application in this tenant: check auth.client_id and auth.tenant: az ad app show --id <client id>",
	"AADSTS7000112": "the application is disabled: enable it in the tenant, or use another: az ad sp update --id <client id> --set accountEnabled=true",
	"AADSTS7000229": "the application has no service principal in this tenant: az ad sp create --id <client id>",
	"AADSTS700051":  "the application may not be given this kind of token: check its settings under Authentication in the portal",
	"AADSTS700024":  "the assertion is not valid now: check the clock of this machine (timedatectl), else what writes the file of the token",
	"AADSTS500133":  "the assertion is not valid now: check the clock of this machine (timedatectl), else what writes the file of the token",
	"AADSTS50013":   "the signature or the audience of the assertion is wrong: check the certificate, auth.authority and auth.tenant",
	// A federated token, of an issuer that the application trusts.
	"AADSTS70021":   "the application trusts no such token: " + trustIt,
	"AADSTS700211":  "the application trusts no such issuer: " + trustIt,
	"AADSTS700212":  "the application trusts no such audience: " + trustIt,
	"AADSTS700213":  "the application trusts no such subject: " + trustIt,
	"AADSTS7002381": "the application trusts no token of this kind: " + trustIt,
	"AADSTS700223":  "the issuer of the token may not be used in this tenant: ask the tenant's administrator",
	"AADSTS50166":   "the issuer of the token did not answer the authority: its keys have to be in reach of the internet",
	// The tenant and the cloud.
	"AADSTS90002":  "no such tenant: check auth.tenant, and auth.authority for clouds other than the public one",
	"AADSTS900023": "auth.tenant is neither the name nor the id of a tenant: az account show --query tenantId",
	"AADSTS900021": "auth.tenant is not a tenant: az account show --query tenantId",
	"AADSTS900382": "the tenant lies in another cloud: check auth.authority",
	"AADSTS900432": "the application lies in another cloud: check auth.authority",
	"AADSTS50059":  "no tenant is named: set auth.tenant",
	"AADSTS53003":  "a conditional access policy of the tenant refuses this machine: ask the tenant's administrator",
	"AADSTS530003": "the tenant accepts only devices that it manages: ask the tenant's administrator about its conditional access policies",
	// The resource.
	"AADSTS500011":  "the resource is not known in this tenant: set auth.resource to the cluster's URL, or to https://kusto.kusto.windows.net",
	"AADSTS500014":  "the resource is disabled in this tenant: ask the tenant's administrator to enable Azure Data Explorer among the enterprise applications",
	"AADSTS1002012": "auth.resource is not the URL of a resource: leave it out, or set it to the cluster's URL",
	"AADSTS70011":   "auth.resource is not the URL of a resource: leave it out, or set it to the cluster's URL",
	"AADSTS65001":   "the application has no consent to use the cluster: az ad app permission admin-consent --id <client id>",
	"AADSTS50105":   "this identity is not assigned to the application: assign it among the enterprise applications in the portal",
	// Somebody who signed in.
	"AADSTS50034":  "no such user in this tenant: check auth.tenant; " + signInAgain,
	"AADSTS50020":  "the user is of another tenant and no guest in this one: check auth.tenant; " + signInAgain,
	"AADSTS50057":  "the user is disabled: ask the tenant's administrator; or " + signInAgain,
	"AADSTS50058":  "no user is signed in any more: " + signInAgain,
	"AADSTS50076":  "a second factor is asked for: " + signInAgain,
	"AADSTS50079":  "a second factor has to be set up: " + signInAgain,
	"AADSTS50078":  "the second factor has to be shown again: " + signInAgain,
	"AADSTS50126":  "the password is wrong: " + signInAgain,
	"AADSTS50173":  "the sign-in was revoked, as after a new password: " + signInAgain,
	"AADSTS700082": "the sign-in has expired: " + signInAgain,
	"AADSTS700084": "the sign-in has expired: " + signInAgain,
	"AADSTS70043":  "the sign-in has expired: " + signInAgain,
	"AADSTS70008":  "the sign-in has expired: " + signInAgain,
	// The authority itself.
	"AADSTS90033": "the authority has a temporary fault; the request is repeated",
	"AADSTS90006": "the authority has a temporary fault; the request is repeated",
	"AADSTS50196": "the authority got the same request too often; it is repeated later",
}

// timelyCodes are those that a wrong clock brings about.
var timelyCodes = map[string]bool{"AADSTS700024": true, "AADSTS500133": true, "AADSTS50013": true, "AADSTS700027": true}

// passingCodes are those of an authority that is out of order for a while.
var passingCodes = map[string]bool{"temporarily_unavailable": true, "server_error": true, "AADSTS90033": true, "AADSTS90006": true, "AADSTS50166": true}

// explain returns the error of a failed token request with a client secret, as a *kusto.Error with
// a hint. It does not use the error text of the library, which holds the whole reply. secret is
// removed from the texts.
func explain(err error, secret string) error {
	var refusal *oauth2.RetrieveError
	switch {
	case err != nil && strings.Contains(err.Error(), "cannot parse json"): // so the library reports a 200 whose body is no token
		return notTheAuthority(err)
	case !errors.As(err, &refusal) || refusal.Response == nil:
		return authorityOutOfReach(err, secret)
	}
	return authorityRefusal(refusal.Response.StatusCode, refusal.Response.Header, refusal.Body, secret)
}

// notTheAuthority returns the error for an answer with status 200 that holds no token, such as the
// page of a proxy. err is the error of the library.
func notTheAuthority(err error) *kusto.Error {
	return &kusto.Error{
		Message: "get token: what answered is not the authority, or a proxy answered in its place", Cause: err,
		Hint: "check auth.authority, and send.proxy and HTTPS_PROXY",
	}
}

// authorityOutOfReach returns the error for a token request that got no answer. The secrets are
// removed from its text.
func authorityOutOfReach(err error, secrets ...string) *kusto.Error {
	return &kusto.Error{
		Message: reply.Clean("get token: "+err.Error(), reply.MaxMessage, secrets...), Cause: err,
		Hint: "the authority gave no token: check auth.authority, and the network and proxy to it",
	}
}

// authorityRefusal returns the error for an answer of the authority that refuses a token, by its
// status, headers and body. It has the AADSTS code, else the OAuth error code, the first line of
// the description, and a hint for the code. Timely is set if a wrong clock may be the cause, and
// Passes if the authority is out of order for a while. The secrets are removed from the text.
func authorityRefusal(status int, h http.Header, body []byte, secrets ...string) *kusto.Error {
	var doc struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	if json.Unmarshal(body, &doc) != nil {
		doc.Error, doc.Description = "", ""
	}
	words := cmp.Or(doc.Description, string(body))
	if page, isPage := reply.PageWords([]byte(words), secrets...); isPage {
		words = page
	}
	redirects := status >= 300 && status < 400
	if redirects {
		words = "redirected to " + strconv.Quote(h.Get("Location"))
	}
	e := &kusto.Error{
		Status: status, Code: cmp.Or(aadCode.FindString(doc.Description), reply.Clean(doc.Error, reply.MaxMessage, secrets...)),
		Message:    reply.Clean("get token: "+firstLine(cmp.Or(words, http.StatusText(status))), reply.MaxMessage, secrets...), // the other lines are trace ids and times
		RetryAfter: reply.RetryAfter(h, time.Now()),
	}
	e.Timely = timelyCodes[e.Code]
	e.Passes = passingCodes[e.Code] || passingCodes[doc.Error]
	switch e.Hint = aadHints[e.Code]; {
	case e.Hint != "":
	case redirects:
		e.Hint = "the authority redirects elsewhere, and no secret is sent there: check auth.authority, and send.proxy and HTTPS_PROXY"
	case tokenless(e).Token() == kusto.TokenLater:
		e.Hint = "the authority, or a proxy on the way to it, failed: try again; if it keeps failing, check auth.authority, and send.proxy and HTTPS_PROXY"
	default:
		e.Hint = "the authority refused: check auth.tenant, auth.client_id and the secret"
	}
	return e
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return strings.TrimSpace(line)
}
