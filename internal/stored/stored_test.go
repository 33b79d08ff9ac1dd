package stored

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kusto-agent/internal/console"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/quarantine"
	"kusto-agent/internal/record"
	"kusto-agent/internal/telemetry"
	"kusto-agent/internal/units"
	"kusto-agent/spool"
)

var now = time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func codeOf(err error) int {
	var ended *exit.Error
	if errors.As(err, &ended) {
		return ended.Code
	}
	return 0
}

// payload is the n'th: of input in0 or in1, for table T0 or T1, put there n hours ago.
func payload(n int, zipped bool) *record.Payload {
	body := fmt.Appendf(nil, "{\"n\":%d}\n{\"more\":%d}\n", n, n)
	f := record.File{Input: fmt.Sprint("in", n%2), ID: 5, Generation: 1}
	span := record.Span{Start: int64(n * 100), End: int64(n*100 + len(body))}
	p := &record.Payload{
		ID: record.BatchID{byte(n), 15: 1}, Attempt: n, Records: 2, RawBytes: len(body), Gzip: zipped, Body: body,
		Route: record.Route{Cluster: "https://c", Database: "D", Table: fmt.Sprint("T", n/2%2), Format: record.JSON, Mapping: "m"},
		Cover: []record.Extent{{File: f, Span: span}}, Pieces: []record.Piece{{File: f, Span: span, Records: 2}}, ReadAt: now,
	}
	if zipped {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(body)
		_ = z.Close()
		p.Body = b.Bytes()
	}
	return p
}

// spoolOf has payloads 0 to 5.
func spoolOf(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "spool")
	at := now
	s, _, err := spool.Open(dir, spool.Config{MaxSize: units.MiB, WhenFull: "block"}, spool.Options{Now: func() time.Time { return at }})
	must(t, err)
	for n := range 6 {
		at = now.Add(-time.Duration(n) * time.Hour)
		must(t, s.Put(payload(n, n%2 == 1)))
	}
	must(t, s.Close())
	return dir
}

func outTo(b *bytes.Buffer) console.Output { return console.NewOutput(b) }

// chosen are the numbers of the payloads that a filter chooses.
func chosen(t *testing.T, dir string, f Filter, ended func(record.BatchID) bool) (text string) {
	t.Helper()
	must(t, f.Check(now))
	l := Payloads{Filter: f, Ended: ended}
	must(t, l.Each(dir, func(e *spool.Entry) error { text += fmt.Sprint(e.Payload.ID[0]); return nil }))
	return text
}

