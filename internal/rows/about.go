package rows

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"kusto-agent/internal/kusto/query"
)

// About collects what an answer tells of itself beside its rows. The zero value is
// ready for one answer.
type About struct {
	Visualization string // what the query renders, as JSON; empty: it was not told
	Resources     *Resources
}

// Resources is what the service says that a query took.
type Resources struct {
	ExecutionTime float64 // in seconds
	Usage         struct {
		CPU struct {
			Total string `json:"total cpu"` // a timespan
		}
		Memory struct {
			PeakPerNode int64 `json:"peak_per_node"` // bytes
		}
	} `json:"resource_usage"`
	Input struct {
		Rows struct{ Total, Scanned int64 }
	} `json:"input_dataset_statistics"`
}

// Note reads a row of a table about the request and stores what it says of the render operator of the
// query and of the resources that the query has used. It ignores all other rows.
func (a *About) Note(t *query.Table, row []json.RawMessage) {
	cell := func(name string) string {
		i := slices.IndexFunc(t.Columns, func(c query.Column) bool { return c.Name == name })
		if i < 0 || i >= len(row) {
			return ""
		}
		return query.CellText(row[i])
	}
	switch t.Kind {
	case "QueryProperties":
		if key := cell("Key"); key == "" || key == "Visualization" { // version 1 of the answer has no keys
			var v struct{ Visualization *string }
			if json.Unmarshal([]byte(cell("Value")), &v) == nil && v.Visualization != nil {
				a.Visualization = cell("Value")
			}
		}
	case "QueryCompletionInformation", "QueryStatus":
		text := cell("Payload") + cell("StatusDescription") // the column of version 2 or 1; the other is missing
		r := new(Resources)
		if strings.Contains(text, "resource_usage") && json.Unmarshal([]byte(text), r) == nil {
			a.Resources = r
		}
	}
}

// Summary returns a line for people about the cost of a query: took by the clock of the caller, the
// number of rows in the answer, and what the service has reported.
func (a *About) Summary(took time.Duration, rows int) string {
	s := fmt.Sprintf("%.3f s, %s", took.Seconds(), counted(int64(rows), "row"))
	r := a.Resources
	if r == nil {
		return s + "; the service told no statistics"
	}
	s += fmt.Sprintf("; in the service: %.3f s", r.ExecutionTime)
	if r.Usage.CPU.Total != "" {
		s += ", CPU " + r.Usage.CPU.Total
	}
	s += fmt.Sprintf(", %s scanned of %s", counted(r.Input.Rows.Scanned, "row"), grouped(r.Input.Rows.Total))
	if peak := r.Usage.Memory.PeakPerNode; peak > 0 {
		s += fmt.Sprintf(", memory %.1f MiB", float64(peak)/(1<<20))
	}
	return s
}

// counted returns a number and its noun in singular or plural.
func counted(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return grouped(n) + " " + what + "s"
}

// grouped returns 1234567 as 1,234,567.
func grouped(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
