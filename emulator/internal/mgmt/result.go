package mgmt

import (
	"bytes"
	"encoding/json"
	"time"

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

// Add appends a row. Each cell is written as JSON, times and durations in the service's form.
func (r *Result) Add(cells ...any) {
	row := make([]json.RawMessage, len(cells))
	for i, c := range cells {
		switch v := c.(type) {
		case json.RawMessage:
			row[i] = v
		case time.Time:
			row[i] = JSON(v.UTC().Format(timeLayout))
		case time.Duration:
			row[i] = JSON(kql.SpanText(v))
		default:
			row[i] = JSON(v)
		}
	}
	r.Rows = append(r.Rows, row)
}

const timeLayout = "2006-01-02T15:04:05.0000000Z"

// JSON returns the JSON of a value that can always be marshalled; <, > and & are not escaped.
func JSON(v any) []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// Dotnet are the .NET names of the types, as version 1 writes them.
var Dotnet = map[string]string{
	"bool": "SByte", "datetime": "DateTime", "decimal": "SqlDecimal", "dynamic": "Object", "guid": "Guid",
	"int": "Int32", "long": "Int64", "real": "Double", "string": "String", "timespan": "TimeSpan",
}
