package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"kusto-agent/emulator"
	"kusto-agent/internal/audit"
	"kusto-agent/internal/repair"
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
	s.write("logs/c.json", "no json\n") // alone in its request, which is therefore none
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
		"look    ", "ok      ", "accepted      3 records, 24 B, in ", "quarantine    2 records held there",
		"not sent      8 B that made no request: blank lines, headers, what rules leave out, what went to quarantine at once",
	} {
		if text := strings.Join(strings.Fields(moment.ReplaceAllString(out, "TIME")), " "); !strings.Contains(text, strings.Join(strings.Fields(want), " ")) {
			t.Errorf("does not say %q:\n%s", want, out)
		}
	}
	if out, words := s.show(64, "audit", "--config", s.path("agent.yaml"), "--input", "none"); out != "" || !strings.Contains(words, `--input "none": nothing is known of it`) {
		t.Errorf("of an input that is not there it says %s %s", out, words)
	}
	s.write("two.yaml", strings.Replace(s.read("agent.yaml"), "inputs: [", `inputs: [{name: idle, paths: ["${DIR}/idle/*.json"], table: T, mapping: m}, `, 1))
	if out, _ := s.show(0, "audit", "--config", s.path("two.yaml"), "--input", "idle"); strings.Contains(out, "a.json") {
		t.Errorf("--input is not asked:\n%s", out)
	}
	if r := s.audited(0, "--since", "1ms"); len(r.Files) == 0 || len(r.Files[0].Before) == 0 || r.Whole {
		t.Errorf("--since is not asked: %+v", r)
	}
	s.show(64, "audit", "--config", s.path("agent.yaml"), "--since", "soon")
	_, words := s.show(1, "audit", "--state-dir", s.path("nowhere"))
	s.is(words, "stat DIR/nowhere: no such file or directory; name another folder with --state-dir")
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
	s.killHeld(p, hang)
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

// onceRows returns the column n of the rows that the first function of a report leaves, in order. The
// emulator runs no functions, so it gets the body as a query. It does not know take_any(*), and runs
// arg_max in its place: both keep one row of each group, with all of its columns.
func (s *site) onceRows(r audit.TableReport) []string {
	s.t.Helper()
	_, body, _ := strings.Cut(r.Functions[0], "{")
	body, one := strings.CutSuffix(strings.Replace(body, "take_any(*)", "arg_max(n, *)", 1), "}")
	if !one {
		s.t.Fatalf("no body in %s", r.Functions[0])
	}
	rows, _ := s.show(0, "query", "--config", s.path("agent.yaml"), body+"| project n | order by n asc")
	return strings.Split(rows, "\n")[1:]
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
	rows := s.onceRows(r.Table)
	var once []string
	for i := range n {
		if c, damaged := copies[i]; !damaged || c > 0 {
			once = append(once, strconv.Itoa(i))
		}
	}
	if !slices.Equal(rows, once) {
		t.Errorf("the function leaves %d rows, want %d", len(rows), len(once))
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

// TestAuditWithoutStamps: numbers are compared by the times at which rows were stored. They
// tell how many are missing, not which, and not that a double hides one; that is said.
func TestAuditWithoutStamps(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.write("logs/a.json", strings.Repeat("{\"a\":1}\n", 300))
	s.once(open+oneJSON, 0)
	says := func(code int, want ...string) {
		t.Helper()
		out, _ := s.show(code, "audit", "--config", s.path("agent.yaml"), "--against-table")
		out = strings.Join(strings.Fields(out), " ")
		for _, want := range append(want, "Numbers cannot see which record is missing", `offset: "{offset}"`) {
			if !strings.Contains(out, want) {
				t.Errorf("does not say %q:\n%s", want, out)
			}
		}
	}
	rnd := rand.New(rand.NewPCG(5, 6))
	damage := func(remove, double int) {
		n, copies := 0, map[int]int{}
		for len(copies) < remove+double {
			i := rnd.IntN(len(s.server.Rows("Logs", "T")))
			if _, chosen := copies[i]; !chosen {
				copies[i] = 2
				if len(copies) <= remove {
					copies[i] = 0
				}
			}
		}
		s.server.Damage("Logs", "T", func(emulator.Row) int {
			c, damaged := copies[n]
			if n++; damaged {
				return c
			}
			return 1
		})
	}
	says(0, "By numbers alone, for records without stamps: 300 records accepted in 1 span of time, and the tables have as many rows of each.")
	damage(7, 0)
	says(1, "NOT OK: at least 7 are missing.", "300 records accepted in", "293 rows there, at least 7 are missing")
	damage(0, 4) // hides four of them
	says(1, "NOT OK: at least 3 are missing.")
	damage(0, 5)
	says(0, "and the tables have no fewer rows of any. 2 rows more than were accepted: stored twice, or written by others.")
	if r := s.repaired(0); len(r.Repair.Send)+len(r.Repair.Not) > 0 || len(r.Table.Windows) != 1 || r.Table.Windows[0].Rows != 302 {
		t.Errorf("repair: %+v", r)
	}
	s.show(64, "audit", "--config", s.path("agent.yaml"), "--against-table", "--column", "batch=b")
	s.show(64, "audit", "--state-dir", s.path("state"), "--against-table")
}

// TestStampsCameLater: records that were sent before their input had stamps are counted, and
// those after are named.
func TestStampsCameLater(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{Schema: schemaOf(t, stampedSchema)})
	s.write("logs/a.json", "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n")
	before, _, _ := strings.Cut(stampedInput, ", fields")
	s.once(open+before+"}]", 0)
	s.append("logs/a.json", "{\"n\":4}\n{\"n\":5}\n")
	s.once(open+stampedInput, 0)
	sound := s.auditedTable(0)
	if r := sound; r.Table.Checked != 2 || len(r.Table.Windows) != 1 || r.Table.Windows[0].Records != 5 || r.Table.Windows[0].Rows != 5 {
		t.Errorf("it says %+v", r.Table)
	}
	if got := strings.Join(s.onceRows(sound.Table), " "); got != "1 2 3 4 5" {
		t.Errorf("the function leaves the rows %s", got)
	}
	s.server.Damage("Logs", "T", func(r emulator.Row) int {
		if strings.Contains(string(r.Raw), `"n":2`) || strings.Contains(string(r.Raw), `"n":5`) {
			return 0
		}
		return 1
	})
	r := s.repaired(1)
	if r.Repair.Records != 1 || len(r.Table.Missing) > 0 || r.Table.Windows[0].Rows != 4 {
		t.Errorf("repair: %+v, table %+v", r.Repair, r.Table)
	}
}

// repairedTable is what an audit with --repair prints as JSON.
type repairedTable struct {
	tableAudit
	Repair struct {
		Send    []repair.Range `json:"send"`
		Not     []repair.Range `json:"not"`
		Records int            `json:"records"`
	} `json:"repair"`
}

func (s *site) repaired(code int, flags ...string) (r repairedTable) {
	s.t.Helper()
	out, words := s.show(code, append([]string{"audit", "--config", s.path("agent.yaml"), "--against-table", "--column", "offset=at", "--json", "--repair", "--yes", "--settled", "0s"}, flags...)...)
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		s.t.Fatalf("%v: %s %s", err, out, words)
	}
	return r
}

