package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"kusto-agent/emulator"
	"kusto-agent/internal/audit"
)

// audited is the report of an audit that ends with a code.
func (s *site) audited(code int, flags ...string) (r audit.Report) {
	s.t.Helper()
	out, words := s.show(code, append([]string{"audit", "--config", s.path("agent.yaml"), "--json"}, flags...)...)
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		s.t.Fatalf("%v: %s %s", err, out, words)
	}
	return r
}

// problems are the words for the troubles of a report.
func problems(r audit.Report) string {
	var all []string
	for _, f := range r.Files {
		for _, t := range f.Troubles {
			all = append(all, string(t.Problem))
		}
	}
	return strings.Join(all, " ")
}

// faults are problems but for batches of unknown outcome: a stop may break a request off.
func faults(r audit.Report) string {
	return strings.TrimSpace(strings.ReplaceAll(problems(r), string(audit.Unsure), ""))
}

// moment is a time in a report.
var moment = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC`)

// TestAuditForAPerson: a sentence first, then what is the matter with its fix, then each
// file, in 80 columns.
func TestAuditForAPerson(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.write("logs/a.json", "{\"a\":1}\n\n{\"a\":2}\nno json\n")
	s.write("logs/b.json", "{\"a\":3}\n")
	s.once(open+oneJSON, 1)
	out, _ := s.show(0, "audit", "--config", s.path("agent.yaml"))
	for _, line := range strings.Split(out, "\n") {
		if n := utf8.RuneCountInString(strings.ReplaceAll(line, "DIR", s.dir)); n > 80 && !strings.Contains(line, "input ") {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, want := range []string{
		"OK: nothing is missing of what was read since TIME: 3 records accepted.",
		"DIR/logs/a.json", "in quarantine: 1 record", "fix: see why: kusto-agent quarantine ls",
		"look    ", "ok      ", "accepted      3 records, 24 B, in ", "quarantine    1 record held there",
	} {
		if text := strings.Join(strings.Fields(moment.ReplaceAllString(out, "TIME")), " "); !strings.Contains(text, strings.Join(strings.Fields(want), " ")) {
			t.Errorf("does not say %q:\n%s", want, out)
		}
	}
	if out, _ := s.show(0, "audit", "--state-dir", s.path("state"), "--input", "none"); strings.Contains(out, "a.json") {
		t.Errorf("--input is not asked:\n%s", out)
	}
	if r := s.audited(0, "--since", "1ms"); len(r.Files) == 0 || len(r.Files[0].Before) == 0 || r.Whole {
		t.Errorf("--since is not asked: %+v", r)
	}
	s.show(64, "audit", "--config", s.path("agent.yaml"), "--since", "soon")
	s.show(1, "audit", "--state-dir", s.path("nowhere"))
}

// TestAuditOfAKill: what is under way is no trouble, what was under way at a kill is named
// by its batch, and a file that is not to be found fails the audit until it is back.
func TestAuditOfAKill(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	hang := s.server.Fail(emulator.Fault{Hang: true, Reset: true})
	s.write("logs/a.json", "{\"a\":1}\n{\"a\":2}\n")
	p := s.run(open + oneJSON)
	s.awaitHits(hang, 1)
	r := s.audited(0)
	if len(r.Files) != 1 || !r.Running || problems(r) != "" || len(r.Files[0].UnderWay) == 0 || r.Files[0].UnderWay[0] != (audit.Span{End: 16}) {
		t.Errorf("beside the running agent: %+v", r)
	}
	p.kill()
	hang.Remove()
	if r := s.audited(0); r.Running || len(r.Files[0].UnderWay) == 0 {
		t.Errorf("after the kill: %+v", r)
	}
	s.rename("logs/a.json", "away")
	if r := s.audited(1); problems(r) != "vanished" {
		t.Errorf("without its file: %+v", r)
	}
	s.rename("away", "logs/a.json")
	s.once(open+oneJSON, 0)
	r = s.audited(0)
	if problems(r) != "unknown" || r.Files[0].Troubles[0].Batches[0].Why != audit.Killed || r.Files[0].Troubles[0].Batches[0].Ended != "accepted" {
		t.Errorf("after it was sent again: %+v", r.Files)
	}
	if n := len(r.Files[0].Routes); n != 1 || r.Files[0].Routes[0].Accepted.Records != 2 {
		t.Errorf("accepted: %+v", r.Files[0].Routes)
	}
}

// TestAuditOfTheSpool: what waits in the spool is on the way; what the spool lost is
// missing until the agent has read it again.
func TestAuditOfTheSpool(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	away := s.server.Fail(emulator.Fault{Status: 503})
	s.write("logs/a.json", "{\"a\":1}\n{\"a\":2}\n")
	config := open + hasty + oneJSON
	p := s.run(config)
	p.awaitBooks("T", func(a account) bool { return a.spooled == 2 })
	if r := s.audited(0); faults(r) != "" || len(r.Files[0].InSpool) != 1 || !r.Running {
		t.Errorf("beside the running agent: %+v", r)
	}
	p.stop()
	if r := s.audited(0); len(r.Files[0].InSpool) != 1 {
		t.Errorf("after the stop: %+v", r)
	}
	segments, err := filepath.Glob(s.path("state/spool/*"))
	s.must(err)
	for _, name := range segments {
		s.must(os.RemoveAll(name))
	}
	if r := s.audited(1); faults(r) != "spool_lost" || r.Files[0].Troubles[0].Ranges[0] != (audit.Span{End: 16}) {
		t.Errorf("with an empty spool: %+v", r)
	}
	away.Remove()
	s.once(config, 0)
	s.wantRows("T", []string{`{"a":1}`, `{"a":2}`})
	if r := s.audited(0); faults(r) != "" || len(r.Files[0].Routes) != 1 || r.Files[0].Routes[0].Accepted.Records != 2 {
		t.Errorf("after it was read again: %+v", r.Files)
	}
}

// stampedSchema is a table whose rows say where they come from.
const stampedSchema = `{"databases": {"Logs": {"tables": {"T": {"columns": "n:long, file:string, generation:long, at:long",
	"mappings": [{"name": "m", "kind": "Json", "columns": [{"column": "n", "path": "$.n"}, {"column": "file", "path": "$.file"},
		{"column": "generation", "path": "$.generation"}, {"column": "at", "path": "$.offset"}]}]}}}}}`

const stampedInput = "batch: {max_records: 400, max_wait: 10ms}\n" +
	`inputs: [{paths: ["${DIR}/logs/*.json"], table: T, mapping: m, fields: {file: "{file}", generation: "{generation}", offset: "{offset}"}}]`

// tableAudit is what --against-table prints as JSON.
type tableAudit struct {
	audit.Report
	Table audit.TableReport `json:"table"`
}

func (s *site) auditedTable(code int) (r tableAudit) {
	s.t.Helper()
	out, words := s.show(code, "audit", "--config", s.path("agent.yaml"), "--against-table", "--column", "offset=at", "--json")
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		s.t.Fatalf("%v: %s %s", err, out, words)
	}
	return r
}

// TestAuditAgainstADamagedTable: of a table that lost and doubled a thousand rows at random
// each is named, with its file and its offset, and no other; without the files each is
// counted in its range, and doubles are named still.
func TestAuditAgainstADamagedTable(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{Schema: schemaOf(t, stampedSchema)})
	offsets := map[int]int64{} // of the n'th record
	n := 0
	for file := range 3 {
		var text strings.Builder
		for range 1500 {
			if n%7 == 0 {
				text.WriteString("\n") // blank lines are no records
			}
			offsets[n] = int64(text.Len())
			fmt.Fprintf(&text, "{\"n\": %d, \"pad\": %q}\n", n, strings.Repeat("x", n%13))
			n++
		}
		s.write(fmt.Sprintf("logs/%d.json", file), text.String())
	}
	s.once(open+stampedInput, 0)
	if r := s.auditedTable(0); !r.Table.OK || r.Table.Checked != int64(n) || len(r.Table.Missing)+len(r.Table.Doubled) > 0 {
		t.Fatalf("of a sound table it says %+v", r.Table)
	}

	rnd := rand.New(rand.NewPCG(1, 2))
	copies := map[int]int{}
	for len(copies) < 1000 {
		copies[rnd.IntN(n)] = []int{0, 2, 3}[rnd.IntN(3)]
	}
	s.server.Damage("Logs", "T", func(r emulator.Row) int {
		var row struct{ N int }
		s.must(json.Unmarshal(r.Raw, &row))
		if n, damaged := copies[row.N]; damaged {
			return n
		}
		return 1
	})
	path := func(n int) string { return s.path(fmt.Sprintf("logs/%d.json", n/1500)) }
	type place struct {
		path   string
		offset int64
	}
	wantMissing, wantDoubled := map[place]int64{}, map[place]int64{}
	lost := map[string]int64{}
	for n, c := range copies {
		switch at := (place{strings.ReplaceAll(path(n), s.dir, "DIR"), offsets[n]}); {
		case c == 0:
			wantMissing[at] = 1
			lost[at.path]++
		default:
			wantDoubled[at] = int64(c - 1)
		}
	}
	compare := func(what string, got []audit.Finding, want map[place]int64) {
		t.Helper()
		if len(got) != len(want) {
			t.Errorf("%d %s, want %d", len(got), what, len(want))
		}
		for _, x := range got {
			if at := (place{x.Path, x.Offset}); !x.Named || want[at] != x.Records {
				t.Fatalf("%s: %+v, want %d", what, x, want[at])
			}
		}
	}
	r := s.auditedTable(1)
	compare("missing", r.Table.Missing, wantMissing)
	compare("doubled", r.Table.Doubled, wantDoubled)
	if want := ".create-or-alter function with"; len(r.Table.Functions) != 1 || !strings.HasPrefix(r.Table.Functions[0], want) || !r.OK {
		t.Errorf("functions %q, journal ok %v", r.Table.Functions, r.OK)
	}
	out, _ := s.show(1, "audit", "--config", s.path("agent.yaml"), "--against-table", "--column", "offset=at")
	if !strings.Contains(strings.Join(strings.Fields(out), " "), fmt.Sprintf("In the tables NOT OK: of 4,500 records that were accepted, %d are missing,", len(wantMissing))) {
		t.Errorf("says\n%s", out)
	}

	for file := range 3 {
		s.must(os.Remove(s.path(fmt.Sprintf("logs/%d.json", file))))
	}
	r = s.auditedTable(1)
	compare("doubled", r.Table.Doubled, wantDoubled)
	for _, x := range r.Table.Missing {
		if x.Named || x.Batch == "" || x.End <= x.Offset {
			t.Fatalf("without its file: %+v", x)
		}
		lost[x.Path] -= x.Records
	}
	for path, left := range lost {
		if left != 0 {
			t.Errorf("%s: %d more are missing than it says", path, left)
		}
	}
}

// TestAuditWithoutStamps says that nothing can be said, and what to do.
func TestAuditWithoutStamps(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.write("logs/a.json", "{\"a\":1}\n{\"a\":2}\n")
	s.once(open+oneJSON, 0)
	out, _ := s.show(0, "audit", "--config", s.path("agent.yaml"), "--against-table")
	if !strings.Contains(out, "Nothing can be said of the tables: 2 records bear no stamp.") {
		t.Errorf("says\n%s", out)
	}
	s.show(64, "audit", "--config", s.path("agent.yaml"), "--against-table", "--column", "batch=b")
	s.show(64, "audit", "--state-dir", s.path("state"), "--against-table")
}
