package query

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/internal/reply"
	"kusto-agent/internal/units"
)

// Kinds of tables that tell of the request. Tables of a kind that is none of them,
// and does not begin as those of the service do, are given out as results.
const (
	queryStatus     = "QueryStatus"                // of version 1
	queryCompletion = "QueryCompletionInformation" // of version 2
	queryProperties = "QueryProperties"
	tableOfContents = "TableOfContents"
)

// kindGiven returns the kind under which a table is passed to the Reader. A table about the request
// itself, such as its status, keeps the kind that the answer gives it; any other is a
// PrimaryResult.
func kindGiven(kind string) string {
	if strings.HasPrefix(kind, "Query") || kind == tableOfContents {
		return kind
	}
	return PrimaryResult
}

// head is what is known of a table while it is read. Its keys may come in any order: rows that come
// before the columns and the kind are kept in held.
type head struct {
	table   Table
	columns bool // they were read
	named   bool
	rows    bool // they were read
	held    heldRows
	given   *turn // the table, if it is handed on as it comes
}

// once sets told, which notes that a key of a table was read. It returns an error if told is set
// already: of two lists of rows or columns one would be lost.
func once(key string, told *bool) error {
	if *told {
		return fmt.Errorf("%w: a table has %s twice", errShape, key)
	}
	*told = true
	return nil
}

// readRows reads the rows of a table. If the table was announced to the Reader (h.given is set),
// they are passed on as they are read. Otherwise they are kept in h.held.
func (p *parser) readRows(h *head) error {
	if err := once("Rows", &h.rows); err != nil {
		return err
	}
	return p.rows(func(row []json.RawMessage) error {
		if h.given != nil {
			return p.handOn(h.given, row)
		}
		return h.held.add(row)
	})
}

// readColumns reads the columns of a table into h, which holds what is known of the table so far. A
// second list of columns is an error.
func (p *parser) readColumns(h *head) (err error) {
	if err := once("Columns", &h.columns); err != nil {
		return err
	}
	h.table.Columns, err = p.columns()
	return err
}

// begin puts a table into the queue of tables for the Reader, so that its rows are passed on as
// they are read once its turn comes. It fails if too many tables have begun and not ended.
func (p *parser) begin(h *head) (err error) {
	if p.out.full() {
		return fmt.Errorf("%w: more than %d tables are not ended", errSize, maxTables)
	}
	t := h.table
	h.given, err = p.out.begin(&t, false)
	return err
}

// finish passes on the rows of a table that were kept in h.held, and ends the table. If the table
// was not begun before, finish begins it first.
func (p *parser) finish(h *head) error {
	if h.given == nil {
		if err := p.begin(h); err != nil {
			return err
		}
	}
	if err := h.held.drain(func(row []json.RawMessage) error { return p.handOn(h.given, row) }); err != nil {
		return err
	}
	return p.out.end(h.given)
}

// version1 reads an answer of the form {"Tables": […], "Exceptions": […]}. The last table, the table
// of contents, says which tables are results and which are about the request. The first tables are
// passed on as they are read; from the first one on that may be about the request, tables are kept
// until the table of contents was read.
func (p *parser) version1() error {
	var tables bool
	var all []*head
	err := p.object(func(key string) error {
		switch strings.ToLower(key) {
		case "tables":
			if err := once(key, &tables); err != nil {
				return err
			}
			return p.list(func() error { return p.readTableV1(&all) })
		case "exceptions", "error", "oneapierrors":
			return p.readFault(false)
		}
		return p.skip()
	})
	if err == nil && !tables && p.fault == nil {
		return errShape
	}
	if err != nil {
		return err
	}
	kinds := contents(all)
	for i, h := range all {
		if h.given != nil {
			continue
		}
		if kinds != nil {
			h.table.Kind = kinds[i]
		} else {
			h.table.Kind = guessKind(&h.table, p.q.Call, i, len(all))
		}
		if err := p.finish(h); err != nil {
			return err
		}
	}
	return nil
}

