package query

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"kusto-agent/emulator"
	"kusto-agent/emulator/emulatortest"
	"kusto-agent/internal/kusto/internal/kustotest"
	"kusto-agent/internal/kusto/internal/reply"
	"kusto-agent/internal/kusto/wire"
)

// queryHinted is one run of the table, against an emulator.
type queryHinted struct {
	kustotest.Hinted
	server *emulator.Server
	client *Client
}

// ask tells what a query or a command is answered with under a fault.
func (h *queryHinted) ask(f emulator.Fault, call Call, text, hint string, words ...string) {
	h.Helper()
	f.Match.Kind = emulator.KindQuery
	if call == Mgmt {
		f.Match.Kind = emulator.KindMgmt
	}
	if f.Status != 0 {
		if f.Message != "" {
			words = append(words, f.Message)
		}
		if f.Code != "" {
			words = append(words, f.Code)
		}
		defer h.server.Fail(f).Remove()
	}
	e := kustotest.ErrorOf(h.client.Query(h.Context(), &Query{Call: call, Database: "Logs", Text: text}, &Collector{}))
	h.Says(text, e, hint, words...)
	if e != nil && e.ActivityID == "" {
		h.Errorf("%s: there is no activity", text)
	}
}

const queryHintSchema = `{"databases": {
	"Logs": {"tables": {"App": {"columns": "n:long"}}},
	"Secret": {"viewers": ["other"], "admins": ["other"]}}}`

// TestEveryHintOfQueries reaches each hint by what causes it, at the emulator where that can
// do it, and fails if the source has one that no row reaches.
func TestEveryHintOfQueries(t *testing.T) {
	schema, err := emulator.LoadSchema(strings.NewReader(queryHintSchema))
	if err != nil {
		t.Fatal(err)
	}
	h := &queryHinted{Hinted: kustotest.Hinted{T: t}, server: emulatortest.Start(t, emulator.Options{Schema: schema})}
	h.client = newQuerier(t, h.server.URL(), func(o *wire.Options) { o.Auth = &kustotest.StaticToken{Bearer: "zq-token"} })
	h.ofQueries()
	lost := newQuerier(h.T, kustotest.Script(h.T, func(c *net.TCPConn) { kustotest.ReadRequest(c) }))
	for _, call := range []Call{QueryV2, Mgmt} {
		h.Says("lost", kustotest.ErrorOf(lost.Query(h.Context(), &Query{Call: call, Database: "D", Text: ".T"}, &Collector{})), "sent completely")
	}

	h.Covers([]string{"queryerror.go"})
}

func (h *queryHinted) ofQueries() {
	f := func(status int, code, message, hint string) {
		h.Helper()
		h.ask(emulator.Fault{Status: status, Code: code, Message: message}, QueryV2, "App", hint)
	}
	f(400, "AdminCommandWrongEndpoint", "go elsewhere", "with ingest- before its name")
	f(400, "LimitsExceeded", "E_QUERY_RESULT_SET_TOO_LARGE: too much", "| take 1000")
	f(400, "LimitsExceeded", "Query execution has exceeded the allowed limits (80DA0003): .", "| take 1000")
	f(400, "LimitsExceeded", "Query execution has exceeded the allowed limits (80DA0007): .", "more memory than the service gives")
	f(400, "LimitsExceeded", "E_LOW_MEMORY_CONDITION: no room", "more memory than the service gives")
	f(504, "Timeout", "Request timed out", "an hour is the most")
	f(400, "BadRequest", "a control command cannot be sent to the query endpoint", "send it with mgmt")
	f(403, "Forbidden", "Principal 'aadapp=me' is not authorized to perform operation 'x' on 'y'", ".add database ['Logs'] viewers ('aadapp=me')")
	f(429, "Throttling", "too much", "the service is busy")
	f(520, "ServiceError", "it broke", "the service failed: try again")
	f(400, "BadRequest_Odd", "it is odd", "give support the activity id")
	h.ask(emulator.Fault{}, QueryV2, "App | wher n", "is not KQL as it stands", "SYN")
	h.ask(emulator.Fault{}, QueryV2, "Nope", "check columns with .show table", "SEM")
	h.ask(emulator.Fault{}, Mgmt, ".show table Nope cslschema", "check the names", "BadRequest_EntityNotFound")
	h.ask(emulator.Fault{Status: 403}, Mgmt, ".create table X (a:int)", ".add database ['Logs'] admins")
	page := func(n int, as emulator.As, hint string, words ...string) {
		h.Helper()
		h.ask(emulator.Fault{Status: n, As: as}, QueryV2, "App", hint, words...)
	}
	page(400, emulator.AsHTML, reply.PageHint, "a web page")
	page(502, emulator.AsHTML, reply.PageHint, "a web page")
	if last := h.Last(); strings.Contains(last, "by itself") {
		h.Errorf("a query is asked once, and the hint is %q", last)
	}
	page(401, emulator.AsEmpty, "auth.resource is the audience")
	page(404, emulator.AsEmpty, "no service answers there")
	page(407, emulator.AsEmpty, wire.ProxyHint)
	page(302, emulator.AsEmpty, "no token is sent there")
	h.ask(emulator.Fault{Status: 200, Body: "hello"}, QueryV2, "App", reply.PageHint)
	h.ask(emulator.Fault{Status: 200, Body: `[{"FrameType":"DataSetHeader","Version":"v2.0"},{"FrameType":`}, QueryV2, "App", "in the middle of the result")
	const table = `{"FrameType":"TableHeader","TableId":1,"TableKind":"PrimaryResult","TableName":"P","Columns":[{"ColumnName":"a","ColumnType":"int"}]}`
	h.ask(emulator.Fault{Status: 200, Body: `[` + strings.Repeat("[", 2*maxDepth)}, QueryV2, "App", "")
	h.ask(emulator.Fault{Status: 200, Body: `[{"New":` + strings.Repeat("[", 2*maxDepth)}, QueryV2, "App", "fewer rows with | take")
	h.ask(emulator.Fault{Status: 200, Body: `[` + table + `,{"FrameType":"TableFragment","TableId":1,"TableFragmentType":"DataAppend","Rows":[[1]]},` +
		`{"FrameType":"TableFragment","TableId":1,"TableFragmentType":"DataReplace","Rows":[[2]]}`}, QueryV2, "App", "leave the option results_progressive_enabled out")

	readOnly := kustotest.ErrorOf(h.client.Query(h.Context(), &Query{Call: Mgmt, Database: "Logs", Text: ".create table X (a:int)", ReadOnly: true}, &Collector{}))
	h.Says("read-only", readOnly, "leave that out to change something", "BadRequest_RequestReadonly")
	ctx, cancel := context.WithDeadline(h.Context(), time.Unix(1, 0))
	defer cancel()
	late := kustotest.ErrorOf(h.client.Query(ctx, &Query{Call: QueryV2, Database: "Logs", Text: "App"}, &Collector{}))
	h.Says("late", late, "with a longer timeout", "no answer in time")
}
