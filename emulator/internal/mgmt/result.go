package mgmt

import (
	"encoding/json"

	"kusto-agent/emulator/internal/kql"
)

// Result is the table that a command answers with.
type Result struct {
	Columns Columns
	Rows    [][]json.RawMessage
}

// NewResult returns an empty table with the columns given as "name:type, name:type".
func NewResult(columns string) *Result {
	r := new(Result)
	if err := r.Columns.UnmarshalText([]byte(columns)); err != nil {
		panic(err) // they are constants
	}
	return r
}

// rowOf returns a table with one row of these cells; columns is "name:type, name:type".
func rowOf(columns string, cells ...any) *Result {
	r := NewResult(columns)
	r.Add(cells...)
	return r
}

// Add appends a row. Each cell is written as JSON, times and durations in the service's form.
func (r *Result) Add(cells ...any) {
	row := make([]json.RawMessage, len(cells))
	for i, c := range cells {
		row[i] = kql.Written(c, "")
	}
	r.Rows = append(r.Rows, row)
}
