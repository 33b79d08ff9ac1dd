package kusto

import (
	"net/http"
	"strings"
	"testing"
)

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
