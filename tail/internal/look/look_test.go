package look

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/finder"
	"kusto-agent/tail/internal/settings"
)

// At finds what a run would read, and why it would not read the rest, leaving all as it is.
func TestAt(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	var twice bytes.Buffer
	for range 2 {
		once := twice.Bytes()
		twice = bytes.Buffer{}
		z := gzip.NewWriter(&twice)
		if _, err := z.Write(once); err != nil || z.Close() != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"logs/a.json": "{}\n", "logs/b.json": "", "logs/d.json": twice.String(), "state/x.json": "{}", "own.json": "x",
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(at(name)), 0o755), os.WriteFile(at(name), []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Link(at("logs/a.json"), at("logs/again.json")), os.Symlink("nowhere", at("logs/c.json")), os.Symlink(at("state"), at("link"))); err != nil {
		t.Fatal(err)
	}
	input := func(name string, paths ...string) settings.Input {
		in := settings.Input{InputConfig: settings.DefaultInputConfig(), Route: record.Route{Table: "T"}}
		in.Name, in.Paths = name, paths
		return in
	}
	mine, err := os.Open(at("own.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	found, err := At([]settings.Input{
		input("one", at("logs/*.json")), input("two", at("logs/b.json"), at("own.json"), at("link/x.json")), input("three", at("none/*.json")),
	}, finder.NewOwn([]string{at("state")}, []*os.File{mine}))
	if err != nil || found.Folders == 0 {
		t.Fatal(found, err)
	}
	got := make(map[string]string)
	for _, s := range found.Files {
		why := "read"
		if s.Err != nil {
			why = s.Err.Error()
		}
		if rel, err := filepath.Rel(dir, s.Path); err == nil {
			got[s.Input+" "+rel] = why
		}
		if (s.Err == nil) != (s.Fix == "") {
			t.Errorf("%+v", s)
		}
	}
	for key, want := range map[string]string{
		"one logs/a.json": "read", "one logs/b.json": "read", "one logs/c.json": "statx " + at("logs/c.json") + ": no such file or directory",
		"one logs/d.json": "what it holds is compressed again with gzip, which the agent does not read",
		"two logs/b.json": "input one reads it for the same route", "two own.json": "it belongs to the agent itself", "two link/x.json": "it belongs to the agent itself",
		"three none/*.json": "no file matches its paths",
	} {
		if got[key] != want {
			t.Errorf("%s: %q, want %q", key, got[key], want)
		}
		delete(got, key)
	}
	if len(got) > 0 {
		t.Errorf("and %v", got)
	}
}

// An input that reads what rotation makes of the files of another one of its route is named once.
func TestOverlaps(t *testing.T) {
	route, other := record.Route{Table: "T"}, record.Route{Table: "U"}
	input := func(name string, to record.Route, never bool, paths ...string) settings.Input {
		in := settings.Input{InputConfig: settings.DefaultInputConfig(), Route: to}
		in.Name, in.Paths = name, paths
		if never {
			in.Compressed = "never"
		}
		return in
	}
	seen := []Seen{{Input: "app", Path: "/logs/a.log"}, {Input: "app", Path: "/logs/b.log"}, {Input: "app", Path: "/logs/c.log", Err: os.ErrPermission}}
	f := func(name string, by settings.Input, want ...Rotated) {
		t.Helper()
		var inputs []*settings.Compiled
		for _, i := range []settings.Input{input("app", route, false, "/logs/*.log"), by} {
			in, err := settings.Compile(i)
			if err != nil {
				t.Fatal(err)
			}
			inputs = append(inputs, in)
		}
		if got := overlaps(inputs, seen); !slices.Equal(got, want) {
			t.Errorf("%s: %v; want %v", name, got, want)
		}
	}
	f("rotated by number", input("old", route, false, "/logs/*.log.*"), Rotated{"app", "/logs/a.log", "old", "/logs/a.log.1"})
	f("compressed alone", input("old", route, false, "/logs/*.gz"), Rotated{"app", "/logs/a.log", "old", "/logs/a.log.1.gz"})
	f("compressed, and not read", input("old", route, true, "/logs/*.gz"))
	f("by date", input("old", route, false, "/logs/b.log-*"), Rotated{"app", "/logs/b.log", "old", "/logs/b.log-20270101"})
	f("another route", input("old", other, false, "/logs/*.log.*"))
	f("other files", input("old", route, false, "/logs/*.txt"))
	f("what the first input reads too", input("old", route, false, "/logs/a.log"))
	f("a file that cannot be read", input("old", route, false, "/logs/c.log.*"))
}
