package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A path that exists as it is written is that file; any other is a pattern.
func TestPathAsItIsWritten(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"app[1].log", "app1.log", "what?.log", "whatx.log", "[open.log", "{a,b}.log", "a.log"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f := func(written string, want ...string) {
		t.Helper()
		c := load(t, fmt.Sprintf("cluster: http://localhost\ndatabase: d\nauth: {method: none}\ninputs:\n  - {paths: ['%s'], table: t, format: TXT}\n",
			filepath.Join(dir, written)))
		var got []string
		for _, file := range matching(&c.Inputs[0]) {
			got = append(got, filepath.Base(file))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q; want %q", written, got, want)
		}
	}
	f("app[1].log", "app[1].log")
	f("app[0-9].log", "app1.log")
	f("what?.log", "what?.log")
	f("wha??.log", "what?.log", "whatx.log")
	f("[open.log", "[open.log")
	f("{a,b}.log", "{a,b}.log")
	f("{a,c}.log", "a.log")
	f(`app\[1\].log`, "app[1].log")
}
