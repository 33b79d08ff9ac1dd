package wire

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"kusto-agent/internal/kusto"
)

// oneError is an error body as the service writes it.
func oneError(code, message string, permanent any) string {
	p := ""
	if permanent != nil {
		p = fmt.Sprintf(`,"@permanent":%v`, permanent)
	}
	return fmt.Sprintf(`{"error":{"code":%q,"message":"Request is invalid and cannot be executed.","@type":"Kusto.DataNode.Exceptions.SomeException","@message":%q,"@context":{"activityId":"act-1"}%s}}`, code, message, p)
}

const html = "<html><body>Bad Gateway</body></html>"

func TestClassifyAnswers(t *testing.T) {
	f := func(want kusto.Verdict, status int, body string) {
		t.Helper()
		a := judge(&outcome{Sent: true, Status: status, Header: http.Header{}, Body: []byte(body)}, sample("x"), "", "")
		if a.Verdict != want {
			t.Errorf("%d %s\n got %s, want %s", status, body, a.Verdict, want)
		}
		if (a.Err == nil) != (want == kusto.Accepted) {
			t.Errorf("%d %s: error %v with verdict %s", status, body, a.Err, a.Verdict)
		}
		if (want == kusto.Hold || want == kusto.Auth) && a.Hint == "" {
			t.Errorf("%d %s: no hint", status, body)
		}
	}
	// accepted, or not to be trusted
	f(kusto.Accepted, 200, "")
	f(kusto.Accepted, 200, " \r\n")
	f(kusto.Accepted, 200, `{"Tables":[]}`)
	f(kusto.Accepted, 200, "\ufeff{}")
	f(kusto.Accepted, 200, `[]`)
	f(kusto.Unknown, 200, html)
	f(kusto.Unknown, 200, `{"Tables":[`)
	for _, status := range []int{101, 201, 202, 204, 206, 299} {
		f(kusto.Unknown, status, "")
		f(kusto.Unknown, status, `{}`)
	}
	f(kusto.Unknown, 600, "")
	f(kusto.Unknown, 999, "")

	// redirects
	for _, status := range []int{300, 301, 302, 303, 307, 308} {
		f(kusto.Hold, status, "")
	}

	// the token
	f(kusto.Auth, 401, "")
	f(kusto.Auth, 401, `{"Message":"Authorization has been denied for this request."}`)
	f(kusto.Auth, 401, oneError("Throttling", "", false))

	// nobody knows whether it was stored
	for _, status := range []int{408, 502, 504} {
		f(kusto.Unknown, status, "")
		f(kusto.Unknown, status, html)
		f(kusto.Unknown, status, oneError("General_InternalServerError", "", false))
	}
	for _, status := range []int{500, 501, 503, 505, 520, 599} {
		f(kusto.Unknown, status, "")
		f(kusto.Unknown, status, html)
		f(kusto.Unknown, status, `{"Message":"An error has occurred."}`)
		f(kusto.Unknown, status, `{"error":{"code":"Bad`)
		f(kusto.Retry, status, oneError("General_InternalServerError", "", false))
		f(kusto.Retry, status, oneError("BadRequest_Other", "", true))
		f(kusto.Retry, status, "Internal error: x\nError details:\nClientRequestId='c', ActivityId='a-1', Timestamp='t'.")
	}
	f(kusto.Retry, 503, oneError("ServiceUnavailable_StreamingIngestionDatabaseUnderMaintenance", "", false))
	f(kusto.Retry, 520, oneError("StreamingIngestionServiceException", "", nil))

	// load
	f(kusto.Throttled, 429, "")
	f(kusto.Throttled, 429, html)
	f(kusto.Throttled, 429, `{"error":{"code":"Throttling","@type":"Kusto.DataNode.Exceptions.ThrottlingException","@permanent":false}}`)
	f(kusto.Throttled, 503, oneError("General_ThrottledIngestion", "", false))
	f(kusto.Throttled, 400, oneError("Too many requests", "", false))
	f(kusto.Throttled, 400, oneError("Aborted", "The control command was aborted due to throttling. Capacity: 1, Origin: 'CapacityPolicy/x'", nil))
	f(kusto.Throttled, 400, `{"error":{"code":"BadRequest","@type":"Kusto.Common.Svc.Exceptions.KustoRequestThrottledException"}}`)

	// size
	f(kusto.TooLarge, 413, "")
	f(kusto.TooLarge, 413, html)
	f(kusto.TooLarge, 413, oneError("KustoRequestPayloadTooLargeException", "", true))
	f(kusto.TooLarge, 400, oneError("Stream_InputStreamTooLarge", "", true))
	f(kusto.TooLarge, 400, oneError("BadRequest_FileTooLarge", "", true))
	f(kusto.TooLarge, 400, oneError("BadRequest", "refused: 0x80DA0009", true))
	f(kusto.TooLarge, 400, oneError("BadRequest", "The request payload is too large", true))
	f(kusto.TooLarge, 400, "Request Entity Too Large")
	f(kusto.TooLarge, 400, `{"error":{"code":"BadRequest","@permanent":true,"innererror":{"code":"X","innererror":{"code":"stream_inputstreamtoolarge"}}}}`)

	// the route
	for _, code := range []string{
		"BadRequest_StreamingIngestionPolicyNotEnabled", "BadRequest_EntityNotFound", "BadRequest_DatabaseNotExist", "BadRequest_TableNotExist",
		"BadRequest_MappingReferenceWasNotFound", "BadRequest_InvalidMappingReference", "BadRequest_TableAccessDenied", "BadRequest_DatabaseAccessDenied",
		"NotFound_StreamingIngestionDisabledForCluster", "StreamingIngestionFunctionalityDisabled", "Forbidden",
		"BadRequest_InvalidMapping", "BadRequest_InconsistentMapping", "BadRequest_FormatNotSupported", "BadRequest_MissingMappingtFailure", "BadRequest_EmptyMappingReference",
		"UpdatePolicy_QuerySchemaDoesNotMatchTableSchema", "UpdatePolicy_BadRequest", "UpdatePolicy_Cyclic_Update_Not_Allowed",
	} {
		f(kusto.Hold, 400, oneError(code, "", true))
		f(kusto.Hold, 400, oneError(strings.ToUpper(code), "", true))
		if code != "Forbidden" { // an ordinary word, where it is not a code
			f(kusto.Hold, 400, oneError("BadRequest", "it failed with "+code+": look", true))
		}
		f(kusto.Hold, 400, "Bad request: "+code)
	}
	f(kusto.Hold, 400, `{"error":{"code":"BadRequest","@type":"Kusto.Data.Exceptions.EntityNotFoundException","@message":"Entity ID 'X' of kind 'Table' was not found.","@permanent":true}}`)
	f(kusto.Hold, 400, oneError("BadRequest", "Entity ID 'M' of kind 'MappingPersistent' was not found.", true))
	f(kusto.Hold, 400, oneError("BadRequest", "Principal 'aadapp=1;2' is not authorized to perform operation 'x' on 'y'", true))
	for _, status := range []int{403, 404, 409, 412} {
		f(kusto.Hold, status, "")
		f(kusto.Hold, status, html)
		f(kusto.Hold, status, oneError("Anything", "", true))
		f(kusto.Hold, status, oneError("Anything", "", false))
	}
	for _, status := range []int{400, 402, 405, 406, 407, 411, 414, 415, 417, 421, 431, 451} {
		f(kusto.Hold, status, "")
		f(kusto.Hold, status, html)
		f(kusto.Hold, status, "plain words")
	}
	f(kusto.Hold, 415, oneError("UnsupportedMediaType", "", true)) // permanent, but about the request and not its data
	f(kusto.Hold, 400, oneError("BadRequest", "", nil))

	// passing
	f(kusto.Retry, 400, oneError("General_InternalServerError", "", false))
	f(kusto.Retry, 400, oneError("BadRequest", "", false))
	f(kusto.Retry, 400, oneError("General_TransientSchemaMismatch", "", nil))
	f(kusto.Retry, 400, oneError("UpdatePolicy_FailedDescendantTransaction", "", true))
	f(kusto.Retry, 400, oneError("Timeout", "", nil))
	f(kusto.Retry, 400, oneError("OutOfMemory", "", nil))
	f(kusto.Retry, 400, oneError("Unknown", "", nil))
	f(kusto.Retry, 400, oneError("BadRequest", "Can't determine row store for ingestion into 'T'", true))
	f(kusto.Retry, 400, oneError("BadRequest", "Database metadata is unavailable.", true))

	// the data
	for _, code := range []string{
		"BadRequest_InvalidBlob", "Stream_WrongNumberOfFields", "Stream_ClosingQuoteMissing", "BadRequest_UnexpectedCharacterInInputStream",
		"Stream_DynamicPropertyBagTooLarge", "BadRequest_NoRecordsOrWrongFormat", "Stream_NoDataToIngest", "BadRequest_EmptyBlob",
	} {
		f(kusto.BadData, 400, oneError(code, "", true))
		f(kusto.BadData, 400, oneError(code, "", nil))
	}
	f(kusto.BadData, 400, oneError("BadRequest", "code 0x80DA000b", nil))
	f(kusto.BadData, 400, oneError("BadRequest", "Bad streaming ingestion request to db.table : The input stream is empty after processing, tip:check stream validity", true))
	f(kusto.BadData, 400, oneError("Whatever", "no word we know", true))
	f(kusto.BadData, 400, oneError("BadRequest", "a table called 'BadRequest_EntityNotFound' got bad data", true)) // a name is no code
}

