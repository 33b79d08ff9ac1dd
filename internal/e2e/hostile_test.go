package e2e

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"kusto-agent/emulator"
	"kusto-agent/internal/exit"
)

// hostileConfigs are files that are wrong, or made to cost, and what is told of
// each: where, and what.
func hostileConfigs() map[string]struct{ text, told string } {
	r := strings.Repeat
	bomb := "a: &a [x, x]\n"
	for c := 'b'; c < 'z'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(r(fmt.Sprintf("*%c, ", c-1), 9), ", "))
	}
	good := open + oneText
	return map[string]struct{ text, told string }{
		"tab":           {good + "batch:\n\tmax_size: 1MB\n", ":8:1: a tab; indent with spaces"},
		"doubled key":   {good + "app: a\napp: b\n", ":8:1: app: given twice; it is also on line 7"},
		"unknown key":   {good + "bacth: {}\n", ":7:1: bacth: unknown key; did you mean batch?"},
		"wrong type":    {good + "batch: [1]\n", ":7:1: batch: a list; want a section of keys, without the dash"},
		"wrong value":   {good + "shutdown_timeout: soon\n", ":7:19: shutdown_timeout: "},
		"empty":         {"", ":1:1: the file says nothing; want at least inputs"},
		"alias":         {good + "batch: *x\n", ":7:9: an alias; write its value out here"},
		"alias bomb":    {bomb, ":1:4: an anchor (&name), which is not taken"},
		"10 MB":         {good + r("# a comment\n", 900_000), ":1:1: larger than 1024 KiB; want a file that a person could read"},
		"deep brackets": {good + "batch: " + r("[", 10_000), ":7:1008: brackets are nested too deep"},
		"deep dashes":   {good + "batch:\n" + r("- ", 10_000), ":8:1: lists are nested too deep"},
		"NUL":           {good + "app: a\x00b\n", `:7:7: a control character, '\x00'; remove it`},
		"NUL, escaped":  {good + `app: "a\0b"` + "\n", ":7:6: app: a NUL character in the value; remove it"},
		"not UTF-8":     {good + "app: \xc3\x28\n", ":7:6: not UTF-8 text; want the file saved as UTF-8"},
		"UTF-16":        {"\xff\xfec\x00l\x00", ":1:1: not UTF-8 text"},
		"escape":        {good + "app: \x1b[31m\n", `:7:6: a control character, '\x1b'; remove it`},
		"table":         {strings.Replace(good, "table: Text", `table: "a%2f..\r\nX: 1"`, 1), ":6:48: inputs[0].table: '%' is not allowed in a name"},
		"app":           {good + `app: "a\r\nX-Evil: 1"` + "\n", ":7:6: app: not fit for a header"},
	}
}

// TestHostileConfigs: each ends the program with the place of the mistake and
// what is wrong there, before it touches anything; an agent that runs is told
// the same by SIGHUP, and goes on as it was.
func TestHostileConfigs(t *testing.T) {
	t.Parallel()
	runs := newSite(t, emulator.Options{})
	runs.write("logs/a.log", "")
	agent := runs.run(open + "batch: {max_wait: 10ms}\n" + oneText)
	agent.await(1, "agent is running")
	place := regexp.MustCompile(`^agent\.yaml:[0-9]+:[0-9]+: |^    |^and [0-9]+ more$`)
	rows := 0
	for name, h := range hostileConfigs() {
		s := newSite(t, emulator.Options{})
		s.write("logs/a.log", "one\n")
		p := s.once(h.text, exit.Config)
		said := strings.ReplaceAll(p.log.text(), s.dir+"/", "")
		if !strings.HasPrefix(said, "agent.yaml"+h.told) || len(said) > 64<<10 || strings.Trim(p.out.text(), "\n") != "" {
			t.Errorf("%s: says\n%.500s\nwant agent.yaml%s", name, said, h.told)
		}
		for line := range strings.Lines(strings.TrimRight(said, "\n")) {
			if !place.MatchString(strings.TrimSuffix(line, "\n")) {
				t.Errorf("%s: a line without its place: %q", name, line)
			}
		}
		if entries, err := os.ReadDir(s.dir); err != nil || len(entries) != 2 || s.server.Totals().Requests != 0 {
			t.Errorf("%s: touched %v, %v", name, entries, err)
		}

		rows++
		runs.write("agent.yaml", h.text)
		agent.signal(syscall.SIGHUP)
		e := agent.await(rows, "reload rejected: the configuration has errors, the current one stays in force")
		if !strings.Contains(e.text("err"), h.told) {
			t.Errorf("%s: SIGHUP says %.300q", name, e.text("err"))
		}
		runs.append("logs/a.log", "row "+name+"\n")
		runs.awaitRows("Text", rows)
	}
	agent.stop()
	if n := len(agent.complaints()); n != rows {
		t.Errorf("%d complaints of %d files", n, rows)
	}
}

// TestLegalNames: whatever the service allows in a name is escaped once on the
// way, and arrives as it was written.
func TestLegalNames(t *testing.T) {
	t.Parallel()
	f := func(name, escaped string) {
		t.Run(name[:min(len(name), 16)], func(t *testing.T) {
			t.Parallel()
			s := newSite(t, emulator.Options{})
			s.env = []string{"NAME=" + name}
			s.write("logs/a.json", joined(jsonRecords(0, 10)))
			p := s.once(strings.Replace(open, "Logs", `"${NAME}"`, 1)+`app: a%2f?#b
user: "user name"
inputs: [{paths: ["${DIR}/logs/*.json"], table: "${NAME}", mapping: "${NAME}"}]
`, 0)
			p.wantComplaints()
			wantRows(t, s.server, name, name, jsonRecords(0, 10))
			for _, r := range s.server.Requests() {
				if want := "/v1/rest/ingest/" + escaped + "/" + escaped; r.RawPath != want || r.Database != name || r.Table != name || r.Mapping != name {
					t.Errorf("path %q of %q, %q, %q; want %q", r.RawPath, r.Database, r.Table, r.Mapping, want)
				}
				if r.Header.Get("x-ms-app") != "a%2f?#b" || r.Header.Get("x-ms-user") != "user name" {
					t.Errorf("headers %v", r.Header)
				}
			}
		})
	}
	f("plain", "plain")
	f("a b.c-d_9", "a%20b.c-d_9")
	f("...", "...")
	f("Größe", "Gr%C3%B6%C3%9Fe")
	f("表", "%E8%A1%A8")
	f("שלום", "%D7%A9%D7%9C%D7%95%D7%9D") // letters written from the right; the marks alone are refused
	f(strings.Repeat("x", 1024), strings.Repeat("x", 1024))
}
