package emulator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"kusto-agent/emulator/internal/kql"
	"kusto-agent/emulator/internal/mgmt"
)

// session is a query or a command under way, with the database it is about and the principal that sent
// it.
type session struct {
	*call
	mgmt.Session
	options map[string]any
}

// maxText bounds a request for a query or a command.
const maxText = 4 << 20

// asked is the JSON document in which a client sends a query or a command.
type asked struct {
	DB         string          `json:"db"`
	CSL        string          `json:"csl"`
	Properties json.RawMessage `json:"properties"`
}

// properties are the options, parameters and id of a query or a command. A client sends them as a JSON
// object, or as a string that contains one.
type properties struct {
	Options         map[string]any
	Parameters      map[string]json.RawMessage
	ClientRequestId string //nolint:revive // as the service spells it
}

// read decodes the properties of the request, which are a JSON object or a string that contains one.
// They are empty when the request has none.
func (q asked) read() (p properties, err error) {
	raw := q.Properties
	var text string
	if json.Unmarshal(raw, &text) == nil {
		raw = json.RawMessage(text)
	}
	if len(raw) == 0 || string(raw) == "null" {
		return p, nil
	}
	err = json.Unmarshal(raw, &p)
	return p, err
}

// literals returns the query parameters as text: the content of a JSON string, else the JSON itself.
func (p properties) literals() map[string]string {
	all := make(map[string]string)
	for name, raw := range p.Parameters {
		all[name] = string(raw)
		var text string
		if json.Unmarshal(raw, &text) == nil {
			all[name] = text
		}
	}
	return all
}

// The time that a request has when it does not say, and the most that it can ask for.
const (
	queryTimeout   = 4 * time.Minute
	commandTimeout = 10 * time.Minute
	longestTimeout = time.Hour
)

// timeout returns how long the request may take: the option servertimeout, at most longestTimeout, or
// the default of its kind (query or command); with norequesttimeout, longestTimeout. The refusal is
// for a servertimeout that is not a timespan above zero.
func (p properties) timeout(kind Kind) (time.Duration, *refusal) {
	if p.Options["norequesttimeout"] == true {
		return longestTimeout, nil
	}
	asked, given := p.Options["servertimeout"]
	if !given {
		return map[Kind]time.Duration{KindQuery: queryTimeout, KindMgmt: commandTimeout}[kind], nil
	}
	text, _ := asked.(string)
	if inner, typed := strings.CutSuffix(text, ")"); typed { // time(00:01:00)
		_, text, _ = strings.Cut(inner, "(")
	}
	d, ok := kql.SpanOf(text)
	if !ok || d <= 0 {
		return 0, badText("BadRequest", fmt.Sprintf("The option servertimeout is %v: it has to be a timespan above zero, such as \"00:01:00\" or \"50m\".", asked))
	}
	return min(d, longestTimeout), nil
}

// ask answers a query (/v1/rest/query, /v2/rest/query) or a command (/v1/rest/mgmt). A scripted
// fault may delay it or answer instead. A command whose time is over after that is not started,
// because it may change the schema; a query is evaluated and checks its time at the end.
func (c *call) ask() *refusal {
	s := c.s
	q, bad := c.readAsked()
	c.rec.Database = q.DB
	p, err := q.read()
	if p.ClientRequestId != "" {
		c.identify(p.ClientRequestId)
	}
	limit, badLimit := p.timeout(c.kind)
	defer s.console.begin(c, cmp.Or(limit, queryTimeout))() // limit is 0 if the option was invalid
	if c.interrupted(OnArrival, []byte(q.CSL)) {
		return answered
	}
	if bad != nil {
		return bad
	}
	principal, ok := s.tokens.principal(c.r.Header)
	if !ok {
		return s.unauthorized()
	}
	if err != nil {
		return badText("BadRequest", "The properties of the request are invalid: "+err.Error())
	}
	if badLimit != nil {
		return badLimit
	}
	if c.interrupted(BeforeCommit, []byte(q.CSL)) {
		return answered
	}
	if bad := c.overdue(); bad != nil && c.kind == KindMgmt {
		return bad
	}
	s.console.remember(Asked{c.kind, q.DB, q.CSL, principal, c.rec.Header, c.rec.Query})
	se := &session{call: c, Session: mgmt.Session{Host: hosted{s}, Catalog: &s.catalog, Delay: s.opt.SchemaDelay, Caller: principal}, options: p.Options}
	se.ReadOnly = c.r.Header.Values("x-ms-readonly") != nil || p.Options["request_readonly"] == true
	if bad := se.Open(q.DB, c.kind == KindQuery); bad != nil {
		return refusalOf(bad)
	}
	if c.kind == KindMgmt {
		return se.command(q.CSL)
	}
	return se.query(q.CSL, p)
}