func TestClassifyWithoutAnswer(t *testing.T) {
	f := func(want kusto.Verdict, sent bool, status int, body string) {
		t.Helper()
		o := &outcome{Sent: sent, Status: status, Header: http.Header{}, Body: []byte(body)}
		if status == 0 {
			o.err = errors.New("connection lost")
		}
		if a := judge(o, sample("x"), "", ""); a.Verdict != want || a.Wrote != sent || (want == kusto.NotSent && a.Hint == "" && status == 0) {
			t.Errorf("sent %v, %d %q: got %s wrote %v hint %q, want %s", sent, status, body, a.Verdict, a.Wrote, a.Hint, want)
		}
	}
	f(kusto.NotSent, false, 0, "")
	f(kusto.Unknown, true, 0, "")
	for _, status := range []int{408, 500, 502, 503, 504, 520, 204} {
		f(kusto.NotSent, false, status, html)
		f(kusto.Unknown, true, status, html)
	}
	f(kusto.Unknown, false, 200, `{}`) // accepted too early: something may be stored
	f(kusto.Throttled, false, 429, "")
	f(kusto.Auth, false, 401, "")
	f(kusto.TooLarge, false, 413, "")
	f(kusto.Hold, false, 404, "")
	f(kusto.BadData, false, 400, oneError("Stream_WrongNumberOfFields", "", true))
	f(kusto.Retry, false, 503, oneError("General_InternalServerError", "", false))
}

