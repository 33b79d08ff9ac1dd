// Package imports holds no code: its test promises that rooms import only what
// CONTRIBUTING.md lets them.
package imports

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "kusto-agent/"

// common are what every room may know, beside the folders of internal that know no room.
var common = []string{"record", "format", "ledger"}

// upper are the folders of internal that know rooms, and that no room may know.
var upper = []string{
	"internal/agent", "internal/chart", "internal/console", "internal/demo", "internal/endpoint", "internal/initconfig",
	"internal/pipeline", "internal/queryshell", "internal/rows", "internal/schema", "internal/setup", "internal/simulation",
}

// rules are what each room may import beside common and its own folders.
var rules = map[string][]string{
	"record":     {},
	"ledger":     {},
	"format":     {},
	"tail":       {},
	"batcher":    {},
	"journal":    {},
	"spool":      {},
	"quarantine": {},
	"kusto":      {},
	"telemetry":  {},
	"recovery":   {},
	"emulator":   {},
	"sender":     {"kusto"},
	"config":     {"batcher", "journal", "kusto", "quarantine", "sender", "spool", "tail", "telemetry"},
	"check":      {"config", "internal/schema", "kusto", "quarantine", "tail"},

	"internal/async":    {},
	"internal/durable":  {},
	"internal/exit":     {},
	"internal/hangup":   {},
	"internal/logzip":   {},
	"internal/script":   {},
	"internal/statedir": {},
	"internal/systemd":  {},
	"internal/units":    {},
	"internal/version":  {},
	"internal/wire":     {},

	"internal/chart":    {"kusto", "telemetry"},
	"internal/console":  {"kusto", "telemetry", "internal/schema"},
	"internal/endpoint": {"config", "kusto"},
	"internal/pipeline": {"batcher", "config", "journal", "tail", "telemetry"},
	"internal/rows":     {"kusto", "telemetry"},
	"internal/schema":   {"kusto"},

	"internal/agent": {"batcher", "config", "journal", "kusto", "quarantine", "recovery", "sender", "spool", "tail", "telemetry",
		"internal/endpoint", "internal/pipeline"},
	"internal/demo":       {"config", "emulator", "telemetry", "internal/agent"},
	"internal/initconfig": {"check", "config", "kusto", "telemetry", "internal/console", "internal/schema"},
	"internal/queryshell": {"config", "kusto", "telemetry", "internal/chart", "internal/console", "internal/endpoint", "internal/rows"},
	"internal/setup":      {"check", "config", "kusto", "telemetry", "internal/console", "internal/endpoint", "internal/pipeline", "internal/schema"},

	"cmd/agent": {"check", "config", "emulator", "kusto", "quarantine", "recovery", "spool", "telemetry",
		"internal/agent", "internal/console", "internal/demo", "internal/endpoint", "internal/initconfig", "internal/pipeline",
		"internal/queryshell", "internal/rows", "internal/setup"},
}

// free are rooms that tests alone use: they may import anything.
var free = []string{"e2e", "internal/imports", "internal/simulation", "systemd"}

// alone are rooms that know none of the others, not even common: the lowest, and the one
// that judges the rest.
var alone = []string{
	"record", "emulator", "internal/async", "internal/durable", "internal/exit", "internal/hangup", "internal/logzip", "internal/script",
	"internal/units", "internal/version",
}

// never are rooms that must not come in by a detour either, by who must not have them.
var never = map[string][]string{
	"sender":   {"spool", "journal", "batcher", "tail", "recovery", "config"},
	"spool":    {"journal", "sender", "ledger"},
	"journal":  {"spool", "sender"},
	"tail":     {"batcher", "sender", "journal", "kusto"},
	"recovery": {"journal", "spool", "sender", "batcher", "tail", "kusto"},
	"config":   {"check", "emulator", "recovery", "cmd/agent"},

	"internal/agent": {"check", "emulator", "internal/console"},

	"kusto":    {"sender", "config"},
	"emulator": {"kusto", "record", "format"},
}

// pkg is what go list says of a package.
type pkg struct {
	ImportPath    string
	Imports, Deps []string
}

func list(t *testing.T) (all []pkg) {
	t.Helper()
	var said bytes.Buffer
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,Deps", "./...")
	cmd.Dir, cmd.Stderr = "../..", &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// in reports whether a package is one of rooms, or below one.
func in(path string, rooms ...string) bool {
	return slices.ContainsFunc(rooms, func(r string) bool { return path == r || strings.HasPrefix(path, r+"/") })
}

// within are the packages of this module, named by their folders.
func within(paths []string) (all []string) {
	for _, p := range paths {
		if p, ok := strings.CutPrefix(p, module); ok {
			all = append(all, p)
		}
	}
	return all
}

// may reports whether a room may import a package.
func may(room, path string) bool {
	switch {
	case in(path, room), in(path, rules[room]...):
		return true
	case slices.Contains(alone, room):
		return false
	case in(path, "internal"):
		return !in(path, upper...)
	}
	return in(path, common...)
}

func TestImports(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, p := range list(t) {
		path := strings.TrimPrefix(p.ImportPath, module)
		if !in(path, free...) && !in(path, slices.Collect(maps.Keys(rules))...) {
			t.Errorf("%s has no rule of what it may import", path)
		}
		for room := range rules {
			if !in(path, room) {
				continue
			}
			seen[room] = true
			for _, other := range within(p.Imports) {
				if !may(room, other) {
					t.Errorf("%s imports %s, which %s may not know", path, other, room)
				}
			}
		}
		for room, others := range never {
			for _, dep := range within(p.Deps) {
				if in(path, room) && in(dep, others...) {
					t.Errorf("%s has %s in it, by some way", path, dep)
				}
			}
		}
	}
	for room := range rules {
		if !seen[room] {
			t.Errorf("there is no room %s", room)
		}
	}
}

// TestRules: the rules refuse what they are there for.
func TestRules(t *testing.T) {
	t.Parallel()
	f := func(room, path string, want bool) {
		t.Helper()
		if may(room, path) != want {
			t.Errorf("%s may import %s: %v, want %v", room, path, !want, want)
		}
	}
	f("sender", "spool", false)
	f("sender", "kusto", true)
	f("sender", "sender/internal/delivery", true)
	f("check", "batcher", false)
	f("tail", "internal/schema", false)
	f("tail", "internal/units", true)
	f("spool", "ledger", true) // by this rule; never has it
	f("emulator", "record", false)
	f("emulator", "internal/units", false)
	f("kusto", "config", false)
	f("cmd/agent", "tail", false)
	f("cmd/agent", "batcher", false)
	f("cmd/agent", "internal/agent", true)
	f("internal/exit", "record", false)
	f("spool", "internal/agent", false)
}
