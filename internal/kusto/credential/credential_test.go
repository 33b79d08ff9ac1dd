package credential

import (
	"encoding/base64"
	"errors"
	"fmt"
	markup "html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/internal/kustotest"
	"kusto-agent/internal/kusto/internal/reply"
)

// authority is a token endpoint, and the tokens it gives to a configuration.
func authority(t *testing.T, h http.HandlerFunc, change ...func(*Config)) *Tokens {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	cfg := Config{Method: "client_secret", Authority: s.URL + "/", Tenant: "contoso.example", ClientID: "client", ClientSecret: "hunter2"}
	for _, f := range change {
		f(&cfg)
	}
	tokens, err := New(cfg, "https://c.kusto.windows.net/", Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tokens.Close)
	return tokens
}

func giveToken(w http.ResponseWriter, expires string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	fmt.Fprintf(w, `{"token_type":"Bearer","expires_in":%s,"access_token":"T0KEN"}`, expires)
}

func TestClientSecretRequest(t *testing.T) {
	for _, expires := range []string{`"3599"`, `3599`} {
		tokens := authority(t, func(w http.ResponseWriter, r *http.Request) {
			r.ParseForm()
			want := "client_id=client&client_secret=hunter2&grant_type=client_credentials&resource=https%3A%2F%2Fc.kusto.windows.net"
			if r.Method != "POST" || r.URL.Path != "/contoso.example/oauth2/token" || r.PostForm.Encode() != want || r.Header.Get("Authorization") != "" {
				t.Errorf("%s %s %s", r.Method, r.URL, r.PostForm.Encode())
			}
			giveToken(w, expires)
		})
		token, err := tokens.Token(t.Context())
		if left := time.Until(tokens.ExpiresAt()); token != "T0KEN" || err != nil || left < 3500*time.Second || left > 3599*time.Second {
			t.Errorf("got %q, %v, %s left", token, err, left)
		}
	}
}

func TestResourceOfTheConfiguration(t *testing.T) {
	tokens := authority(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.FormValue("resource"); got != "https://kusto.kusto.windows.net" {
			t.Errorf("resource %q", got)
		}
		giveToken(w, "60")
	}, func(c *Config) { c.Resource = "https://kusto.kusto.windows.net" })
	if _, err := tokens.Token(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestTokenWithoutAnEndIsNotKeptForever(t *testing.T) {
	tokens := authority(t, func(w http.ResponseWriter, r *http.Request) { giveToken(w, "0") })
	if _, err := tokens.Token(t.Context()); err != nil || tokens.ExpiresAt().IsZero() {
		t.Errorf("%v, expires %s", err, tokens.ExpiresAt())
	}
}

func TestAuthorityRefusals(t *testing.T) {
	f := func(status int, reply, code, hint string) {
		t.Helper()
		tokens := authority(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Location", "http://127.0.0.1:1/elsewhere")
			w.Header().Set("Retry-After", "90")
			w.WriteHeader(status)
			io.WriteString(w, reply)
		})
		_, err := tokens.Token(t.Context())
		var e *kusto.Error
		if !errors.As(err, &e) || e.Code != code || !strings.Contains(e.Hint, hint) || e.Status != status {
			t.Errorf("got %+v, want code %s and hint %q", e, code, hint)
		}
		if e.Token() == kusto.TokenRefused && e.RetryAfter != 90*time.Second || e.Token() == kusto.TokenLater && e.RetryAfter.Round(time.Second) != mostAskedPause {
			t.Errorf("asks for %v", e.RetryAfter)
		}
		kustotest.MustBePrintable(t, e.Error())
		if strings.Contains(e.Error()+e.Hint, "hunter2") {
			t.Errorf("the secret is in %v", e)
		}
	}
	refusal := func(code string) string {
		return `{"error":"invalid_client","error_description":"` + code + `: the secret hunter2 is wrong.\r\nTrace ID: x","error_codes":[1]}`
	}
	f(401, refusal("AADSTS7000215"), "AADSTS7000215", "not its id")
	f(401, refusal("AADSTS7000222"), "AADSTS7000222", "expired")
	f(400, refusal("AADSTS700016"), "AADSTS700016", "auth.client_id")
	f(400, refusal("AADSTS90002"), "AADSTS90002", "no such tenant")
	f(400, refusal("AADSTS500011"), "AADSTS500011", "auth.resource")
	f(400, refusal("AADSTS1"), "invalid_client", "auth.tenant")
	f(400, refusal("AADSTS99999"), "AADSTS99999", "auth.tenant")
	f(503, "<html>\x1b[1m hunter2", "", "way to it, failed")
	f(302, "", "", "no secret is sent there")
}

