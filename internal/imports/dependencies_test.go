package imports

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// powers are what a package can do by what it imports, in the words of
// docs/dependencies.md.
var powers = map[string]string{
	"net": "network", "net/http": "network", "crypto/tls": "network",
	"os": "files", "io/ioutil": "files", "os/exec": "exec",
	"syscall": "system calls", "golang.org/x/sys/unix": "system calls", "unsafe": "unsafe",
}

// reviewed are the rows of the table: by module, what it may do.
func reviewed(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		name := strings.TrimSpace(cells[0])
		if len(cells) < 2 || name == "module" || strings.HasPrefix(name, "-") {
			continue
		}
		if len(cells) != 5 {
			t.Errorf("%s has %d cells, want 5", name, len(cells))
			continue
		}
		for _, c := range cells {
			if strings.TrimSpace(c) == "" {
				t.Errorf("%s has an empty cell", name)
			}
		}
		if _, twice := rows[name]; twice {
			t.Errorf("%s is there twice", name)
		}
		rows[name] = strings.TrimSpace(cells[4])
	}
	return rows
}

// required are the direct requirements of go.mod.
func required(t *testing.T) (names []string) {
	t.Helper()
	cmd := exec.Command("go", "mod", "edit", "-json")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatal(err)
	}
	for _, r := range mod.Require {
		if !r.Indirect {
			names = append(names, r.Path)
		}
	}
	return names
}

// linked says of each module in the agent what its packages there can do.
func linked(t *testing.T) map[string]map[string]bool {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-json=Imports,Module", "./cmd/agent")
	cmd.Dir, cmd.Env = "../..", append(os.Environ(), "GOOS=linux", "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	can := make(map[string]map[string]bool)
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			Imports []string
			Module  *struct{ Path string }
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return can
		} else if err != nil {
			t.Fatal(err)
		}
		if p.Module == nil {
			continue
		}
		if can[p.Module.Path] == nil {
			can[p.Module.Path] = make(map[string]bool)
		}
		for _, imported := range p.Imports {
			if power := powers[imported]; power != "" {
				can[p.Module.Path][power] = true
			}
		}
	}
}

// TestDependenciesAreReviewed: docs/dependencies.md has a row for each direct requirement
// and no other, and says of each what it may do in the agent.
func TestDependenciesAreReviewed(t *testing.T) {
	rows, modules := reviewed(t), required(t)
	for name := range rows {
		if !slices.Contains(modules, name) {
			t.Errorf("%s is in docs/dependencies.md and no direct requirement of go.mod", name)
		}
	}
	can := linked(t)
	for _, name := range modules {
		want := "tests only"
		if powers, in := can[name]; in {
			if want = strings.Join(slices.Sorted(maps.Keys(powers)), ", "); want == "" {
				want = "nothing"
			}
		}
		if got, is := rows[name]; !is {
			t.Errorf("%s is required by go.mod and has no row in docs/dependencies.md", name)
		} else if got != want {
			t.Errorf("docs/dependencies.md says that %s may do %q; in the agent it is %q", name, got, want)
		}
	}
}
