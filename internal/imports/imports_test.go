// Package imports holds no code: its test promises that rooms import only what
// CONTRIBUTING.md lets them.
package imports

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "kusto-agent/"

// common are what every room may know, beside the folders of internal that know no room.
var common = []string{"internal/record", "internal/format", "internal/ledger"}

// upper are the folders of internal that know rooms, and that a room may know only if its
// rule names them.
var upper = []string{
	"internal/check", "internal/config", "internal/journal", "internal/kusto", "internal/quarantine", "internal/recovery", "internal/telemetry",
	"internal/agent", "internal/audit", "internal/chart", "internal/console", "internal/demo", "internal/endpoint", "internal/initconfig",
	"internal/pipeline", "internal/queryshell", "internal/repair", "internal/rows", "internal/schema", "internal/setup", "internal/preview", "internal/simulation", "internal/top", "internal/custody", "internal/stored",
}

// rules are what each room may import beside common and its own folders. A folder with a
// rule is a room of its own, also below another room.
var rules = map[string][]string{
	"internal/record":     {},
	"internal/ledger":     {},
	"internal/format":     {},
	"tail":                {},
	"batcher":             {},
	"internal/journal":    {},
	"spool":               {},
	"internal/quarantine": {},
	"internal/telemetry":  {},
	"internal/recovery":   {},

	"emulator/internal/kql":  {},
	"emulator/internal/mgmt": {"emulator/internal/kql"},

	"internal/kusto":            {"internal/kusto/internal"},
	"internal/kusto/internal":   {"internal/kusto"},
	"internal/kusto/wire":       {"internal/kusto", "internal/kusto/internal"},
	"internal/kusto/credential": {"internal/kusto", "internal/kusto/internal", "internal/kusto/wire"},
	"internal/kusto/query":      {"internal/kusto", "internal/kusto/internal", "internal/kusto/wire"},

	"emulator":        {"emulator/internal/kql", "emulator/internal/mgmt"},
	"sender":          {"internal/kusto"},
	"internal/config": {"batcher", "internal/journal", "internal/kusto", "internal/kusto/credential", "internal/kusto/wire", "internal/quarantine", "sender", "spool", "tail", "internal/telemetry"},
	"internal/check":  {"internal/config", "internal/console", "internal/endpoint", "internal/pipeline", "internal/telemetry", "internal/schema", "internal/kusto", "internal/kusto/wire", "internal/quarantine", "tail"},

	"internal/async":      {},
	"internal/compressed": {},
	"internal/footprint":  {},
	"internal/diskwriter": {},
	"internal/durable":    {},
	"internal/exit":       {},
	"internal/hangup":     {},
	"internal/jsontext":   {},
	"internal/logzip":     {},
	"internal/index":      {},
	"internal/nest":       {},
	"internal/rules":      {},
	"internal/script":     {},
	"internal/secretfile": {},
	"internal/statedir":   {},
	"internal/systemd":    {},
	"internal/units":      {},
	"internal/version":    {},
	"internal/wire":       {},

	"internal/chart":    {"internal/kusto/query", "internal/telemetry"},
	"internal/audit":    {"internal/journal", "internal/kusto", "internal/kusto/query", "internal/quarantine", "spool", "internal/telemetry"},
	"internal/console":  {"internal/kusto", "internal/telemetry", "internal/schema"},
	"internal/endpoint": {"internal/config", "internal/kusto", "internal/kusto/credential", "internal/kusto/query", "internal/kusto/wire"},
	"internal/custody":  {"internal/kusto", "internal/quarantine", "internal/telemetry"},
	"internal/stored":   {"internal/config", "internal/console", "internal/custody", "internal/journal", "internal/quarantine", "internal/recovery", "spool", "internal/telemetry"},
	"internal/pipeline": {"batcher", "internal/config", "internal/journal", "tail", "internal/telemetry"},
	"internal/preview":  {"internal/config", "internal/kusto", "internal/recovery", "internal/telemetry", "internal/console", "internal/endpoint", "internal/pipeline"},
	"internal/repair":   {"batcher", "internal/config", "internal/journal", "internal/kusto", "internal/kusto/query", "internal/telemetry", "internal/audit", "internal/console", "internal/endpoint", "internal/pipeline"},
	"internal/rows":     {"internal/kusto/query", "internal/telemetry"},
	"internal/schema":   {"internal/kusto", "internal/kusto/query"},

	"internal/agent": {"batcher", "internal/config", "internal/journal", "internal/kusto", "internal/kusto/credential", "internal/quarantine", "internal/recovery", "sender", "spool", "tail", "internal/telemetry",
		"internal/custody", "internal/endpoint", "internal/pipeline"},
	"internal/demo":       {"internal/config", "emulator", "internal/telemetry", "internal/agent", "internal/audit", "internal/quarantine"},
	"internal/initconfig": {"internal/check", "internal/config", "internal/kusto", "internal/kusto/credential", "internal/kusto/wire", "internal/telemetry", "internal/console", "internal/schema"},
	"internal/queryshell": {"internal/config", "internal/kusto", "internal/kusto/credential", "internal/kusto/query", "internal/kusto/wire", "internal/telemetry", "internal/chart", "internal/console", "internal/endpoint", "internal/rows"},
	"internal/setup":      {"internal/check", "internal/config", "internal/kusto", "internal/kusto/query", "internal/telemetry", "internal/console", "internal/endpoint", "internal/pipeline", "internal/schema"},
	"internal/top":        {"internal/telemetry"},

	"internal/guards": {},

	"cmd/agent": {"internal/check", "internal/config", "emulator", "internal/kusto", "internal/kusto/query", "internal/quarantine", "internal/recovery", "spool", "internal/telemetry",
		"internal/agent", "internal/audit", "internal/console", "internal/demo", "internal/endpoint", "internal/initconfig", "internal/pipeline",
		"internal/preview", "internal/queryshell", "internal/repair", "internal/rows", "internal/setup", "internal/top", "internal/custody", "internal/stored"},
}

