package emulator

import (
	"cmp"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"kusto-agent/emulator/internal/kql"
)

// tokenVersion is the form of the token endpoint: v1 asks for a resource and
// writes numbers as strings, v2 asks for a scope and writes numbers.
type tokenVersion int

const (
	v1Token tokenVersion = 1
	v2Token tokenVersion = 2
)

// grant is what an issued token stands for.
type grant struct {
	client  string
	expires time.Time
}

type tokens struct {
	opt   Options
	calls atomic.Int64

	mu     sync.Mutex // guards grants
	grants map[string]grant
}

// principal returns the client id behind the bearer token of a request, and whether the request may go
// on. Where no token is required, a missing, unknown or expired one gives an empty client id and true.
func (t *tokens) principal(h http.Header) (client string, ok bool) {
	scheme, token, _ := strings.Cut(h.Get("Authorization"), " ")
	t.mu.Lock()
	defer t.mu.Unlock()
	g, known := t.grants[token]
	if known && strings.EqualFold(scheme, "Bearer") && time.Now().Before(g.expires) {
		return g.client, true
	}
	return "", t.opt.TokenSecret == ""
}

// issue makes a new token for a client and remembers it until expires. It also forgets the expired
// ones.
func (t *tokens) issue(client string) (token string, expires time.Time) {
	token = "emulator." + rand.Text() + rand.Text()
	expires = time.Now().Add(t.opt.TokenLifetime)
	t.mu.Lock()
	defer t.mu.Unlock()
	for old, g := range t.grants { // few live at a time
		if !time.Now().Before(g.expires) {
			delete(t.grants, old)
		}
	}
	t.grants[token] = grant{client, expires}
	return token, expires
}

// TokenCalls counts the requests to the token endpoint, refused ones included.
func (s *Server) TokenCalls() int { return int(s.tokens.calls.Load()) }

// RevokeTokens makes every token issued so far worthless.
func (s *Server) RevokeTokens() {
	s.tokens.mu.Lock()
	defer s.tokens.mu.Unlock()
	clear(s.tokens.grants)
}

// tokenError is a refusal in the words of the directory service.
type tokenError struct {
	status int
	name   string
	code   int
	text   string
}

// token answers a token request of the client credentials flow (RFC 6749, section 4.4) in version v
// of the endpoint. A scripted fault may answer instead, on arrival or before the token is issued. The
// tenant is only logged.
func (c *call) token(tenant string, v tokenVersion) *refusal {
	s := c.s
	s.tokens.calls.Add(1)
	if c.interrupted(OnArrival, nil) {
		return answered
	}
	c.w.Header().Set("Cache-Control", "no-store")
	resource, bad := s.checkTokenCall(c.r, v)
	if bad != nil {
		return bad.refusal()
	}
	if c.interrupted(BeforeCommit, nil) {
		return answered
	}
	token, expires := s.tokens.issue(c.r.PostFormValue("client_id"))
	c.send(http.StatusOK, jsonType, tokenAnswer(v, token, resource, s.opt.TokenLifetime, expires))
	s.opt.Logger.Debug("token issued", "tenant", tenant, "elapsed", time.Since(c.rec.Time))
	return answered
}

// checkTokenCall checks a token request and its client secret or client assertion. v is the version of
// the endpoint: version 1 names a resource, version 2 a scope. It returns the resource that the token
// is asked for, or the error to answer with.
func (s *Server) checkTokenCall(r *http.Request, v tokenVersion) (resource string, bad *tokenError) {
	if r.Method != http.MethodPost {
		return "", &tokenError{400, "invalid_request", 900561, "The endpoint only accepts POST, OPTIONS requests. Received a " + r.Method + " request."}
	}
	ctype, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if r.Body != nil {
		r.Body = http.MaxBytesReader(nil, r.Body, 64<<10)
	}
	if ctype != "application/x-www-form-urlencoded" || r.ParseForm() != nil {
		return "", &tokenError{400, "invalid_request", 900144, "The request body must be application/x-www-form-urlencoded."}
	}
	audience := map[tokenVersion]string{v1Token: "resource", v2Token: "scope"}[v]
	for _, name := range []string{"grant_type", "client_id", audience} {
		if r.PostForm.Get(name) == "" {
			return "", &tokenError{400, "invalid_request", 900144, "The request body must contain the following parameter: '" + name + "'."}
		}
	}
	if g := r.PostForm.Get("grant_type"); g != "client_credentials" {
		return "", &tokenError{400, "unsupported_grant_type", 70003, "The app requested an unsupported grant type '" + g + "'."}
	}
	resource = r.PostForm.Get(audience)
	if v == v2Token {
		scopes := strings.Fields(resource) // scopes of OpenID may stand beside that of the resource
		i := slices.IndexFunc(scopes, func(s string) bool { return strings.HasSuffix(s, "/.default") })
		if i < 0 {
			return "", &tokenError{400, "invalid_scope", 1002012, "The provided value for scope " + resource + " is not valid. Client credential flows must have a scope value with /.default suffixed to the resource identifier."}
		}
		resource = strings.TrimSuffix(scopes[i], "/.default")
	}
	if bad := s.tokens.checkResource(resource); bad != nil {
		return "", bad
	}
	if text := r.PostForm.Get("client_assertion"); text != "" {
		return resource, s.tokens.checkAssertion(text, r.PostForm.Get("client_assertion_type"), r.PostForm.Get("client_id"), hereURL(r)+wirePath(r))
	}
	return resource, s.tokens.checkSecret(r.PostForm.Get("client_secret"))
}

