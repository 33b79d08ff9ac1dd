package preview

import (
	"bufio"
	"bytes"
	"testing"

	"kusto-agent/internal/console"
	"kusto-agent/internal/pipeline"
)

// TestColours: on a terminal, a record that is left out does not look like one that is refused or
// changed.
func TestColours(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	f := func(name string, one pipeline.Tried, want string) {
		t.Helper()
		var out bytes.Buffer
		b := &beforeAfter{Preview: &Preview{Out: console.Output{Writer: bufio.NewWriter(&out), Terminal: true}}}
		one.Before = []byte("a")
		b.show(&one)
		if err := b.Out.Flush(); err != nil {
			t.Fatal(err)
		}
		_, got, _ := bytes.Cut(out.Bytes(), []byte("\n"))
		if string(got) != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	const red, green, yellow, end = "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[0m\n"
	sent := [][]byte{[]byte("b")}
	f("sent as it is", pipeline.Tried{After: [][]byte{[]byte("a")}}, "  = a\n")
	f("changed", pipeline.Tried{After: sent}, red+"  - a"+end+green+"  + b"+end)
	f("left out", pipeline.Tried{LeftOut: []string{"drop_1"}}, yellow+"  - a"+end)
	f("in part left out", pipeline.Tried{After: sent, LeftOut: []string{"drop_1"}}, red+"  - a"+end+green+"  + b"+end)
	f("refused", pipeline.Tried{Reason: "malformed", Message: "no JSON"}, red+"  - a"+end)
	f("in part refused", pipeline.Tried{After: sent, Reason: "malformed", Message: "no JSON"}, red+"  - a"+end+green+"  + b"+end)
}