// Asked is a query or a command of an authenticated principal.
type Asked struct {
	Kind      Kind
	Database  string
	Text      string
	Principal string // client id
	Header    http.Header
	Query     string // of the URL, as it came
}

// console keeps the last queries and commands, and can cancel those under way.
type console struct {
	mu      sync.Mutex
	asked   []Asked
	running map[*running]struct{}
}

// running is a query or a command under way. Several may have one client request id.
type running struct {
	id     string
	cancel context.CancelCauseFunc
}

// keptAsked is how many questions are remembered.
const keptAsked = 10_000

// remember keeps a query or a command for Server.Asked. When keptAsked are kept, it first drops the
// older half.
func (k *console) remember(a Asked) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.asked) == keptAsked {
		k.asked = k.asked[keptAsked/2:]
	}
	k.asked = append(k.asked, a)
}

// What ends a query before it is done.
var (
	errCancelled = errors.New("cancelled")
	errOverdue   = errors.New("timed out")
)

// begin gives the call a context, c.cancelled, which ends when limit is over or when a .cancel command
// names the call's client request id. The caller calls end when the call is answered.
func (k *console) begin(c *call, limit time.Duration) (end func()) {
	timed, stop := context.WithTimeoutCause(context.Background(), limit, errOverdue)
	ctx, cancel := context.WithCancelCause(timed)
	c.cancelled = ctx
	one := &running{c.w.Header().Get("x-ms-client-request-id"), cancel}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.running[one] = struct{}{}
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.running, one)
		cancel(nil)
		stop()
	}
}

// overdue returns the answer to a call that was cancelled or whose time is over; nil for one that may
// go on.
func (c *call) overdue() *refusal {
	switch context.Cause(c.cancelled) {
	case nil:
		return nil
	case errOverdue:
		return &refusal{status: http.StatusGatewayTimeout, code: "Timeout", message: "Request timed out.",
			typ: "Kusto.Data.Exceptions.KustoServiceTimeoutException", detail: "Request timed out (E_QUERY_TIMEOUT): it took longer than its servertimeout allows."}
	}
	e := badText("General_BadRequest", "Query execution was cancelled: a .cancel query command named it.")
	e.permanent = false
	return e
}

// cancel cancels the queries and commands with this client request id, and reports whether one was
// under way.
func (k *console) cancel(id string) (found bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	id = printable(id)
	for one := range k.running {
		if one.id == id {
			one.cancel(errCancelled)
			delete(k.running, one)
			found = true
		}
	}
	return found
}

// Asked are the last queries and commands, the oldest first.
func (s *Server) Asked() []Asked {
	s.console.mu.Lock()
	defer s.console.mu.Unlock()
	return slices.Clone(s.console.asked)
}

