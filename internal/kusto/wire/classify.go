package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/internal/reply"
)

// outcome is everything that was seen of one request, before it is judged.
type outcome struct {
	Sent   bool  // the whole body was handed to the connection, and no write failed
	err    error // no answer came; what follows is empty then
	Status int
	Header http.Header
	Body   []byte // the first maxAnswer bytes, inflated
	long   bool   // there was more than that
	torn   error  // the body ended early, within these bytes
}

var (
	errEarly    = errors.New("accepted before the body was sent whole")
	errStranger = errors.New("HTTP 200 with an unrecognized body; a proxy or a portal may have answered")
	errInside   = errors.New("HTTP 200 with an error in its body")
	errNoTrust  = errors.New("the answer does not tell whether the body was stored")
)

// classify decides what an answer means. It returns the verdict, and an error with the reason if
// the agent itself had to decide, as when no answer came. The order of the cases is the order of
// the rules. A refusal counts even if it came while the body was still being sent. r is the parsed
// error body.
func classify(o *outcome, r *reply.Reply) (kusto.Verdict, error) {
	switch {
	case o.err != nil:
		return lost(o.Sent), o.err
	case o.Status == http.StatusOK:
		return accepted(o)
	case o.Status < 300 || o.Status >= 600:
		return lost(o.Sent), errNoTrust
	case o.Status < 400:
		return kusto.Hold, nil // followed, it would turn the POST into a GET
	case o.Status == http.StatusUnauthorized:
		return kusto.Auth, nil
	case o.Status == http.StatusRequestTimeout, o.Status == http.StatusBadGateway, o.Status == http.StatusGatewayTimeout:
		return lost(o.Sent), errNoTrust
	case o.Status >= 500 && !r.Own:
		return lost(o.Sent), errNoTrust
	case o.Status == http.StatusTooManyRequests || r.About == reply.Load:
		return kusto.Throttled, nil
	case o.Status >= 500:
		return kusto.Retry, nil
	}
	return refused(o, r), nil
}

// refused returns the verdict for a status from 400 to 499 that classify does not decide itself.
// What the error body (r) is about counts first, then the status.
func refused(o *outcome, r *reply.Reply) kusto.Verdict {
	switch {
	case o.Status == http.StatusRequestEntityTooLarge || r.About == reply.Size:
		return kusto.TooLarge
	case r.About >= reply.ClusterOff && r.About <= reply.UpdatePolicy:
		return kusto.Hold
	case o.Status == http.StatusForbidden, o.Status == http.StatusNotFound,
		o.Status == http.StatusConflict, o.Status == http.StatusPreconditionFailed:
		return kusto.Hold
	case r.About == reply.Passing, r.Permanent != nil && !*r.Permanent:
		return kusto.Retry
	case r.About == reply.EmptyStream, r.About == reply.BadRecord:
		return kusto.BadData
	case o.Status == http.StatusBadRequest && r.Permanent != nil && *r.Permanent:
		return kusto.BadData
	case o.torn != nil:
		return kusto.Retry // the part of the answer with the reason was lost
	}
	return kusto.Hold
}

// lost returns the verdict where no answer can be trusted: Unknown if the whole body was sent, so that
// it may have been stored, otherwise NotSent.
func lost(sent bool) kusto.Verdict {
	if sent {
		return kusto.Unknown
	}
	return kusto.NotSent
}

// accepted returns the verdict for an answer with status 200. It is Accepted only if the whole body
// was sent and the answer is that of the service: it has an activity header, or else an empty body or
// one of JSON that tells of no error. Anything else is Unknown, with the reason as error: even a 200
// that came too early may mean that records were stored.
func accepted(o *outcome) (kusto.Verdict, error) {
	text := bytes.TrimSpace(bytes.TrimPrefix(o.Body, []byte("\xef\xbb\xbf")))
	switch {
	case !o.Sent:
		return kusto.Unknown, errEarly
	case o.torn != nil:
		return kusto.Unknown, fmt.Errorf("read answer: %w", o.torn)
	case len(text) == 0 && !o.long, o.isNamed(): // the service answers 200 once it has stored the records, whatever it says of them
		return kusto.Accepted, nil
	case holdsError(text):
		return kusto.Unknown, errInside
	case o.long && bytes.HasPrefix(text, []byte("{")), !o.long && json.Valid(text):
		return kusto.Accepted, nil
	}
	return kusto.Unknown, errStranger
}

// isNamed reports whether the answer has the activity id of the service.
func (o *outcome) isNamed() bool { return o.Header.Get(HeaderActivity) != "" }

// holdsError reports whether the body of a 200 is a JSON object with an error in a member in which
// gateways, and the query interface of the service, tell of errors.
func holdsError(body []byte) bool {
	var doc struct{ Error, Exceptions, OneAPIErrors any }
	if json.Unmarshal(body, &doc) != nil {
		return false // it is no object
	}
	return !isNothing(doc.Error) || !isNothing(doc.Exceptions) || !isNothing(doc.OneAPIErrors)
}

// isNothing reports whether a JSON value is null, false or empty.
func isNothing(v any) bool {
	switch v := v.(type) {
	case bool:
		return !v
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return v == nil
}

// updateFailure returns why an update policy failed on records that were stored, in one printable
// line, from the body of a 200; "" if none failed. The body is a table of one row.
func updateFailure(body []byte) string {
	var doc struct {
		Tables []struct {
			Columns []struct{ ColumnName string }
			Rows    [][]any
		}
	}
	if json.Unmarshal(body, &doc) != nil || len(doc.Tables) == 0 || len(doc.Tables[0].Rows) == 0 {
		return ""
	}
	cell := make(map[string]string)
	for i, c := range doc.Tables[0].Columns {
		if row := doc.Tables[0].Rows[0]; i < len(row) && row[i] != nil {
			cell[c.ColumnName] = fmt.Sprint(row[i])
		}
	}
	status, code, reason := cell["UpdatePolicyStatus"], cell["UpdatePolicyFailureCode"], cell["UpdatePolicyFailureReason"]
	if !failed(status) && (known(status) || reason == "" && (code == "" || strings.EqualFold(code, "Unknown"))) {
		return ""
	}
	return reply.Clean(status+" "+code+" "+reason, reply.MaxMessage)
}

// failed reports whether the status of an update policy says that it failed. Only the status Inactive
// is documented, so the test is by words.
func failed(status string) bool { return strings.Contains(strings.ToLower(status), "fail") }

// known reports whether the status of an update policy is one that means that nothing failed.
func known(status string) bool {
	s := strings.ToLower(status)
	return s == "" || s == "inactive" || strings.HasPrefix(s, "succe") || strings.HasPrefix(s, "complete")
}
