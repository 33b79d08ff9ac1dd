package wire

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/internal/kustotest"
)

func TestErrorKeepsWhatTheServiceSaid(t *testing.T) {
	body := `{"error":{"code":"BadRequest","message":"Request is invalid.","@type":"Kusto.DataNode.Exceptions.StreamingIngestionRequestException",
		"@message":"Bad streaming ingestion request to db.table : The input stream is empty after processing, tip:check stream validity",
		"@context":{"activityId":"from-body","processId":12},"@permanent":true,"@failureCode":400}}`
	o := &outcome{Sent: true, Status: 400, Header: http.Header{"Retry-After": {"7"}}, Body: []byte(body)}
	a := judge(o, sample("x"), "", "")
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
	o.Header.Set(HeaderActivity, "from-header")
	if a := judge(o, sample("x"), "", ""); a.ActivityID != "from-header" {
		t.Errorf("activity %q: the header counts first", a.ActivityID)
	}
}

func TestNamesAreNoCodes(t *testing.T) {
	f := func(table, message string) {
		t.Helper()
		in := sample("x")
		in.Table = table
		o := &outcome{Sent: true, Status: 400, Header: http.Header{}, Body: []byte(oneError("BadRequest", message, true))}
		if a := judge(o, in, "", ""); a.Verdict != kusto.BadData {
			t.Errorf("table %s: got %s, want bad data", table, a.Verdict)
		}
	}
	for _, table := range []string{"ThrottlingEvents", "General_Throttled", "BadRequest_AccessDenied", "Stream_InputStreamTooLarge", "request entity too large", "Forbidden"} {
		f(table, "Bad streaming ingestion request to Logs."+table+" : The input stream is empty after processing, tip:check stream validity")
		f(table, "Table '"+table+"' can't take this.")
	}
}

func TestTokensAreTakenOutOfEverything(t *testing.T) {
	const secret = "s3cr3t-opaque-token"
	jwt := "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.c2lnbmF0dXJl"
	for _, status := range []int{400, 401, 403, 302, 500} {
		body := `{"error":{"code":"` + secret + `","@message":"you sent Authorization: Bearer other-token-of-some-length and ` + secret + ` and ` + jwt + `; Principal 'aadapp=` + secret + `' is not authorized to perform",
			"@context":{"activityId":"` + secret + `"}}}`
		h := http.Header{"Location": {"https://x/?t=" + secret}, "Www-Authenticate": {"Bearer " + secret}, HeaderActivity: {secret}}
		a := judge(&outcome{Sent: true, Status: status, Header: h, Body: []byte(body)}, sample("x"), secret, "")
		all := a.Err.Error() + a.Hint + a.ActivityID + a.Err.Code + a.Err.Hint
		for _, bad := range []string{secret, jwt, "other-token-of-some-length"} {
			if strings.Contains(all, bad) {
				t.Errorf("%d: %q is in %q", status, bad, all)
			}
		}
	}
}

func FuzzReply(f *testing.F) {
	f.Add(400, oneError("BadRequest_EntityNotFound", "Entity ID 'X' of kind 'Table' was not found.", true))
	f.Add(500, html)
	f.Add(200, `{"Tables":[{"Columns":[{"ColumnName":"UpdatePolicyStatus"}],"Rows":[["Failed"]]}]}`)
	f.Add(401, "\x1b]0;\xff\u202e")
	f.Add(400, `{"error":{"innererror":{"innererror":{"innererror":[]}}}}`)
	f.Fuzz(func(t *testing.T, status int, body string) {
		o := &outcome{Sent: true, Status: status, Header: http.Header{}, Body: []byte(body)}
		a := judge(o, sample("x"), "", "")
		if a.Verdict < kusto.Accepted || a.Verdict > kusto.Unknown || a.Verdict == kusto.NotSent {
			t.Fatalf("verdict %d", a.Verdict)
		}
		for _, s := range []string{a.ActivityID, a.Hint, a.UpdatePolicy} {
			kustotest.MustBePrintable(t, s)
		}
		if a.Err != nil {
			kustotest.MustBePrintable(t, a.Err.Error())
			kustotest.MustBePrintable(t, a.Err.Code)
		}
	})
}