// TestRepair: of a table that lost and doubled rows at random, what was lost is stored again
// with the stamps it had, beside a running agent whose journal stays as it is; what was
// doubled is named as before, and what is not to be had any more is told.
func TestRepair(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{Schema: schemaOf(t, stampedSchema)})
	n := 0
	for file := range 4 {
		var text strings.Builder
		for range 600 {
			if n%7 == 0 {
				text.WriteString("\n")
			}
			fmt.Fprintf(&text, "{\"n\": %d, \"pad\": %q}\n", n, strings.Repeat("x", n%13))
			n++
		}
		s.write(fmt.Sprintf("logs/%d.json", file), text.String())
	}
	p := s.run(open + stampedInput)
	s.awaitRows("T", n)
	p.awaitBooks("T", func(a account) bool { return a.accepted == float64(n) })

	stamps := func() map[string]int {
		all := map[string]int{}
		for _, row := range s.server.Rows("Logs", "T") {
			all[string(bytes.TrimSpace(row.Raw))]++
		}
		return all
	}
	before := stamps()
	rnd := rand.New(rand.NewPCG(3, 4))
	copies := map[int]int{}
	for len(copies) < 700 {
		copies[rnd.IntN(n)] = []int{0, 2, 3}[rnd.IntN(3)]
	}
	for i := range 30 { // a run of them
		copies[700+i] = 0
	}
	s.server.Damage("Logs", "T", func(r emulator.Row) int {
		var row struct{ N int }
		s.must(json.Unmarshal(r.Raw, &row))
		if n, damaged := copies[row.N]; damaged {
			return n
		}
		return 1
	})
	s.must(os.Remove(s.path("logs/3.json")))
	found := s.auditedTable(1)
	lost := 0
	for n, c := range copies {
		if c == 0 && n < 1800 {
			lost++
		}
	}

	r := s.repaired(1)
	if r.Repair.Records != lost {
		t.Errorf("%d records were sent again, want %d", r.Repair.Records, lost)
	}
	for _, x := range r.Repair.Not {
		if !strings.HasSuffix(x.Path, "3.json") || !strings.Contains(x.Why, "gone") || x.Records != 0 {
			t.Fatalf("not repaired: %+v", x)
		}
	}
	for _, x := range r.Table.Missing {
		if !strings.HasSuffix(x.Path, "3.json") {
			t.Fatalf("missing still: %+v", x)
		}
	}
	if !reflect.DeepEqual(r.Table.Doubled, found.Table.Doubled) {
		t.Errorf("%d rows are doubled, want those %d that were", len(r.Table.Doubled), len(found.Table.Doubled))
	}
	for row, n := range stamps() {
		var x struct{ N int }
		s.must(json.Unmarshal([]byte(row), &x))
		if want := max(1, copies[x.N]); before[row] != 1 || n != want && x.N < 1800 {
			t.Fatalf("%s is stored %d times, want %d", row, n, want)
		}
	}
	if again := s.repaired(1); again.Repair.Records != 0 || len(again.Repair.Send) != 0 {
		t.Errorf("a second repair sends %+v", again.Repair)
	}
	p.stop()
	accepted := int64(0)
	after := s.audited(0)
	for _, f := range after.Files {
		for _, d := range f.Routes {
			accepted += d.Accepted.Records
		}
	}
	if faults(after) != "" || accepted != int64(n) {
		t.Errorf("the journal says %s, and %d records accepted", problems(after), accepted)
	}
}