// readAsked reads the query or command from the URL (GET, queries only) or from the body (POST). The
// refusal is for another method, an invalid document, or one without text.
func (c *call) readAsked() (q asked, bad *refusal) {
	switch {
	case c.r.Method == http.MethodGet && c.kind == KindQuery:
		in := c.r.URL.Query()
		q = asked{DB: in.Get("db"), CSL: in.Get("csl"), Properties: json.RawMessage(in.Get("properties"))}
		if len(q.Properties) > 0 && !json.Valid(q.Properties) {
			return q, badText("BadRequest", "The properties of the request are not JSON.")
		}
	case c.r.Method == http.MethodPost:
		raw, err := io.ReadAll(io.LimitReader(c.in, maxText+1))
		if err != nil || len(raw) > maxText || json.Unmarshal(raw, &q) != nil {
			return q, badText("BadRequest", "The body of the request is not a JSON object with db and csl, or is too large.")
		}
	case c.kind == KindMgmt:
		return q, wrongMethod(c.r.Method, "POST")
	default:
		return q, wrongMethod(c.r.Method, "GET, POST")
	}
	if strings.TrimSpace(q.CSL) == "" {
		return q, badText("BadRequest", "The request has no csl.")
	}
	return q, nil
}

// command runs a management command, applies the query operators that follow it behind a pipe, and
// answers.
func (se *session) command(text string) *refusal {
	a, rest, err := se.Run(text)
	if bad, ok := errors.AsType[*mgmt.Refusal](err); ok {
		return refusalOf(bad)
	}
	if err != nil {
		return queryRefusal(err)
	}
	r := &result{Result: *a}
	if rest != "" {
		t, err := kql.Pipe(se.cancelled, rest, tableOf(r), se)
		if err != nil {
			return queryRefusal(err)
		}
		r = resultOfTable(t)
	}
	se.answerMgmt(r)
	return answered
}

// refusalOf converts the refusal of a command to an HTTP answer.
func refusalOf(r *mgmt.Refusal) *refusal {
	return &refusal{status: r.Status, code: r.Code, message: r.Message, typ: r.Typ, detail: r.Detail, permanent: true}
}

// badText returns the permanent 400 error for a query or command that is invalid.
func badText(code, detail string) *refusal { return refusalOf(mgmt.Wrong(code, detail)) }

// Table returns all visible rows of a table for a query. A table without known columns has one column,
// record, of type dynamic. A table that is not in the schema and has no rows is an error, except where
// every name exists.
func (se *session) Table(name string) (*kql.Table, error) {
	var columns Columns
	stored := se.s.store.stored(se.DatabaseName, name) > 0
	switch t := se.TableOf(name); {
	case t != nil:
		columns = t.Columns
	case se.Schema != nil && !se.Schema.Open, !stored:
		return nil, kql.NoTable(name)
	}
	out := &kql.Table{Columns: columns, Ingested: true}
	if columns == nil {
		out.Columns = Columns{{Name: "record", Type: "dynamic"}}
	}
	for row := range se.s.All(se.DatabaseName, name, 0) {
		cells, err := row.cells(columns)
		if err != nil {
			return nil, err
		}
		out.Rows = append(out.Rows, cells)
	}
	return out, nil
}

// Database and Principal are what a query may ask for.
func (se *session) Database() string  { return se.DatabaseName }
func (se *session) Principal() string { return "aadapp=" + se.Caller }

// cells returns the values of a row for the columns that its table has now; a row without columns is
// one value. One more cell lies behind the length of the list, within its capacity: the time at which
// the row was stored.
func (r Row) cells(columns Columns) ([]any, error) {
	raw, err := r.MarshalJSON()
	if err != nil || columns == nil {
		return []any{json.RawMessage(raw), r.at}[:1], err
	}
	if r.shape == nil || r.shape.columns == nil { // it was stored before its table had columns
		raw, err = (&shape{columns: columns}).row(r.format, r.Raw)
		if err != nil {
			return nil, err
		}
	}
	var named map[string]json.RawMessage
	if err := json.Unmarshal(raw, &named); err != nil {
		return nil, err
	}
	cells := make([]any, len(columns), len(columns)+1)
	cells[:len(columns)+1][len(columns)] = r.at
	for i, c := range columns {
		cells[i] = kql.ValueOf(c.Type, named[c.Name])
		if c.Type == "string" && cells[i] == nil {
			cells[i] = ""
		}
	}
	return cells, nil
}

