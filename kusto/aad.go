package kusto

import (
	"cmp"
	"errors"
	"regexp"
	"strings"
	"time"

	"golang.org/x/oauth2"
)

// aadCode finds the code of the authority in its description.
var aadCode = regexp.MustCompile(`AADSTS\d{4,8}`)

// aadHints say what the codes of the authority ask for.
var aadHints = map[string]string{
	"AADSTS7000215": "the client secret is wrong: give the secret's value, not its id",
	"AADSTS7000222": "the client secret has expired: make a new one for the application and put it into auth.client_secret_file",
	"AADSTS700016":  "no such application in this tenant: check auth.client_id and auth.tenant",
	"AADSTS7000112": "the application is disabled: enable it in the tenant, or use another",
	"AADSTS90002":   "no such tenant: check auth.tenant, and auth.authority for clouds other than the public one",
	"AADSTS900023":  "auth.tenant is neither the name nor the id of a tenant",
	"AADSTS900382":  "the tenant lies in another cloud: check auth.authority",
	"AADSTS500011":  "the resource is not known in this tenant: set auth.resource to the cluster's URL, or to https://kusto.kusto.windows.net",
	"AADSTS53003":   "a conditional access policy of the tenant refuses this machine: ask who keeps it",
}

// explain turns the failure of a token request into one of our errors. The
// library's own words hold the whole reply, so they are not used.
func explain(err error, secret string) error {
	clean := func(s string) string { return printable(redact(strings.TrimSpace(s), secret), maxMessage) }
	var refusal *oauth2.RetrieveError
	if err != nil && strings.Contains(err.Error(), "cannot parse json") { // the library's words for a 200 that is something else
		return &Error{
			Message: "get token: what answered is not the authority, or a proxy answered in its place", cause: err,
			Hint: "check auth.authority, and send.proxy and HTTPS_PROXY",
		}
	}
	if !errors.As(err, &refusal) || refusal.Response == nil {
		return &Error{
			Message: clean("get token: " + err.Error()), cause: err,
			Hint: "the authority gave no token: check auth.authority, and the network and proxy to it",
		}
	}
	words := refusal.ErrorDescription
	if words == "" {
		words = string(refusal.Body)
	}
	if page, isPage := pageWords([]byte(words), secret); isPage {
		words = page
	}
	words, _, _ = strings.Cut(words, "\n") // trace and time stamps follow
	e := &Error{
		Status: refusal.Response.StatusCode, Code: clean(refusal.ErrorCode), Message: clean("get token: " + words),
		RetryAfter: retryAfter(refusal.Response.Header, time.Now()),
	}
	if code := aadCode.FindString(refusal.ErrorDescription); code != "" {
		e.Code = code
	}
	e.Hint = cmp.Or(aadHints[e.Code], "the authority refused: check auth.tenant, auth.client_id and the secret")
	return e
}
