package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"kusto-agent/emulator"
	"kusto-agent/internal/check"
	"kusto-agent/internal/exit"
)

// TestStateDirThatOthersMayWriteTo is refused, and nothing in it is touched.
func TestStateDirThatOthersMayWriteTo(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	s.write("logs/a.log", "one\n")
	if err := os.Mkdir(s.path("state"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []os.FileMode{0o777, 0o777 | os.ModeSticky} {
		if err := os.Chmod(s.path("state"), mode); err != nil {
			t.Fatal(err)
		}
		p := s.once(open+oneText, exit.Config)
		if said := p.log.text(); !strings.Contains(said, "may be written by anyone") || !strings.Contains(said, "; chmod o-w "+s.path("state")+", or") {
			t.Errorf("says %q", said)
		}
		s.finds(s.checks(1), "state.shared", check.Error, "DIR/state: state_dir may be written by anyone", "chmod o-w DIR/state")
		if entries, err := os.ReadDir(s.path("state")); err != nil || len(entries) != 0 {
			t.Errorf("made %v, %v", entries, err)
		}
	}
	if err := os.Chmod(s.path("state"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.once(open+oneText, 0)
	s.wantRows("Text", []string{"one"})
}

// TestLockIsNoWayOut: what has the name of the file that says who has state_dir is not
// written where it is a link, in the folder or out of it, or no file.
func TestLockIsNoWayOut(t *testing.T) {
	t.Parallel()
	f := func(name string, make func(s *site) error) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, emulator.Options{})
			s.write("logs/a.log", "one\n")
			s.write("victim", "precious")
			s.write("state/inside", "precious")
			if err := make(s); err != nil {
				t.Fatal(err)
			}
			s.once(open+oneText, 0)
			if s.read("victim") != "precious" || s.read("state/inside") != "precious" {
				t.Errorf("they hold %q and %q", s.read("victim"), s.read("state/inside"))
			}
			s.wantRows("Text", []string{"one"})
		})
	}
	f("link out", func(s *site) error { return os.Symlink("../victim", s.path("state/LOCK")) })
	f("link inside", func(s *site) error { return os.Symlink("inside", s.path("state/LOCK")) })
	f("link to nothing", func(s *site) error { return os.Symlink("../none", s.path("state/LOCK")) })
	f("FIFO", func(s *site) error { return syscall.Mkfifo(s.path("state/LOCK"), 0o600) })
	f("long text", func(s *site) error { s.write("state/LOCK", fmt.Sprint(strings.Repeat("9", 100))); return nil })
}
