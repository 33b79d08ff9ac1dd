package emulator

import (
	"net/http"
	"slices"
	"strconv"

	"kusto-agent/emulator/internal/kql"
)

// identityToken answers a request for a token of a managed identity, as the Azure instance metadata
// service does. A request with the X-Identity-Header of App Service instead of Metadata is accepted
// too.
func (c *call) identityToken() *refusal {
	s, r := c.s, c.r
	s.tokens.calls.Add(1)
	if c.interrupted(OnArrival, nil) {
		return answered
	}
	invalid := func(text string) *refusal {
		body := kql.JSON(map[string]string{"error": "invalid_request", "error_description": text})
		return &refusal{status: http.StatusBadRequest, text: string(body), contentType: jsonType}
	}
	q := r.URL.Query()
	resource := q.Get("resource")
	who, known := s.tokens.identity(q)
	switch {
	case r.Method != http.MethodGet:
		return wrongMethod(r.Method, http.MethodGet)
	case r.Header.Get("Metadata") != "true" && r.Header.Get("X-Identity-Header") == "":
		return invalid("Required metadata header not specified")
	case resource == "" || q.Get("api-version") == "":
		return invalid("Required query variable 'resource' or 'api-version' is missing")
	case !known:
		return invalid("Identity not found")
	}
	if bad := s.tokens.checkResource(resource); bad != nil {
		return bad.refusal()
	}
	if c.interrupted(BeforeCommit, nil) {
		return answered
	}
	token, expires := s.tokens.issue(who)
	seconds := strconv.FormatInt(int64(s.opt.TokenLifetime.Seconds()), 10)
	c.send(http.StatusOK, jsonType, kql.JSON(map[string]string{
		"access_token": token, "client_id": who, "expires_in": seconds, "expires_on": strconv.FormatInt(expires.Unix(), 10),
		"ext_expires_in": seconds, "not_before": strconv.FormatInt(expires.Add(-s.opt.TokenLifetime).Unix(), 10),
		"resource": resource, "token_type": "Bearer",
	}))
	return answered
}

// systemAssigned is the client behind tokens of a machine's own identity.
const systemAssigned = "system-assigned"

// identity returns the managed identity that a request asks for, the system-assigned one when it names
// none, and whether the machine has it. Where no identities are configured, it has every one.
func (t *tokens) identity(q map[string][]string) (who string, known bool) {
	who = systemAssigned
	for _, name := range []string{"client_id", "object_id", "mi_res_id", "msi_res_id"} {
		if v := q[name]; len(v) > 0 {
			who = v[0]
		}
	}
	return who, len(t.opt.Identities) == 0 || slices.Contains(t.opt.Identities, who)
}

// openID answers with the OpenID discovery document of the tenant (a segment of the path), whose
// endpoints are on this server.
func (s *Server) openID(w http.ResponseWriter, r *http.Request, tenant string) {
	base := hereURL(r) + "/" + tenant
	w.Header().Set("Content-Type", jsonType)
	w.Write(kql.JSON(map[string]string{
		"token_endpoint":         base + "/oauth2/v2.0/token",
		"authorization_endpoint": base + "/oauth2/v2.0/authorize",
		"issuer":                 base + "/v2.0",
	}))
}

// hereURL returns the scheme and host under which the client reached this server.
func hereURL(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}