// TestEchoedSecret: a secret is taken out in whatever form it comes back.
func TestEchoedSecret(t *testing.T) {
	const secret = `a+b/c=d &"é\x`
	for name, echo := range map[string]string{
		"plain": secret, "form": url.QueryEscape(secret), "path": url.PathEscape(secret), "form in small letters": strings.ToLower(url.QueryEscape(secret)),
		"form with %20": strings.ReplaceAll(url.QueryEscape(secret), "+", "%20"), "HTML": markup.EscapeString(secret), "JSON": `a+b/c=d \u0026\"é\\x`, "quoted": strings.Trim(strconv.Quote(secret), `"`),
	} {
		tokens := authority(t, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(400)
			io.WriteString(w, "you sent client_secret="+echo+"&resource=x")
		}, func(c *Config) { c.ClientSecret = secret })
		_, err := tokens.Token(t.Context())
		if err == nil || !strings.Contains(err.Error(), "=[secret]&resource") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTokenFaults: only a refusal that says that the credentials are wrong is one.
func TestTokenFaults(t *testing.T) {
	f := func(status int, code string, want kusto.TokenFault) {
		t.Helper()
		body := ""
		if code != "" {
			body = `{"error":"` + code + `","error_description":"` + code + `: words"}`
		}
		tokens := authority(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			io.WriteString(w, body)
		})
		_, err := tokens.Token(t.Context())
		e := kustotest.ErrorOf(err)
		if got := e.Token(); got != want || kusto.Unreached(err) != (want == kusto.TokenLater) || e.Refused() != (want == kusto.TokenRefused) {
			t.Errorf("%d %s: %v", status, code, got)
		}
		if e.Token() == kusto.TokenLater && (e.RetryAfter <= 0 || e.RetryAfter > firstPause) {
			t.Errorf("%d %s: asked again after %v", status, code, e.RetryAfter)
		}
	}
	f(400, "invalid_client", kusto.TokenRefused)
	f(401, "invalid_client", kusto.TokenRefused)
	f(400, "unauthorized_client", kusto.TokenRefused)
	f(401, "AADSTS7000215", kusto.TokenRefused)
	f(400, "AADSTS700016", kusto.TokenRefused)
	for _, status := range []int{408, 429, 500, 502, 503, 504} {
		f(status, "", kusto.TokenLater)
		f(status, "invalid_client", kusto.TokenLater)
	}
	f(400, "temporarily_unavailable", kusto.TokenLater)
	f(400, "server_error", kusto.TokenLater)
	f(400, "AADSTS90033", kusto.TokenLater)
	f(302, "", kusto.TokenLater)
	f(403, "", kusto.TokenLater) // a proxy
	f(404, "", kusto.TokenLater)
	f(200, "", kusto.TokenLater) // no JSON at all

	gone := httptest.NewServer(nil)
	gone.Close()
	tokens, err := New(Config{Method: "client_secret", Authority: gone.URL, Tenant: "t", ClientID: "c", ClientSecret: "s"}, gone.URL, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer tokens.Close()
	if _, err := tokens.Token(t.Context()); kustotest.ErrorOf(err).Token() != kusto.TokenLater {
		t.Errorf("nobody there: %v", err)
	}
	if got := (kusto.Answer{}).Token(); got != kusto.TokenFine {
		t.Errorf("an answer without an error: %v", got)
	}
	if got := (kusto.Answer{Err: errRefused}).Token(); got != kusto.TokenRejected {
		t.Errorf("401: %v", got)
	}
}

func TestHugeTokenReply(t *testing.T) {
	tokens := authority(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"access_token":"`)
		chunk := strings.Repeat("x", 1<<16)
		for range 1 << 10 {
			if _, err := io.WriteString(w, chunk); err != nil {
				return
			}
		}
		t.Error("all of it was read")
	})
	if _, err := tokens.Token(t.Context()); err == nil || len(err.Error()) > 2*reply.MaxMessage {
		t.Errorf("got %v", err)
	}
}

func TestAuthorityOutOfReach(t *testing.T) {
	tokens := authority(t, nil, func(c *Config) { c.Authority = "http://127.0.0.1:1" })
	_, err := tokens.Token(t.Context())
	var e *kusto.Error
	if !errors.As(err, &e) || e.Status != 0 || e.Code != "" || !strings.Contains(e.Hint, "auth.authority") {
		t.Errorf("got %+v", e)
	}
}

