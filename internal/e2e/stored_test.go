package e2e

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"kusto-agent/emulator"
	"kusto-agent/internal/console"
	"kusto-agent/internal/quarantine"
	"kusto-agent/internal/record"
	"kusto-agent/internal/units"
	"kusto-agent/spool"
)

// hostile is what a terminal must not get.
const hostile = "\x1b]0;owned\x07\nforged\u202e line"

var storedAt = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// show runs a command to its end and returns what it printed.
func (s *site) show(code int, args ...string) (out, words string) {
	s.t.Helper()
	p := s.launch(args...).want(code)
	tidy := strings.NewReplacer(s.dir, "DIR")
	out, words = tidy.Replace(p.out.text()), tidy.Replace(p.log.text())
	if strings.ContainsAny(out+words, "\x1b\x07\u202e") || strings.Contains(out+words, "\nforged") {
		s.t.Errorf("it steers a terminal: %q %q", out, words)
	}
	return strings.TrimRight(out, "\n"), strings.TrimRight(words, "\n")
}

// is compares what was printed with what is wanted, lines of both trimmed of
// the margin of the source.
func (s *site) is(got, want string) {
	s.t.Helper()
	if want = strings.ReplaceAll(strings.TrimSpace(want), "\n\t\t", "\n"); got != want {
		s.t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// refusedRecords are three, one of them out to do harm.
func refusedRecords(path string) []record.Rejected {
	route := record.Route{Cluster: "https://c", Database: "Logs", Table: "T", Format: record.JSON, Mapping: "m"}
	f := func(input string, offset int64, data string, reason record.Reason, code, message string) record.Rejected {
		return record.Rejected{
			File: record.File{Input: input, ID: 0xab}, Path: path, Route: route, Offset: offset, Length: int64(len(data)),
			Data: []byte(data), Reason: reason, Code: code, Message: message,
		}
	}
	return []record.Rejected{
		f("app", 7, "no json\n", record.Malformed, "", "a value begins with n"),
		f("app", 15, "{\"a\":1}\n", record.Refused, "BadRequest_X", strings.Repeat("words of the service ", 10)),
		f("bad"+hostile, 0, hostile+"\xff\n", record.Malformed, hostile, hostile),
	}
}

// quarantineOf fills a quarantine, which stays open as that of a running agent.
func (s *site) quarantineOf(recs []record.Rejected) *quarantine.Store {
	s.t.Helper()
	q, err := quarantine.Open(s.path("state/quarantine"), quarantine.DefaultConfig(), quarantine.Options{Now: func() time.Time { return storedAt }})
	s.must(err)
	s.t.Cleanup(func() { q.Close() })
	s.must(q.Put(recs))
	return q
}

func TestQuarantineLs(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.quarantineOf(refusedRecords("/srv/app.json"))
	s.write("agent.yaml", open+oneJSON)
	config := s.path("agent.yaml")

	out, words := s.show(0, "quarantine", "ls", "--config", config)
	s.is(out, `ID     TIME                  INPUT       REASON     FILE                            OFFSET  LENGTH  CODE  MESSAGE
		1:1    2026-01-02T03:04:05Z  app         malformed  /srv/app.json                        7       8  -  a value begins with n
		1:2    2026-01-02T03:04:05Z  app         refused    /srv/app.json                       15       8  BadRequest_X  words of the service words of the service words of the service words of the service words of the se…
		1:3    2026-01-02T03:04:05Z  "bad\x1b]0;owned\a\nforged\u202e line"  malformed  /srv/app.json                        0      27  "\x1b]0;owned\a\nforged\u202e line"  "\x1b]0;owned\a\nforged\u202e line"`)
	s.is(words, "3 records, 1.3 kB in DIR/state/quarantine")

	out, words = s.show(0, "quarantine", "ls", "--dir", s.path("state/quarantine"), "--input", "app", "--reason", "refused", "--reason", "grown")
	s.is(out[strings.Index(out, "\n")+1:][:3], "1:2")
	s.is(words, "1 record, 518 B in DIR/state/quarantine")

	// --json is what lies there, but that nothing in it steers a terminal.
	p := s.launch("quarantine", "ls", "--config", config, "--json").want(0)
	if got, want := p.out.text(), strings.ReplaceAll(s.read("state/quarantine/0000000000000001.jsonl"), "\u202e", `\u202e`); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	p = s.launch("quarantine", "ls", "--config", config, "--json", "--reason", "refused").want(0)
	if got, want := p.out.text(), strings.SplitAfter(s.read("state/quarantine/0000000000000001.jsonl"), "\n")[1]; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}

	// The record as it was.
	if p := s.launch("quarantine", "show", "1:3", "--config", config).want(0); p.out.text() != hostile+"\xff\n" {
		t.Errorf("shows %q", p.out.text())
	}
	p = s.launch("quarantine", "show", "1:2", "--json", "--config", config).want(0)
	if got, want := p.out.text(), strings.SplitAfter(s.read("state/quarantine/0000000000000001.jsonl"), "\n")[1]; got != want {
		t.Errorf("shows\n%s\nwant\n%s", got, want)
	}
	_, words = s.show(1, "quarantine", "show", "1:4", "--config", config)
	s.is(words, `no record "1:4" in DIR/state/quarantine; the IDs are those of: kusto-agent quarantine ls`)

	s.show(0, "quarantine", "export", "--to", "exported", "--config", config)
	_, words = s.show(1, "quarantine", "export", "--to", "exported", "--config", config)
	s.is(words, `--to: "exported" is there already, and is not overwritten; name another, or remove it`)
	_, words = s.show(1, "quarantine", "export", "--to", "nodir/x", "--config", config)
	s.is(words, `--to "nodir/x": there is no folder "nodir"; make it, or name another file`)

	_, words = s.show(64, "quarantine", "ls", "--reason", "none")
	s.is(words, `--reason "none": want too_long, malformed, refused or grown`)
}

// A line cut short by a crash is told and passed over; one that is damaged
// ends the command with 1.
func TestQuarantineLsOfDamage(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.quarantineOf(refusedRecords("/srv/app.json")[:2])
	const name = "state/quarantine/0000000000000001.jsonl"
	whole := s.read(name)
	s.append(name, `{"time":"2026-`)
	out, words := s.show(0, "quarantine", "ls", "--dir", s.path("state/quarantine"))
	if strings.Count(out, "\n") != 2 {
		t.Errorf("lists\n%s", out)
	}
	s.is(words, `line 3 of 0000000000000001.jsonl has no end (14 B): a crash cut it short, or it is being written
		2 records, 834 B in DIR/state/quarantine`)
	s.write(name, "{\"no\": \"line\"}\n"+whole)
	out, words = s.show(1, "quarantine", "ls", "--dir", s.path("state/quarantine"), "--json")
	if strings.Count(out, "\n") != 1 || out+"\n" != whole {
		t.Errorf("prints\n%s", out)
	}
	s.is(words, `line 1 of 0000000000000001.jsonl is damaged (14 B)
		2 records, 834 B in DIR/state/quarantine
		1 damaged line cannot be read`)
	_, words = s.show(1, "quarantine", "show", "1:1", "--dir", s.path("state/quarantine"))
	if !strings.HasPrefix(words, "record 1:1 cannot be read") {
		t.Errorf("says %s", words)
	}
}

func TestQuarantineLsBesideTheAgent(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.write("logs/a.json", "no json\n"+joined(jsonRecords(0, 3)))
	p := s.run(open + oneJSON)
	s.awaitRows("T", 3)
	p.awaitBooks("T", func(a account) bool { return a.quarantined == 1 && a.pending == 0 })
	out, _ := s.show(0, "quarantine", "ls", "--config", s.path("agent.yaml"))
	if !strings.Contains(out, "DIR/logs/a.json") || !strings.Contains(out, "malformed") {
		t.Errorf("lists\n%s", out)
	}
	if n := p.metric("quarantine_bytes"); int(n) != len(s.read("state/quarantine/0000000000000001.jsonl")) {
		t.Errorf("quarantine_bytes %v", n)
	}
	p.stop()
	again, _ := s.show(0, "quarantine", "ls", "--config", s.path("agent.yaml"))
	s.is(again, out)
}

// spoolOf fills a spool, which stays open as that of a running agent.
func (s *site) spoolOf(n int) {
	s.t.Helper()
	now := storedAt
	sp, _, err := spool.Open(s.path("state/spool"), spool.Config{MaxSize: units.GiB, WhenFull: "block"}, spool.Options{Now: func() time.Time { return now }})
	s.must(err)
	s.t.Cleanup(func() { sp.Close() })
	for i := range n {
		p := &record.Payload{
			ID: record.BatchID{1, 2, 3, byte(i)}, Attempt: i, Records: 10, RawBytes: 1000, Body: make([]byte, 300), Gzip: true, ReadAt: now,
			Route: record.Route{Cluster: "https://c.kusto.windows.net", Database: "Logs", Table: "App", Format: record.JSON, Mapping: "m"},
		}
		if i%2 == 1 {
			p.Route.Table, p.Route.Format, p.Route.Mapping = "Web", record.TXT, ""
		}
		file := record.File{Input: "app", ID: 0xab, Generation: uint32(i)}
		span := record.Span{Start: int64(i) * 1000, End: int64(i)*1000 + 1000}
		p.Cover = []record.Extent{{File: file, Span: span, Mark: 1}}
		p.Pieces = []record.Piece{{File: file, Span: span, Records: 10}}
		s.must(sp.Put(p))
		now = now.Add(time.Minute)
	}
}

func TestSpoolLs(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.spoolOf(3)
	s.write("agent.yaml", open+oneJSON)
	config := s.path("agent.yaml")
	out, words := s.show(0, "spool", "ls", "--config", config)
	out = regexp.MustCompile(`\d+d \d+h ago *`).ReplaceAllString(out, "AGO ")
	s.is(out, `SPOOLED               AGE          BATCH                                 TO                FORMAT      RECORDS     SIZE  ATTEMPTS  CLUSTER                   RANGES
		2026-01-02T03:04:05Z  AGO 01020300-0000-0000-0000-000000000000  Logs.App          JSON by m        10    496 B         0  https://c.kusto.windows.net  app/00000000000000ab/0[0,1000)
		2026-01-02T03:05:05Z  AGO 01020301-0000-0000-0000-000000000000  Logs.Web          TXT              10    496 B         1  https://c.kusto.windows.net  app/00000000000000ab/1[1000,2000)
		2026-01-02T03:06:05Z  AGO 01020302-0000-0000-0000-000000000000  Logs.App          JSON by m        10    496 B         2  https://c.kusto.windows.net  app/00000000000000ab/2[2000,3000)`)
	s.is(words, "3 payloads with 30 records, 1.5 kB in DIR/state/spool")

	out, _ = s.show(0, "spool", "ls", "--config", config, "--summary")
	s.is(out, `TO                        PAYLOADS     RECORDS     SIZE  OLDEST                CLUSTER
		Logs.App                         2          20    992 B  2026-01-02T03:04:05Z  https://c.kusto.windows.net
		Logs.Web                         1          10    496 B  2026-01-02T03:05:05Z  https://c.kusto.windows.net`)

	out, _ = s.show(0, "spool", "ls", "--config", config, "--json")
	s.is(strings.Split(out, "\n")[1], `{"time":"2026-01-02T03:05:05Z","batch":"01020301-0000-0000-0000-000000000000","cluster":"https://c.kusto.windows.net",`+
		`"database":"Logs","table":"Web","format":"TXT","mapping":"","records":10,"bytes":496,"raw_bytes":1000,"attempts":1,`+
		`"segment":"0000000000000001.seg","offset":560,"ranges":[{"input":"app","file":"00000000000000ab","generation":1,"start":1000,"end":2000}]}`)
	out, _ = s.show(0, "spool", "ls", "--config", config, "--json", "--summary")
	s.is(out, `{"bytes":992,"cluster":"https://c.kusto.windows.net","database":"Logs","oldest":"2026-01-02T03:04:05Z","payloads":2,"records":20,"table":"App"}
		{"bytes":496,"cluster":"https://c.kusto.windows.net","database":"Logs","oldest":"2026-01-02T03:05:05Z","payloads":1,"records":10,"table":"Web"}`)
}

// What cannot be read is told in its place; damage ends the command with 1.
func TestSpoolLsOfDamage(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.spoolOf(3)
	found, err := filepath.Glob(s.path("state/spool/*"))
	s.must(err)
	if len(found) != 1 {
		t.Fatalf("segments %v", found)
	}
	whole, err := os.ReadFile(found[0])
	s.must(err)
	text := strings.Replace(string(whole), "\x01\x02\x03\x01", "\x01\x02\x03\x09", 1) // inside the second frame
	s.write("copy/0000000000000001.seg", text)
	out, words := s.show(1, "spool", "ls", "--dir", s.path("copy"))
	if !strings.HasSuffix(out, "\ndamaged: 496 B at byte 560 of 0000000000000001.seg") || strings.Count(out, "\n") != 3 {
		t.Errorf("lists\n%s", out)
	}
	s.is(words, `2 payloads with 20 records, 992 B in DIR/copy
		1 damaged range (496 B) cannot be read; the agent reads what it can of their records again from their files`)
	out, _ = s.show(1, "spool", "ls", "--dir", s.path("copy"), "--json")
	if !strings.HasSuffix(out, `{"bytes":496,"offset":560,"segment":"0000000000000001.seg","torn":false,"unreadable":true}`) {
		t.Errorf("prints\n%s", out)
	}
	// A write that was cut short is no damage.
	s.write("cut/0000000000000001.seg", string(whole[:1056+200]))
	out, words = s.show(0, "spool", "ls", "--dir", s.path("cut"))
	if !strings.HasSuffix(out, "\ntorn: 192 B at byte 1056 of 0000000000000001.seg") {
		t.Errorf("lists\n%s", out)
	}
	s.is(words, "2 payloads with 20 records, 992 B, and 1 range (192 B) of a write that was cut short or is under way, in DIR/cut")
}

// Where there is nothing to read, it is clear whether that is good.
func TestStoredNowhere(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.write("agent.yaml", open+oneJSON)
	s.write("bad.yaml", "inputs: 5\n")
	// These have no flag for the folder.
	for _, command := range []string{"audit", "spool rm --all", "spool replay --cluster http://a", "quarantine rm --all", "quarantine requeue --all"} {
		_, words := s.show(1, append(strings.Fields(command), "--config", s.path("agent.yaml"))...)
		if !strings.HasPrefix(words, "stat DIR/state: no such file or directory; ") || strings.Contains(words, "--dir") || !strings.Contains(words, "--config") {
			t.Errorf("%s: %s", command, words)
		}
	}
	for _, what := range []string{"spool", "quarantine"} {
		_, words := s.show(1, what, "ls", "--config", s.path("agent.yaml"))
		if !strings.HasPrefix(words, "stat DIR/state: no such file or directory; is it another state_dir") {
			t.Errorf("%s: %s", what, words)
		}
		if _, words = s.show(1, what, "ls", "--dir", s.path("nowhere")); words != "stat DIR/nowhere: no such file or directory; name another folder with --dir" {
			t.Errorf("%s: %s", what, words)
		}
		s.write("other/logs/x", "x")
		if _, words = s.show(1, what, "ls", "--dir", s.path("other")); words != `"DIR/other" is no `+what+` of an agent: it has none of its files; name another folder with --dir` {
			t.Errorf("%s: %s", what, words)
		}
		s.write("ofstate/"+what+"/x", "x")
		if _, words = s.show(1, what, "ls", "--dir", s.path("ofstate")); words != `"DIR/ofstate" is a state_dir: give its folder, --dir DIR/ofstate/`+what {
			t.Errorf("%s: %s", what, words)
		}
		s.must(os.MkdirAll(s.path("empty"), 0o755))
		if _, words = s.show(0, what, "ls", "--dir", s.path("empty")); !strings.HasPrefix(words, "0 ") {
			t.Errorf("%s: %s", what, words)
		}
		if _, words = s.show(1, what, "ls", "--dir", s.path("agent.yaml")); !strings.Contains(words, "is not a folder") {
			t.Errorf("%s: %s", what, words)
		}
		if _, words = s.show(78, what, "ls", "--config", s.path("bad.yaml")); !strings.Contains(words, "--dir") {
			t.Errorf("%s: %s", what, words)
		}
		if _, words = s.show(64, what); !strings.Contains(words, "say which: export, ") {
			t.Errorf("%s: %s", what, words)
		}
		if _, words = s.show(64, what, "list"); !strings.Contains(words, "unknown command") {
			t.Errorf("%s: %s", what, words)
		}
	}
	s.must(os.Mkdir(s.path("state"), 0o700))
	for what, want := range map[string]string{"spool": "0 payloads with 0 records, 0 B in DIR/state/spool", "quarantine": "0 records, 0 B in DIR/state/quarantine"} {
		for _, flag := range []string{"--json", "--json=false"} {
			out, words := s.show(0, what, "ls", "--config", s.path("agent.yaml"), flag)
			s.is(out, "")
			s.is(words, want)
		}
	}
	s.show(0, "spool", "export", "--dir", s.path("empty"), "--to", s.path("made/here"))
	if _, err := os.Stat(s.path("made")); err == nil {
		t.Error("a folder is made for nothing")
	}
}

// TestStoredShut: who may not read what the agent keeps is told who may.
func TestStoredShut(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.refusable()
	s.write("agent.yaml", open+oneJSON)
	for _, what := range []string{"spool", "quarantine", "journal"} {
		s.write("state/"+what+"/x", "")
		s.must(os.Chmod(s.path("state/"+what), 0))
	}
	for _, command := range []string{"audit", "spool ls", "quarantine ls", "quarantine export", "quarantine show 1:1", "preview T"} {
		_, words := s.show(1, append(strings.Fields(command), "--config", s.path("agent.yaml"))...)
		if !strings.HasSuffix(strings.TrimSpace(words), "permission denied; run it as root or as the agent's user") {
			t.Errorf("%s: %s", command, words)
		}
	}
}

func TestPrintRecord(t *testing.T) {
	t.Parallel()
	f := func(data, terminal, line string) {
		t.Helper()
		for _, quoted := range []bool{false, true} {
			var b strings.Builder
			out := console.Output{Writer: bufio.NewWriter(&b), Terminal: quoted}
			err := out.End(errors.Join(out.Record([]byte(data)), out.Line([]byte(data))))
			want := data + line
			if quoted {
				want = terminal + line
			}
			if b.String() != want || err != nil {
				t.Errorf("%q: got %q, want %q; %v", data, b.String(), want, err)
			}
		}
	}
	f("", "", "\n")
	f("one\r\ntwo", "one\ntwo\n", `one\u000d\u000atwo`+"\n")
	f(`{"a":"ü\u009b\u202e"}`, `{"a":"ü\u009b\u202e"}`+"\n", `{"a":"ü\u009b\u202e"}`+"\n")
	f("\"\u009b\u202e\U000e0001\"", `"\"\u009b\u202e\U000e0001\""`+"\n", `"\u009b\u202e\udb40\udc01"`+"\n")
}
