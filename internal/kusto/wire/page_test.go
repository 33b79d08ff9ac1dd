package wire

import (
	"net/http"
	"strings"
	"testing"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/internal/reply"
)

// A page in place of an answer is told as such, in one bounded line, and with
// what to do about it, whatever its status.
func TestPageInPlaceOfAnAnswer(t *testing.T) {
	page := "<html><head><title>Portal</title></head><body>" + strings.Repeat("<p>long</p>", 3000) + "</body></html>"
	f := func(sent bool, status int, want kusto.Verdict, hints ...string) {
		t.Helper()
		a := judge(&outcome{Sent: sent, Status: status, Header: http.Header{}, Body: []byte(page)}, sample("x"), "", "")
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
	f(true, 200, kusto.Unknown, reply.PageAgain)
	f(true, 204, kusto.Unknown, reply.PageAgain)
	f(true, 400, kusto.Hold, reply.PageAgain)
	f(true, 401, kusto.Auth, "auth.resource")
	f(true, 403, kusto.Hold, reply.PageAgain)
	f(true, 404, kusto.Hold, reply.PageAgain, "policy streamingingestion enable")
	f(true, 407, kusto.Hold, ProxyHint)
	f(true, 502, kusto.Unknown, reply.PageAgain)
	f(true, 503, kusto.Unknown, reply.PageAgain)
	f(false, 503, kusto.NotSent, reply.PageAgain)
	a := judge(&outcome{Sent: true, Status: 200, Header: http.Header{}, Body: []byte("OK")}, sample("x"), "", "")
	if a.Verdict != kusto.Unknown || a.Hint != reply.PageAgain {
		t.Errorf("words of a stranger: got %s, %q", a.Verdict, a.Hint)
	}
}

// TestNotFoundIsReached: a 404 of ingestion says that streaming is off, and not that
// nothing of the service is there.
func TestNotFoundIsReached(t *testing.T) {
	for _, body := range []string{"", `{"error":{"code":"Odd","message":"words"}}`} {
		if a := judge(&outcome{Sent: true, Status: 404, Header: http.Header{}, Body: []byte(body)}, sample("x"), "", ""); kusto.Unreached(a.Err) {
			t.Errorf("%s: %v", body, a.Err)
		}
	}
}
