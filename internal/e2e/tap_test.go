package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"kusto-agent/emulator"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/telemetry"
)

// plainRecords are records that may be printed.
func plainRecords(first, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(`{"seq":%d,"fill":"%s"}`, first+i, strings.Repeat("<é>", (first+i)%29))
	}
	return all
}

// tap runs the command, and waits until it is on.
func (s *site) tap(args ...string) *process {
	s.t.Helper()
	p := s.launch(append([]string{"tap", "--state-dir", s.path("state")}, args...)...)
	ctx, cancel := s.waiting()
	defer cancel()
	for {
		_, more := p.log.seen()
		if strings.Contains(p.log.text(), "Ctrl-C ends it") {
			return p
		}
		select {
		case <-more:
		case <-p.ended:
			s.t.Fatalf("the tap has ended: %s", p.log.text())
		case <-ctx.Done():
			s.t.Fatal("the tap is not on")
		}
	}
}

// awaitLines waits until it has printed so many lines.
func (p *process) awaitLines(n int) []string {
	p.t.Helper()
	ctx, cancel := p.site.waiting()
	defer cancel()
	for {
		all, more := p.out.seen()
		if len(all) >= n {
			return slices.Clone(all)
		}
		select {
		case <-more:
		case <-p.ended:
			if all, _ = p.out.seen(); len(all) < n {
				p.t.Fatalf("it has ended after %d lines: %s", len(all), p.log.text())
			}
		case <-ctx.Done():
			p.t.Fatalf("%d lines, want %d", len(all), n)
		}
	}
}

// TestTapUnderLoad: a tap that is read shows every record as it is stored, with
// its place in its file; Ctrl-C ends it, and the agent goes on.
func TestTapUnderLoad(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	p := s.run(open + "batch: {max_size: 256KiB, max_wait: 20ms}\n" + `inputs:
  - {paths: ["${DIR}/logs/*.json*"], format: JSON, table: T, mapping: m}
  - {paths: ["${DIR}/logs/*.txt"], table: Text}
`)
	p.await(1, "agent is running")
	whole, raw := s.tap("--json", "T"), s.tap("T", "Text")
	const n, step = 20_000, 500
	records := plainRecords(0, n)
	place := make(map[string]string) // of each record
	size := map[string]int{}
	for i := 0; i < n; i += step {
		name := fmt.Sprintf("logs/%d.json", i/step%4)
		if i == n/2 {
			s.rename("logs/0.json", "logs/0.json.1")
			delete(size, "logs/0.json")
		}
		for _, r := range records[i : i+step] {
			place[r] = fmt.Sprint(s.path(name), " ", size[name])
			size[name] += len(r) + 1
		}
		s.append(name, joined(records[i:i+step]))
		if i%(10*step) == 0 {
			s.awaitRows("T", i+step)
		}
	}
	s.write("logs/a.txt", "one line of text\n")
	s.awaitRows("T", n)
	s.awaitRows("Text", 1)

	var got []string
	files := make(map[string]string)
	for _, line := range whole.awaitLines(n) {
		var r struct {
			Input, File, Path, Data string
			Offset, Length          int64
		}
		s.must(json.Unmarshal([]byte(line), &r))
		path := strings.TrimSuffix(r.Path, ".1") // what was rotated before it was read has its new name
		if want := place[r.Data]; fmt.Sprint(path, " ", r.Offset) != want || r.Length != int64(len(r.Data))+1 || r.Input != "T" || len(r.File) != 16 {
			t.Fatalf("shown is %+v, want it at %s", r, want)
		}
		files[r.File] = r.Path
		got = append(got, r.Data)
	}
	slices.Sort(got)
	slices.Sort(records)
	if !slices.Equal(got, records) {
		t.Errorf("%d records are shown, of %d", len(got), n)
	}
	if len(files) != 5 {
		t.Errorf("they are of the files %v", files)
	}
	got = raw.awaitLines(n + 1)
	slices.Sort(got)
	if want := append(slices.Clone(records), "one line of text"); !slices.Equal(got, sorted(want)) {
		t.Errorf("%d records are shown as they are", len(got))
	}
	for _, q := range []*process{whole, raw} {
		q.signal(os.Interrupt)
		q.want(0)
	}
	if words := whole.log.text(); !strings.Contains(words, "20000 records shown\n") || strings.Contains(words, "not shown") {
		t.Errorf("it says %q", words)
	}
	s.append("logs/1.json", "{\"seq\":-1}\n")
	s.awaitRows("T", n+1)
	p.stop()
	s.wantRows("T", append(records, `{"seq":-1}`))
}

func sorted(all []string) []string {
	slices.Sort(all)
	return all
}