// readTableV1 reads one table of a version 1 answer and appends it to all. If it is certainly a
// result, its rows are passed on as they are read, and the table is ended. Otherwise its rows are
// kept until the kinds of all tables are known.
func (p *parser) readTableV1(all *[]*head) error {
	if len(*all) == maxTables {
		return fmt.Errorf("%w: it has more than %d tables", errSize, maxTables)
	}
	h := &head{held: heldRows{of: &p.out.of}}
	err := p.object(func(key string) error {
		switch strings.ToLower(key) {
		case "tablename":
			if err := once(key, &h.named); err != nil {
				return err
			}
			return p.into(&h.table.Name)
		case "columns":
			return p.readColumns(h)
		case "rows":
			// Tables keep their order: after a table whose rows are kept, those of all others are kept too.
			waits := len(*all) > 0 && (*all)[len(*all)-1].given == nil
			if h.columns && h.named && !waits && !looksOwn(&h.table, p.q.Call, len(*all)) {
				h.table.Kind = PrimaryResult
				if err := p.begin(h); err != nil {
					return err
				}
			}
			return p.readRows(h)
		}
		return p.skip()
	})
	if err != nil {
		return err
	}
	if !h.columns {
		return fmt.Errorf("%w: a table has no columns", errShape)
	}
	*all = append(*all, h)
	if h.given == nil {
		return nil
	}
	return p.finish(h)
}

const (
	contentsColumns = "Ordinal,Kind,Name,Id,PrettyName"
	statusColumns   = "Timestamp,Severity,SeverityName,StatusCode,StatusDescription,Count,RequestId"
)

// names returns the names of the columns, joined with commas.
func (t *Table) names() string {
	var names []string
	for _, c := range t.Columns {
		names = append(names, c.Name)
	}
	return strings.Join(names, ",")
}

// looksOwn reports whether a table of a version 1 answer may be about the request, such as its
// status, rather than a result. before is the number of tables ahead of it in the answer; results
// come first.
func looksOwn(t *Table, call Call, before int) bool {
	names := t.names()
	switch {
	case strings.HasPrefix(names, statusColumns):
		return call != Mgmt || before > 0
	case before == 0:
		return false
	}
	return names == contentsColumns || names == "Value" || t.Name == "@ExtendedProperties"
}

// guessKind returns the kind of a table of a version 1 answer that has no table of contents. before is
// the number of tables ahead of it, all the number of all tables. A short answer to a query has its
// properties in the second table, whose one column is named Value.
func guessKind(t *Table, call Call, before, all int) string {
	names := t.names()
	switch {
	case call == Mgmt:
		return PrimaryResult
	case strings.HasPrefix(names, statusColumns):
		return queryStatus
	case t.Name == "@ExtendedProperties", before == 1 && all <= 3 && names == "Value":
		return queryProperties
	}
	return PrimaryResult
}

// contentKinds are the kinds in a table of contents, and how they are given out.
var contentKinds = map[string]string{"queryresult": PrimaryResult, "queryproperties": queryProperties, "querystatus": queryStatus}

// contents returns the kind of each table in all, by the table of contents, which is the last table
// of a version 1 answer. It returns nil if the last table is no table of contents. Each row of one
// names the index of a table and a known kind, and each other table occurs once.
func contents(all []*head) []string {
	if len(all) == 0 {
		return nil
	}
	toc := all[len(all)-1]
	if toc.given != nil || toc.table.names() != contentsColumns {
		return nil
	}
	kinds := make([]string, len(all))
	kinds[len(all)-1] = tableOfContents
	ok, left := true, len(all)-1
	_ = toc.held.each(func(row []json.RawMessage) error {
		if len(row) < 2 {
			ok = false
			return nil
		}
		at, err := strconv.Atoi(CellText(row[0]))
		kind := contentKinds[strings.ToLower(CellText(row[1]))]
		if err != nil || kind == "" || at < 0 || at >= len(all)-1 || kinds[at] != "" {
			ok = false
			return nil
		}
		kinds[at], left = kind, left-1
		return nil
	})
	if !ok || left > 0 {
		return nil
	}
	return kinds
}

// rowFault returns the error of the query that a row of a status table reports; nil for other
// tables and rows. It is an error if the severity (in version 1) or the level (in version 2) is 2
// or less.
func rowFault(t *Table, row []json.RawMessage, q *Query) *kusto.Error {
	if t.Kind != queryStatus && t.Kind != queryCompletion {
		return nil
	}
	cell := make(map[string]string)
	for i, c := range t.Columns {
		cell[c.Name] = CellText(row[i])
	}
	level, err := strconv.Atoi(cmp.Or(cell["Severity"], cell["Level"]))
	if err != nil || level > 2 {
		return nil
	}
	words := cell["StatusDescription"]
	if t.Kind == queryCompletion {
		var payload struct{ Text string }
		_ = json.Unmarshal([]byte(cell["Payload"]), &payload) // if it is not JSON, the name of the code is used
		words = cmp.Or(payload.Text, cell["StatusCodeName"], cell["Payload"])
	}
	r := reply.ParseText(words, "")
	r.Activity = cmp.Or(r.Activity, cell["ActivityId"])
	return replyError(r, q)
}

