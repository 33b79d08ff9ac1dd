package commands

import "testing"

// TestFooter: the version fits beside the date at the foot of a page, also the long one of packages that were
// made without a version; groff writes one over the other otherwise.
func TestFooter(t *testing.T) {
	f := func(version, want string) {
		t.Helper()
		got := footer(version)
		if got != want {
			t.Errorf("%q: %q, want %q", version, got, want)
		}
		if len(got) > maxFooter {
			t.Errorf("%q is %d bytes long", got, len(got))
		}
	}
	f("1.4.0", "kusto-agent 1.4.0")
	f("devel-57e1c085f3cd", "kusto-agent devel-57e1c085f3cd")
	f("0.0.0+git20261127220406.57e1c085f3cd", "kusto-agent 57e1c085f3cd")
}
