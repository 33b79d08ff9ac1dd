package setup

import (
	"bufio"
	"bytes"
	"errors"
	"strings"
	"testing"

	"kusto-agent/internal/console"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/schema"
)

// TestSetupAsks: only yes is yes, and nobody is asked about what is new.
func TestSetupAsks(t *testing.T) {
	t.Parallel()
	f := func(answer string, person bool, code int, changes ...string) {
		t.Helper()
		var asked bytes.Buffer
		s := &Setup{plans: []*inputPlan{{Plan: &schema.Plan{Steps: []schema.Step{{Text: "x", Changes: changes}}}}}}
		s.Ask = console.Asker{In: bufio.NewReader(strings.NewReader(answer)), Out: &asked, On: person}
		got := 0
		var ended *exit.Error
		if errors.As(s.agreed(), &ended) {
			got = ended.Code
		}
		if got != code || (asked.Len() > 0) != (person && changes != nil) {
			t.Errorf("%q ends with %d, want %d, and asks %q", answer, got, code, asked.String())
		}
	}
	f("y\n", true, 0, "a change")
	f("Yes\n", true, 0, "a change")
	f("\n", true, exit.Failed, "a change")
	f("", true, exit.Failed, "a change")
	f("y\n", false, exit.Usage, "a change")
	f("", true, 0)
	f("", false, 0)
}