// version2 reads an answer of version 2, which is a list of frames (objects such as a table, a part
// of its rows, or the end of the answer). It fails if the last frame, the completion, is missing,
// unless the service has reported an error.
func (p *parser) version2() error {
	err := p.list(func() error {
		if p.ended {
			return fmt.Errorf("%w: a frame follows the last one", errShape)
		}
		f := &frame{id: -1, head: head{held: heldRows{of: &p.out.of}}}
		if err := p.object(func(key string) error { return p.frameKey(f, key) }); err != nil {
			return err
		}
		return p.frame(f)
	})
	if err == nil && !p.ended && p.fault == nil {
		return fmt.Errorf("%w: it has no end", errShape)
	}
	return err
}

// frame is what is known of a frame while it is read.
type frame struct {
	head
	kind     string
	id       int64
	change   string // what a fragment does with its rows
	progress float64
	count    int // rows that its table has, as its completion says
}

// frameKey reads the value of one key of a frame of a version 2 answer into f. Rows are passed on
// as they are read if the keys before them name their table; the service writes rows last.
// Otherwise they are kept until the end of the frame. Errors that the service reports are noted in
// p.fault.
func (p *parser) frameKey(f *frame, key string) error {
	switch strings.ToLower(key) {
	case "frametype":
		return p.into(&f.kind)
	case "tableid":
		return p.into(&f.id)
	case "tablekind":
		return p.into(&f.table.Kind)
	case "tablename":
		f.named = true
		return p.into(&f.table.Name)
	case "columns":
		return p.readColumns(&f.head)
	case "tablefragmenttype":
		return p.into(&f.change)
	case "isprogressive":
		return p.into(&p.progressive)
	case "rowcount":
		return p.into(&f.count)
	case "rows":
		if err := p.beginRows(f); err != nil {
			return err
		}
		return p.readRows(&f.head)
	case "tableprogress":
		return p.into(&f.progress)
	case "oneapierrors":
		return p.readFault(false)
	case "haserrors":
		return p.readFailed("the service says that the result has errors, and not which")
	case "cancelled":
		return p.readFailed("the query was cancelled")
	}
	return p.skip()
}

// readFailed reads a truth value, which says that the query failed, and then keeps the words as the
// error that the answer reports, unless there is one already.
func (p *parser) readFailed(words string) error {
	var failed bool
	err := p.into(&failed)
	if err == nil && failed && p.fault == nil {
		p.fault = &kusto.Error{Message: words}
	}
	return err
}

// Frames of version 2, and what a fragment does.
const (
	dataTable     = "DataTable"
	tableFragment = "TableFragment"
	dataAppend    = "DataAppend"
	dataReplace   = "DataReplace"
)

// beginRows is called before the rows of a frame are read. If kind, table and columns are known, it
// announces the table, so that the rows are passed on as they are read. If some are not, it does
// nothing, and the rows are kept. Rows in a frame of another kind are an error.
func (p *parser) beginRows(f *frame) error {
	switch f.kind {
	case dataTable:
		if !f.columns || !f.named || f.table.Kind == "" || f.given != nil {
			return nil
		}
		f.table.Kind = kindGiven(f.table.Kind)
		return p.begin(&f.head)
	case tableFragment:
		if f.id < 0 || f.change == "" || f.rows {
			return nil
		}
		return p.beginFragment(f)
	case "":
		return nil
	}
	return fmt.Errorf("%w: a frame %s has rows, and it is not known what they are", errShape, reply.QuoteName(f.kind))
}

// beginFragment finds the table of a fragment (a frame with some rows of a table) by its id and
// sets f.given. If the fragment replaces the rows of the table, those that came before are dropped.
func (p *parser) beginFragment(f *frame) error {
	n := p.tables[f.id]
	if n == nil {
		return fmt.Errorf("%w: rows of a table without a header", errShape)
	}
	f.given = n
	switch f.change {
	case dataAppend:
		return nil
	case dataReplace:
		return p.out.replace(n)
	}
	return fmt.Errorf("%w: a fragment is %s, and it is not known what becomes of its rows", errShape, reply.QuoteName(f.change))
}

