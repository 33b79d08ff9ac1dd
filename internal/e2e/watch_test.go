package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"kusto-agent/emulator"
)

// Messages of the watcher, see tail.
const (
	noEvents      = "file events are not available, polling instead"
	fewWatches    = "some folders cannot be watched, polling those"
	lostEvents    = "file events were lost, checking all files and polling for a while"
	eventsAgain   = "file change notifications work again, files are no longer polled"
	filesTakeTurn = "open file limit of the process is below limits.open_files: only some files are open at a time, and the agent opens the others as their turn comes"
)

const threeFolders = `
inputs:
  - {name: app, paths: ["${DIR}/logs/*/*.json*"], table: App, mapping: m, format: JSON}
`

// runUnder starts the program by way of another that sets it limits and then
// becomes it.
func (s *site) runUnder(config string, before ...string) *process {
	s.t.Helper()
	s.before = before
	defer func() { s.before = nil }()
	return s.run(config)
}

// inNamespace has the kernel allow the agent only so many of something, in a user
// namespace of its own.
func inNamespace(what string, n int) []string {
	return []string{"unshare", "-Ur", "sh", "-c", fmt.Sprintf(`echo %d >/proc/sys/user/%s && exec "$0" "$@"`, n, what)}
}

// allow changes what the kernel allows a process in its namespace.
func (p *process) allow(what string, n int) {
	p.t.Helper()
	out, err := exec.Command("nsenter", "-t", strconv.Itoa(p.cmd.Process.Pid), "-U", "--preserve-credentials",
		"sh", "-c", fmt.Sprintf("echo %d >/proc/sys/user/%s", n, what)).CombinedOutput()
	if err != nil {
		p.t.Fatalf("allow %d %s: %v: %s", n, what, err, out)
	}
}

// TestWatchesExhausted: where the kernel gives no watches, or too few, files are
// polled; it is told once, seen in the metrics and the status, and over when the
// kernel gives them.
func TestWatchesExhausted(t *testing.T) {
	t.Parallel()
	if out, err := exec.Command("unshare", "-Ur", "sh", "-c", "echo 1 >/proc/sys/user/max_inotify_watches").CombinedOutput(); err != nil {
		t.Skipf("limits of a user namespace cannot be set: %v: %s", err, out)
	}
	if _, err := exec.LookPath("nsenter"); err != nil {
		t.Skip(err)
	}
	f := func(what string, n int, complaint string) {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, emulator.Options{})
			records := jsonRecords(0, 60)
			for i := range 3 {
				s.write(fmt.Sprintf("logs/%d/a.json", i), joined(records[10*i:10*i+10]))
			}
			p := s.runUnder(open+threeFolders, inNamespace(what, n)...)
			s.awaitRows("App", 30)
			p.await(1, complaint)
			for i := range 3 { // found without events: a file that grows, one that is renamed, a new one
				s.append(fmt.Sprintf("logs/%d/a.json", i), joined(records[30+10*i:30+10*i+5]))
				s.rename(fmt.Sprintf("logs/%d/a.json", i), fmt.Sprintf("logs/%d/a.json.1", i))
				s.write(fmt.Sprintf("logs/%d/a.json", i), joined(records[30+10*i+5:30+10*i+10]))
			}
			s.awaitRows("App", 60)
			if got := p.metric("watch_healthy"); got != 0 {
				t.Errorf("watch_healthy %v", got)
			}
			if st := p.status(); !strings.Contains(strings.Join(st.Problems, "\n"), complaint) || st.Watch.Fix == "" {
				t.Errorf("problems %q, watch %+v", st.Problems, st.Watch)
			}
			p.allow(what, 1000)
			p.await(1, eventsAgain)
			if st := p.status(); p.metric("watch_healthy") != 1 || st.Watch.Error != "" || len(st.Problems) != 0 {
				t.Errorf("watch %+v, problems %q", st.Watch, st.Problems)
			}
			more := jsonRecords(60, 10)
			s.append("logs/0/a.json", joined(more))
			s.awaitRows("App", 70)
			s.wantRows("App", append(records, more...))
			p.wantComplaints(complaint)
			p.stop()
		})
	}
	f("max_inotify_watches", 2, fewWatches)
	f("max_inotify_instances", 0, noEvents)
}

