package secretfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestExposed(t *testing.T) {
	dir, err := os.MkdirTemp("", "secretfile") // the folder of t.TempDir is its user's alone
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for up := dir; up != filepath.Dir(up); up = filepath.Dir(up) {
		if st, err := os.Stat(up); err != nil || st.Mode().Perm()&1 == 0 {
			t.Skipf("not everyone may enter %s: %v", up, err)
		}
	}
	file := func(name string, mode os.FileMode) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil { // whatever the umask
			t.Fatal(err)
		}
		return path
	}
	link := func(to, name string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	f := func(path, want string, env ...string) {
		t.Helper()
		got := Exposed(path, func(name string) (string, bool) {
			if len(env) == 2 && env[0] == name {
				return env[1], true
			}
			return "", false
		})
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s %s: got %q, want %q", path, env, got, want)
		}
	}
	open := file("open", 0o644)
	f(open, "can read it (mode 0644)")
	f(file("written", 0o606), "can read and write it")
	f(file("only-written", 0o602), "can write it")
	f(file("group", 0o640), "")
	f(file("own", 0o600), "")
	f(dir, "") // no file
	f(filepath.Join(dir, "none"), "")

	shut := file("shut/open", 0o644)
	if err := os.Chmod(filepath.Dir(shut), 0o750); err != nil {
		t.Fatal(err)
	}
	f(shut, "")
	f(link(shut, "to-shut"), "")
	f(link(open, "shut/to-open"), "can read it")

	f(open, "", "CREDENTIALS_DIRECTORY", dir)
	f(open, "can read it", "CREDENTIALS_DIRECTORY", filepath.Join(dir, "shut"))
	f(open, "", "KUBERNETES_SERVICE_HOST", "10.0.0.1")
	file("mount/..2026_11_28_10_00_00.1/secret", 0o644)
	link("..2026_11_28_10_00_00.1", "mount/..data")
	f(link("..data/secret", "mount/secret"), "")
}
