package emulator

import (
	"bytes"
	"encoding/json"
	"kusto-agent/emulator/internal/kql"
	"time"
)

// answer is the table that a command answers with.
type answer struct {
	columns Columns
	rows    [][]json.RawMessage
}

// newAnswer begins a table; its columns are given as "name:type, name:type".
func newAnswer(columns string) *answer {
	r := new(answer)
	if err := r.columns.UnmarshalText([]byte(columns)); err != nil {
		panic(err) // they are constants
	}
	return r
}

// add appends a row of Go values.
func (r *answer) add(cells ...any) {
	row := make([]json.RawMessage, len(cells))
	for i, c := range cells {
		switch v := c.(type) {
		case json.RawMessage:
			row[i] = v
		case time.Time:
			row[i] = quote(v.UTC().Format(timeLayout))
		case time.Duration:
			row[i] = quote(kql.SpanText(v))
		default:
			row[i] = marshal(v)
		}
	}
	r.rows = append(r.rows, row)
}

const timeLayout = "2006-01-02T15:04:05.0000000Z"

// marshal is json.Marshal for what always marshals, with < > and & as they are.
func marshal(v any) []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}
