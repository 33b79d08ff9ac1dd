package emulator

import (
	"encoding/base64"
	"encoding/json"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestIdentityTokens(t *testing.T) {
	s := New(Options{TokenSecret: "s3cret", TokenResource: "https://c", Identities: []string{"system-assigned", "id-1"}})
	f := func(query, header string, status int, want string) {
		t.Helper()
		r := httptest.NewRequest("GET", "/metadata/identity/oauth2/token?"+query, nil)
		if header != "" {
			r.Header.Set(header, "true")
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != status || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: got %d %s; want %d, %s", query, w.Code, w.Body, status, want)
		}
		var answer map[string]any
		json.Unmarshal(w.Body.Bytes(), &answer)
		if token, _ := answer["access_token"].(string); status == 200 && post(s, ingestURL("d", "t", "TXT", ""), "x", "Authorization", "Bearer "+token).Code != 200 {
			t.Errorf("%s: the token is not taken", query)
		}
	}
	const ask = "api-version=2018-02-01&resource=https://c"
	f(ask, "Metadata", 200, `"client_id":"system-assigned"`)
	f(ask, "Metadata", 200, `"expires_in":"3599"`)
	f(ask, "X-Identity-Header", 200, `"resource":"https://c"`)
	f(ask+"&client_id=id-1", "Metadata", 200, `"client_id":"id-1"`)
	f(ask+"&client_id=id-2", "Metadata", 400, "Identity not found")
	f(ask+"&mi_res_id=x", "Metadata", 400, "Identity not found")
	f(ask, "", 400, "Required metadata header not specified")
	f("api-version=2018-02-01", "Metadata", 400, "'resource'")
	f("api-version=2018-02-01&resource=https://other", "Metadata", 400, "AADSTS500011")
}

func TestAssertions(t *testing.T) {
	s := New(Options{TokenSecret: "s3cret", Federations: []Federation{{"https://issuer", "me"}}})
	jwt := func(claims map[string]any) string {
		raw, _ := json.Marshal(claims)
		return "e30." + base64.RawURLEncoding.EncodeToString(raw) + "." + base64.RawURLEncoding.EncodeToString([]byte("sig"))
	}
	f := func(status int, want string, change map[string]any) {
		t.Helper()
		claims := map[string]any{"iss": "https://issuer", "sub": "me", "aud": federatedAudience, "exp": time.Now().Add(time.Hour).Unix()}
		for k, v := range change {
			claims[k] = v
		}
		form := url.Values{"grant_type": {"client_credentials"}, "client_id": {"app"}, "scope": {"https://c/.default openid profile"},
			"client_assertion_type": {assertionType}, "client_assertion": {jwt(claims)}}
		got, answer := askToken(s, "/t/oauth2/v2.0/token", form)
		if description, _ := answer["error_description"].(string); got != status || !strings.Contains(description, want) {
			t.Errorf("%v: got %d %v; want %d %s", change, got, answer, status, want)
		}
	}
	f(200, "", nil)
	f(200, "", map[string]any{"aud": []string{"x", federatedAudience}})
	f(401, "AADSTS700211", map[string]any{"iss": "x"})
	f(401, "AADSTS700213", map[string]any{"sub": "x"})
	f(401, "AADSTS700212", map[string]any{"aud": "x"})
	f(401, "AADSTS700024", map[string]any{"exp": 1})
	f(401, "AADSTS700024", map[string]any{"nbf": time.Now().Add(time.Hour).Unix()})
	f(401, "AADSTS50013", map[string]any{"iss": "app", "sub": "app"})
	f(401, "AADSTS700027", map[string]any{"iss": "app", "sub": "app", "aud": "http://example.com/t/oauth2/v2.0/token"})
	form := url.Values{"grant_type": {"client_credentials"}, "client_id": {"app"}, "resource": {"https://c"}, "client_assertion": {"x"}}
	if status, answer := askToken(s, "/t/oauth2/token", form); status != 401 || !strings.Contains(answer["error_description"].(string), "AADSTS50027") {
		t.Errorf("got %d %v", status, answer)
	}
}
