package kusto

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// outcome is everything that was seen of one request, before it is judged.
type outcome struct {
	sent   bool  // the whole body was handed to the connection, and no write failed
	err    error // no answer came; what follows is empty then
	status int
	header http.Header
	body   []byte // the first maxAnswer bytes, inflated
	long   bool   // there was more than that
	torn   error  // the body ended early, within these bytes
}

var (
	errEarly    = errors.New("accepted before the body was sent whole")
	errStranger = errors.New("HTTP 200 with an unrecognized body; a proxy or a portal may have answered")
	errNoTrust  = errors.New("the answer does not tell whether the body was stored")
)

// classify is the one place that decides what an answer means. Its rules are
// tried in this order; a refusal is believed whenever it comes, also while the
// body is being sent.
func classify(o *outcome, r *reply) (Verdict, error) {
	switch {
	case o.err != nil:
		return lost(o.sent), o.err
	case o.status == http.StatusOK:
		return accepted(o)
	case o.status < 300 || o.status >= 600:
		return lost(o.sent), errNoTrust
	case o.status < 400:
		return Hold, nil // followed, it would turn the POST into a GET
	case o.status == http.StatusUnauthorized:
		return Auth, nil
	case o.status == http.StatusRequestTimeout, o.status == http.StatusBadGateway, o.status == http.StatusGatewayTimeout:
		return lost(o.sent), errNoTrust
	case o.status >= 500 && !r.own:
		return lost(o.sent), errNoTrust
	case o.status == http.StatusTooManyRequests || r.about == load:
		return Throttled, nil
	case o.status >= 500:
		return Retry, nil
	}
	return refused(o, r), nil
}

// refused is for the statuses 400 to 499 that have no meaning of their own.
func refused(o *outcome, r *reply) Verdict {
	switch {
	case o.status == http.StatusRequestEntityTooLarge || r.about == size:
		return TooLarge
	case r.about >= clusterOff && r.about <= updatePolicy:
		return Hold
	case o.status == http.StatusForbidden, o.status == http.StatusNotFound,
		o.status == http.StatusConflict, o.status == http.StatusPreconditionFailed:
		return Hold
	case r.about == passing, r.permanent != nil && !*r.permanent:
		return Retry
	case r.about == emptyStream, r.about == badRecord:
		return BadData
	case o.status == http.StatusBadRequest && r.permanent != nil && *r.permanent:
		return BadData
	case o.torn != nil:
		return Retry // the words that would have told were lost
	}
	return Hold
}

// lost is the verdict where no answer can be trusted.
func lost(sent bool) Verdict {
	if sent {
		return Unknown
	}
	return NotSent
}

// accepted judges a 200. Whatever is not certain is Unknown: even a 200 that
// came too early may have stored something.
func accepted(o *outcome) (Verdict, error) {
	text := bytes.TrimSpace(bytes.TrimPrefix(o.body, []byte("\xef\xbb\xbf")))
	named := o.header.Get(headerActivity) != ""
	switch {
	case !o.sent:
		return Unknown, errEarly
	case o.torn != nil:
		return Unknown, fmt.Errorf("read answer: %w", o.torn)
	case len(text) == 0 && !o.long, named:
		return Accepted, nil
	case o.long && bytes.HasPrefix(text, []byte("{")), !o.long && json.Valid(text):
		return Accepted, nil
	}
	return Unknown, errStranger
}

// updateFailure reads from the body of a 200 whether an update policy failed
// on records that were stored; empty: no. The body is a table of one row.
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
	return printable(redact(strings.TrimSpace(status+" "+code+" "+reason)), maxMessage)
}

// failed and known read the status of an update policy, whose only value seen
// in the open is Inactive.
func failed(status string) bool { return strings.Contains(strings.ToLower(status), "fail") }

func known(status string) bool {
	s := strings.ToLower(status)
	return s == "" || s == "inactive" || strings.HasPrefix(s, "succe") || strings.HasPrefix(s, "complete")
}