// contents are the files of a folder by their names.
func (s *site) contents(name string) map[string]string {
	s.t.Helper()
	all := map[string]string{}
	entries, err := os.ReadDir(s.path(name))
	s.must(err)
	for _, e := range entries {
		all[e.Name()] = s.read(filepath.Join(name, e.Name()))
	}
	return all
}

// TestRepairAsks: nothing is sent without a yes, of what is new nothing is, and other flags
// go with the ones they are for.
func TestRepairAsks(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{Schema: schemaOf(t, stampedSchema)})
	s.write("logs/a.json", "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n")
	s.once(open+stampedInput, 0)
	s.server.Damage("Logs", "T", func(r emulator.Row) int { return strings.Count(string(r.Raw), `"n":2`) })
	flags := []string{"audit", "--config", s.path("agent.yaml"), "--against-table", "--column", "offset=at", "--repair"}
	out, words := s.show(64, append(flags, "--settled", "0s")...)
	for _, want := range []string{"To be sent again: 2 records, in 1 request.", "logs/a.json  input T  table T", "bytes 0–8, 1 record, accepted", "bytes 16–24, 1 record, accepted"} {
		if !strings.Contains(out, want) {
			t.Errorf("does not say %q:\n%s", want, out)
		}
	}
	if want := "nothing was sent: there is no terminal to ask on; run it with --yes"; !strings.Contains(words, want) || len(s.server.Rows("Logs", "T")) != 1 {
		t.Errorf("says %q, and the table has %d rows", words, len(s.server.Rows("Logs", "T")))
	}
	if out, _ = s.show(1, append(flags, "--yes", "--settled", "1h")...); !strings.Contains(out, "Nothing can be sent again.") || !strings.Contains(out, "lately") {
		t.Errorf("of what is new it says\n%s", out)
	}
	down := s.server.Fail(emulator.Fault{Status: 400})
	if out, _ = s.show(1, append(flags, "--yes", "--settled", "0s")...); !strings.Contains(out, "Not accepted:") || len(s.server.Rows("Logs", "T")) != 1 {
		t.Errorf("of a refusal it says\n%s", out)
	}
	down.Remove()
	journal := s.contents("state/journal")
	if out, _ = s.show(0, append(flags, "--yes", "--settled", "0s")...); !strings.Contains(out, "Sent again, and accepted: 2 records.") || !strings.Contains(out, "all of 3 records that were accepted are stored, each once") {
		t.Errorf("of a repair it says\n%s", out)
	}
	if !maps.Equal(s.contents("state/journal"), journal) {
		t.Error("the repair changed the journal")
	}
	s.write("agent.yaml", strings.Replace(open+stampedInput, `fields: {`, `fields: {host: "{host}", `, 1))
	s.server.Damage("Logs", "T", func(r emulator.Row) int { return strings.Count(string(r.Raw), `"n":2`) })
	if out, _ = s.show(1, append(flags, "--yes", "--settled", "0s")...); !strings.Contains(out, "other fields") || len(s.server.Rows("Logs", "T")) > 1 {
		t.Errorf("with other fields it says\n%s", out)
	}
	s.show(64, "audit", "--config", s.path("agent.yaml"), "--repair")
	s.show(64, "audit", "--config", s.path("agent.yaml"), "--against-table", "--yes")
}

