package config

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestSpoolDirApart: spool.dir is no folder that the agent uses for something else, however it is
// written.
func TestSpoolDirApart(t *testing.T) {
	const inputs = "inputs: [{paths: /a.csv, table: A}]\n"
	f := func(state, spool, want string) {
		t.Helper()
		text := top + "spool: {dir: " + spool + "}\n" + inputs
		if state != "" {
			text = "state_dir: " + state + "\n" + text
		}
		switch got := told(t, "agent.yaml", text, "STATE_DIRECTORY", "/env/state"); {
		case want == "" && got != "":
			t.Errorf("state_dir %s, spool.dir %s: refused with %s", state, spool, got)
		case want != "" && (!strings.HasPrefix(got, "spool.dir: "+want+";") || !strings.Contains(got, "or leave it out")):
			t.Errorf("state_dir %s, spool.dir %s: got %q, want %q", state, spool, got, want)
		}
	}
	const (
		same  = "this is state_dir itself"
		above = "state_dir is inside it"
		entry = "the agent keeps its "
	)
	f("sd", "sd", same)
	f("sd", "./x/../sd/", same)
	f("sd", "sd/journal", entry+"journal there")
	f("sd", "sd/journal/deeper", entry+"journal there")
	f("sd", "sd/quarantine", entry+"quarantine there")
	f("sd", "sd/agent.sock", entry+"agent.sock there")
	f("sd", "sd/LOCK", entry+"LOCK there")
	f("sd/deeper", "sd", above)
	f("/sd", "/", above)
	f("sd", Absolute("."), above)
	f("sd", filepath.Join(Absolute("sd"), "journal"), entry+"journal there")
	f("", "/env/state", same)
	f("", "/env/state/quarantine", entry+"quarantine there")
	f("sd", "sd/spool", "")
	f("sd", "sd/spool/journal", "")
	f("sd", "sd/other", "")
	f("sd", "sd/journals", "")
	f("sd", "sdx", "")
	f("sd/state", "sd/spool", "")
	f("/", "/spool", "")
	f("", "/env/spool", "")
	f("sd", `""`, "")
}

// TestSpoolDirPlace: a spool.dir that is refused is shown where it is written.
func TestSpoolDirPlace(t *testing.T) {
	_, err := Parse("agent.yaml", []byte("state_dir: sd\nspool: {dir: sd/journal}\n"+top+"inputs: [{paths: /a.csv, table: A}]\n"), environ(), Options{})
	if err == nil || !strings.HasPrefix(err.Error(), "agent.yaml:2:14: spool.dir: ") {
		t.Errorf("got %v", err)
	}
}
