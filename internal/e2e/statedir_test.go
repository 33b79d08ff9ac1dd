package e2e

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"slices"
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

// TestNewerState: an agent that finds a journal or a spool of a later version ends with the
// file, both versions and what to do, and leaves both folders as they are.
func TestNewerState(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	away := s.server.Fail(emulator.Fault{Status: 503})
	s.write("logs/a.json", "{\"a\":1}\n")
	config := open + hasty + oneJSON
	p := s.run(config)
	p.awaitBooks("T", func(a account) bool { return a.spooled == 1 })
	p.stop()
	away.Remove()
	for _, room := range []string{"spool", "journal"} {
		segments, err := filepath.Glob(s.path("state/" + room + "/*.seg"))
		s.must(err)
		path := segments[len(segments)-1]
		sound, err := os.ReadFile(path)
		s.must(err)
		later := slices.Clone(sound)
		later[8]++ // the major version
		binary.LittleEndian.PutUint32(later[60:], crc32.Checksum(later[:60], crc32.MakeTable(crc32.Castagnoli)))
		s.must(os.WriteFile(path, later, 0o600))
		before := s.contents("state/" + room)
		said := s.run(config, "--once").want(1).log.text()
		for _, want := range []string{"/" + filepath.Base(path), fmt.Sprintf("version 2.%d, and this program knows up to 1", later[10]), "run that version again, or move the folder away"} {
			if !strings.Contains(said, want) {
				t.Errorf("%s: does not say %q:\n%s", room, want, said)
			}
		}
		if !maps.Equal(s.contents("state/"+room), before) {
			t.Errorf("%s: a file was changed", room)
		}
		if _, words := s.show(1, "audit", "--state-dir", s.path("state")); !strings.Contains(words, "version 2.") {
			t.Errorf("%s: audit says %s", room, words)
		}
		s.must(os.WriteFile(path, sound, 0o600))
	}
	s.once(config, 0)
	s.wantRows("T", []string{`{"a":1}`})
}
