package main

import (
	"bufio"
	"encoding/json"
	"strings"
	"testing"

	"kusto-agent/kusto"
)

// TestPrintedRows: what is printed is read as the rows it was, each on its own.
func TestPrintedRows(t *testing.T) {
	f := func(format, want, columns string, rows ...string) {
		t.Helper()
		var text strings.Builder
		out := output{Writer: bufio.NewWriter(&text)}
		p, err := newPrinter(format, out)
		if err != nil {
			t.Fatal(err)
		}
		must := func(err error) {
			if err != nil {
				t.Error(err)
			}
		}
		for range 2 {
			table := &kusto.Table{Kind: kusto.PrimaryResult}
			for name := range strings.SplitSeq(columns, " ") {
				table.Columns = append(table.Columns, kusto.Column{Name: name})
			}
			must(p.Table(table))
			for _, row := range rows {
				var cells []json.RawMessage
				must(json.Unmarshal([]byte(row), &cells))
				must(p.Row(table, cells))
			}
		}
		must(p.finish())
		must(out.end(nil))
		if text.String() != want {
			t.Errorf("%s of %q: %q, want %q", format, rows, text.String(), want)
		}
	}
	f("csv", "a\n\"\"\n\"\"\n1\n\na\n\"\"\n\"\"\n1\n", "a", `[""]`, `[null]`, `[1]`)
	f("csv", "a,b\n,\n\na,b\n,\n", "a b", `["", null]`)
	f("json", strings.Repeat(`{"a":{"b":[1.10,"\n"]},"c":9007199254740993}`+"\n", 2), "a c", "[{\"b\":\n [1.10, \"\\n\"]\r\n}, 9007199254740993]")
}