// TestTapThatIsNotRead: it holds up nothing, neither delivery nor the stop.
func TestTapThatIsNotRead(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	p := s.run(open + oneText)
	p.await(1, "agent is running")
	r, err := telemetry.OpenTap(t.Context(), s.path("state"), []string{"Text"})
	s.must(err)
	defer r.Close()
	line := strings.Repeat("0123456789", 100)
	const n = 40_000 // 40 MB
	s.write("logs/a.log", strings.Repeat(line+"\n", n))
	s.awaitRows("Text", n)
	p.awaitBooks("Text", func(a account) bool { return a.accepted == n })
	p.stop()
	shown, dropped, ended := 0, uint64(0), false
	for {
		l, _, err := r.Next()
		if err != nil {
			break
		}
		if l.Input != "" {
			shown++
		}
		dropped, ended = max(dropped, l.Dropped), l.Ended
	}
	if shown == 0 || shown >= n/2 || ended {
		t.Errorf("%d shown, %d dropped, ended well: %v", shown, dropped, ended)
	}
	s.wantRows("Text", slices.Repeat([]string{line}, n))
}

// TestTapIsLate: who comes late to what was not shown is told how much that is.
func TestTapIsLate(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	p := s.run(open + oneText)
	p.await(1, "agent is running")
	r, err := telemetry.OpenTap(t.Context(), s.path("state"), []string{"Text"})
	s.must(err)
	defer r.Close()
	const n = 40_000
	s.write("logs/a.log", strings.Repeat(strings.Repeat("0123456789", 100)+"\n", n))
	s.awaitRows("Text", n)
	shown := 0
	for dropped := uint64(0); shown+int(dropped) < n; {
		l, _, err := r.Next()
		s.must(err)
		if l.Input != "" {
			shown++
		}
		dropped = max(dropped, l.Dropped)
	}
	if shown >= n {
		t.Error("nothing was dropped")
	}
	s.append("logs/a.log", "now\n")
	for {
		l, _, err := r.Next()
		s.must(err)
		if string(l.Data) == "now" {
			break
		}
	}
	p.stop()
	if l, _, err := r.Next(); err != nil || !l.Ended {
		t.Errorf("at the stop: %+v, %v", l, err)
	}
}

// TestTapEnds: after --limit records, with the agent, and at once where there is
// nothing to tap.
func TestTapEnds(t *testing.T) {
	t.Parallel()
	s := newSite(t, emulator.Options{})
	const config = open + `inputs:
  - {paths: ["${DIR}/logs/*.json"], table: T, mapping: m, fields: {at: "{offset}"}}
  - {paths: ["${DIR}/logs/*.avro"], table: A, mapping: m}
`
	p := s.run(config)
	p.await(1, "agent is running")
	two, rest := s.tap("--limit", "2", "T"), s.tap("T")
	blocks := s.tap("--json", "--limit", "3", "A")
	s.write("logs/a.json", "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n")
	s.is(strings.Join(two.want(0).awaitLines(2), "\n"), "{\"n\":1,\"at\":0}\n{\"n\":2,\"at\":8}")
	rest.awaitLines(3)
	s.writeAvro("logs/a.avro", 0, 3, 5)
	blocks.want(0)
	for _, line := range blocks.awaitLines(3) {
		if !strings.Contains(line, `"records":5`) || strings.Contains(line, `"data`) {
			t.Errorf("of a block it shows %s", line)
		}
	}
	f := func(code int, says string, args ...string) {
		t.Helper()
		out, words := s.show(code, args...)
		if out != "" || !strings.Contains(words, says) {
			t.Errorf("%v prints %q, says %q; want %q", args, out, words, says)
		}
	}
	state := s.path("state")
	f(exit.Usage, `there is no input "x"; the agent has T, A`, "tap", "x", "--state-dir", state)
	f(exit.Usage, "input A is Avro", "tap", "T", "A", "--state-dir", state)
	f(exit.Usage, `--limit "-1": want a whole number`, "tap", "T", "--limit", "-1", "--state-dir", state)
	f(exit.Usage, "want one INPUT or more", "tap", "--state-dir", state)
	p.stop()
	if words := rest.want(0).log.text(); !strings.Contains(words, "the agent stops\n3 records shown\n") {
		t.Errorf("at the stop it says %q", words)
	}
	f(exit.Unreachable, "no agent answers in DIR/state; start it", "tap", "T", "--state-dir", state)

	p = s.run(config)
	p.await(1, "agent is running")
	killed := s.tap("T")
	p.signal(syscall.SIGKILL)
	if words := killed.want(exit.Failed).log.text(); !strings.Contains(words, "ended without closing the tap") {
		t.Errorf("after a kill it says %q", words)
	}
	p.code()
	f(exit.Unreachable, "no agent answers in DIR/state", "files", "--state-dir", state)
	p = s.run(config) // replaces what the killed one has left
	p.await(1, "agent is running")
	s.show(0, "files", "--state-dir", state)
	p.stop()
}
