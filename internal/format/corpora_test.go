package format

import (
	"bytes"
	"encoding/json"
	"strings"

	"kusto-agent/internal/logzip/corpus"
	"kusto-agent/internal/record"
)

// corpora are logs of every format of text, 4 MB of each
// and what their format adds.
func corpora() []struct {
	name   string
	format record.Format
	text   []byte
} {
	of := func(kind string) []byte { return corpus.Of(kind).Make(blockSize, 1) }
	lines := func(text []byte, change func(*strings.Builder, string)) []byte {
		var b strings.Builder
		for l := range strings.Lines(string(text)) {
			change(&b, strings.TrimSuffix(l, "\n"))
			b.WriteByte('\n')
		}
		return []byte(b.String())
	}
	js, rows := of("json"), of("csv")
	spaced := strings.NewReplacer(`":`, `": `, `,"`, `, "`)
	return []struct {
		name   string
		format record.Format
		text   []byte
	}{
		{"JSON", record.JSON, js},
		{"JSON-k8s", record.JSON, of("k8s")},
		{"JSON-spaced", record.JSON, lines(js, func(b *strings.Builder, l string) { spaced.WriteString(b, l) })},
		{"JSON-utf8", record.JSON, lines(of("utf8"), func(b *strings.Builder, l string) {
			f := strings.SplitN(l, " ", 4)
			b.WriteString(`{"time":"` + f[0] + `","level":"` + f[1] + `","city":"` + f[2] + `","msg":"` + strings.Join(f[3:], "") + `"}`)
		})},
		{"MultiJSON", record.MultiJSON, js},
		{"MultiJSON-array", record.MultiJSON, lines(js, func(b *strings.Builder, l string) { b.WriteString("  " + l + ",") })},
		{"MultiJSON-indented", record.MultiJSON, indented(js, "  ")},
		{"MultiJSON-tabs", record.MultiJSON, indented(js, "\t")},
		{"CSV", record.CSV, rows},
		{"CSV-quoted", record.CSV, lines(rows, func(b *strings.Builder, l string) {
			b.WriteString(`"` + strings.ReplaceAll(strings.ReplaceAll(l, `"`, ``), `,`, `","`) + `"`)
		})},
		{"CSV-plain", record.CSV, []byte(strings.ReplaceAll(string(rows), `"`, ``))},
		{"CSV-mixed", record.CSV, fill(mixedLine)},
		{"CSV-14-quoted", record.CSV, fill(quotedLine)},
		{"JSON-14-members", record.JSON, fill(jsonLine)},
		{"TXT-nginx", record.TXT, of("nginx")},
		{"TXT-java", record.TXT, of("java")},
	}
}

// indented are lines of JSON as most programs write them for people.
func indented(text []byte, indent string) []byte {
	var b bytes.Buffer
	for l := range bytes.Lines(text) {
		if err := json.Indent(&b, l, "", indent); err != nil { // the line end stays
			panic(err)
		}
	}
	return b.Bytes()
}
