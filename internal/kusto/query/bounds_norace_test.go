//go:build !race

// The race detector allocates itself, and makes reading a hundred times slower.

package query

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"kusto-agent/internal/kusto"
)

// bomb is an answer that is small on the wire and mebibytes MiB of one value when
// it is inflated.
func bomb(t *testing.T, head, fill, tail string, mebibytes int) []byte {
	t.Helper()
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(z, head)
	piece := []byte(strings.Repeat(fill, 1<<20/len(fill)))
	for range mebibytes {
		if _, err := z.Write(piece); err != nil {
			t.Fatal(err)
		}
	}
	io.WriteString(z, tail)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

// TestResultsAreBounded: whatever one value, an unknown key or an unknown frame of
// an answer holds, reading it allocates 64 MiB at most in all, and what is more is
// an error that says so.
func TestResultsAreBounded(t *testing.T) {
	const (
		end     = `,{"FrameType":"DataSetCompletion"}]`
		columns = `"Columns":[{"ColumnName":"a","ColumnType":"string"}]`
		table   = `[{"FrameType":"DataTable","TableKind":"PrimaryResult","TableName":"P",` + columns
		size    = 32
	)
	// Of what is not kept 32 MiB are sent, and 16 may be allocated; of what is kept
	// more than the limit.
	f := func(name, head, fill, tail string, words string, rows int) {
		t.Run(name, func(t *testing.T) {
			mebibytes, most := size, uint64(16)
			if strings.Contains(words, "MiB") {
				mebibytes, most = 68, 66 // 2 for the request
			}
			packed := bomb(t, head, fill, tail, mebibytes)
			c := serveQueries(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", "gzip")
				_, _ = w.Write(packed) // the client hangs up when it has enough
			})
			var got discard
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := c.Query(t.Context(), &Query{Database: "D", Text: "T"}, &got)
			runtime.ReadMemStats(&after)
			if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > most {
				t.Errorf("allocated %d MiB", took)
			}
			var e *kusto.Error
			if words == "" && err != nil || words != "" && (!errors.As(err, &e) || !strings.Contains(e.Message, words) || e.Hint == "") || got.rows != rows {
				t.Errorf("%d rows, %v", got.rows, err)
			}
		})
	}
	f("an unknown key", table+`,"New":"`, "x", `","Rows":[["1"]]}`+end, "", 1)
	f("an unknown key with a list", table+`,"New":[0`, ",123.5,{}", `],"Rows":[["1"]]}`+end, "", 1)
	f("an unknown frame", `[{"FrameType":"New","Data":[0`, `,"xyz"`, `]}`+end, "", 0)
	f("a cell", table+`,"Rows":[["`, "x", `"]]}`+end, "60 MiB", 0)
	f("a dynamic cell", table+`,"Rows":[[["0"`, `,"`+strings.Repeat("x", 1021)+`"`, `]]]}`+end, "60 MiB", 0)
	f("cells without end", table+`,"Rows":[[0`, ",1", `]]}`+end, "cells", 0)
	f("a name", `[{"FrameType":"`, "x", `"}`+end, "too large", 0)
	f("a key", `[{"`, "x", `":1}`+end, "too large", 0)
	f("columns", `[{"FrameType":"DataTable","Columns":[{}`, ",{}", `]}`+end, "columns", 0)
	f("a number", table+`,"Rows":[[`, "1", `]]}`+end, "digits", 0)
	f("rows before their columns", `[{"FrameType":"DataTable","TableKind":"PrimaryResult","TableName":"P","Rows":[["1"]`, `,["`+strings.Repeat("x", 1019)+`"]`, `],`+columns+`}`+end, "64 MiB of it would have to be held", 0)
	f("nesting", table+`,"Rows":[[`, "[", `]]}`+end, "levels", 0)
	f("an error", `[{"FrameType":"DataSetCompletion","OneApiErrors":["`, "x", `"]}]`, "xxx", 0)
	f("space", `[`, " ", `{"FrameType":"DataSetCompletion"}]`, "", 0)
	f("tables without end", `{"Tables":[{"Columns":[]}`, `,{"Columns":[]}`, `]}`, "tables", 0)
	f("many rows", table+`,"Rows":[["0"]`, `,["`+strings.Repeat("x", 1019)+`"]`, `]}`+end, "", size*1024+1)
}

// TestNestedErrorIsBounded: an error is not looked for at every depth.
func TestNestedErrorIsBounded(t *testing.T) {
	const depth = maxDepth - 10
	answer := `{"Tables":[],"Exceptions":` + strings.Repeat("[", depth) + `"` + strings.Repeat("x", 40<<10) + `"` + strings.Repeat("]", depth) + "}"
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := readResult(strings.NewReader(answer), &Query{Call: QueryV1}, &Collector{})
	runtime.ReadMemStats(&after)
	if took := (after.TotalAlloc - before.TotalAlloc) >> 20; err == nil || took > 8 {
		t.Errorf("allocated %d MiB, %v", took, err)
	}
}
