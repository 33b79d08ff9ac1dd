package format

import (
	"fmt"
	"strings"
	"testing"

	"kusto-agent/internal/record"
)

// TestMaxContent: a record of MaxContent bytes passes with any line end and with none, and one
// of a byte more does not, whatever its format and wherever it stands.
func TestMaxContent(t *testing.T) {
	const most = 40
	multiline, err := NewMultiline(`^\d`, "", 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []struct {
		name string
		opt  Options
		of   func(n int) string // a record of n bytes
	}{
		{"json", Options{Format: record.JSON}, func(n int) string { return `{"a":"` + strings.Repeat("x", n-8) + `"}` }},
		{"checked json", Options{Format: record.JSON, Validate: true}, func(n int) string { return `{"a":"` + strings.Repeat("x", n-8) + `"}` }},
		{"multijson", Options{Format: record.MultiJSON}, func(n int) string { return "{\"a\":\n\"" + strings.Repeat("x", n-9) + "\"}" }},
		{"csv", Options{Format: record.CSV}, func(n int) string { return strings.Repeat("x", n) }},
		{"quoted csv", Options{Format: record.CSV, Validate: true}, func(n int) string { return `a,"` + strings.Repeat("x", n-4) + `"` }},
		{"txt", Options{Format: record.TXT}, func(n int) string { return strings.Repeat("x", n) }},
		{"text", Options{Format: record.JSON, Parse: ParseText}, func(n int) string { return strings.Repeat("x", n) }},
		{"events", Options{Format: record.JSON, Parse: ParseText, Multiline: multiline}, func(n int) string { return "1\n" + strings.Repeat("x", n-2) }},
		{"cri", Options{Format: record.JSON, Parse: ParseCRI}, func(n int) string {
			const head = "2026-01-02T15:04:05Z stdout F "
			return head + strings.Repeat("x", n-len(head))
		}},
	} {
		for _, end := range []string{"\n", "\r\n", ""} {
			for n := most; n <= most+1; n++ {
				t.Run(fmt.Sprintf("%s/%q/%d", f.name, end, n), func(t *testing.T) {
					o := f.opt
					o.MaxContent, o.MaxRecord = most, most+2
					s, err := New(o)
					if err != nil {
						t.Fatal(err)
					}
					want := 1
					if n > most {
						want = 0
					}
					for _, behind := range []string{"", f.of(most-1) + "\n"} {
						if end == "" && behind != "" {
							continue
						}
						var c Chunk
						s.Scan([]byte(f.of(n)+end+behind), 100, true, 0, &c)
						records := want
						if behind != "" {
							records++
						}
						if c.Records != records || len(c.Rejected) != 1-want || want == 0 && (c.Rejected[0].Reason != record.TooLong || !strings.Contains(c.Rejected[0].Message, "longer than 40 bytes")) {
							t.Errorf("%d records, rejected %+v, long %v", c.Records, c.Rejected, c.Long)
						}
					}
				})
			}
		}
	}
}
