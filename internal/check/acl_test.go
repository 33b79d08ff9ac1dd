package check

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPackageOfSetfacl: commands with setfacl come with the name of its package where it is missing, in
// the words before the commands.
func TestPackageOfSetfacl(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	first := func(fix string) string {
		r := &run{}
		r.add(Finding{Fix: fix})
		line, commands, _ := strings.Cut(r.found[0].Fix, "\n")
		if _, want, _ := strings.Cut(fix, "\n"); commands != want {
			t.Errorf("%q: the commands are now %q", fix, commands)
		}
		return line
	}
	const fix, plain = "let it read\nchmod x y\nsetfacl -m u:a:r /x", "let it read\nchmod x y"
	if got := first(fix); !strings.HasPrefix(got, "let it read") || !strings.Contains(got, "package acl") {
		t.Errorf("told: %q", got)
	}
	if got := first(plain); got != "let it read" {
		t.Errorf("told: %q", got)
	}
	if err := os.WriteFile(filepath.Join(bin, "setfacl"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if got := first(fix); got != "let it read" {
		t.Errorf("told where there is one: %q", got)
	}
}