// TestRepairReadsWhatWasSent: a file that was renamed is found; of one that was changed in
// its middle, or truncated and written anew, nothing is sent.
func TestRepairReadsWhatWasSent(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{Schema: schemaOf(t, stampedSchema)})
	text := func(from int) string {
		var b strings.Builder
		for n := range 200 {
			fmt.Fprintf(&b, "{\"n\": %4d}\n", from+n)
		}
		return b.String()
	}
	for i, name := range []string{"renamed", "changed", "truncated"} { // each in a batch of its own
		s.write("logs/"+name+".json", text(1000*(i+1)))
		s.once(open+stampedInput, 0)
	}
	s.write("logs/truncated.json", "{\"n\": 9999}\n")
	s.once(open+stampedInput, 0)
	s.server.Damage("Logs", "T", func(r emulator.Row) int {
		var row struct{ N int }
		s.must(json.Unmarshal(r.Raw, &row))
		return min(row.N%10, 1) // each tenth is lost
	})
	s.rename("logs/renamed.json", "logs/renamed.json.1")
	changed, err := os.OpenFile(s.path("logs/changed.json"), os.O_RDWR, 0)
	s.must(err)
	_, err = changed.WriteAt([]byte("7"), 12*50+8)
	s.must(err)
	s.must(changed.Close())

	r := s.repaired(1)
	if r.Repair.Records != 20 || sumMissing(r.Table.Missing) != 40 {
		t.Errorf("%d records sent, %d missing, not sent %+v", r.Repair.Records, sumMissing(r.Table.Missing), r.Repair.Not)
	}
	for _, x := range r.Repair.Send {
		if !strings.HasSuffix(x.Path, "renamed.json") {
			t.Fatalf("sent: %+v", x)
		}
	}
	why := map[string]string{}
	for _, x := range r.Repair.Not {
		why[fmt.Sprint(filepath.Base(x.Path), " ", x.Generation)] = x.Why
	}
	for _, name := range []string{"changed.json 0", "truncated.json 0"} {
		if !strings.Contains(why[name], "gone, or holds something else now") {
			t.Errorf("%s: %q of %v", name, why[name], why)
		}
	}
}

// sumMissing is how many records some findings are.
func sumMissing(all []audit.Finding) (n int64) {
	for _, x := range all {
		n += x.Records
	}
	return n
}

// TestRepairOfParsedLines: lines that parsing turns into records, that are joined from parts
// of several streams, and of which rules leave some out, are sent again as they were sent.
func TestRepairOfParsedLines(t *testing.T) {
	t.Parallel()
	var cri, logfmt strings.Builder
	for n := range 300 {
		stream := []string{"stdout", "stderr"}[n%2]
		if n%5 == 0 {
			fmt.Fprintf(&cri, "2026-01-02T03:04:05.%09dZ %s P part of\n", n, stream)
		}
		fmt.Fprintf(&cri, "2026-01-02T03:04:05.%09dZ %s F message %d\n", n, stream, n)
		fmt.Fprintf(&logfmt, "level=%s message=%d\n", []string{"debug", "info"}[n%2], n)
	}
	f := func(name, text, more string, records int) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, emulator.Options{Schema: schemaOf(t, stampedSchema)})
			s.write("logs/a.log", text)
			s.once(open+"batch: {max_records: 40, max_wait: 10ms}\ninputs:\n  - {paths: [\"${DIR}/logs/*.log\"], table: T, mapping: m, format: JSON, "+more+
				`, fields: {file: "{file}", generation: "{generation}", offset: "{offset}"}}`, 0)
			before := map[string]int{}
			for _, row := range s.server.Rows("Logs", "T") {
				before[string(bytes.TrimSpace(row.Raw))]++
			}
			if len(before) != records {
				t.Fatalf("%d records, want %d", len(before), records)
			}
			rnd := rand.New(rand.NewPCG(7, 8))
			lost := 0
			s.server.Damage("Logs", "T", func(emulator.Row) int {
				if rnd.IntN(3) > 0 {
					return 1
				}
				lost++
				return 0
			})
			if r := s.repaired(0); r.Repair.Records != lost || lost == 0 || len(r.Repair.Not) > 0 {
				t.Errorf("sent %d of %d, not %+v", r.Repair.Records, lost, r.Repair.Not)
			}
			for _, row := range s.server.Rows("Logs", "T") {
				before[string(bytes.TrimSpace(row.Raw))]--
			}
			for row, n := range before {
				if n != 0 {
					t.Fatalf("%d times too few: %s", n, row)
				}
			}
		})
	}
	f("cri", cri.String(), "parse: cri", 300)
	f("rules", logfmt.String(), "parse: logfmt, drop: [{member: level, in: [debug]}]", 150)
}
