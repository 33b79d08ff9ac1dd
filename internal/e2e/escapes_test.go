package e2e

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"unicode"

	"kusto-agent/emulator"
	"kusto-agent/internal/telemetry"
)

// steers is one of each kind: C0, DEL, C1, marks of direction, what cannot be seen.
const steers = "a\x1b[2J\x7f\u009b31m\u061c\u200e\u200f\u202a\u202e\u2066\u2069\u200b\U000e0041z"

// TestNothingSteersATerminal: no output of the agent and of the commands that ask it
// holds what could, and JSON says the same to whoever parses it.
func TestNothingSteersATerminal(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	name := steers + ".json"
	s.write("logs/"+name, joined(jsonRecords(0, 5))+`no json: `+steers+"\n")
	if err := os.Symlink(steers, s.path("logs/link"+name)); err != nil {
		t.Fatal(err)
	}
	p := s.run(open + oneJSON)
	s.awaitRows("T", 5)
	p.await(1, "file has bad records, they go to quarantine; this is the first")
	p.await(1, "file cannot be read, will retry")
	clean := func(what, text string) {
		t.Helper()
		for _, r := range text {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Errorf("%s holds %U:\n%q", what, r, text)
				return
			}
		}
	}
	config := []string{"--config", s.path("agent.yaml")}
	address := []string{"--address", p.await(1, "telemetry endpoint is listening").text("address")}
	for _, command := range [][]string{
		append([]string{"files"}, config...), append([]string{"files", "--json", "--all"}, config...),
		append([]string{"status"}, address...), append([]string{"status", "--json"}, address...),
		append([]string{"quarantine", "ls"}, config...), append([]string{"quarantine", "ls", "--json"}, config...),
		append([]string{"spool", "ls"}, config...), append([]string{"check"}, config...), append([]string{"check", "--json"}, config...),
		{"files", "--config", s.path("logs/" + name)},
	} {
		q := s.launch(command...)
		q.code()
		clean(strings.Join(command[:2], " "), q.out.text()+q.log.text())
	}
	for _, path := range []string{"/", "/api/v1/status", "/metrics", "/readyz"} {
		_, text := p.mustGet(path)
		clean(path, strings.ReplaceAll(text, "\t", " "))
	}
	out, _ := s.show(0, append([]string{"files", "--json"}, config...)...)
	var list telemetry.FileList
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatal(err)
	}
	found := false
	for _, f := range list.Files {
		found = found || strings.HasSuffix(f.Path, "/"+name)
	}
	if !found {
		t.Errorf("the file is not in %+v", list.Files)
	}
	p.stop()
	clean("the log", p.log.text())
}
