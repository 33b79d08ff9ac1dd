package query

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/internal/reply"
	"kusto-agent/internal/kusto/wire"
)

// newRequestID returns a unique request id, which contains "query" or "mgmt" for the kind of the
// call.
func newRequestID(call Call) string {
	verb := "query"
	if call == Mgmt {
		verb = "mgmt"
	}
	return "kusto-agent." + verb + ";" + uuid.NewString()
}

// refusal reads the body of an answer with a status other than 200 and returns the error that it
// reports, with a hint. secret is the token of the request, which is removed from all texts.
func refusal(resp *http.Response, q *Query, secret string) *kusto.Error {
	var raw []byte
	body, err := decoded(resp)
	if err == nil {
		raw, _ = io.ReadAll(io.LimitReader(body, reply.MaxAnswer)) // after a read error, the part that came is used
	}
	raw = bytes.TrimPrefix(raw, byteOrderMark)
	r := reply.Parse([]byte(reply.Redact(string(raw), secret)), "")
	if words, isPage := reply.PageWords(raw, secret); isPage {
		r.Page, r.Message = true, words
	}
	r.Message = r.Words(resp.StatusCode, resp.Header, nil)
	return queryError(resp, r, q, secret)
}

// queryError returns a *kusto.Error with the status and ids of an answer, what its body, r, says,
// and a hint. secret is the token of the request, which is removed from the texts.
func queryError(resp *http.Response, r reply.Reply, q *Query, secret string) *kusto.Error {
	r.Activity = cmp.Or(strings.TrimSpace(resp.Header.Get(wire.HeaderActivity)), r.Activity)
	e := errorOf(resp.StatusCode, r, q, secret)
	e.Status, e.Own, e.Away = resp.StatusCode, r.Own, r.IsAway(resp.StatusCode)
	if e.RetryAfter = reply.RetryAfter(resp.Header, time.Now()); e.RetryAfter > 0 {
		e.Hint += "; it says to wait " + e.RetryAfter.Round(time.Second).String()
	}
	return e
}

// errorOf returns what r says as a *kusto.Error, with a hint for the request q. status is that of the
// answer, and secret the token of the request, which is removed from the texts.
func errorOf(status int, r reply.Reply, q *Query, secret string) *kusto.Error {
	return &kusto.Error{
		Code: reply.Clean(r.Code, 128, secret), Message: reply.Clean(r.Message, reply.MaxMessage, secret), Permanent: r.Permanent,
		ActivityID: reply.Clean(r.Activity, 128, secret), Hint: queryHint(status, &r, q), About: r.About,
	}
}

// replyError returns the error that r, a part of a result, reports, with a hint for the request q;
// nil if r has neither code nor message.
func replyError(r reply.Reply, q *Query) *kusto.Error {
	if r.Code == "" && strings.TrimSpace(r.Message) == "" {
		return nil
	}
	return errorOf(http.StatusOK, r, q, "")
}

// lostHint returns the hint for a request that was sent completely and got no answer. A command may
// have run in that case.
func lostHint(call Call) string {
	if call == Mgmt {
		return "the request was sent completely and the connection ended without an answer: the command may have run; check its effect before you send it again"
	}
	return "the request was sent completely and the connection ended without an answer: try again, and check the proxies on the way if it keeps failing"
}

// resultError returns err, an error of reading a result, with the ids of its answer; nil if err is
// nil. An error of the service or of the form of the answer becomes a *kusto.Error that is marked
// as Partial, unless a web page came in place of the result. An error of the Reader is returned as
// it is. secret is the token of the request, which is removed from the texts.
func resultError(ctx context.Context, err error, resp *http.Response, q *Query, secret string) error {
	var e *kusto.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		e.ActivityID = cmp.Or(e.ActivityID, reply.Printable(resp.Header.Get(wire.HeaderActivity), 128))
		e.Partial = true
		return e
	case ctx.Err() != nil:
		return wire.NoAnswer(ctx, err, secret)
	case errors.Is(err, errShape), errors.Is(err, errTorn), errors.Is(err, errSize), errors.Is(err, errReplaced):
		e = queryError(resp, reply.Reply{Message: err.Error()}, q, secret)
		e.Hint, e.Partial, e.Cause = shapeHint(err), true, err
		if _, isPage := errors.AsType[*pageError](err); isPage {
			e.Partial, e.Away = false, true
		}
		return e
	}
	return err // an error of the Reader
}

// shapeHint returns what to do about an answer that cannot be read.
func shapeHint(err error) string {
	switch {
	case errors.Is(err, errTorn):
		return "the connection ended in the middle of the result; ask again, and look at proxies on the way if it stays so"
	case errors.Is(err, errSize):
		return "ask for less at a time: fewer rows with | take, fewer or shorter columns with | project; leave the option results_progressive_enabled out"
	case errors.Is(err, errReplaced):
		return "leave the option results_progressive_enabled out"
	}
	return reply.PageHint
}

