package emulator

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func askToken(s *Server, path string, form url.Values) (int, map[string]any) {
	r := httptest.NewRequest("POST", path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	var answer map[string]any
	json.Unmarshal(w.Body.Bytes(), &answer)
	return w.Code, answer
}

func credentials() url.Values {
	return url.Values{"grant_type": {"client_credentials"}, "resource": {"https://c"}, "client_id": {"me"}, "client_secret": {"s3cret"}}
}

func TestTokenAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{TokenSecret: "s3cret"})
		status, v1 := askToken(s, "/contoso/oauth2/token", credentials())
		token, _ := v1["access_token"].(string)
		delete(v1, "access_token")
		want := map[string]any{"token_type": "Bearer", "expires_in": "3599", "ext_expires_in": "3599",
			"expires_on": "946688399", "not_before": "946684500", "resource": "https://c"}
		if got, _ := json.Marshal(v1); status != 200 || token == "" || !jsonEqual(got, want) {
			t.Errorf("v1: %d %s", status, got)
		}
		form := credentials()
		form.Del("resource")
		form.Set("scope", "https://c/.default")
		status, v2 := askToken(s, "/contoso/oauth2/v2.0/token", form)
		delete(v2, "access_token")
		if got, _ := json.Marshal(v2); status != 200 || !jsonEqual(got, map[string]any{"token_type": "Bearer", "expires_in": 3599, "ext_expires_in": 3599}) {
			t.Errorf("v2: %d %s", status, got)
		}
		if s.TokenCalls() != 2 {
			t.Errorf("%d token calls", s.TokenCalls())
		}
	})
}

func jsonEqual(got []byte, want any) bool {
	b, err := json.Marshal(want)
	return err == nil && string(b) == string(got)
}

func TestTokenRefusals(t *testing.T) {
	s := New(Options{TokenSecret: "s3cret", TokenResource: "https://c/"})
	f := func(path, key, value string, status int, name, text string) {
		t.Helper()
		form := credentials()
		form.Set(key, value)
		got, answer := askToken(s, path, form)
		description, _ := answer["error_description"].(string)
		if got != status || name != "" && (answer["error"] != name || !strings.HasPrefix(description, text)) {
			t.Errorf("%s=%s: got %d %v", key, value, got, answer)
		}
	}
	f("/t/oauth2/token", "resource", "https://c", 200, "", "")
	f("/t/oauth2/token", "resource", "https://other", 400, "invalid_resource", "AADSTS500011: ")
	f("/t/oauth2/token", "client_secret", "wrong", 401, "invalid_client", "AADSTS7000215: Invalid client secret provided.")
	f("/t/oauth2/token", "client_secret", "", 401, "invalid_client", "AADSTS7000218: ")
	f("/t/oauth2/token", "grant_type", "password", 400, "unsupported_grant_type", "AADSTS70003: ")
	f("/t/oauth2/token", "client_id", "", 400, "invalid_request", "AADSTS900144: The request body must contain the following parameter: 'client_id'.")
	f("/t/oauth2/v2.0/token", "scope", "https://c", 400, "invalid_scope", "AADSTS1002012: ")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest("GET", "/t/oauth2/token", nil))
	if w.Code != 400 || !strings.Contains(w.Body.String(), "AADSTS900561") {
		t.Errorf("GET: %d %s", w.Code, w.Body)
	}
	w = httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest("POST", "/t/oauth2/token", strings.NewReader(`{"grant_type":"client_credentials"}`)))
	if w.Code != 400 {
		t.Errorf("JSON form: %d %s", w.Code, w.Body)
	}
}

func TestIngestNeedsAGoodToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{TokenSecret: "s3cret", TokenLifetime: time.Minute})
		_, answer := askToken(s, "/t/oauth2/token", credentials())
		token := answer["access_token"].(string)
		f := func(authorization string, status int) {
			t.Helper()
			w := post(s, ingestURL("d", "t", "TXT", ""), "x", "Authorization", authorization)
			if w.Code != status || status == 401 && (w.Body.Len() != 0 || w.Header().Get("WWW-Authenticate") == "") {
				t.Errorf("%q: got %d %s", authorization, w.Code, w.Body)
			}
		}
		f("", 401)
		f("Bearer made-up", 401)
		f("Basic "+token, 401)
		f("Bearer "+token, 200)
		time.Sleep(time.Minute)
		f("Bearer "+token, 401)
		_, answer = askToken(s, "/t/oauth2/token", credentials())
		token = answer["access_token"].(string)
		f("bearer "+token, 200)
		s.RevokeTokens()
		f("Bearer "+token, 401)
	})
}

func TestDenyWithMessage(t *testing.T) {
	s := New(Options{TokenSecret: "s", DenyWithMessage: true})
	if w := post(s, ingestURL("d", "t", "TXT", ""), "x"); w.Code != 401 || w.Body.String() != `{"Message":"Authorization has been denied for this request."}` {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestIngestors(t *testing.T) {
	s := New(Options{TokenSecret: "s3cret", Schema: loadSchema(t, `{"databases": {"d": {"ingestors": ["me"], "tables": {
		"mine": {}, "others": {"ingestors": ["them"]}}}}}`)})
	_, answer := askToken(s, "/t/oauth2/token", credentials())
	bearer := "Bearer " + answer["access_token"].(string)
	if w := post(s, ingestURL("d", "mine", "TXT", ""), "x", "Authorization", bearer); w.Code != 200 {
		t.Errorf("mine: %d %s", w.Code, w.Body)
	}
	if w := post(s, ingestURL("d", "others", "TXT", ""), "x", "Authorization", bearer); w.Code != 403 || !strings.Contains(w.Body.String(), "Principal 'aadapp=me'") {
		t.Errorf("others: %d %s", w.Code, w.Body)
	}
}

func TestTokenFaultsAndMetadata(t *testing.T) {
	s := New(Options{})
	s.Fail(Fault{Match: Match{Kind: KindToken}, Times: 1, Status: 503, As: AsText})
	if status, _ := askToken(s, "/t/oauth2/token", credentials()); status != 503 {
		t.Errorf("got %d", status)
	}
	if status, _ := askToken(s, "/t/oauth2/token", credentials()); status != 200 || s.TokenCalls() != 2 {
		t.Errorf("got %d after %d calls", status, s.TokenCalls())
	}
	if body := get(t, s, "/v1/rest/auth/metadata"); !strings.Contains(body, `"LoginEndpoint":"http://example.com"`) {
		t.Errorf("metadata: %s", body)
	}
	s.Fail(Fault{Match: Match{Kind: KindMetadata}, Status: 404, As: AsEmpty})
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/rest/auth/metadata", nil))
	if w.Code != 404 || w.Body.Len() != 0 || len(s.Requests()) != 0 {
		t.Errorf("got %d %s, %d requests recorded", w.Code, w.Body, len(s.Requests()))
	}
}
