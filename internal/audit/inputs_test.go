package audit

import (
	"fmt"
	"testing"
)

// TestKnown: an input that neither has files nor is configured is no proof of anything.
func TestKnown(t *testing.T) {
	t.Parallel()
	r := &Report{Files: []File{{Input: "gone"}, {Input: "gone"}, {Input: "app"}}}
	f := func(want string, configured []string, asked ...string) {
		t.Helper()
		if got := fmt.Sprint(r.Known(asked, configured)); got != want {
			t.Errorf("%q: %s, want %s", asked, got, want)
		}
	}
	f("<nil>", []string{"app"})
	f("<nil>", []string{"app", "new"}, "app", "new", "gone")
	f("<nil>", nil, "app", "gone")
	f(`--input "nope": nothing is known of it: no file was judged for it, and the configuration has no such input; it has app, new`, []string{"app", "new"}, "app", "nope")
	f(`--input "nope", "new": nothing is known of it: no file was judged for it`, nil, "nope", "new")
}