// What is not among the credentials of a service has to be put where systemd
// looks for it, elsewhere the file itself is what is wrong.
func TestSecretMissing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
	f := func(file, want string) {
		t.Helper()
		tokens := authority(t, nil, func(c *Config) { c.ClientSecret, c.ClientSecretFile = "", file })
		_, err := tokens.Token(t.Context())
		var e *kusto.Error
		if !errors.As(err, &e) || !strings.Contains(e.Message, "auth.client_secret_file") || !strings.Contains(e.Hint, want) {
			t.Errorf("%s: got %+v, want the hint %q", file, e, want)
		}
	}
	f(filepath.Join(dir, "secret"), "into /etc/credstore/secret and restart")
	f("/nowhere/secret", "/dev/stdin /nowhere/secret")
}

func TestSecretFile(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
	file := filepath.Join(dir, "secret")
	var got string
	tokens := authority(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.FormValue("client_secret")
		giveToken(w, "3600")
	}, func(c *Config) { c.ClientSecret, c.ClientSecretFile = "", file })
	write := func(s string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(want string) {
		t.Helper()
		if token, err := tokens.Token(t.Context()); err != nil || got != want {
			t.Errorf("got %q with secret %q, %v", token, got, err)
		}
		tokens.Invalidate("T0KEN", errRefused)
	}
	write("first \r\n")
	ask("first ")
	write("second")
	ask("second")

	for _, bad := range []string{"", "\n", strings.Repeat("x", maxSecret+1)} {
		write(bad)
		if _, _, err := tokens.grant.fetch(t.Context()); err == nil || !strings.Contains(err.Error(), "client_secret_file") {
			t.Errorf("%d bytes: got %v", len(bad), err)
		}
	}
	os.Remove(file)
	_, _, err := tokens.grant.fetch(t.Context())
	var e *kusto.Error
	if !errors.As(err, &e) || !errors.Is(err, os.ErrNotExist) || !strings.Contains(e.Hint, "LoadCredential") {
		t.Errorf("got %v", err)
	}
}