// free are rooms that tests alone use: they may import anything.
var free = []string{"internal/e2e", "internal/imports", "internal/simulation", "systemd"}

// alone are rooms that know none of the others, not even common: the lowest, and the one
// that judges the rest.
var alone = []string{
	"internal/record", "emulator", "emulator/internal/kql", "emulator/internal/mgmt", "internal/async", "internal/durable", "internal/exit", "internal/footprint", "internal/hangup", "internal/jsontext", "internal/logzip", "internal/script", "internal/secretfile",
	"internal/units", "internal/version",
}

// never are rooms that must not come in by a detour either, by who must not have them.
var never = map[string][]string{
	"sender":            {"internal/kusto/wire", "internal/kusto/credential", "internal/kusto/query", "spool", "internal/journal", "batcher", "tail", "internal/recovery", "internal/config"},
	"spool":             {"internal/journal", "sender", "internal/ledger"},
	"internal/journal":  {"spool", "sender"},
	"tail":              {"batcher", "sender", "internal/journal", "internal/kusto"},
	"internal/recovery": {"internal/journal", "spool", "sender", "batcher", "tail", "internal/kusto"},
	"internal/config":   {"internal/check", "emulator", "internal/recovery", "cmd/agent"},

	"internal/agent": {"internal/check", "emulator", "internal/console", "internal/top"},

	"internal/kusto":            {"sender", "internal/config"},
	"internal/kusto/wire":       {"internal/kusto/credential", "internal/kusto/query"},
	"internal/kusto/credential": {"internal/kusto/query"},
	"internal/kusto/query":      {"internal/kusto/credential"},
	"emulator":                  {"internal/kusto", "internal/record", "internal/format"},
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

// roomOf is the room that a package belongs to; empty: none.
func roomOf(path string) (room string) {
	for r := range rules {
		if in(path, r) && len(r) > len(room) {
			room = r
		}
	}
	return room
}

// may reports whether a room may import a package.
func may(room, path string) bool {
	switch other := roomOf(path); {
	case other == room, slices.Contains(rules[room], other):
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
		room := roomOf(path)
		if room == "" && !in(path, free...) {
			t.Errorf("%s has no rule of what it may import", path)
		}
		if seen[room] = true; room != "" {
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
	f("sender", "internal/kusto", true)
	f("sender", "sender/internal/delivery", true)
	f("internal/check", "batcher", false)
	f("tail", "internal/schema", false)
	f("tail", "internal/units", true)
	f("spool", "internal/ledger", true) // by this rule; never has it
	f("emulator", "internal/record", false)
	f("emulator", "internal/units", false)
	f("emulator/internal/kql", "emulator/internal/mgmt", false)
	f("emulator/internal/mgmt", "emulator", false)
	f("internal/kusto", "internal/config", false)
	f("cmd/agent", "tail", false)
	f("cmd/agent", "batcher", false)
	f("cmd/agent", "internal/agent", true)
	f("internal/exit", "internal/record", false)
	f("sender", "internal/kusto/wire", false)
	f("internal/rows", "internal/kusto/credential", false)
	f("internal/kusto/wire", "internal/kusto/credential", false)
	f("internal/kusto/query", "internal/kusto/internal/reply", true)
	f("spool", "internal/agent", false)
}
