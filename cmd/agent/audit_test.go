package main

import (
	"encoding/json"
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
		"look    ", "ok      ", "accepted      3 records, 24 B, in ", "quarantine    1 record lie there",
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
	if r := s.audited(0); problems(r) != "" || len(r.Files[0].InSpool) != 1 || !r.Running {
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
	if r := s.audited(1); problems(r) != "spool_lost" || r.Files[0].Troubles[0].Ranges[0] != (audit.Span{End: 16}) {
		t.Errorf("with an empty spool: %+v", r)
	}
	away.Remove()
	s.once(config, 0)
	s.wantRows("T", []string{`{"a":1}`, `{"a":2}`})
	if r := s.audited(0); problems(r) != "" || r.Files[0].Routes[0].Accepted.Records != 2 {
		t.Errorf("after it was read again: %+v", r.Files)
	}
}
