package e2e

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"kusto-agent/emulator"
)

func (s *site) link(to, name string, owner int) {
	s.t.Helper()
	err := os.Symlink(to, s.path(name))
	if err == nil {
		err = os.Lchown(s.path(name), owner, owner)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// TestPlantedLinks: a link that another user made in a folder that all may write to
// leads nowhere, for a file and for a folder; one of root is followed. check says so.
func TestPlantedLinks(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can make links of others, and read what others may not")
	}
	s := newSite(t, emulator.Options{})
	s.write("secret/a.json", joined(jsonRecords(0, 10)))
	s.write("wanted/a.json", joined(jsonRecords(10, 10)))
	s.write("logs/a.json", joined(jsonRecords(20, 10)))
	if err := os.Chmod(s.path("logs"), 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	s.link("../secret/a.json", "logs/evil.json", nobody)
	s.link("../secret", "logs/evil", nobody)
	s.link("../wanted/a.json", "logs/good.json", 0)
	config := open + `inputs: [{paths: ["${DIR}/logs/*.json", "${DIR}/logs/*/*.json"], table: T, mapping: m}]`
	p := s.once(config, 1)
	s.wantRows("T", jsonRecords(10, 20))
	for _, name := range []string{"logs/evil.json", "logs/evil"} {
		e := p.await(1, "file cannot be read, will retry", s.path(name)+`"`)
		if !strings.Contains(e.text("err"), "belongs to nobody, is not followed") || !strings.Contains(e.text("fix"), "chmod go-w "+s.path("logs")) {
			t.Errorf("says %v", e)
		}
	}
	said := s.launch("check", "--config", s.path("agent.yaml"), "--json")
	said.code()
	if n := strings.Count(said.out.text(), `"files.link"`); n != 2 {
		t.Errorf("check finds %d links, want 2:\n%s", n, said.out.text())
	}
	if err := os.Chmod(s.path("logs"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.once(config, 0)
	s.wantRows("T", jsonRecords(0, 30))
}

// TestOnceEndsWithOneForWhatItCannotOpen: what may hold records and was not read.
func TestOnceEndsWithOneForWhatItCannotOpen(t *testing.T) {
	t.Parallel()
	f := func(name string, want int, make func(path string) error) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, emulator.Options{})
			s.write("logs/a.log", "one\n")
			if err := make(s.path("logs/b.log")); err != nil {
				t.Fatal(err)
			}
			s.once(open+oneText, want)
			s.wantRows("Text", []string{"one"})
		})
	}
	f("link to nothing", 1, func(path string) error { return os.Symlink("nowhere", path) })
	f("link to itself", 1, func(path string) error { return os.Symlink(path, path) })
	f("FIFO", 1, func(path string) error { return syscall.Mkfifo(path, 0o600) })
	f("folder", 0, func(path string) error { return os.Mkdir(path, 0o700) })
	f("device", 0, func(path string) error { return os.Symlink("/dev/null", path) })
}
