package e2e

import (
	"os"
	"strings"
	"testing"

	"kusto-agent/emulator"
)

// TestHolesAndRestarts: what a crash, a writer that does not append, and rotation
// while nobody looks leave behind. The agent is stopped, or killed, in between.
func TestHolesAndRestarts(t *testing.T) {
	t.Parallel()
	f := func(name, watch string, end func(*process)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testHoles(t, watch, end)
		})
	}
	f("auto, stopped", "auto", (*process).stop)
	f("poll, killed", "poll", (*process).kill)
}

func testHoles(t *testing.T, watch string, end func(*process)) {
	const hole = 200 << 30
	s := newSite(t, emulator.Options{})
	config := open + strings.Replace(oneText, "table", "watch: "+watch+", rotate_quiet: 50ms, table", 1)
	safe := func(p *process, name string, size int64) {
		t.Helper()
		s.until(name+" is safe", func() bool { return p.isSafe(s.path(name), size) })
	}
	s.write("logs/crash.log", "before\n"+strings.Repeat("\x00", 1<<20)+"after\n")
	s.write("logs/hole.log", "")
	if err := os.Truncate(s.path("logs/hole.log"), hole); err != nil {
		t.Fatal(err)
	}
	s.append("logs/hole.log", "behind\n")
	s.write("logs/rotated.log", "a line to know it by\npar")
	p := s.run(config)
	safe(p, "logs/crash.log", 1<<20+13)
	safe(p, "logs/hole.log", hole+7)
	s.awaitRows("Text", 4)
	if got := p.metric("tail_nul_bytes_total", `input="Text"`); got != hole+1<<20 {
		t.Errorf("%f NULs are counted", got)
	}
	end(p)
	p.wantComplaints(holey, holey)

	s.append("logs/rotated.log", "tial\n")
	s.rename("logs/rotated.log", "logs/rotated.log.1")
	s.write("logs/rotated.log", "in the middle\n")
	s.rename("logs/rotated.log.1", "logs/rotated.log.2")
	s.rename("logs/rotated.log", "logs/rotated.log.1")
	s.write("logs/rotated.log", "the last\n")
	s.append("logs/hole.log", "more\n")
	s.write("logs/crash.log", "anew\n")
	p = s.run(config)
	s.awaitRows("Text", 9)
	safe(p, "logs/hole.log", hole+12)
	end(p)
	p = s.run(config)
	safe(p, "logs/rotated.log", 9)
	p.stop()
	s.wantRows("Text", []string{"before", "after", "behind", "a line to know it by", "partial", "in the middle", "the last", "more", "anew"})
}

const holey = "file has NUL bytes between records, skipping them"
