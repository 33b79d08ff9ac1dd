package kusto

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// version1 reads {"Tables": […], "Exceptions": […]}, behind its brace. The kinds of
// its tables are told by the last of them, when all are over, so they are told
// apart by their columns.
func (p *parser) version1() error {
	tables := false
	err := p.object(func(key string) error {
		switch strings.ToLower(key) {
		case "tables":
			tables = true
			return p.list(p.table1)
		case "exceptions", "error", "oneapierrors":
			return p.note()
		}
		return p.skip()
	})
	if err == nil && !tables && p.fault == nil {
		return errShape
	}
	return err
}

func (p *parser) table1() error {
	if err := p.open(); err != nil {
		return err
	}
	t := &Table{}
	var status *statusTable
	return p.object(func(key string) (err error) {
		switch key {
		case "TableName":
			return p.into(&t.Name)
		case "Columns":
			if t.Columns, err = p.columns(); err != nil {
				return err
			}
			t.Kind = kindOf(t, p.q.Call, p.tables1)
			p.tables1++
			return p.r.Table(t)
		case "Rows":
			if t.Columns == nil {
				return fmt.Errorf("%w: rows before their columns", errShape)
			}
			if t.Kind != queryStatus {
				return p.rows(t)
			}
			status = &statusTable{Reader: p.r, q: p.q}
			within := *p
			within.r = status
			err = within.rows(t)
			p.fault = within.fault
			if p.fault == nil {
				p.fault = status.fault
			}
			return err
		}
		return p.skip()
	})
}

const queryStatus = "QueryStatus"

// kindOf tells what a table of version 1, with before tables ahead of it, is by its
// columns. What was asked for comes first, and is all that a command answers.
func kindOf(t *Table, call Call, before int) string {
	var names []string
	for _, c := range t.Columns {
		names = append(names, c.Name)
	}
	switch {
	case call == Mgmt:
		return PrimaryResult
	case strings.HasPrefix(strings.Join(names, ","), "Timestamp,Severity,SeverityName,StatusCode,StatusDescription,Count,RequestId"):
		return queryStatus
	case before == 0:
		return PrimaryResult
	case strings.Join(names, ",") == "Ordinal,Kind,Name,Id,PrettyName":
		return "TableOfContents"
	case t.Name == "@ExtendedProperties" || strings.Join(names, ",") == "Value":
		return "QueryProperties"
	}
	return PrimaryResult
}

// statusTable looks for failures among the rows of QueryStatus: a severity of 2 or
// less is one.
type statusTable struct {
	Reader
	q     *Query
	fault error
}

func (s *statusTable) Row(t *Table, row []json.RawMessage) error {
	cell := make(map[string]string)
	for i, c := range t.Columns {
		cell[c.Name] = CellText(row[i])
	}
	if severity, err := strconv.Atoi(cell["Severity"]); err == nil && severity <= 2 && s.fault == nil {
		r := textReply(cell["StatusDescription"], "")
		r.activity = cmp.Or(r.activity, cell["ActivityId"])
		if e := replyError(r, s.q); e != nil {
			s.fault = e
		}
	}
	return s.Reader.Row(t, row)
}

// version2 reads the frames of version 2, behind the bracket of their list.
func (p *parser) version2() error {
	ended := false
	for p.dec.More() {
		if err := p.open(); err != nil {
			return err
		}
		f := frame{id: -1}
		if err := p.object(func(key string) error { return p.frameKey(&f, key) }); err != nil {
			return err
		}
		if f.kind == "TableProgress" {
			p.r.Progress(f.progress)
		}
		ended = ended || f.kind == "DataSetCompletion"
	}
	if _, err := p.dec.Token(); err != nil {
		return shapeError(err)
	}
	if !ended && p.fault == nil {
		return fmt.Errorf("%w: it has no end", errShape)
	}
	return nil
}

// frame is what is known of a frame while it is read.
type frame struct {
	kind     string
	id       int64
	table    Table
	replaces bool
	progress float64
	hasError bool
}

// frameKey reads the value of one key of a frame. The service writes rows last;
// what it says of them is known by then.
func (p *parser) frameKey(f *frame, key string) (err error) {
	switch key {
	case "FrameType":
		return p.into(&f.kind)
	case "TableId":
		return p.into(&f.id)
	case "TableKind":
		return p.into(&f.table.Kind)
	case "TableName":
		return p.into(&f.table.Name)
	case "Columns":
		if f.table.Columns, err = p.columns(); err != nil {
			return err
		}
		t := f.table
		p.tables[f.id] = &t
		return p.r.Table(&t)
	case "TableFragmentType":
		var kind string
		err = p.into(&kind)
		f.replaces = kind == "DataReplace"
		return err
	case "Rows":
		t := p.tables[f.id]
		if t == nil {
			return fmt.Errorf("%w: rows of a table that was not told of", errShape)
		}
		if f.replaces {
			if err := p.r.Replace(t); err != nil {
				return err
			}
		}
		return p.rows(t)
	case "TableProgress":
		return p.into(&f.progress)
	case "OneApiErrors":
		return p.note()
	case "HasErrors":
		if err = p.into(&f.hasError); err == nil && f.hasError && p.fault == nil {
			p.fault = &Error{Message: "the service says that the result has errors, and not which"}
		}
		return err
	case "Cancelled":
		var cancelled bool
		if err = p.into(&cancelled); err == nil && cancelled && p.fault == nil {
			p.fault = &Error{Message: "the query was cancelled"}
		}
		return err
	}
	return p.skip()
}

// note reads what an answer says went wrong.
func (p *parser) note() error {
	var raw json.RawMessage
	if err := p.into(&raw); err != nil {
		return err
	}
	p.noteRaw(raw)
	return nil
}

// noteRaw keeps the first fault that is told, and prefers one with a code to the
// mere flag.
func (p *parser) noteRaw(raw json.RawMessage) {
	e := faultIn(raw, p.q)
	var was *Error
	if e != nil && (!errors.As(p.fault, &was) || was.Code == "" && e.Code != "") {
		p.fault = e
	}
}

// faultIn finds an error in any of the forms an answer of 200 has for it: a list
// of texts, a list of error objects, an object that holds either. It is nil where
// there is none.
func faultIn(raw json.RawMessage, q *Query) *Error {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil {
		for _, one := range list {
			if e := faultIn(one, q); e != nil {
				return e
			}
		}
		return nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return replyError(textReply(text, ""), q)
	}
	var holder struct{ Exceptions, OneApiErrors json.RawMessage }
	if json.Unmarshal(raw, &holder) == nil {
		for _, inner := range []json.RawMessage{holder.Exceptions, holder.OneApiErrors} {
			if len(inner) > 0 && string(inner) != "null" {
				return faultIn(inner, q)
			}
		}
	}
	return replyError(parseReply(raw, ""), q)
}