func TestFilterOfPayloads(t *testing.T) {
	t.Parallel()
	dir := spoolOf(t)
	f := func(what, want string, f Filter) {
		t.Helper()
		if got := chosen(t, dir, f, nil); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	f("all", "012345", Filter{})
	f("input", "135", Filter{Inputs: []string{"in1"}})
	f("both inputs", "012345", Filter{Inputs: []string{"in1", "in0"}})
	f("table", "23", Filter{Tables: []string{"T1"}})
	f("table of a database", "23", Filter{Tables: []string{"D.T1", "E.T0"}})
	f("cluster", "", Filter{Cluster: "https://other"})
	f("since", "012", Filter{Since: "150m"})
	f("before", "345", Filter{Before: "150m"})
	f("between", "3", Filter{Since: now.Add(-200 * time.Minute).Format(time.RFC3339), Before: "150m"})
	f("all at once", "3", Filter{Inputs: []string{"in1"}, Tables: []string{"T1"}, Since: "1d", Before: "1h"})
	f("IDs", "15", Filter{IDs: []string{payload(5, true).ID.String(), payload(1, true).ID.String()}})
	if got := chosen(t, dir, Filter{}, func(id record.BatchID) bool { return id[0] != 4 }); got != "4" {
		t.Errorf("without those that have ended: %s", got)
	}
	f("beginnings of IDs", "15", Filter{IDs: []string{payload(5, true).ID.String()[:2], strings.ToUpper(payload(1, true).ID.String()[:8])}})
	for id, says := range map[string]string{"": "a BATCH is empty", "0": "several batches begin with 0: " + payload(0, false).ID.String() + ", " + payload(1, false).ID.String()} {
		l := Payloads{Filter: Filter{IDs: []string{payload(5, true).ID.String(), id}}}
		if err := l.Each(dir, func(*spool.Entry) error { t.Errorf("%q chooses", id); return nil }); codeOf(err) != exit.Usage || !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%q: %v", id, err)
		}
	}
	alone := func(id record.BatchID) bool { return id[0] != 4 }
	if got := chosen(t, dir, Filter{IDs: []string{"0"}}, alone); got != "4" {
		t.Errorf("of those that have not ended: %s", got)
	}
	missing := Payloads{Filter: Filter{IDs: []string{"none", payload(1, true).ID.String()}}}
	if err := missing.Each(dir, func(*spool.Entry) error { return nil }); codeOf(err) != exit.Failed || !strings.Contains(err.Error(), "waits as none;") {
		t.Errorf("an ID that is not there: %v", err)
	}
	for _, bad := range []Filter{{Since: "yesterday"}, {Before: "x"}, {Reasons: []string{"none"}}, {Since: "1h", Before: "2h"}, {Since: "1h", Before: "1h"}} {
		if err := bad.Check(now); codeOf(err) != exit.Usage {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestExportOfPayloads(t *testing.T) {
	t.Parallel()
	dir := spoolOf(t)
	var b bytes.Buffer
	l := Payloads{Filter: Filter{Tables: []string{"T1"}}, Out: outTo(&b)}
	must(t, l.Out.End(l.Export(dir, "")))
	if want := "{\"n\":2}\n{\"more\":2}\n{\"n\":3}\n{\"more\":3}\n"; b.String() != want {
		t.Errorf("exported %q", b.String())
	}
	to := filepath.Join(t.TempDir(), "out")
	l = Payloads{Out: outTo(&b)}
	must(t, l.Export(dir, to))
	again := Payloads{Out: outTo(&b)}
	if err := again.Export(dir, to); codeOf(err) != exit.Failed || !strings.Contains(err.Error(), ".json\" is there already, and is not overwritten; name another") {
		t.Errorf("a second export: %v", err)
	}
	names, _ := filepath.Glob(to + "/*.json")
	text, err := os.ReadFile(filepath.Join(to, payload(5, true).ID.String()+".json"))
	if len(names) != 6 || string(text) != "{\"n\":5}\n{\"more\":5}\n" || err != nil {
		t.Errorf("%d files, %q: %v", len(names), text, err)
	}
	if err := l.Export(dir, to); codeOf(err) != exit.Failed {
		t.Errorf("files that are there are written over: %v", err)
	}
}

// TestADamagedBodyIsNotExported: what was not what was written is told, and not given out.
func TestADamagedBodyIsNotExported(t *testing.T) {
	t.Parallel()
	p := payload(1, true)
	for _, spoil := range []func(){func() { p.RawBytes-- }, func() { p.RawBytes += 2 }, func() { p.Body = p.Body[:len(p.Body)-9] }, func() { p.Body = []byte("no gzip") }} {
		p = payload(1, true)
		spoil()
		if body, err := Plain(p); err == nil {
			t.Errorf("%d bytes came of it", len(body))
		}
	}
}

func TestInspect(t *testing.T) {
	t.Parallel()
	dir := spoolOf(t)
	f := func(id string, want ...string) {
		t.Helper()
		var b bytes.Buffer
		l := Payloads{Out: outTo(&b), Now: now, Ended: func(id record.BatchID) bool { return id[0] == 3 }}
		if err := l.Out.End(l.Inspect(dir, id, 1, func(record.Route) string { return "" })); err != nil {
			b.WriteString(err.Error())
		}
		for _, w := range want {
			if !strings.Contains(b.String(), w) {
				t.Errorf("%s: %q is not in\n%s", id, w, b.String())
			}
		}
	}
	f("01000000", "batch     01000000-0000-0000-0000-000000000001", "to        D.T0 at https://c", "format    JSON by m", "records   2", "1h 0m ago", "attempts  1",
		"why       it was sent 1 time and not accepted", "ranges    input in1, file 0000000000000005, generation 1, bytes 100 to 119", "the first 1 record of 2:\n{\"n\":1}\n")
	f(payload(0, false).ID.String(), "why       it was not sent yet")
	f("03", "why       it has ended, and goes with its segment")
	f("0", "several batches begin with 0: 00")
	f("", "a BATCH is empty")
	f("ff", "no payload ff in ")
	var b bytes.Buffer
	l := Payloads{Out: outTo(&b), Now: now, JSON: true}
	must(t, l.Out.End(l.Inspect(dir, "01", 5, func(record.Route) string { return "its route is held" })))
	if got := b.String(); !strings.Contains(got, `"why":"its route is held","first":["{\"n\":1}\n","{\"more\":1}\n"]`) || strings.Count(got, "\n") != 1 {
		t.Errorf("as JSON\n%s", got)
	}
}

func TestWaits(t *testing.T) {
	t.Parallel()
	s := &telemetry.Status{
		Clusters: []telemetry.Cluster{{Name: "default", URL: "https://c"}},
		Routes: []telemetry.Route{{Cluster: "default", Database: "D", Table: "T", Format: "JSON", Mapping: "m", State: telemetry.Held,
			Hold: &telemetry.Hold{Code: "NoTable", Message: "not found", Fix: "make it"}}},
	}
	to := record.Route{Cluster: "https://c", Database: "D", Table: "T", Format: record.JSON, Mapping: "m"}
	if got := Waits(s)(to); got != "its route is held: NoTable: not found; make it" {
		t.Error(got)
	}
	to.Table = "U"
	if got := Waits(s)(to); got != "" {
		t.Error(got)
	}
	to.Cluster = "https://wrong"
	if got := Waits(s)(to); !strings.Contains(got, "spool replay --cluster https://wrong") {
		t.Error(got)
	}
	if got := Waits(nil)(to); got != "" {
		t.Error(got)
	}
}

// quarantineOf has records of several kinds, an hour between them.
func quarantineOf(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "quarantine")
	at := now.Add(-5 * time.Hour)
	q, err := quarantine.Open(dir, quarantine.DefaultConfig(), quarantine.Options{Now: func() time.Time { at = at.Add(time.Hour); return at }})
	must(t, err)
	for i, reason := range []record.Reason{record.Malformed, record.Refused, record.TooLong, record.Refused} {
		r := record.Rejected{File: record.File{Input: fmt.Sprint("in", i%2), ID: 5}, Route: record.Route{Database: "D", Table: fmt.Sprint("T", i/2)},
			Offset: int64(i), Length: 9, Data: fmt.Appendf(nil, "record %d", i), Reason: reason, Message: "why"}
		if r.Truncated = reason == record.TooLong; i == 3 {
			r.Withhold()
		}
		must(t, q.Put([]record.Rejected{r}))
	}
	must(t, q.Close())
	return dir
}

func TestFilterOfRecords(t *testing.T) {
	t.Parallel()
	dir := quarantineOf(t)
	f := func(what, want string, f Filter) {
		t.Helper()
		must(t, f.Check(now))
		got := ""
		l := Records{Filter: f, Words: new(bytes.Buffer)}
		must(t, l.Each(dir, func(e *quarantine.Entry) error { got += fmt.Sprint(e.Offset); return nil }))
		if got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	f("all", "0123", Filter{})
	f("input", "13", Filter{Inputs: []string{"in1"}})
	f("table", "23", Filter{Tables: []string{"T1"}})
	f("reason", "123", Filter{Reasons: []string{"refused", "too_long"}})
	f("since", "23", Filter{Since: "150m"})
	f("before", "01", Filter{Before: "150m"})
	f("IDs", "1", Filter{IDs: []string{"1:2"}})
	f("all at once", "3", Filter{Inputs: []string{"in1"}, Tables: []string{"D.T1"}, Reasons: []string{"refused"}, Since: "1d"})
}

// TestStrangers: an input or a table of which nothing is there is told, with those that are.
func TestStrangers(t *testing.T) {
	t.Parallel()
	records, payloads := quarantineOf(t), spoolOf(t)
	f := func(want string, f Filter) {
		t.Helper()
		must(t, f.Check(now))
		var words bytes.Buffer
		r := Records{Filter: f, Words: &words}
		must(t, r.Each(records, func(*quarantine.Entry) error { return nil }))
		if words.String() != want {
			t.Errorf("of records: %q, want %q", words.String(), want)
		}
		words.Reset()
		p := Payloads{Filter: f, Words: &words}
		must(t, p.Each(payloads, func(*spool.Entry) error { return nil }))
		if got := strings.ReplaceAll(words.String(), ", D.T2", ""); got != want { // quarantine has none for T2
			t.Errorf("of payloads: %q, want %q", got, want)
		}
	}
	over := Payloads{Filter: Filter{Inputs: []string{"in"}}, Words: t.Output(), Ended: func(record.BatchID) bool { return true }}
	must(t, over.Each(payloads, func(*spool.Entry) error { return nil }))
	if text := over.Strangers(); text != "" {
		t.Errorf("of payloads that have ended: %q", text)
	}
	f("", Filter{})
	f("", Filter{Inputs: []string{"in0", "in1"}, Tables: []string{"T1", "D.T0"}})
	f("--input \"in\": no entries match; available: in0, in1\n--table \"E.T0\": no entries match; available: D.T0, D.T1\n",
		Filter{Inputs: []string{"in", "in1"}, Tables: []string{"T0", "E.T0"}})
}

func TestExportOfRecords(t *testing.T) {
	t.Parallel()
	dir := quarantineOf(t)
	var b, words bytes.Buffer
	l := Records{Out: outTo(&b), Words: &words}
	must(t, l.Out.End(l.Export(dir, "")))
	if want := "record 0\nrecord 1\nrecord 2\n"; b.String() != want || l.Withheld != 1 || l.Cut != 1 {
		t.Errorf("exported %q, %d withheld, %d cut", b.String(), l.Withheld, l.Cut)
	}
	to := filepath.Join(t.TempDir(), "out.jsonl")
	l = Records{Out: outTo(&b), Words: &words, JSON: true, Filter: Filter{Reasons: []string{"refused"}}}
	must(t, l.Export(dir, to))
	text, err := os.ReadFile(to)
	if strings.Count(string(text), "\n") != 2 || !strings.Contains(string(text), `"reason":"refused"`) || err != nil {
		t.Errorf("exported %s: %v", text, err)
	}
	if err := l.Export(dir, to); codeOf(err) != exit.Failed {
		t.Errorf("a file that is there is written over: %v", err)
	}
}

// TestExportOfABlock: nothing is written behind a block of an Avro file.
func TestExportOfABlock(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "quarantine")
	q, err := quarantine.Open(dir, quarantine.DefaultConfig(), quarantine.Options{})
	must(t, err)
	must(t, q.Put([]record.Rejected{{File: record.File{Input: "in", ID: 5}, Route: record.Route{Format: record.Avro}, Length: 3, Data: []byte{2, 1, 7}, Reason: record.Refused}}))
	must(t, q.Close())
	var b bytes.Buffer
	l := Records{Out: outTo(&b), Words: &b}
	must(t, l.Out.End(l.Export(dir, "")))
	if b.String() != "\x02\x01\x07" {
		t.Errorf("exported %q", b.String())
	}
}

// TestChoose: what was chosen is shown, twenty of it at most, and all is chosen only where
// somebody said so.
func TestChoose(t *testing.T) {
	t.Parallel()
	dir := spoolOf(t)
	var w bytes.Buffer
	l := Payloads{Filter: Filter{Inputs: []string{"in1"}}, Now: now}
	c, err := l.Choose(dir, &w, false)
	must(t, err)
	if len(c.IDs) != 3 || c.IDs[0] != payload(1, true).ID.String() || !strings.HasPrefix(c.Text, "3 payloads with 6 records, ") || strings.Count(w.String(), "\n") != 4 {
		t.Errorf("%+v, shown\n%s", c, w.String())
	}
	l = Payloads{Now: now}
	if _, err := l.Choose(dir, &w, false); codeOf(err) != exit.Usage {
		t.Errorf("all is chosen, and nobody said so: %v", err)
	}
	if c, err = l.Choose(dir, &w, true); err != nil || len(c.IDs) != 6 {
		t.Errorf("%+v: %v", c, err)
	}
	l = Payloads{Filter: Filter{Inputs: []string{"in1"}}}
	if _, err := l.Choose(dir, &w, true); codeOf(err) != exit.Usage {
		t.Errorf("some and all: %v", err)
	}

	many := filepath.Join(t.TempDir(), "quarantine")
	q, err := quarantine.Open(many, quarantine.DefaultConfig(), quarantine.Options{})
	must(t, err)
	must(t, q.Put(make([]record.Rejected, 25)))
	must(t, q.Close())
	w.Reset()
	r := Records{}
	if c, err = r.Choose(many, &w, true); err != nil || len(c.IDs) != 25 || strings.Count(w.String(), "\n") != 22 || !strings.HasSuffix(w.String(), "… and 5 more\n") {
		t.Errorf("%d chosen, %v, shown\n%s", len(c.IDs), err, w.String())
	}
}

// TestConfirm: without a person nothing is done, unless the command line says yes.
func TestConfirm(t *testing.T) {
	t.Parallel()
	var w bytes.Buffer
	if err := Confirm(strings.NewReader("yes\n"), &w, "Really?", false); codeOf(err) != exit.Usage || w.Len() > 0 {
		t.Errorf("a pipe was asked %q: %v", w.String(), err)
	}
	if err := Confirm(strings.NewReader(""), &w, "Really?", true); err != nil {
		t.Error(err)
	}
}