// frame acts on a frame that was read to its end: it begins or ends a table, passes on rows that
// were kept, reports progress, or ends the answer. An unknown kind is an error only if the frame
// has rows.
func (p *parser) frame(f *frame) error {
	switch f.kind {
	case dataTable, "TableHeader":
		if !f.columns || f.table.Kind == "" {
			return fmt.Errorf("%w: a table has no columns or no kind", errShape)
		}
		f.table.Kind = kindGiven(f.table.Kind)
		if f.kind == dataTable {
			return p.finish(&f.head)
		}
		return p.tableHeader(f)
	case tableFragment:
		return p.fragment(f)
	case "TableCompletion":
		return p.completion(f)
	case "TableProgress":
		p.r.Progress(f.progress)
	case "DataSetCompletion":
		p.ended = true
		if len(p.tables) > 0 && p.fault == nil {
			return fmt.Errorf("%w: a table has no end", errShape)
		}
		for id, n := range p.tables {
			delete(p.tables, id)
			if err := p.out.end(n); err != nil {
				return err
			}
		}
	}
	if f.rows || f.kind == "" {
		return fmt.Errorf("%w: a frame %s, and it is not known what it holds", errShape, reply.QuoteName(f.kind))
	}
	return nil
}

// tableHeader begins a table whose rows come in later frames (fragments), and stores it under its
// id. It fails if the header has rows, no id or the id of a table that has not ended, or if too
// many tables have begun.
func (p *parser) tableHeader(f *frame) (err error) {
	if f.rows || f.id < 0 || p.tables[f.id] != nil || p.out.full() {
		return fmt.Errorf("%w: the header of a table has rows, no id, or that of another table; or too many are begun", errShape)
	}
	t := f.table
	p.tables[f.id], err = p.out.begin(&t, p.progressive)
	return err
}

// fragment passes on the rows of a fragment (a frame with some rows of a table) that were kept
// while it was read. A fragment without rows may still replace the rows that came before.
func (p *parser) fragment(f *frame) error {
	if f.given == nil {
		if err := p.beginFragment(f); err != nil {
			return err
		}
	}
	return f.held.drain(func(row []json.RawMessage) error { return p.handOn(f.given, row) })
}

// completion ends the table that its header began. It fails if the service counted more rows
// (f.count) than have come, unless it has reported an error.
func (p *parser) completion(f *frame) error {
	n := p.tables[f.id]
	if n == nil || f.rows {
		return fmt.Errorf("%w: the end of a table without a header", errShape)
	}
	if n.told < f.count && p.fault == nil {
		return fmt.Errorf("%w: a table has %s, and its end says %d", errShape, units.Counted(n.told, "row"), f.count)
	}
	delete(p.tables, f.id)
	return p.out.end(n)
}

// readFault reads an error that the service reports inside an answer, and keeps it as p.fault. If
// row is set, the value stands in the place of a row, and any content counts as an error.
func (p *parser) readFault(row bool) error {
	fault := text{limit: maxFault, cut: true}
	if err := p.in.value(&fault); err != nil {
		return err
	}
	raw := json.RawMessage(fault.b)
	e := faultIn(raw, p.q, maxFaultDepth)
	if e == nil && row {
		e = &kusto.Error{Message: "in the place of a row is something else: " + reply.Printable(reply.Redact(string(raw)), reply.MaxMessage)}
	}
	if e != nil {
		p.blame(e)
	}
	return nil
}

// blame keeps e as the error that the answer reports (p.fault), unless there is one already. An
// error with a code replaces one without.
func (p *parser) blame(e *kusto.Error) {
	var was *kusto.Error
	if !errors.As(p.fault, &was) || was.Code == "" && e.Code != "" {
		p.fault = e
	}
}

// maxFaultDepth is how many levels deep an error is looked for: the service has it
// on the third.
const maxFaultDepth = 6

// faultIn returns the error in a part of an answer, in any of the forms that the service uses: a
// text, a list of texts or of error objects, or an object that holds such a list. It returns nil if
// there is none. Below depth levels the rest is taken as text.
func faultIn(raw json.RawMessage, q *Query, depth int) *kusto.Error {
	if depth == 0 {
		return replyError(reply.ParseText(string(raw), ""), q)
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil {
		for _, one := range list {
			if e := faultIn(one, q, depth-1); e != nil {
				return e
			}
		}
		return nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return replyError(reply.ParseText(text, ""), q)
	}
	var holder struct{ Exceptions, OneApiErrors json.RawMessage }
	if json.Unmarshal(raw, &holder) == nil {
		for _, inner := range []json.RawMessage{holder.Exceptions, holder.OneApiErrors} {
			if len(inner) > 0 && string(inner) != "null" {
				return faultIn(inner, q, depth-1)
			}
		}
	}
	return replyError(reply.Parse(raw, ""), q)
}