// maxResult and maxResultSize are how many rows and bytes a query gives unless it says
// notruncation.
const (
	maxResult     = 500_000
	maxResultSize = 64 << 20
)

// query evaluates a query and answers it, in the version that the path of the request names. A query
// that is cancelled or over its time limit is refused once its evaluation has ended. A result above
// the limits on rows and bytes is cut, and the answer reports that.
func (se *session) query(text string, p properties) *refusal {
	tables, err := kql.Run(se.cancelled, text, p.literals(), se)
	if bad := se.overdue(); bad != nil {
		return bad
	}
	if err != nil {
		return queryRefusal(err)
	}
	var all []*result
	var bad *failure
	for _, t := range tables {
		r := resultOfTable(t)
		if n := se.most("query_take_max_records", len(r.Rows)); n < len(r.Rows) {
			r.Rows = r.Rows[:n]
		}
		if r.bad = se.truncate(r); r.bad != nil {
			bad = r.bad
		}
		all = append(all, r)
	}
	if strings.HasPrefix(strings.ToLower(wirePath(se.r)), "/v1/") {
		se.answerV1(all, bad)
	} else {
		se.answerV2(all, bad, se.form())
	}
	return answered
}

// truncate cuts a result to the limits on its rows and bytes and returns the error to report; nil when
// nothing was cut. The option notruncation lifts both limits.
func (se *session) truncate(r *result) *failure {
	if se.options["notruncation"] == true {
		return nil
	}
	tooLarge := func(kept, limit int, of string) *failure {
		r.Rows = r.Rows[:kept]
		return &failure{"E_QUERY_RESULT_SET_TOO_LARGE",
			fmt.Sprintf("Query execution has exceeded the allowed limits (80DA0003): the results of this query exceed the set limit of %d %s, so not all records are here", limit, of)}
	}
	var bad *failure
	if most := se.most("truncationmaxrecords", maxResult); len(r.Rows) > most {
		bad = tooLarge(most, most, "records")
	}
	size, most := 0, se.most("truncationmaxsize", maxResultSize)
	for i, row := range r.Rows {
		for _, cell := range row {
			size += len(cell)
		}
		if size > most {
			return tooLarge(i, most, "bytes")
		}
	}
	return bad
}

// most returns the limit that an option sets, or without when the option is missing or not a number
// above 0.
func (se *session) most(option string, without int) int {
	if n, ok := se.options[option].(float64); ok && n > 0 {
		return int(min(n, math.MaxInt32))
	}
	return without
}

// queryRefusal returns the answer to a query that cannot be run: a 400 with the syntax (SYN…) or
// semantic (SEM…) error. It is in plain text for a management command at the endpoint for queries
// (kql.ErrControl).
func queryRefusal(err error) *refusal {
	if errors.Is(err, kql.ErrControl) {
		return &refusal{status: http.StatusBadRequest, contentType: textType, text: "Bad request: " + strings.TrimPrefix(err.Error(), "BadRequest: ")}
	}
	code, words, _ := strings.Cut(err.Error(), ": ")
	typ := "Kusto.Data.Exceptions.SyntaxException"
	switch {
	case strings.HasPrefix(code, "SEM"):
		typ = "Kusto.Data.Exceptions.SemanticException"
	case !strings.HasPrefix(code, "SYN"): // the query is valid, but exceeds a limit
		return badText("LimitsExceeded", err.Error())
	}
	e := badText("General_BadRequest", "Request is invalid and cannot be processed: "+err.Error())
	e.inner = &innerError{apiError{Code: code, Message: words, Type: typ, Detail: err.Error(), Permanent: true}, code, words}
	return e
}
