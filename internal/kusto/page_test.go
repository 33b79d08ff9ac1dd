package kusto

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestWebPagesAreToldInFewWords(t *testing.T) {
	f := func(body, want string) {
		t.Helper()
		if got, isPage := pageWords([]byte(body), "hunter2"); got != want || isPage != (want != "") {
			t.Errorf("%q: got %q, %v; want %q", body, got, isPage, want)
		}
	}
	f("", "")
	f("{}", "")
	f("Bad request: <b>", "")
	f("<html><head><title>404\r\n Not &amp; Found</title></head><body>words</body></html>", "a web page: 404 Not & Found")
	f("\ufeff \n<!DOCTYPE html><TITLE lang=en>Sign in</TITLE>", "a web page: Sign in")
	f("<html><head><title></title><style>p{}</style></head><body><h1>Access</h1><script>x()</script>denied</body>", "a web page: Access denied")
	f("<p>cut in the mid<!-- never ended", "a web page: cut in the mid")
	f("<p>an end <a href='", "a web page: an end")
	f("<html>", "a web page without words")
	f("<title>you sent hunter2\x1b[31m\u202e</title>", `a web page: you sent [secret]\x1b[31m\u202e`)
	f("<title>"+strings.Repeat("x", 5000)+"</title>", "a web page: "+strings.Repeat("x", maxPageWords)+"…")
}

// A page in place of an answer is told as such, in one bounded line, and with
// what to do about it, whatever its status.
func TestPageInPlaceOfAnAnswer(t *testing.T) {
	page := "<html><head><title>Portal</title></head><body>" + strings.Repeat("<p>long</p>", 3000) + "</body></html>"
	f := func(sent bool, status int, want Verdict, hints ...string) {
		t.Helper()
		a := judge(&outcome{sent: sent, status: status, header: http.Header{}, body: []byte(page)}, sample("x"), "")
		if a.Verdict != want || !strings.HasSuffix(a.Err.Message, "a web page: Portal") || len(a.Err.Message) > 200 {
			t.Errorf("%d: got %s, %q", status, a.Verdict, a.Err.Message)
		}
		for _, hint := range hints {
			if !strings.Contains(a.Hint, hint) {
				t.Errorf("%d: hint %q, want %q in it", status, a.Hint, hint)
			}
		}
		if strings.Contains(a.Hint, "ingestors") {
			t.Errorf("%d: hint %q is about rights in the cluster", status, a.Hint)
		}
	}
	f(true, 200, Unknown, pageAgain)
	f(true, 204, Unknown, pageAgain)
	f(true, 400, Hold, pageAgain)
	f(true, 401, Auth, "auth.resource")
	f(true, 403, Hold, pageAgain)
	f(true, 404, Hold, pageAgain, "policy streamingingestion enable")
	f(true, 407, Hold, proxyHint)
	f(true, 502, Unknown, pageAgain)
	f(true, 503, Unknown, pageAgain)
	f(false, 503, NotSent, pageAgain)
	a := judge(&outcome{sent: true, status: 200, header: http.Header{}, body: []byte("OK")}, sample("x"), "")
	if a.Verdict != Unknown || a.Hint != pageAgain {
		t.Errorf("words of a stranger: got %s, %q", a.Verdict, a.Hint)
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
		e, _ := err.(*Error)
		if e == nil || e.Message != want || e.Hint == "" {
			t.Errorf("%d: got %+v, want %q", status, e, want)
		}
	}
	f(200, "get token: what answered is not the authority, or a proxy answered in its place")
	f(404, "get token: a web page: Portal")
	f(503, "get token: a web page: Portal")
}

// A failed request for a token is told here only where nobody waits for it:
// whoever waits gets the error, and tells it.
func TestFailedRefreshIsToldOnce(t *testing.T) {
	var said bytes.Buffer
	g := &stubGrant{life: time.Hour}
	inTime(t, g, func(t *testing.T, tokens *Tokens, want func(string, int)) {
		tokens.log = slog.New(slog.NewTextHandler(&said, nil))
		count := func(n int) {
			t.Helper()
			if got := strings.Count(said.String(), "token request failed"); got != n {
				t.Errorf("told %d times, want %d:\n%s", got, n, said.String())
			}
		}
		g.err = &Error{Message: "down", Hint: "what to do"}
		want("", 1)
		count(0)
		g.err = nil
		time.Sleep(refreshPause)
		want("tt", 2)
		g.err = &Error{Message: "down", Hint: "what to do"}
		time.Sleep(56 * time.Minute)
		want("tt", 3)
		count(1)
		time.Sleep(refreshPause)
		want("tt", 4)
		count(1)
		if !strings.Contains(said.String(), "what to do") {
			t.Errorf("no fix in\n%s", said.String())
		}
	})
}
