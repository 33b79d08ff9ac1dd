package rows

import (
	"bytes"
	"encoding/json"

	"kusto-agent/internal/kusto/query"
	"kusto-agent/internal/telemetry"
)

// objects prints an object a row, its members in the order of the columns and its
// values as they came, but on one line.
type objects struct {
	unheld
	p     *printer
	array bool
	rows  int
	names [][]byte // of the columns, as JSON
	line  bytes.Buffer
}

// head keeps the names of the columns, encoded as JSON, for the rows.
func (o *objects) head(columns []query.Column) error {
	o.names = o.names[:0]
	for _, c := range columns {
		name, err := json.Marshal(c.Name)
		if err != nil {
			return err
		}
		o.names = append(o.names, name)
	}
	return nil
}

// row prints the cells of a row as one JSON object on one line, and before it a bracket or comma if
// the rows form one array. For a terminal, characters that could control it are escaped.
func (o *objects) row(_ []query.Column, cells []json.RawMessage) error {
	o.line.Reset()
	o.rows++
	if o.array {
		o.line.WriteByte("[,"[min(o.rows-1, 1)])
	}
	for i, cell := range cells {
		o.line.WriteByte("{,"[min(i, 1)])
		o.line.Write(o.names[i])
		o.line.WriteByte(':')
		if IsNull(cell) {
			o.line.WriteString("null")
			continue
		}
		if err := json.Compact(&o.line, cell); err != nil {
			return err
		}
	}
	if len(cells) == 0 {
		o.line.WriteByte('{')
	}
	o.line.WriteByte('}')
	line := o.line.Bytes()
	if o.p.o.Screen {
		line = telemetry.EscapeJSON(line)
	}
	if _, err := o.p.w.Write(line); err != nil {
		return err
	}
	return o.p.w.WriteByte('\n')
}

// end closes the array, if the rows form one.
func (o *objects) end() error {
	if !o.array {
		return nil
	}
	closing := "]\n"
	if o.rows == 0 {
		closing = "[]\n"
	}
	_, err := o.p.w.WriteString(closing)
	return err
}