// checkResource returns an error when tokens are issued for one resource only and this is another; nil
// otherwise. A trailing slash makes no difference.
func (t *tokens) checkResource(resource string) *tokenError {
	if t.opt.TokenResource != "" && strings.TrimSuffix(resource, "/") != strings.TrimSuffix(t.opt.TokenResource, "/") {
		return &tokenError{400, "invalid_resource", 500011, "The resource principal named " + resource + " was not found in the tenant."}
	}
	return nil
}

// checkSecret returns an error for a missing secret and, where tokens are required, for a wrong one;
// nil otherwise.
func (t *tokens) checkSecret(secret string) *tokenError {
	switch {
	case secret == "":
		return &tokenError{401, "invalid_client", 7000218, "The request body must contain the following parameter: 'client_assertion' or 'client_secret'."}
	case t.opt.TokenSecret != "" && subtle.ConstantTimeCompare([]byte(secret), []byte(t.opt.TokenSecret)) != 1:
		return &tokenError{401, "invalid_client", 7000215, "Invalid client secret provided. Ensure the secret being sent in the request is the client secret value, not the client secret ID."}
	}
	return nil
}

// refusal returns the answer with the JSON error document of Microsoft Entra ID.
func (e *tokenError) refusal() *refusal {
	now, trace := time.Now().UTC().Format("2006-01-02 15:04:05Z"), uuid.NewString()
	body := kql.JSON(map[string]any{
		"error":             e.name,
		"error_description": fmt.Sprintf("AADSTS%d: %s Trace ID: %s Timestamp: %s", e.code, e.text, trace, now),
		"error_codes":       []int{e.code},
		"timestamp":         now,
		"trace_id":          trace,
		"correlation_id":    uuid.NewString(),
	})
	return &refusal{status: e.status, text: string(body), contentType: jsonType}
}

// tokenAnswer returns the JSON document with an issued token, in the form of the endpoint's version:
// version 1 writes numbers as strings and adds the times and the resource.
func tokenAnswer(v tokenVersion, token, resource string, lifetime time.Duration, expires time.Time) []byte {
	seconds := int64(lifetime / time.Second)
	answer := map[string]any{"token_type": "Bearer", "access_token": token}
	if v == v2Token {
		answer["expires_in"], answer["ext_expires_in"] = seconds, seconds
	} else {
		answer["expires_in"] = strconv.FormatInt(seconds, 10)
		answer["ext_expires_in"] = answer["expires_in"]
		answer["expires_on"] = strconv.FormatInt(expires.Unix(), 10)
		answer["not_before"] = strconv.FormatInt(expires.Add(-lifetime).Add(-5*time.Minute).Unix(), 10)
		answer["resource"] = resource
	}
	return kql.JSON(answer)
}

// authMetadata answers with the document from which clients learn where to get tokens: from this
// server itself. A scripted fault may answer instead.
func (c *call) authMetadata() *refusal {
	if c.interrupted(OnArrival, nil) || c.interrupted(BeforeCommit, nil) {
		return answered
	}
	if c.r.Method != http.MethodGet {
		return wrongMethod(c.r.Method, http.MethodGet)
	}
	resource := cmp.Or(c.s.opt.TokenResource, "https://kusto.kusto.windows.net")
	login := hereURL(c.r)
	body := kql.JSON(map[string]any{"AzureAD": map[string]any{
		"LoginEndpoint": login, "LoginMfaRequired": false,
		"KustoClientAppId": "db662dc1-0cfe-4e1c-a843-19a68e65be58", "KustoClientRedirectUri": "http://localhost",
		"KustoServiceResourceId": resource, "FirstPartyAuthorityUrl": login + "/f8cdef31-a31e-4b4a-93e4-5f571e91255a",
	}})
	c.send(http.StatusOK, jsonType, body)
	return answered
}
