package kusto

import (
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

func TestErrorKeepsWhatTheServiceSaid(t *testing.T) {
	body := `{"error":{"code":"BadRequest","message":"Request is invalid.","@type":"Kusto.DataNode.Exceptions.StreamingIngestionRequestException",
		"@message":"Bad streaming ingestion request to db.table : The input stream is empty after processing, tip:check stream validity",
		"@context":{"activityId":"from-body","processId":12},"@permanent":true,"@failureCode":400}}`
	o := &outcome{sent: true, status: 400, header: http.Header{"Retry-After": {"7"}}, body: []byte(body)}
	a := judge(o, sample("x"), "")
	e := a.Err
	if !e.Empty() || e.Permanent == nil || !*e.Permanent || e.ActivityID != "from-body" || a.ActivityID != "from-body" || e.Status != 400 {
		t.Errorf("got %+v", e)
	}
	if a.RetryAfter != 7*time.Second || e.RetryAfter != 7*time.Second {
		t.Errorf("retry after %s", a.RetryAfter)
	}
	if want := "status 400: BadRequest: Bad streaming ingestion request"; !strings.HasPrefix(e.Error(), want) {
		t.Errorf("got %q, want it to begin %q", e.Error(), want)
	}
	o.header.Set(headerActivity, "from-header")
	if a := judge(o, sample("x"), ""); a.ActivityID != "from-header" {
		t.Errorf("activity %q: the header counts first", a.ActivityID)
	}
}

func TestMostTellingCode(t *testing.T) {
	f := func(body, want string) {
		t.Helper()
		if got := parseReply([]byte(body), "Logs.App").code; got != want {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
	f(`{"error":{"code":"BadRequest","innererror":{"code":"Deep","innererror":{"@errorCode":"Stream_WrongNumberOfFields"}}}}`, "Stream_WrongNumberOfFields")
	f(`{"error":{"code":"BadRequest","@type":"A.B.EntityNotFoundException"}}`, "EntityNotFoundException")
	f(`{"error":{"code":"SYN0002"}}`, "SYN0002")
	f(`{"error":{"code":17,"@message":"failed: Stream_ClosingQuoteMissing"}}`, "Stream_ClosingQuoteMissing")
	f(`{"code":"BadRequest_EntityNotFound"}`, "BadRequest_EntityNotFound")
	f(`{"error":null}`, "")
	f(``, "")
	f(`words BadRequest_InvalidBlob words`, "BadRequest_InvalidBlob")
}

func TestNamesAreNoCodes(t *testing.T) {
	f := func(table, message string) {
		t.Helper()
		in := sample("x")
		in.Table = table
		o := &outcome{sent: true, status: 400, header: http.Header{}, body: []byte(oneError("BadRequest", message, true))}
		if a := judge(o, in, ""); a.Verdict != BadData {
			t.Errorf("table %s: got %s, want bad data", table, a.Verdict)
		}
	}
	for _, table := range []string{"ThrottlingEvents", "General_Throttled", "BadRequest_AccessDenied", "Stream_InputStreamTooLarge", "request entity too large", "Forbidden"} {
		f(table, "Bad streaming ingestion request to Logs."+table+" : The input stream is empty after processing, tip:check stream validity")
		f(table, "Table '"+table+"' can't take this.")
	}
}

func TestMessageIsOneBoundedPrintableLine(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		if got := printable(in, 12); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	f("plain", "plain")
	f("a\nb\tc", `a\nb\tc`)
	f("\x1b[31mred", `\x1b[31mred`)
	f("\u202Eevil", `\u202eevil`)
	f("\xff\xfe", `\xff\xfe`)
	f("a\"b`c", "a\"b`c")
	f("tëxt €", "tëxt €")
	f("0123456789ab", "0123456789ab")
	f("0123456789abc", "0123456789ab…")
	f("01234567890€", "01234567890…")
}

func TestTokensAreTakenOutOfEverything(t *testing.T) {
	const secret = "s3cr3t-opaque-token"
	jwt := "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.c2lnbmF0dXJl"
	for _, status := range []int{400, 401, 403, 302, 500} {
		body := `{"error":{"code":"` + secret + `","@message":"you sent Authorization: Bearer other-token-of-some-length and ` + secret + ` and ` + jwt + `; Principal 'aadapp=` + secret + `' is not authorized to perform",
			"@context":{"activityId":"` + secret + `"}}}`
		h := http.Header{"Location": {"https://x/?t=" + secret}, "Www-Authenticate": {"Bearer " + secret}, headerActivity: {secret}}
		a := judge(&outcome{sent: true, status: status, header: h, body: []byte(body)}, sample("x"), secret)
		all := a.Err.Error() + a.Hint + a.ActivityID + a.Err.Code + a.Err.Hint
		for _, bad := range []string{secret, jwt, "other-token-of-some-length"} {
			if strings.Contains(all, bad) {
				t.Errorf("%d: %q is in %q", status, bad, all)
			}
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f := func(value string, want time.Duration) {
		t.Helper()
		if got := retryAfter(http.Header{"Retry-After": {value}}, now); got != want {
			t.Errorf("%q: got %s, want %s", value, got, want)
		}
	}
	f("", 0)
	f("0", 0)
	f(" 12 ", 12*time.Second)
	f("301", MaxRetryAfter)
	f("9223372036854775807", MaxRetryAfter)
	f("99999999999999999999", 0)
	f("-5", 0)
	f("1.5", 0)
	f("soon", 0)
	f("Fri, 02 Jan 2026 03:04:35 GMT", 30*time.Second)
	f("Fri, 02 Jan 2026 03:04:00 GMT", 0)
	f("Fri, 02 Jan 2099 03:04:00 GMT", MaxRetryAfter)
}

func FuzzReply(f *testing.F) {
	f.Add(400, oneError("BadRequest_EntityNotFound", "Entity ID 'X' of kind 'Table' was not found.", true))
	f.Add(500, html)
	f.Add(200, `{"Tables":[{"Columns":[{"ColumnName":"UpdatePolicyStatus"}],"Rows":[["Failed"]]}]}`)
	f.Add(401, "\x1b]0;\xff\u202e")
	f.Add(400, `{"error":{"innererror":{"innererror":{"innererror":[]}}}}`)
	f.Fuzz(func(t *testing.T, status int, body string) {
		o := &outcome{sent: true, status: status, header: http.Header{}, body: []byte(body)}
		a := judge(o, sample("x"), "")
		if a.Verdict < Accepted || a.Verdict > Unknown || a.Verdict == NotSent {
			t.Fatalf("verdict %d", a.Verdict)
		}
		for _, s := range []string{a.ActivityID, a.Hint, a.UpdatePolicy} {
			mustBePrintable(t, s)
		}
		if a.Err != nil {
			mustBePrintable(t, a.Err.Error())
			mustBePrintable(t, a.Err.Code)
		}
	})
}

func mustBePrintable(t *testing.T, s string) {
	t.Helper()
	if len(s) > 4*maxMessage || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Fatalf("not one bounded printable line: %q", s)
	}
}
