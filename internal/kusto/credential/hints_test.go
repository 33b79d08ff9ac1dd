package credential

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"kusto-agent/emulator"
	"kusto-agent/emulator/emulatortest"
	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/internal/kustotest"
)

// TestHintsOfTheAuthority reaches each hint about a refusal of the authority.
func TestHintsOfTheAuthority(t *testing.T) {
	h, server := &kustotest.Hinted{T: t}, emulatortest.Start(t, emulator.Options{})
	filled := []string{"<client id>", "me", "<tenant>", "t"}
	file := filepath.Join(h.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("a secret"), 0o600); err != nil {
		h.Fatal(err)
	}
	ask := func(authority string) *kusto.Error {
		h.Helper()
		tokens, err := New(Config{Method: "client_secret", Authority: authority, Tenant: "t", ClientID: "me", ClientSecretFile: file}, server.URL(), Options{})
		if err != nil {
			h.Fatal(err)
		}
		defer tokens.Close()
		_, err = tokens.Token(h.Context())
		return kustotest.ErrorOf(err)
	}
	f := func(code string) {
		h.Helper()
		body, err := json.Marshal(map[string]string{"error": "invalid_client", "error_description": code + ": their words.\nTrace ID: x"})
		if err != nil {
			h.Fatal(err)
		}
		defer server.Fail(emulator.Fault{Match: emulator.Match{Kind: emulator.KindToken}, Status: 401, Body: string(body)}).Remove()
		h.Says(code, ask(server.URL()), strings.NewReplacer(filled...).Replace(aadHints[code]), "status 401", code, "their words")
	}
	for code := range aadHints {
		f(code)
	}
	f("AADSTS99999") // one that nobody has explained
	broken := server.Fail(emulator.Fault{Match: emulator.Match{Kind: emulator.KindToken}, Status: 500, As: emulator.AsEmpty})
	h.Says("out of order", ask(server.URL()), "the authority, or a proxy on the way to it, failed: try again", "status 500")
	broken.Remove()
	for _, status := range []int{400, 404, 429} { // a proxy, or an authority that is busy: see kusto.TokenLater
		busy := server.Fail(emulator.Fault{Match: emulator.Match{Kind: emulator.KindToken}, Status: status, As: emulator.AsEmpty})
		h.Says("no refusal", ask(server.URL()), "the authority, or a proxy on the way to it, failed: try again", "status "+strconv.Itoa(status))
		busy.Remove()
	}
	page := server.Fail(emulator.Fault{Match: emulator.Match{Kind: emulator.KindToken}, Status: 200, As: emulator.AsJunk, Body: "welcome"})
	h.Says("a page", ask(server.URL()), "check auth.authority", "not the authority")
	page.Remove()
	away := server.Fail(emulator.Fault{Match: emulator.Match{Kind: emulator.KindToken}, Status: 302, As: emulator.AsEmpty})
	h.Says("a redirect", ask(server.URL()), "no secret is sent there", "status 302", "redirected to")
	away.Remove()
	h.Says("nobody there", ask("http://127.0.0.1:1"), "the authority gave no token", "get token")
	h.Covers([]string{"aad.go"}, filled...)
}