func TestTokenFile(t *testing.T) {
	jwt := func(expires time.Time) string {
		claims := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%d}`, expires.Unix()))
		return "eyJhbGciOiJub25lIn0." + claims + ".sig"
	}
	file := filepath.Join(t.TempDir(), "token")
	tokens, err := New(Config{Method: "token_file", TokenFile: file}, "https://c.kusto.windows.net", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer tokens.Close()
	replace := func(token string) { // as a tool would that cares: never half a token
		t.Helper()
		tmp := file + ".new"
		if err := errors.Join(os.WriteFile(tmp, []byte(token+"\n"), 0o600), os.Rename(tmp, file)); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(want, wantErr string) {
		t.Helper()
		got, err := tokens.Token(t.Context())
		if got != want && (err != nil || wantErr != "") || (err == nil) != (wantErr == "") || err != nil && !strings.Contains(err.Error(), wantErr) {
			t.Errorf("got %q, %v; want %q, %q", got, err, want, wantErr)
		}
	}
	ask("", "no such file")
	old := jwt(time.Now().Add(-time.Hour))
	replace(old)
	ask("", "ended at")
	good := jwt(time.Now().Add(time.Hour))
	replace(good)
	ask(good, "")
	replace("opaque")
	ask("", "") // the good one, while the new one is read
	for tokens.ExpiresAt() != (time.Time{}) {
		ask("", "")
	}
	ask("opaque", "")
}

func TestMethodsRefused(t *testing.T) {
	f := func(want string, cfg Config) {
		t.Helper()
		if _, err := New(cfg, "https://c.kusto.windows.net", Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want an error with %q", cfg, err, want)
		}
	}
	f("want auto, client_secret", Config{Method: "password"})
	f("auth.certificate_file", Config{Method: "certificate", Tenant: "t", ClientID: "c"})
	f("needs https", Config{Method: "certificate", Tenant: "t", ClientID: "c", CertificateFile: "f", Authority: "http://127.0.0.1:1"})
	f("AZURE_FEDERATED_TOKEN_FILE", Config{Method: "workload_identity", Tenant: "t", ClientID: "c"})
	f("AZURE_CLIENT_ID", Config{Method: "workload_identity", Tenant: "t", FederatedTokenFile: "f"})
	f("plain http", Config{Method: "azure_cli", Authority: "http://login.example"})
	f("auth.token_file", Config{Method: "token_file"})
	f("auth.tenant", Config{Method: "client_secret", ClientID: "c", ClientSecret: "s"})
	f("auth.tenant", Config{Method: "client_secret", ClientID: "c", ClientSecret: "s", Tenant: ".."})
	f("auth.client_id", Config{Method: "client_secret", Tenant: "t", ClientSecret: "s"})
	f("auth.client_secret_file", Config{Method: "client_secret", Tenant: "t", ClientID: "c"})
	if tokens, err := New(Config{Method: "none"}, "http://localhost", Options{}); err != nil || tokens == nil {
		t.Errorf("none: %v", err)
	}
}

// What is no file of a secret ends in words, and is not waited for.
func TestSecretFileIsNoFile(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, "/dev/zero", "/dev/null", t.TempDir()} {
		secret, err := readSecret(path, "auth.client_secret_file")
		var e *kusto.Error
		if secret != "" || !errors.As(err, &e) || e.Hint == "" {
			t.Errorf("%s: got %d bytes, %v", path, len(secret), err)
		}
	}
}

// A folder is told as one, with other advice than a file that may not be read.
func TestSecretFileIsAFolder(t *testing.T) {
	_, err := readSecret(t.TempDir(), "auth.client_secret_file")
	var e *kusto.Error
	if !errors.As(err, &e) || !strings.Contains(e.Hint, "name the file") || strings.Contains(e.Hint, "chgrp") {
		t.Errorf("got %+v", err)
	}
}

// What editors and shells put around a secret is none of it, and what cannot be one is told as that: the authority
// would only say that the secret is wrong.
func TestSecretAsItWasWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	read := func(text string) (string, error) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return readSecret(file, "auth.client_secret_file")
	}
	for _, text := range []string{"s3cret", "s3cret\n", "s3cret\r\n\n", "\ufeffs3cret\r\n"} {
		if got, err := read(text); got != "s3cret" || err != nil {
			t.Errorf("%q: got %q, %v", text, got, err)
		}
	}
	if got, err := read("\ufeff pass phrase é\n"); got != " pass phrase é" || err != nil {
		t.Errorf("a password with spaces: got %q, %v", got, err)
	}
	for _, text := range []string{"\ufeff\n", "one\ntwo\n", "\xff\xfes\x003\x00c\x00\n\x00", "a\tb", "a\x00"} {
		var e *kusto.Error
		if got, err := read(text); got != "" || !errors.As(err, &e) || e.Hint == "" {
			t.Errorf("%q: got %q, %v", text, got, err)
		}
	}
}

// A secret that was wrong is asked with again as soon as the file holds another.
func TestMendedSecretIsUsedAtOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	write := func(s string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	asked := 0
	tokens := authority(t, func(w http.ResponseWriter, r *http.Request) {
		if asked++; r.FormValue("client_secret") != "right" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		giveToken(w, "3600")
	}, func(c *Config) { c.ClientSecret, c.ClientSecretFile = "", file })
	write("wrong one")
	for range 3 {
		if _, err := tokens.Token(t.Context()); err == nil {
			t.Error("a token for a wrong secret")
		}
	}
	write("right")
	if token, err := tokens.Token(t.Context()); err != nil || token != "T0KEN" || asked != 2 {
		t.Errorf("got %q, %v after %d requests", token, err, asked)
	}
}

func TestPageInPlaceOfTheAuthority(t *testing.T) {
	f := func(status int, want string) {
		t.Helper()
		tokens := authority(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(status)
			w.Write([]byte("<html><head><title>Portal</title></head>\n<body>hunter2</body></html>"))
		})
		_, err := tokens.Token(t.Context())
		e, _ := err.(*kusto.Error)
		if e == nil || e.Message != want || e.Hint == "" {
			t.Errorf("%d: got %+v, want %q", status, e, want)
		}
	}
	f(200, "get token: what answered is not the authority, or a proxy answered in its place")
	f(404, "get token: a web page: Portal")
	f(503, "get token: a web page: Portal")
}

// A secret never leaves in the clear either.
func TestNoSecretEverLeft(t *testing.T) {
	const addr = "192.0.2.1:80"
	for _, authority := range []string{"http://" + addr, "http://login.microsoftonline.com", "ftp://x", "https://u:p@x"} {
		cfg := Config{Method: "client_secret", Authority: authority, Tenant: "t", ClientID: "c", ClientSecret: "s"}
		if _, err := New(cfg, "https://c.kusto.windows.net", Options{}); err == nil {
			t.Errorf("authority %s: taken", authority)
		}
	}
}
