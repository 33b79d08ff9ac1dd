package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// hostile are files made to cost, and what each is told.
func hostile() map[string]struct{ text, told string } {
	r := strings.Repeat
	bomb := "a: &a [x, x]\n"
	for c := 'b'; c < 'z'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(r(fmt.Sprintf("*%c, ", c-1), 9), ", "))
	}
	return map[string]struct{ text, told string }{
		"brackets":       {r("[", 10_000), "nested too deep"},
		"some brackets":  {"a: " + r("[", 200) + r("]", 200), "nested too deep"},
		"braces":         {r("{a: ", 10_000), "nested too deep"},
		"dashes":         {r("- ", 10_000), "nested too deep"},
		"some dashes":    {r("- ", 500), "nested too deep"},
		"question marks": {"a: b\n" + r("? ", 10_000), "nested too deep"},
		"stairs":         {stairs(1000), "nested too deep"},
		"alias bomb":     {bomb, "an anchor"},
		"aliases":        {"a: &a b\nc: [" + r("*a,", 30_000) + "]", "an anchor"},
		"merge bomb":     {"a: &a {b: c}\nd: {" + r("<<: *a, ", 10_000) + "}", "an anchor"},
		"commas":         {"a: [" + r("1,", 400_000) + "]", "too many values"},
		"lines":          {r("\n", 1_000_000), "too many values"},
		"keys":           {r("a: b\n", 200_000), "too many values"},
		"unknown keys":   {manyKeys(9_000), "unknown key"},
		"long key":       {r("a", 1000) + ": b", "unknown key"},
		"long word":      {"cluster: " + r("a ", 500_000), "longer than 16 KiB"},
		"quotes":         {"a: \"" + r("b ", 500_000), "not closed"},
		"10 MB":          {r("# a comment\n", 900_000), "larger than 1024 KiB"},
		"100 MB":         {r("a", 100<<20), "larger than 1024 KiB"},
		"tabs":           {r("\t", 900_000) + "a: b", "a tab"},
		"doubled keys":   {r("app: b\n", 40_000), "given twice"},
		"wrong types":    {"inputs: [" + r("7,", 40_000) + "]", "want a section of keys"},
		"invalid UTF-8":  {r("a: b\n", 1000) + "\xc3\x28", "not UTF-8"},
		"NUL":            {r("a: b\n", 1000) + "\x00", "a control character"},
		"nothing":        {"", "says nothing"},
		"blank":          {r(" ", 900_000), "says nothing"},
		"binary":         {r("\x00\xff", 1000), "control character"},
		"variables":      {"cluster: '" + r("${A:-b}", 100_000) + "'", "too many values"},
	}
}

func stairs(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%*sa:\n", i, "")
	}
	return b.String()
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "clustr%d: x\n", i)
	}
	return b.String()
}

// Hostile files end in an error that says why, before they cost much memory.
func TestHostileFiles(t *testing.T) {
	for name, h := range hostile() {
		t.Run(name, func(t *testing.T) {
			text := []byte(h.text)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Parse("agent.yaml", text, environ(), Options{})
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), h.told) {
				t.Fatalf("got %.300v; want %q", err, h.told)
			}
			if spent := after.TotalAlloc - before.TotalAlloc; spent > 50<<20 && !underRace { // the detector has pools forget what they hold
				t.Errorf("%d MB allocated; want less than 50", spent>>20)
			}
			for _, p := range err.(*Errors).Problems {
				if p.Line < 1 || p.Col < 1 {
					t.Errorf("no place: %+v", p)
				}
			}
			if len(err.Error()) > 64<<10 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

func TestLoadRefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large.yaml")
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, 100<<20); err != nil {
		t.Fatal(err)
	}
	f := func(path, want string) {
		t.Helper()
		_, err := Load(path, environ(), Options{})
		var all *Errors
		if !errors.As(err, &all) || err.Error() != path+want {
			t.Errorf("got %v; want %s", err, want)
		}
	}
	f(large, ":1:1: larger than 1024 KiB; want a file that a person could read, or several by include")
	f(dir, ": read file: is a directory; want a file")
	f(filepath.Join(dir, "none.yaml"), ": open file: no such file or directory; write one there, or name another with --config")
}

func BenchmarkHostileFiles(b *testing.B) {
	for name, h := range hostile() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = Parse("agent.yaml", []byte(h.text), environ(), Options{})
			}
		})
	}
}