// cancelPatience is how long the service is given to take a cancellation.
const cancelPatience = 2 * time.Second

// UnstoppedError is the end of a request that was cancelled here and that may still run
// on the service.
type UnstoppedError struct {
	err error
	Why error // the cancellation failed
}

func (e *UnstoppedError) Error() string { return e.err.Error() }

// Unwrap is how the request ended.
func (e *UnstoppedError) Unwrap() error { return e.err }

// cancelQuery sends the command .cancel query for the last request of q, and waits at most
// cancelPatience for the answer. It returns nil if the service accepted the command. It has a
// context of its own, since that of the query has ended.
func (c *Client) cancelQuery(q *Query) error {
	ctx, done := context.WithTimeout(context.Background(), cancelPatience)
	defer done()
	stop := &Query{
		Call: Mgmt, Database: q.Database, RequestID: newRequestID(Mgmt),
		Text: ".cancel query " + kusto.StringLiteral(q.RequestID),
	}
	err := c.query(ctx, stop, &Collector{})
	if err != nil {
		c.Log().Debug("query was not cancelled", "request", q.RequestID, "err", err)
	}
	return err
}

// queryHint returns what a person can do about a refused query or command: by the code and words of
// the reply, otherwise by the status.
func queryHint(status int, r *reply.Reply, q *Query) string {
	for _, h := range queryHints {
		if h.says.MatchString(r.Code) || h.says.MatchString(r.Texts) {
			return h.hint
		}
	}
	switch {
	case status == http.StatusUnauthorized:
		return "the service refused the token: check that auth.resource is the audience of this cluster and auth.tenant its tenant"
	case r.About == reply.Denied, status == http.StatusForbidden && !r.Page:
		role := "viewers"
		if q.Call == Mgmt && !strings.HasPrefix(strings.ToLower(uncommented(q.Text)), ".show") {
			role = "admins"
		}
		return fmt.Sprintf("grant this identity the role: .add database %s %s (%s)", kusto.EntityName(cmp.Or(q.Database, "<database>")), role, kusto.TextLiteral(reply.Principal(r)))
	case r.About == reply.Load, status == http.StatusTooManyRequests:
		return "the service is busy: try again later, or send smaller queries"
	case r.About == reply.Missing:
		return "check the names: .show databases, .show tables, .show functions; names of tables and columns are case-sensitive"
	case r.Page:
		return reply.PageHint
	case status == http.StatusNotFound && !r.Own:
		return "no service answers there: set cluster to the query URI, such as https://<cluster>.<region>.kusto.windows.net"
	case status == http.StatusProxyAuthRequired:
		return wire.ProxyHint
	case status >= 300 && status < 400:
		return "the address redirects elsewhere, and no token is sent there; set cluster to the query URI of the cluster"
	case status >= 500, r.About == reply.Passing:
		return "the service failed: try again; if it keeps failing, give support the activity id"
	}
	return "the message names the fault; if that does not help, give support the activity id"
}

// queryHints are for what is told by a code, or by words where there is none.
var queryHints = []struct {
	says *regexp.Regexp
	hint string
}{
	{regexp.MustCompile(`AdminCommandWrongEndpoint`), "the command is for the other endpoint of the cluster, with ingest- before its name; the agent does not need it"},
	{regexp.MustCompile(`(?i)E_QUERY_RESULT_SET_TOO_LARGE|80DA0003|result set is too large|exceeded the (?:row|record|size) limit`),
		"ask for less: end the query with | take 1000 or summarize; or give the option notruncation=true"},
	{regexp.MustCompile(`(?i)E_LOW_MEMORY_CONDITION|E_RUNAWAY_QUERY|80DA0001|80DA0007`), "the query takes more memory than the service gives: filter by time first, and summarize less at once"},
	{regexp.MustCompile(`(?i)E_QUERY_TIMEOUT|Request timed out|80DA0012|query execution (?:has )?exceeded the`), "give it more time with a longer timeout (an hour is the most), or filter by time first"},
	{regexp.MustCompile(`(?i)control command.* (?:query|v2)|query endpoint.*(?:command|mgmt)|must (?:be sent|use) .*mgmt`), "a text that begins with a dot is a management command: send it with mgmt"},
	{regexp.MustCompile(`(?i)request_readonly|readonly.*(?:not allowed|cannot)|is marked as read-?only`), "the request was marked read-only; leave that out to change something"},
	{regexp.MustCompile(`\bSYN\d{4}\b|(?i)syntax error`), "the text is not KQL as it stands: the message says where"},
	{regexp.MustCompile(`\bSEM\d{4}\b|(?i)semantic error|failed to resolve`), "a name or a type in the text is not known there: check columns with .show table <table> cslschema, and the database"},
}