func TestClassifyLongTornAndNamed(t *testing.T) {
	f := func(want kusto.Verdict, change func(*outcome)) {
		t.Helper()
		o := &outcome{Sent: true, Status: 200, Header: http.Header{}, Body: []byte(`{"Tables":[`)}
		change(o)
		if got := judge(o, sample("x"), "", "").Verdict; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	tear := errors.New("unexpected EOF")
	name := func(o *outcome) { o.Header.Set(HeaderActivity, "act") }
	f(kusto.Unknown, func(o *outcome) {})
	f(kusto.Accepted, func(o *outcome) { o.long = true })
	f(kusto.Unknown, func(o *outcome) { o.long, o.Body = true, []byte(html) })
	f(kusto.Unknown, func(o *outcome) { o.long, o.Body = true, []byte("   ") })
	f(kusto.Accepted, func(o *outcome) { o.long, o.Body = true, []byte(html); name(o) })
	f(kusto.Accepted, func(o *outcome) { o.Body = []byte(html); name(o) })
	f(kusto.Unknown, func(o *outcome) { o.torn = tear })
	f(kusto.Unknown, func(o *outcome) { o.torn, o.Body = tear, nil })
	f(kusto.Unknown, func(o *outcome) { o.torn = tear; name(o) })
	f(kusto.Retry, func(o *outcome) { o.Status, o.torn, o.Body = 400, tear, []byte(`{"error":{"co`) })
	f(kusto.Hold, func(o *outcome) { o.Status, o.torn, o.Body = 404, tear, nil })
	f(kusto.Unknown, func(o *outcome) { o.Status, o.torn, o.Body = 500, tear, []byte(`{"error":{"co`) })
}

// A 200 with an error in its body, and nothing that shows that the service has answered, contradicts
// itself: its records are sent again and counted as perhaps stored, and the person reads what the
// error says.
func TestAnErrorInsideAnAcceptance(t *testing.T) {
	f := func(want kusto.Verdict, body, says string, named bool) {
		t.Helper()
		o := &outcome{Sent: true, Status: 200, Header: http.Header{}, Body: []byte(body)}
		if named {
			o.Header.Set(HeaderActivity, "act")
		}
		a := judge(o, sample("x"), "", "")
		if a.Verdict != want {
			t.Errorf("%s: got %s, want %s", body, a.Verdict, want)
		} else if want == kusto.Unknown && !strings.Contains(a.Err.Message, says) {
			t.Errorf("%s: the message is %q, without %q", body, a.Err.Message, says)
		}
	}
	for body, says := range map[string]string{
		oneError("General_InternalServerError", "it broke", false):       "it broke",
		`{"error":"upstream timeout"}`:                                   "upstream timeout",
		`{"Tables":[],"Exceptions":["Request aborted"]}`:                 "Request aborted",
		`{"Tables":[],"OneApiErrors":[{"error":{"message":"aborted"}}]}`: "aborted",
	} {
		f(kusto.Unknown, body, says, false)
		f(kusto.Accepted, body, "", true) // to send them again would store them twice, over and over
	}
	for _, named := range []bool{false, true} {
		f(kusto.Accepted, `{"Tables":[],"error":null}`, "", named)
		f(kusto.Accepted, `{"error":"","Exceptions":[ ],"OneApiErrors":{}}`, "", named)
		f(kusto.Accepted, `{"error":false}`, "", named)
		f(kusto.Accepted, `["error"]`, "", named)
	}
}

func TestUpdatePolicyFailure(t *testing.T) {
	f := func(row, want string) {
		t.Helper()
		body := `{"Tables":[{"TableName":"Table_0","Columns":[{"ColumnName":"ConsumedRecordsCount","DataType":"Int64"},{"ColumnName":"UpdatePolicyStatus","DataType":"String"},` +
			`{"ColumnName":"UpdatePolicyFailureCode","DataType":"String"},{"ColumnName":"UpdatePolicyFailureReason","DataType":"String"}],"Rows":[` + row + `]}]}`
		a := judge(&outcome{Sent: true, Status: 200, Header: http.Header{}, Body: []byte(body)}, sample("x"), "", "")
		if a.Verdict != kusto.Accepted || a.UpdatePolicy != want {
			t.Errorf("%s: got %s %q, want %q", row, a.Verdict, a.UpdatePolicy, want)
		}
	}
	f(`[0,"Inactive","Unknown",null]`, "")
	f(`[7,"Succeeded","Unknown",""]`, "")
	f(`[7,"Completed",null,null]`, "")
	f(`[7,null,null,null]`, "")
	f(`[]`, "")
	f(``, "")
	f(`[7,"Other","Unknown",null]`, "")
	f(`[7,"Failed","Unknown",null]`, "Failed Unknown")
	f(`[7,"PartiallyFailed","UpdatePolicy_BadRequest","line\nbreak"]`, `PartiallyFailed UpdatePolicy_BadRequest line\nbreak`)
	f(`[7,"Other","UpdatePolicy_X",null]`, "Other UpdatePolicy_X")
}