// TestEventsLost: while the agent stands still, more happens than the kernel keeps
// events of. What was written arrives once; it is told once, and over after a while.
func TestEventsLost(t *testing.T) {
	t.Parallel()
	const files, rounds, rotated = 300, 100, 10
	s := newSite(t, emulator.Options{})
	for i := range files {
		s.write(fmt.Sprintf("logs/%d.json", i), "")
	}
	p := s.run(open + `
inputs:
  - {name: app, paths: ["${DIR}/logs/*.json"], table: App, mapping: m}
`)
	p.await(1, "agent is running")
	records := jsonRecords(0, files*(rounds+1)+rotated)
	next := records
	line := func() string { first := next[0]; next = next[1:]; return first + "\n" }
	for i := range files {
		s.append(fmt.Sprintf("logs/%d.json", i), line())
	}
	s.awaitRows("App", files)
	p.signal(syscall.SIGSTOP)
	for range rounds { // by turns, or the kernel would make one event of many
		for i := range files {
			s.append(fmt.Sprintf("logs/%d.json", i), line())
		}
	}
	for i := range rotated {
		s.rename(fmt.Sprintf("logs/%d.json", i), fmt.Sprintf("logs/%d.old", i))
		s.write(fmt.Sprintf("logs/%d.json", i), line())
	}
	p.signal(syscall.SIGCONT)
	p.await(1, lostEvents)
	if got := p.metric("watch_healthy"); got != 0 && len(p.entries(eventsAgain)) == 0 {
		t.Errorf("watch_healthy %v", got)
	}
	s.awaitRows("App", len(records))
	p.await(1, eventsAgain)
	if got := p.metric("watch_healthy"); got != 1 {
		t.Errorf("watch_healthy %v", got)
	}
	s.wantRows("App", records)
	p.wantComplaints(lostEvents)
	p.stop()
}

// TestFewDescriptors: with far fewer descriptors than files each file is read in
// its turn, as often as it grows, also under another name, and none is taken for
// deleted.
func TestFewDescriptors(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("prlimit"); err != nil {
		t.Skip(err)
	}
	const files, rounds, most = 500, 4, 64
	m := watchModes(t)
	defer m.Wait()
	m.run("", func(t *testing.T, mode string) {
		s := newSite(t, emulator.Options{})
		records := jsonRecords(0, files*rounds)
		round := func(r, from int) {
			for i := from; i < files; i++ {
				s.append(fmt.Sprintf("logs/%d.json", i), records[r*files+i]+"\n")
			}
		}
		round(0, 0)
		p := s.runUnder(open+strings.ReplaceAll(`
inputs:
  - {name: app, paths: ["${DIR}/logs/*.json*"], table: App, mapping: m, format: JSON, watch: MODE}
`, "MODE", mode), "prlimit", fmt.Sprintf("--nofile=%d:%d", most, most))
		for r := 1; r < rounds; r++ {
			s.awaitRows("App", r*files)
			if r == 2 {
				for i := range 20 {
					s.rename(fmt.Sprintf("logs/%d.json", i), fmt.Sprintf("logs/%d.json.1", i))
				}
			}
			round(r, 0)
			if held, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid)); err != nil || len(held) > most {
				t.Errorf("%d descriptors are held, %v", len(held), err)
			}
		}
		s.awaitRows("App", len(records))
		if p.metric("files") != files+20 {
			t.Errorf("%v files are known", p.metric("files"))
		}
		s.wantRows("App", records)
		p.wantComplaints(filesTakeTurn)
		for _, gone := range []string{"file was moved away or deleted; the agent keeps it open and reads it to its end", "file was deleted or moved away after it was read to its end; all its records are safe"} {
			if found := p.entries(gone); len(found) > 0 {
				t.Errorf("taken for gone: %v", found)
			}
		}
		p.stop()
	})
}
