// Package systemd_test promises that the units are clean by systemd's own
// judgement, and that under a real systemd, installed as the manual says, it
// start, ship, reload, stop, restart and are shut in as their lines say.
package systemd_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const installed = "/usr/bin/kusto-agent"

// need skips the test where a tool of systemd is not installed.
func need(t *testing.T, tool string) {
	t.Helper()
	if _, err := exec.LookPath(tool); err != nil {
		t.Skipf("needs %s, which is not installed", tool)
	}
}

// build compiles the agent into a folder of the test.
func build(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "kusto-agent")
	if out, err := exec.Command("go", "build", "-o", binary, "kusto-agent/cmd/agent").CombinedOutput(); err != nil {
		t.Fatalf("build the agent: %v\n%s", err, out)
	}
	return binary
}

// units are the one of an agent alone on its machine, and the template of several.
var units = []string{"kusto-agent.service", "kusto-agent@.service"}

// unitFor writes a unit with the binary in place of the installed one, and
// returns its path.
func unitFor(t *testing.T, name, binary string) string {
	t.Helper()
	unit, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(unit), "ExecStart="+installed+" "); n != 1 {
		t.Fatalf("%d lines start %s", n, installed)
	}
	path := filepath.Join(t.TempDir(), strings.Replace(name, "@", "@name", 1))
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(unit), installed, binary)), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTheUnitsAreClean(t *testing.T) {
	need(t, "systemd-analyze")
	binary := build(t)
	for _, name := range units {
		unit := unitFor(t, name, binary)
		out, err := exec.Command("systemd-analyze", "verify", unit).CombinedOutput()
		if err != nil || len(out) != 0 {
			t.Errorf("verify %s: %v\n%s", name, err, out)
		}
		// Offline: judged by the file alone. The threshold is ten times the exposure.
		out, err = exec.Command("systemd-analyze", "security", "--offline=true", "--threshold=12", "--no-pager", unit).CombinedOutput()
		if err != nil {
			t.Errorf("%s is exposed by more than 1.2: %v\n%s", name, err, out)
		}
	}
}

// TestTheTemplateIsTheUnit but for what each instance has of its own.
func TestTheTemplateIsTheUnit(t *testing.T) {
	settings := func(name string) (all []string) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				all = append(all, line)
			}
		}
		return all
	}
	var want []string
	for _, line := range settings(units[0]) {
		switch line {
		case "Description=Ships log files to Azure Data Explorer":
			line += " (%i)"
		case "StateDirectory=kusto-agent":
			line += "@%i\nEnvironment=KUSTO_AGENT_LISTEN=127.0.0.1:0"
		case "LoadCredential=kusto-agent.client-secret":
			line += ":kusto-agent@%i.client-secret"
		}
		line = strings.ReplaceAll(line, "/etc/kusto-agent/agent.yaml", "/etc/kusto-agent/instances/%i.yaml")
		want = append(want, strings.Split(line, "\n")...)
	}
	if got := settings(units[1]); !slices.Equal(got, want) {
		t.Errorf("the template has\n%s\nand not\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestTheUserCanBeMade(t *testing.T) {
	need(t, "systemd-sysusers")
	conf, err := filepath.Abs("sysusers.d/kusto-agent.conf")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("systemd-sysusers", "--dry-run", "--root="+t.TempDir(), conf).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Creating user 'kusto-agent'") {
		t.Errorf("%v\n%s", err, out)
	}
}

// The command line of the unit is one the agent takes, and a configuration that
// cannot be used ends it with a status that systemd does not answer with
// another start.
func TestABadConfigurationIsNotStartedAgain(t *testing.T) {
	unit, err := os.ReadFile("kusto-agent.service")
	if err != nil {
		t.Fatal(err)
	}
	args := strings.Fields(setting(t, string(unit), "ExecStart"))[1:]
	at := slices.Index(args, "/etc/kusto-agent/agent.yaml")
	if at < 0 {
		t.Fatalf("arguments %q name no configuration", args)
	}
	args[at] = filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.WriteFile(args[at], []byte("cluster: nonsense\nwhat: is this\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(build(t), args...).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 78 {
		t.Fatalf("ended with %v, want status 78\n%s", err, out)
	}
	if ends := strings.Fields(setting(t, string(unit), "RestartPreventExitStatus")); !slices.Contains(ends, "78") || !slices.Contains(ends, "64") {
		t.Errorf("started again but for %q", ends)
	}
}

// setting is the value of a key the unit has once.
func setting(t *testing.T, unit, key string) string {
	t.Helper()
	_, rest, found := strings.Cut(unit, "\n"+key+"=")
	if !found {
		t.Fatalf("the unit has no %s", key)
	}
	value, _, _ := strings.Cut(rest, "\n")
	return value
}
